"""An offer as a black box: domains, NULL policy, rounding and noise together, and the faults that search invites."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from audit.harness import assert_caught, assert_private
from siloquent.privacy import convert_zcdp_to_epsilon, get_accountant
from siloquent.search import Budget, KeyOf, OfferPlan, plan
from siloquent.search.measure import add_plan_noise, build_sum_kernel
from siloquent.search.measure.ranges import select_range
from siloquent.search.offers import MeasuredSums
from siloquent.search.plan.ranges import plan_range_selection
from unit.search.tables import PURE, ROW, USER, ZCDP, schema, spec

pytestmark = pytest.mark.statistical
MANY, DELTA = 40_000, 0.01
Rows = list[tuple[int, int, int]]
"""Places of town, x and y; -1 is OUTSIDE, 101 is y's cell for NULL."""

BASE: Rows = [(0, 100, 20), (2, 900, 80), (0, 500, 101)]
LONGEST = (1, 1000, 100)
PAIRS = {
    ("row", "add-remove"): (BASE, [*BASE, LONGEST]),
    ("row", "replace-one"): ([*BASE, LONGEST], [*BASE, (1, 0, 0)]),
    ("user", "add-remove"): (BASE, [*BASE, *[LONGEST] * 3]),
    ("user", "replace-one"): ([*BASE, *[LONGEST] * 3], [*BASE, *[(1, 0, 0)] * 3]),
}
OTHER_KEY = ([*BASE, LONGEST], [*BASE, (3, 1000, 100)])
OUTSIDE = ([*BASE, (-1, 1000, 100)], [*BASE, LONGEST])
UNITS = {"row": ROW, "user": USER}
OFFERS: dict[str, dict[str, object]] = {
    "for joins": {},
    "for unions": {"keys": ()},
    "both": {"second_moments": "total"},
    "cut": {"norm_cut": 0.7, "second_moments": "total"},
    "of order 3": {"keys": (), "order": 3},
    "of order 4": {"keys": (), "order": 4},
    "fpm": {"mechanism": "fpm", "second_moments": "total"},
    "fpm-opt": {"mechanism": "fpm-opt", "second_moments": "total"},
}


def planned(account: str = ZCDP, unit: str = "row", adjacency: str = "add-remove", **given: object) -> OfferPlan:
    budget = Budget(epsilon="1") if account == PURE else Budget(epsilon="1", delta="0.01")
    asked = spec(**{"features": ("x", "y"), "budget": budget, **given})
    return plan(asked, schema(budget=account, unit=UNITS[unit], adjacency=adjacency))


def exact(made: OfferPlan, rows: Rows) -> MeasuredSums:
    """What a fold of the rows' places gives: everything between the declaration and the noise."""
    columns = np.array(rows, dtype=np.int64)
    batch = pa.RecordBatch.from_arrays([pa.array(c) for c in columns.T], names=["town", "x", "y"])
    kernel = build_sum_kernel(made, made.features)
    return kernel.unpack_sums(kernel(batch))


def copies(measured: MeasuredSums, n: int) -> MeasuredSums:
    """The same exact sums n times, with the copies along the first axis."""

    def many(array: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.ascontiguousarray(np.broadcast_to(array, (n, *array.shape)))

    second = None if measured.second is None else many(measured.second)
    higher = tuple(map(many, measured.higher))
    return MeasuredSums(tuple(map(many, measured.counts)), tuple(map(many, measured.sums)), second, higher)


def flat(shown: MeasuredSums, n: int) -> NDArray[np.int64]:
    """Everything that one release shows, a row a release; of symmetric matrices the upper triangle."""
    parts = [array.reshape(n, -1) for array in (*shown.counts, *shown.sums, *shown.higher)]
    if shown.second is not None:
        upper = np.triu_indices(shown.second.shape[-1])
        parts.append(shown.second[..., upper[0], upper[1]].reshape(n, -1))
    return np.hstack(parts)


def release(
    made: OfferPlan, measure: Callable[[OfferPlan, Rows], MeasuredSums] = exact
) -> Callable[[Rows, int], NDArray]:
    return lambda rows, n: flat(add_plan_noise(made, copies(measure(made, rows), n)), n)


def claim(made: OfferPlan) -> dict[str, float]:
    name = made.schema.budget.accountant
    price = float(get_accountant(name).compute_price(made.event).amount)
    return {"epsilon": price} if name == "pure" else {"epsilon": convert_zcdp_to_epsilon(price, DELTA), "delta": DELTA}


@pytest.mark.slow
@pytest.mark.parametrize(("unit", "adjacency"), PAIRS)
@pytest.mark.parametrize("account", [PURE, ZCDP], ids=["pure", "zcdp"])
def test_an_offer_keeps_its_claim(account: str, unit: str, adjacency: str) -> None:
    made = planned(account, unit, adjacency, second_moments="total")
    assert_private(release(made), PAIRS[unit, adjacency], n=MANY, **claim(made))


@pytest.mark.slow
@pytest.mark.parametrize("given", OFFERS.values(), ids=OFFERS)
def test_every_kind_of_offer_keeps_its_claim(given: dict[str, object]) -> None:
    made = planned(adjacency="replace-one", **given)
    assert_private(release(made), PAIRS["row", "replace-one"], n=MANY, **claim(made))


@pytest.mark.slow
@pytest.mark.parametrize("pair", [OTHER_KEY, OUTSIDE], ids=["another key", "a row without a key"])
def test_a_row_that_changes_its_key_is_hidden(pair: tuple[Rows, Rows]) -> None:
    made = planned(adjacency="replace-one", second_moments="total")
    assert_private(release(made), pair, n=MANY, **claim(made))


TWO_KEYS: dict[str, object] = {"keys": (KeyOf("town"), KeyOf("wet")), "features": ("x",)}
THREE: Rows = [(0, 1, 100), (2, 0, 900), (0, 1, 500)]
ONE_KEY_OF_TWO = ([*THREE, (1, 1, 1000)], [*THREE, (3, 1, 1000)])
BOTH_KEYS = ([*THREE, (1, 1, 1000)], [*THREE, (3, 0, 1000)])


def by_two_keys(made: OfferPlan, rows: Rows) -> MeasuredSums:
    """The same for rows of town, wet and x."""
    columns = np.array(rows, dtype=np.int64)
    batch = pa.RecordBatch.from_arrays([pa.array(c) for c in columns.T], names=["town", "wet", "x"])
    kernel = build_sum_kernel(made, made.features)
    return kernel.unpack_sums(kernel(batch))


@pytest.mark.parametrize("account", [PURE, ZCDP], ids=["pure", "zcdp"])
@pytest.mark.parametrize("pair", [ONE_KEY_OF_TWO, BOTH_KEYS], ids=["one of two keys", "both keys"])
def test_a_row_of_which_one_of_several_keys_is_replaced_is_hidden(account: str, pair: tuple[Rows, Rows]) -> None:
    made = planned(account, adjacency="replace-one", **TWO_KEYS)
    assert_private(release(made, by_two_keys), pair, n=MANY, **claim(made))


def test_a_quarter_of_the_noise_is_caught_where_one_of_several_keys_is_replaced() -> None:
    """As if a row counted once: two keys, each of which it leaves and enters, make four times."""
    made = planned(PURE, adjacency="replace-one", **TWO_KEYS)
    wrong = replace(made, parameters=tuple(one and one / 4 for one in made.parameters))
    assert_caught(release(wrong, by_two_keys), ONE_KEY_OF_TWO, n=2 * MANY, **claim(made))


def test_second_moments_by_key_keep_their_claim() -> None:
    made = planned(second_moments="per-key", features=("x",))
    assert_private(release(made), PAIRS["row", "add-remove"], n=MANY, **claim(made))


# Planted faults.


def test_half_the_variance_on_the_diagonal_too_is_caught() -> None:
    made = planned(keys=(), shares=("0.001", "0.001", "0.998"))
    first, second, third = made.parameters
    assert third is not None
    wrong = replace(made, parameters=(first, second, third / 4))
    assert_caught(release(wrong), PAIRS["row", "add-remove"], n=2 * MANY, **claim(made))


def test_higher_orders_that_nobody_pays_for_are_caught() -> None:
    made = planned(keys=(), order=4, shares=("0.001", "0.001", "0.001", "0.001", "0.996"))
    fourth = made.parameters[4]
    assert fourth is not None
    # As if every product stood for all 24 orders of its numbers, and not a number's own power for one.
    wrong = replace(made, parameters=(*made.parameters[:4], fourth / 24))
    assert_caught(release(wrong), PAIRS["row", "add-remove"], n=MANY, **claim(made))


def test_half_the_scale_is_caught() -> None:
    made = planned(PURE)
    zero, first, _ = made.parameters
    assert zero is not None
    assert first is not None
    wrong = replace(made, parameters=(zero / 2, first / 2, None))
    assert_caught(release(wrong), PAIRS["row", "add-remove"], n=MANY, **claim(made))


def test_the_price_of_a_row_charged_for_a_user_is_caught() -> None:
    made = planned(unit="row")
    assert_caught(release(made), PAIRS["user", "add-remove"], n=MANY, **claim(made))


def test_add_remove_noise_under_replace_one_is_caught() -> None:
    made = planned(adjacency="add-remove", shares=("0.01", "0.99", "0"))
    assert_caught(release(made), PAIRS["row", "replace-one"], n=2 * MANY, **claim(made))


def test_a_clamp_that_is_left_out_is_caught() -> None:
    made = planned()

    def unclamped(plan: OfferPlan, rows: Rows) -> MeasuredSums:
        found = exact(plan, rows)
        sums = found.sums[0].copy()
        sums[1] *= 3  # as if x and y of that town lay outside their declared range
        return MeasuredSums(found.counts, (sums,), found.second)

    assert_caught(release(made, unclamped), PAIRS["row", "add-remove"], n=2 * MANY, **claim(made))


def test_preprocessing_on_raw_rows_is_caught() -> None:
    """The paper cuts rows beyond some deviations of the raw rows: one row decides about all others."""
    made = planned(adjacency="replace-one")
    many = [(1, 500 if i % 3 else 480, 50) for i in range(90)]

    def cut(plan: OfferPlan, rows: Rows) -> MeasuredSums:
        x = np.array([row[1] for row in rows], dtype=float)
        kept = np.abs(x - x.mean()) <= 1.4 * max(x.std(), 1e-9)
        return exact(plan, [row for row, keep in zip(rows, kept, strict=True) if keep])

    # Without the far row, a third of the others lie beyond 1.4 deviations of their mean; with it, none does.
    pair = ([*many, (0, 500, 50)], [*many, (0, 1000, 50)])
    assert_caught(release(made, cut), pair, n=MANY, **claim(made))


def test_an_order_without_noise_is_caught() -> None:
    made = planned()
    wrong = replace(made, parameters=(None, made.parameters[1], None))
    assert_caught(release(wrong), PAIRS["row", "add-remove"], n=4_000, **claim(made))


# Estimated ranges.

FEW, WIDE = 12_000, 24


def ranges(rate: Fraction) -> Callable[[list[int], int], NDArray[np.int64]]:
    """Both ends of a range of 24 places, from the places of the rows, many times over."""

    def run(places: list[int], n: int) -> NDArray[np.int64]:
        counts = np.bincount(np.array(places, dtype=np.int64), minlength=WIDE)
        return np.array([select_range(counts, rate)[:2] for _ in range(n)], dtype=np.int64)

    return run


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_estimated_ranges_keep_their_claim(adjacency: str) -> None:
    features = plan(spec(features=("x",)), schema()).features
    rate, event = plan_range_selection(features, schema(budget=PURE, adjacency=adjacency), Fraction(1))
    pairs = {"add-remove": ([5, 6, 7], [5, 6, 7, 20]), "replace-one": ([5, 6, 7, 0], [5, 6, 7, 23])}
    price = float(get_accountant("pure").compute_price(event).amount)
    assert 0.99 < price <= 1
    assert_private(ranges(rate), pairs[adjacency], n=FEW, epsilon=price)


def test_ranges_that_are_selected_twenty_times_too_sharply_are_caught() -> None:
    features = plan(spec(features=("x",)), schema()).features
    rate, event = plan_range_selection(features, schema(budget=PURE), Fraction(1))
    price = float(get_accountant("pure").compute_price(event).amount)
    assert_caught(ranges(20 * rate), ([], [0]), n=FEW, epsilon=price)
