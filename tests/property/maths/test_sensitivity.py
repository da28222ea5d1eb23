"""Stated sensitivities are never exceeded by neighbours, and are reached by some."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from siloquent.errors import RequestError
from siloquent.maths.sensitivity.linear import compute_sensitivity
from siloquent.maths.workloads import find_chain, is_disjoint, merge_columns

matrices = st.integers(1, 3).flatmap(lambda L: arrays(np.int64, (L, 3), elements=st.integers(-3, 3)))


def columns(block: np.ndarray) -> list[np.ndarray]:
    """What one row may add to the answers: a column, or nothing (OUTSIDE)."""
    return [*block.T, np.zeros(len(block), dtype=np.int64)]


@settings(max_examples=120, deadline=None)
@given(st.lists(matrices, min_size=1, max_size=2), st.booleans(), st.integers(1, 3))
def test_the_largest_change_over_all_neighbours_is_the_stated_one(
    blocks: list[np.ndarray], replaced: bool, rows: int
) -> None:
    # Blocks have answers of their own here, so a row's effect is the concatenation of one column of each.
    effects = [np.concatenate(parts) for parts in product(*map(columns, blocks))]
    height = [len(block) for block in blocks]
    padded = [
        np.vstack([np.zeros((sum(height[:i]), 3)), block, np.zeros((sum(height[i + 1 :]), 3))]).astype(np.int64)
        for i, block in enumerate(blocks)
    ]
    changes = [a - b for a in effects for b in effects] if replaced else effects
    found = compute_sensitivity(padded, replace_one=replaced, rows=rows)
    assert found.l1 == rows * max(np.abs(c).sum() for c in changes)
    assert found.l2_squared == rows**2 * max((c**2).sum() for c in changes)
    assert found.linf == rows * max(np.abs(c).max() for c in changes)


def test_large_weights_do_not_overflow() -> None:
    big = np.full((3, 2), 2**40, dtype=np.int64)
    assert compute_sensitivity([big], replace_one=False, rows=10).l2_squared == 100 * 3 * 2**80


def test_many_columns_get_a_safe_bound_under_replace_one() -> None:
    wide = np.vstack([np.arange(2_500), np.arange(2_500)[::-1]]).astype(np.int64)
    found = compute_sensitivity([wide], replace_one=True, rows=1)
    assert found.l1 >= 2 * 2_499
    assert found.linf == 2_499


def test_reals_and_units_without_rows_are_refused() -> None:
    with pytest.raises(RequestError):
        compute_sensitivity([np.eye(2)], replace_one=False, rows=1)
    with pytest.raises(RequestError):
        compute_sensitivity([np.eye(2, dtype=np.int64)], replace_one=False, rows=0)


@settings(max_examples=100, deadline=None)
@given(arrays(np.int64, (3, 6), elements=st.integers(0, 1)), arrays(np.int64, (6,), elements=st.integers(0, 50)))
def test_merging_columns_changes_no_answer(workload: np.ndarray, x: np.ndarray) -> None:
    merged, column = merge_columns(workload)
    folded = np.zeros(merged.shape[1], dtype=np.int64)
    np.add.at(folded, column[column >= 0], x[column >= 0])
    assert (merged @ folded == workload @ x).all()
    assert len({tuple(c) for c in merged.T}) == merged.shape[1]
    assert is_disjoint(workload) == bool((workload.sum(axis=0) <= 1).all())
    order = find_chain(workload)
    if order is not None:
        answers = (workload @ x)[order]
        assert (np.diff(answers) >= 0).all()
