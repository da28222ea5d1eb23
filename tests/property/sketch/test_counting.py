"""Counters depend on the records alone: not on batches, order or place; one record is one step in each row."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from siloquent.maths.lsh import Jaccard, Kernel, Laplacian, Power, PStable
from siloquent.sketch import plan
from siloquent.sketch.measure import CountBatch
from unit.sketch.tables import schema, spec

KERNELS: list[Kernel] = [PStable(2, 0.3), Laplacian(0.2), Power(PStable(2, 0.5), 2)]
PLANS = {
    k: plan(spec(rows=16, kernel=kernel, label="kind"), schema(), seed=k).hash_plan for k, kernel in enumerate(KERNELS)
}
SETS = plan(spec(rows=16, features=("wet", "kind"), kernel=Jaccard(), scale="raw"), schema(), seed=4).hash_plan
RECORDS = st.lists(st.tuples(st.integers(-1, 1_000), st.integers(-1, 101), st.integers(-1, 1)), min_size=0, max_size=60)


def batch(records: list[tuple[int, int, int]]) -> pa.RecordBatch:
    columns = np.array(records, dtype=np.int64).reshape(-1, 3)
    return pa.RecordBatch.from_arrays([pa.array(c) for c in columns.T], names=["x", "y", "kind"])


@settings(deadline=None, max_examples=60)
@given(records=RECORDS, cut=st.integers(0, 60), which=st.integers(0, 2), seed=st.integers(0, 99))
def test_order_and_batches_change_nothing(records: list[tuple[int, int, int]], cut: int, which: int, seed: int) -> None:
    count = CountBatch(PLANS[which], None)
    whole = count(batch(records))
    parts = count(batch(records[:cut])) + count(batch(records[cut:]))
    mixed = [records[i] for i in np.random.default_rng(seed).permutation(len(records))]
    assert np.array_equal(whole, parts)
    assert np.array_equal(whole, count(batch(mixed)))


@settings(deadline=None, max_examples=60)
@given(
    records=RECORDS,
    one=st.tuples(st.integers(0, 1_000), st.integers(0, 100), st.integers(0, 1)),
    which=st.integers(0, 2),
)
def test_one_record_adds_one_in_every_row_and_nothing_else(
    records: list[tuple[int, int, int]], one: tuple[int, int, int], which: int
) -> None:
    count = CountBatch(PLANS[which], None)
    change = count(batch([*records, one])) - count(batch(records))
    assert change.min() >= 0
    assert (change[one[2]].sum(axis=1) == 1).all()
    assert change.sum() == 16


@settings(deadline=None, max_examples=40)
@given(one=st.tuples(st.integers(0, 1_000), st.integers(0, 100), st.integers(0, 1)), hits=st.integers(1, 16))
def test_one_sparse_record_adds_one_in_so_many_rows(one: tuple[int, int, int], hits: int) -> None:
    counters = CountBatch(PLANS[0], hits)(batch([one]))
    assert counters.sum() == hits
    assert counters.sum(axis=(0, 2)).max() == 1


@settings(deadline=None, max_examples=40)
@given(one=st.tuples(st.integers(-1, 1_000), st.integers(-1, 101), st.integers(-1, 1)))
def test_a_record_without_a_place_or_a_class_counts_nowhere(one: tuple[int, int, int]) -> None:
    inside = 0 <= one[0] <= 1_000 and 0 <= one[1] <= 100 and one[2] >= 0
    assert bool(CountBatch(PLANS[0], None)(batch([one])).sum() == 16) is inside


@settings(deadline=None, max_examples=40)
@given(records=st.lists(st.tuples(st.integers(-1, 1), st.integers(-1, 1)), max_size=30), cut=st.integers(0, 30))
def test_sets_are_counted_alike_in_any_batches(records: list[tuple[int, int]], cut: int) -> None:
    def made(part: list[tuple[int, int]]) -> pa.RecordBatch:
        columns = np.array(part, dtype=np.int64).reshape(-1, 2)
        return pa.RecordBatch.from_arrays([pa.array(c) for c in columns.T], names=["wet", "kind"])

    count = CountBatch(SETS, None)
    assert np.array_equal(count(made(records)), count(made(records[:cut])) + count(made(records[cut:])))
    full = sum(wet == 1 or kind >= 0 for wet, kind in records)
    assert count(made(records)).sum() == 16 * full
