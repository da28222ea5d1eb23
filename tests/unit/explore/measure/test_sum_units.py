"""Exact sums become whole units: never further away than half a unit, never moved by more than the price says."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from siloquent.explore.measure.base import sum_units
from siloquent.explore.plan.cells.compiled import SummedAttribute, WorkloadPart
from siloquent.schema import Block

HALVES = WorkloadPart(Block(("a",), (np.array([0, 1, 2, 3, 4]),)), np.array([0, 0, 1, 1, -1]), 2)
"""Five cells: two for each column, and one that no predicate counts."""


def summed(lowest: int, highest: int, quantum: int) -> SummedAttribute:
    return SummedAttribute("x", Fraction(1), lowest, lowest // quantum, -(-highest // quantum), quantum)


rows = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 1_000)), max_size=20)


def units(number: SummedAttribute, table: list[tuple[int, int]]) -> list[int]:
    sums, counts = np.zeros(5, dtype=np.int64), np.zeros(5, dtype=np.int64)
    for cell, index in table:
        sums[cell] += index
        counts[cell] += 1
    return sum_units(number, HALVES, sums, counts).tolist()


def exact(number: SummedAttribute, table: list[tuple[int, int]]) -> list[int]:
    return [
        sum(index + number.offset for cell, index in table if cell // 2 == column and cell < 4) for column in (0, 1)
    ]


@given(rows, st.integers(-2_000, 2_000), st.sampled_from([1, 2, 8, 128]))
def test_units_lie_within_half_of_the_exact_sum(table: list[tuple[int, int]], offset: int, quantum: int) -> None:
    number = summed(offset, offset + 1_000, quantum)
    for found, true in zip(units(number, table), exact(number, table), strict=True):
        assert abs(found * quantum - true) <= quantum // 2


@given(
    rows, st.tuples(st.integers(0, 4), st.integers(0, 1_000)), st.integers(-2_000, 2_000), st.sampled_from([1, 8, 128])
)
def test_one_more_row_moves_one_column_by_its_largest_value_at_most(
    table: list[tuple[int, int]], row: tuple[int, int], offset: int, quantum: int
) -> None:
    number = summed(offset, offset + 1_000, quantum)
    change = np.abs(np.array(units(number, [*table, row])) - units(number, table))
    assert change.sum() <= number.largest


def test_sums_that_pass_64_bits_do_not_wrap_round() -> None:
    """A time in milliseconds lies 2^41 above zero; 2^23 rows of it are 2^64."""
    number = summed(2**41, 2**41 + 10, 2**30)
    counts = np.array([2**23, 0, 1, 0, 0])
    assert sum_units(number, HALVES, np.zeros(5, dtype=np.int64), counts).tolist() == [2**34, 2**11]
