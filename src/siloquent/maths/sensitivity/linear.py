"""The sensitivity of whole linear answers to one unit: the largest change of W x in three norms.

Exact over the *declared* cells, never over populated ones, and in whole numbers without overflow. Proof that blocks add
up and that rows of one user multiply: docs/explanation/strategies.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from siloquent.errors import RequestError

PAIRWISE_COLUMNS = 2_000
_SAFE = 2**62
_AT_ONCE = 256


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """The largest change of the answers between neighbours: L1, squared L2 and L-infinity."""

    l1: int
    l2_squared: int
    linf: int


def compute_sensitivity(
    blocks: Sequence[NDArray[np.signedinteger[Any]]], *, replace_one: bool, rows: int
) -> Sensitivity:
    """Return the sensitivity of the answers [W_1 | W_2 | ...] x when one unit is added, removed or replaced.

    Args:
        blocks: Whole matrices, shape (answers, cells of the block); blocks share no attribute, so that a row of the
            table falls into one cell of each, or into none (OUTSIDE), independently.
        replace_one: A neighbour swaps one unit for another, instead of adding or removing it.
        rows: The most rows of one unit (1 for row units).
    Returns:
        Exact values; under replace-one a block of more than 2,000 distinct columns gets an upper bound.
    Source:
        The row values add up over blocks because the cells of different blocks are chosen independently. Squared L2
        of the bound is four times the largest column, not twice: columns of opposite sign add up.
    """
    if rows < 1:
        raise RequestError(f"A unit has at least one row, not {rows}.", fix="set unit.max_rows to 1 or more")
    parts = [
        _compute_block(_list_exact_columns(block, distinct=replace_one), replace_one=replace_one) for block in blocks
    ]
    return Sensitivity(
        l1=rows * sum(part.l1 for part in parts),
        l2_squared=rows**2 * sum(part.l2_squared for part in parts),
        linf=rows * max((part.linf for part in parts), default=0),
    )


def _list_exact_columns(block: NDArray[np.signedinteger[Any]], *, distinct: bool) -> NDArray[Any]:
    """Return the columns and the zero column as rows, each once if ``distinct``; no sum of their squares overflows."""
    if not np.issubdtype(block.dtype, np.integer):
        raise RequestError("A sensitivity is computed on whole matrices only.", fix="scale the workload to integers")
    columns = np.vstack([np.zeros((1, block.shape[0]), dtype=block.dtype), block.T])
    if distinct:
        columns = np.unique(columns, axis=0)
    largest = max(int(columns.max(initial=0)), -int(columns.min(initial=0)))
    # If twice the largest entry, squared and summed over every answer, fits, so does everything below.
    # The type stays as narrow as given: thousands of answers over thousands of columns are large as 64-bit numbers.
    return columns if 4 * largest**2 * max(1, block.shape[0]) < _SAFE else columns.astype(object)


def _compute_block(columns: NDArray[Any], *, replace_one: bool) -> Sensitivity:
    l1, l2_squared, linf = _compute_norms(columns)
    if not replace_one:
        return Sensitivity(int(l1.max()), int(l2_squared.max()), int(linf.max()))
    if len(columns) <= PAIRWISE_COLUMNS:
        return _compare_pairs(_widen(columns))
    if bool((columns >= 0).all()):
        return Sensitivity(_sum_two_largest(l1), _sum_two_largest(l2_squared), int(linf.max()))
    return Sensitivity(2 * int(l1.max()), 4 * int(l2_squared.max()), 2 * int(linf.max()))


def _compute_norms(columns: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return L1, squared L2 and L-infinity of each row, some rows at a time."""
    found = []
    for first in range(0, len(columns), _AT_ONCE):
        sizes = np.abs(_widen(columns[first : first + _AT_ONCE]))
        found.append((sizes.sum(axis=1), (sizes * sizes).sum(axis=1), sizes.max(axis=1, initial=0)))
    l1, l2_squared, linf = (np.concatenate(norms) for norms in zip(*found, strict=True))
    return l1, l2_squared, linf


def _widen(columns: NDArray[Any]) -> NDArray[Any]:
    return columns if columns.dtype == object else columns.astype(np.int64, copy=False)


def _compare_pairs(columns: NDArray[np.int64]) -> Sensitivity:
    """Return the largest difference of two columns, pair by pair (L-infinity: answer by answer)."""
    linf = int((columns.max(axis=0, initial=0) - columns.min(axis=0, initial=0)).max(initial=0))
    if linf <= 1:  # every difference is -1, 0 or 1: relative to each answer's least value, columns are zeros and ones
        ones = (columns - columns.min(axis=0, initial=0)).astype(np.float64)
        distance = ones.sum(axis=1)[:, None] + ones.sum(axis=1) - 2 * (ones @ ones.T)
        return Sensitivity(int(distance.max()), int(distance.max()), linf)
    l1 = l2_squared = 0
    for place in range(len(columns) - 1):
        difference = np.abs(columns[place + 1 :] - columns[place])
        l1 = max(l1, int(difference.sum(axis=1).max()))
        l2_squared = max(l2_squared, int((difference * difference).sum(axis=1).max()))
    return Sensitivity(l1, l2_squared, linf)


def _sum_two_largest(norms: NDArray[np.int64]) -> int:
    return int(sum(int(norm) for norm in np.sort(norms)[-2:]))
