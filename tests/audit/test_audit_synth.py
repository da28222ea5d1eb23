"""A synthesis as a black box: fine counts, choices, FD tables, the report, a whole run; and the faults it invites."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from audit.harness import assert_caught, assert_private
from siloquent.privacy import convert_zcdp_to_epsilon, get_accountant
from siloquent.privacy.noise.selection import draw_selections
from siloquent.synth import Budget
from siloquent.synth.measure.marginals import CoarseDomain, CountKernel, MarginalQuery
from siloquent.synth.measure.quality import measure_distances
from siloquent.synth.measure.selection import add_vector_noise, compute_utilities
from siloquent.synth.plan.budget import VectorNoise, calibrate_noise, calibrate_selection
from siloquent.synth.plan.tree import TreePlan
from unit.synth.people import ROW, USER, planned, schema

pytestmark = pytest.mark.statistical
MANY, DELTA = 60_000, 0.01
Records = list[tuple[int, int]]
BASE: Records = [(0, 0), (1, 1), (2, 1), (0, 1)]
PAIRS = {
    ("add-remove", ROW): (BASE, [*BASE, (2, 0)]),
    ("replace-one", ROW): ([*BASE, (2, 0)], [*BASE, (1, 1)]),
    ("add-remove", USER): (BASE, [*BASE, (2, 0), (2, 0)]),
    ("replace-one", USER): ([*BASE, (2, 0), (2, 0)], [*BASE, (1, 1), (1, 1)]),
}
COARSE = (CoarseDomain("a", np.arange(3), np.arange(3), 3), CoarseDomain("b", np.arange(2), np.arange(2), 2))


def counted(records: Records, *axes: tuple[int, ...]) -> list[NDArray[np.int64]]:
    """Exact counts of some marginals of these records."""
    columns = np.array(records, dtype=np.int64).reshape(-1, 2).T
    batch = pa.RecordBatch.from_arrays([pa.array(column) for column in columns], names=["a", "b"])
    kernel = CountKernel(("a", "b"), COARSE, tuple(MarginalQuery(each) for each in axes))
    ends = np.cumsum([kernel.count_cells(one) for one in kernel.wanted])[:-1]
    return np.split(kernel(batch), ends)


def plan_of(law: str, adjacency: str = "add-remove", unit: str = ROW) -> TreePlan:
    of = schema(accountant="pure" if law == "laplace" else "zcdp", adjacency=adjacency, unit=unit, size_hint=None)
    return planned(of, budget=Budget(epsilon="4"))


def claim(*events: Any, law: str) -> dict[str, float]:
    name = "pure" if law == "laplace" else "zcdp"
    price = sum(float(get_accountant(name).compute_price(event).amount) for event in events)
    return (
        {"epsilon": price} if law == "laplace" else {"epsilon": convert_zcdp_to_epsilon(price, DELTA), "delta": DELTA}
    )


def repeated(counts: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    return np.ascontiguousarray(np.broadcast_to(counts, (n, *counts.shape)))


def release_of(noise: VectorNoise, axes: tuple[int, ...]) -> Callable[[Records, int], NDArray[np.int64]]:
    return lambda records, n: add_vector_noise(repeated(counted(records, axes)[0], n), noise).reshape(n, -1)


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
@pytest.mark.parametrize(
    "setting", list(PAIRS), ids=lambda setting: f"{setting[0]}-{'row' if ROW in setting else 'user'}"
)
def test_one_vector_of_counts_keeps_its_price(law: str, setting: tuple[str, str]) -> None:
    """Fine counts, FD tables and joints are released alike: one vector in which every row counts once."""
    sensitivity = plan_of(law, *setting).one_way[0].sensitivity
    noise = calibrate_noise(law, Fraction(1, 2), sensitivity)  # type: ignore[arg-type]
    for axes in ((0,), (0, 1)):
        assert_private(release_of(noise, axes), PAIRS[setting], n=MANY, **claim(noise.event, law=law))


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_shared_noise_for_all_cells_is_caught(law: str) -> None:
    """The released code of the thesis draws one number for the whole histogram."""
    noise = calibrate_noise(law, Fraction(1, 2), 1)  # type: ignore[arg-type]

    def shared(records: Records, n: int) -> NDArray[np.int64]:
        drawn = add_vector_noise(np.zeros((n, 1), dtype=np.int64), noise)
        return repeated(counted(records, (0,))[0], n) + drawn

    assert_caught(shared, PAIRS["add-remove", ROW], n=MANY, **claim(noise.event, law=law))


def test_a_price_for_one_attribute_on_the_vector_of_many_is_caught() -> None:
    noise = calibrate_noise("gaussian", Fraction(1), 1)
    parts = [(0,), (1,), (0, 1), (0,), (1,), (0, 1)]

    def all_at_once(records: Records, n: int) -> NDArray[np.int64]:
        return add_vector_noise(repeated(np.concatenate(counted(records, *parts)), n), noise)

    assert_caught(all_at_once, PAIRS["add-remove", ROW], n=MANY, **claim(noise.event, law="gaussian"))


def test_noise_for_add_remove_is_caught_where_rows_are_replaced() -> None:
    noise = calibrate_noise("laplace", Fraction(1), 1)
    assert_caught(release_of(noise, (0, 1)), PAIRS["replace-one", ROW], n=MANY, **claim(noise.event, law="laplace"))


def choices(records: Records, n: int, *, law: str, sensitivity: int, epsilon: Fraction) -> NDArray[np.int64]:
    """n choices among two candidates whose expected counts are those of an empty model."""
    expected = [np.array([4.0, 0.0, 0.0]), np.array([0.0, 4.0])]
    scores = compute_utilities(counted(records, (0,), (1,)), expected, deviation=1.0)
    selection = calibrate_selection(law, epsilon, rounds=1, sensitivity=sensitivity)  # type: ignore[arg-type]
    rule = "permute-and-flip" if law == "laplace" else "exponential"
    return draw_selections(scores, rate=selection.rate, rule=rule, times=n).reshape(n, 1)  # type: ignore[arg-type]


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
@pytest.mark.parametrize(
    "setting", list(PAIRS), ids=lambda setting: f"{setting[0]}-{'row' if ROW in setting else 'user'}"
)
def test_a_choice_keeps_its_price(law: str, setting: tuple[str, str]) -> None:
    sensitivity = plan_of(law, *setting).selection.sensitivity
    amount = Fraction(2)
    events = calibrate_selection(law, amount, rounds=1, sensitivity=sensitivity).events  # type: ignore[arg-type]
    assert_private(
        lambda records, n: choices(records, n, law=law, sensitivity=sensitivity, epsilon=amount),
        PAIRS[setting],
        n=MANY,
        **claim(*events, law=law),
    )


def test_a_choice_as_if_one_row_moved_scores_by_one_is_caught_where_users_have_two() -> None:
    pair = ([*BASE, (2, 0), (2, 0)], [*BASE, (0, 1), (0, 1)])
    events = calibrate_selection("laplace", Fraction(1), rounds=1, sensitivity=1).events

    def faulty(records: Records, n: int) -> NDArray[np.int64]:
        return choices(records, n, law="laplace", sensitivity=1, epsilon=Fraction(4))

    assert_caught(faulty, pair, n=MANY, **claim(*events, law="laplace"))


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_the_report_keeps_its_price(law: str) -> None:
    noise = report_noise(law, 2, 1)
    assert_private(reports(noise), PAIRS["add-remove", ROW], n=1_200, **claim(*(n.event for n in noise), law=law))


@pytest.mark.slow
def test_a_report_priced_like_one_marginal_is_caught() -> None:
    noise = (calibrate_noise("laplace", Fraction(2), 1), calibrate_noise("laplace", Fraction(2), 1))
    wide = (VectorNoise("laplace", noise[0].parameter / 4, 1), noise[1])
    assert_caught(reports(wide), PAIRS["add-remove", ROW], n=8_000, **claim(*(n.event for n in noise), law="laplace"))


def report_noise(law: str, ones: int, twos: int) -> tuple[VectorNoise, VectorNoise]:
    sums = [ones**2, twos**2] if law == "gaussian" else [ones, twos]
    first, second = (calibrate_noise(law, Fraction(1, 2), each) for each in sums)  # type: ignore[arg-type]
    return first, second


def reports(noise: tuple[VectorNoise, VectorNoise]) -> Callable[[Records, int], NDArray[np.int64]]:
    output = ([np.array([3.0, 1.0, 0.0]), np.array([1.0, 3.0])], [np.array([0.0, 2.0, 1.0, 1.0, 0.0, 0.0])])

    def release(records: Records, n: int) -> NDArray[np.int64]:
        ones, twos = counted(records, (0,), (1,)), counted(records, (0, 1))
        return np.array([[s.counts[0] for s in measure_distances((ones, twos), output, noise)] for _ in range(n)])

    return release


def test_a_domain_read_off_the_rows_is_caught() -> None:
    """Cells that are there only where a row is: the shape of the output tells."""
    noise = calibrate_noise("laplace", Fraction(1), 1)

    def present_only(records: Records, n: int) -> NDArray[np.int64]:
        exact = counted(records, (0, 1))[0]
        shown = add_vector_noise(repeated(exact, n), noise)
        return np.where(exact > 0, shown, 10**6)

    assert_caught(present_only, PAIRS["add-remove", ROW], n=MANY, **claim(noise.event, law="laplace"))
