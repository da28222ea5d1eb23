"""Replaced rows move sums by the stated sensitivity at most, and some move them by just that."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from siloquent.maths.sensitivity.linear import Sensitivity
from siloquent.maths.sensitivity.sums import compute_replaced_sensitivity

boolean = arrays(np.int8, st.tuples(st.integers(1, 3), st.integers(1, 4)), elements=st.integers(0, 1))
whole = arrays(np.int64, st.tuples(st.integers(1, 3), st.integers(1, 3)), elements=st.integers(-3, 5))


def _by_force(blocks: list[np.ndarray], lowest: int, highest: int, rows: int) -> Sensitivity:
    """All pairs of units of ``rows`` rows: every row a value and a column, or none, of each block."""
    effects = set()
    for value in range(lowest, highest + 1):
        sides = [[*block.T.astype(np.int64), np.zeros(len(block), dtype=np.int64)] for block in blocks]
        effects |= {tuple((value * np.concatenate(parts)).tolist()) for parts in product(*sides)}
    effects.add((0,) * sum(len(block) for block in blocks))
    one = np.array(sorted(effects))
    units = one
    for _ in range(rows - 1):
        units = np.unique((units[:, None] + one).reshape(-1, one.shape[1]), axis=0)
    changes = (units[:, None] - units).reshape(-1, one.shape[1])
    sizes = np.abs(changes)
    return Sensitivity(int(sizes.sum(axis=1).max()), int((sizes**2).sum(axis=1).max()), int(sizes.max()))


@settings(max_examples=120, deadline=None)
@given(st.lists(st.one_of(boolean, whole), min_size=1, max_size=2), st.integers(-4, 4), st.integers(0, 4))
def test_the_worst_pair_of_rows_is_the_stated_one(blocks: list[np.ndarray], lowest: int, span: int) -> None:
    found = compute_replaced_sensitivity(blocks, lowest=lowest, highest=lowest + span, rows=1)
    assert found == _by_force(blocks, lowest, lowest + span, 1)


@settings(max_examples=30, deadline=None)
@given(boolean, st.integers(-2, 2), st.integers(0, 2))
def test_the_worst_pair_of_units_of_two_rows_is_the_stated_one(block: np.ndarray, lowest: int, span: int) -> None:
    found = compute_replaced_sensitivity([block], lowest=lowest, highest=lowest + span, rows=2)
    assert found == _by_force([block], lowest, lowest + span, 2)


def test_groups_are_charged_for_two_values_in_two_groups() -> None:
    assert compute_replaced_sensitivity([np.eye(5, dtype=np.int64)], lowest=0, highest=10, rows=1) == Sensitivity(
        20, 200, 10
    )
    assert compute_replaced_sensitivity([np.eye(5, dtype=np.int64)], lowest=-10, highest=10, rows=1) == Sensitivity(
        20, 400, 20
    )


@pytest.mark.parametrize(("lowest", "highest"), [(0, 7), (-7, 3), (2, 9)])
def test_many_columns_are_never_below_few_of_them(lowest: int, highest: int) -> None:
    draw = np.random.default_rng(2)
    for entries, columns in ((2, 2_400), (50, 700)):
        block = draw.integers(0, entries, (12, columns))
        many = compute_replaced_sensitivity([block], lowest=lowest, highest=highest, rows=1)
        few = compute_replaced_sensitivity([block[:, :200]], lowest=lowest, highest=highest, rows=1)
        assert (many.l1 >= few.l1, many.l2_squared >= few.l2_squared, many.linf >= few.linf) == (True, True, True)
