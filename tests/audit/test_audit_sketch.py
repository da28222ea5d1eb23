"""A sketch as a black box: one record at a known cell, and the faults that sketches invite."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from audit.harness import assert_caught, assert_private
from siloquent.privacy import convert_zcdp_to_epsilon, get_accountant
from siloquent.privacy.noise import add_laplace
from siloquent.sketch import Budget, PStable, SketchPlan, plan
from siloquent.sketch.measure import CountBatch, add_counter_noise
from unit.sketch.tables import PURE, ROW, USER, ZCDP, schema, spec

pytestmark = pytest.mark.statistical
MANY, DELTA = 60_000, 0.01
ROWS_OF_TABLE = 240_000
Records = list[tuple[int, int, int]]
"""Places of x, y and kind."""

BASE: Records = [(100, 20, 0), (900, 80, 1), (500, 50, 0)]
MORE: Records = [*BASE, (300, 30, 1)]
PAIRS = {
    ("row", "add-remove"): (BASE, MORE),
    ("row", "replace-one"): (MORE, [*BASE, (800, 90, 0)]),
    ("user", "add-remove"): (BASE, [*BASE, *[(300, 30, 1)] * 3]),
    ("user", "replace-one"): ([*BASE, *[(300, 30, 1)] * 3], [*BASE, *[(800, 90, 0)] * 3]),
}
UNITS = {"row": ROW, "user": USER}


def planned(account: str = PURE, unit: str = "row", adjacency: str = "add-remove", **given: object) -> SketchPlan:
    budget = Budget(epsilon="1") if account == PURE else Budget(epsilon="1", delta="0.01")
    asked = spec(
        **{"rows": 4, "count_share": 0.01, "label": "kind", "kernel": PStable(2, 3.0), "budget": budget, **given}
    )
    return plan(asked, schema(budget=account, unit=UNITS[unit], adjacency=adjacency), seed=2)


def exact(found: SketchPlan, records: Records) -> NDArray[np.int64]:
    columns = np.array(records, dtype=np.int64)
    batch = pa.RecordBatch.from_arrays([pa.array(c) for c in columns.T], names=["x", "y", "kind"])
    return CountBatch(found.hash_plan, found.hits)(batch)


def outputs(found: SketchPlan, records: Records, n: int) -> NDArray[np.int64]:
    """Everything that one release shows, n times: counters, then the numbers of records."""
    one_by_one = found.hits is not None  # rows are drawn anew each time
    counters = np.stack([exact(found, records) for _ in range(n if one_by_one else 1)])
    copies = np.ascontiguousarray(np.broadcast_to(counters, (n, *counters.shape[1:])))
    sizes = copies.sum(axis=(2, 3)) // (found.hits or 4)
    shown = add_counter_noise(found, copies, found.parameter).reshape(n, -1)
    assert found.size_parameter is not None
    return np.hstack([shown, add_counter_noise(found, sizes, found.size_parameter)])


def release(found: SketchPlan) -> Callable[[Records, int], NDArray[np.int64]]:
    return lambda records, n: outputs(found, records, n)


def claim(found: SketchPlan) -> dict[str, float]:
    name = found.schema.budget.accountant
    price = float(get_accountant(name).compute_price(found.event).amount)
    return {"epsilon": price} if name == "pure" else {"epsilon": convert_zcdp_to_epsilon(price, DELTA), "delta": DELTA}


@pytest.mark.slow
@pytest.mark.parametrize(("unit", "adjacency"), PAIRS)
@pytest.mark.parametrize("account", [PURE, ZCDP], ids=["pure", "zcdp"])
def test_a_dense_sketch_keeps_its_claim(account: str, unit: str, adjacency: str) -> None:
    found = planned(account, unit, adjacency)
    assert_private(release(found), PAIRS[unit, adjacency], n=MANY, **claim(found))


@pytest.mark.slow
@pytest.mark.parametrize("hits", [1, 2])
def test_a_sparse_sketch_keeps_its_claim(hits: int) -> None:
    found = planned(mode="sparse", hits=hits)
    assert_private(release(found), PAIRS["row", "add-remove"], n=8_000, **claim(found))


# Planted faults.


def with_laplace(
    found: SketchPlan, scale: Fraction, count: Callable[[Records], NDArray[np.int64]] | None = None
) -> Callable[[Records, int], NDArray[np.int64]]:
    def run(records: Records, n: int) -> NDArray[np.int64]:
        counters = exact(found, records) if count is None else count(records)
        copies = np.ascontiguousarray(np.broadcast_to(counters, (n, *counters.shape)))
        return add_laplace(copies, scale=scale).reshape(n, -1)

    return run


def test_noise_divided_by_the_number_of_rows_is_caught() -> None:
    found = planned()
    wrong = Fraction(4, ROWS_OF_TABLE)
    assert_caught(with_laplace(found, wrong), PAIRS["row", "add-remove"], n=4_000, **claim(found))


@pytest.mark.slow
def test_half_the_scale_is_caught() -> None:
    found = planned()
    assert_caught(with_laplace(found, found.parameter / 2), PAIRS["row", "add-remove"], n=MANY, **claim(found))


def test_a_record_that_counts_in_every_class_is_caught() -> None:
    found = planned(rows=2)

    def unsplit(records: Records) -> NDArray[np.int64]:
        return np.stack([exact(found, records).sum(axis=0)] * 2)

    run = with_laplace(found, found.parameter, unsplit)
    assert_caught(run, PAIRS["row", "add-remove"], n=2 * MANY, **claim(found))


def test_a_seed_that_is_used_again_is_caught() -> None:
    """The second class is drowned in the noise of the first: their difference has none."""
    found = planned()

    def run(records: Records, n: int) -> NDArray[np.int64]:
        counters = exact(found, records)
        noise = add_laplace(np.zeros((n, *counters.shape[1:]), dtype=np.int64), scale=found.parameter)
        return (counters[None] + noise[:, None]).reshape(n, -1)

    assert_caught(run, PAIRS["row", "add-remove"], n=MANY, **claim(found))


def test_the_price_of_a_row_charged_for_a_user_is_caught() -> None:
    found = planned(unit="row")
    assert_caught(release(found), PAIRS["user", "add-remove"], n=MANY, **claim(found))


def test_a_share_of_noise_that_is_released_alone_is_caught() -> None:
    from siloquent.privacy.noise.distributed import add_laplace_share

    found = planned()

    def run(records: Records, n: int) -> NDArray[np.int64]:
        counters = exact(found, records)
        copies = np.ascontiguousarray(np.broadcast_to(counters, (n, *counters.shape)))
        return add_laplace_share(copies, scale=found.parameter, honest=5).reshape(n, -1)

    assert_caught(run, PAIRS["row", "add-remove"], n=20_000, **claim(found))
