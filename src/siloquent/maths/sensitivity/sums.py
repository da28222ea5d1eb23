"""The sensitivity of linear answers about sums under replacement: the worst pair of columns and extreme values.

A row adds its value v, in [lowest, highest], or 0 if it does not count, to one column of each block. Replacing it by
one of value w in another column moves the answers by v a - w b, which is convex in v and w: extremes are the worst.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from numpy.typing import NDArray

from siloquent.maths.sensitivity.linear import PAIRWISE_COLUMNS, Sensitivity

_COLUMNS_ONE_BY_ONE = 256
_EXACT_IN_A_DOUBLE = 2**53


def compute_replaced_sensitivity(
    blocks: Sequence[NDArray[np.signedinteger[Any]]], *, lowest: int, highest: int, rows: int
) -> Sensitivity:
    """Return the sensitivity of [W_1 | W_2 | ...] applied to sums, where one unit of up to ``rows`` rows is replaced.

    Args:
        blocks: Whole matrices, shape (answers, columns of the block); a row falls into one column of each, or none.
        lowest, highest: The least and largest value of a row, in whole units.
    Returns:
        Exact, if a row may also not count, for up to 256 columns a block (2,000 for zeros and ones); beyond that, an
        upper bound, at most twice (L1) or four times (squared L2) the change by adding one row.
    """
    sides = [_Columns(block) for block in blocks if block.size]
    values = sorted({lowest, highest, 0})
    pairs = list(combinations_with_replacement(values, 2))  # v and w may be swapped together with a and b
    l1 = max(sum(side.compute_l1(v, w) for side in sides) for v, w in pairs)
    l2_squared = max(sum(side.compute_l2_squared(v, w) for side in sides) for v, w in pairs)
    linf = max((side.compute_linf(values) for side in sides), default=0)
    return Sensitivity(rows * l1, rows**2 * l2_squared, rows * linf)


class _Columns:
    """The columns of one block as rows, with the zero column."""

    def __init__(self, block: NDArray[np.signedinteger[Any]]) -> None:
        whole = np.vstack([np.zeros((1, block.shape[0]), dtype=block.dtype), block.T])
        self.columns = np.unique(whole, axis=0).astype(object if _is_large(whole) else np.int64)
        sizes = np.abs(self.columns)
        self.lengths = sizes.sum(axis=1)
        self.squares = (sizes * sizes).sum(axis=1)
        self.is_boolean = self.columns.dtype != object and bool(((self.columns == 0) | (self.columns == 1)).all())
        self.products: NDArray[np.int64] | None = None
        few = len(self.columns) <= PAIRWISE_COLUMNS + 1
        if few and int(self.squares.max()) < _EXACT_IN_A_DOUBLE and self.columns.dtype != object:
            real = self.columns.astype(np.float64)
            self.products = np.rint(real @ real.T).astype(np.int64)  # each product is below 2^53, so exact

    def compute_l1(self, v: int, w: int) -> int:
        """Return the largest |v a - w b| over two columns."""
        if self.products is not None and self.is_boolean:
            own, other, both = self.lengths[:, None], self.lengths[None, :], self.products
            return _find_largest([(abs(v), own - both), (abs(w), other - both), (abs(v - w), both)])
        if len(self.columns) > _COLUMNS_ONE_BY_ONE or self.columns.dtype == object:
            return (abs(v) + abs(w)) * int(self.lengths.max())
        columns = self.columns.astype(object) if max(abs(v), abs(w)) > 2**20 else self.columns
        return max(int(np.abs(v * one - w * columns).sum(axis=1).max()) for one in columns)

    def compute_l2_squared(self, v: int, w: int) -> int:
        """Return the largest |v a - w b|^2 over two columns."""
        if self.products is None:
            return (abs(v) + abs(w)) ** 2 * int(self.squares.max())
        return _find_largest(
            [(v * v, self.squares[:, None]), (w * w, self.squares[None, :]), (-2 * v * w, self.products)]
        )

    def compute_linf(self, values: Sequence[int]) -> int:
        """Return the widest range of one answer."""
        high, low = self.columns.max(axis=0).tolist(), self.columns.min(axis=0).tolist()
        ranges = [[v * x for v in values for x in ends] for ends in zip(low, high, strict=True)]
        return int(max(max(one) - min(one) for one in ranges))


def _is_large(columns: NDArray[Any]) -> bool:
    most = max(int(columns.max(initial=0)), -int(columns.min(initial=0)))
    return most**2 * max(1, columns.shape[1]) >= 2**60 or most >= 2**30


def _find_largest(terms: list[tuple[int, NDArray[Any]]]) -> int:
    """Return the largest entry of a sum of whole multiples, without overflow."""
    size = sum(abs(factor) * int(np.abs(term).max()) for factor, term in terms)
    kind: Any = np.int64 if size < 2**62 else object
    total = sum((factor * term.astype(kind) for factor, term in terms), start=np.zeros((1, 1), dtype=kind))
    return int(np.max(total))
