"""The worst neighbours by exhaustive search: if a declaration allows few different records, no bound is needed.

Sums of one release are of records z (whole numbers): their number, z itself, and its products of two, three, ...
Arrays in, exact fractions out.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
MAX_RECORDS, MAX_NUMBERS = 1_000, 2**26
"""The limits within which all pairs are compared in a tenth of a second: records, and numbers in all pairs."""
_ENTRIES = 2**22
_NEAR = 1e-9
"""The relative margin of doubles, which are far more precise: the exact maximum is among the values within it."""


class RecordPairs:
    """All pairs of some records, shape (records, columns)."""

    def __init__(self, records: Integers) -> None:
        self.records = np.unique(np.asarray(records, dtype=np.int64), axis=0)
        self.upper = np.triu_indices(self.records.shape[1])

    @staticmethod
    def can_enumerate(records: int, columns: int) -> bool:
        """Return whether there are few enough records to try all pairs."""
        return records <= MAX_RECORDS and (records * columns) ** 2 <= MAX_NUMBERS

    @property
    def longest(self) -> int:
        """The squared length of the longest record."""
        return int((self.records**2).sum(axis=1).max(initial=0))

    @property
    def lengths(self) -> tuple[int, int]:
        """The L1 length of the longest record, and that of its products of two (each pair of columns once)."""
        return int(self._list_sums().max(initial=0)), int(self._list_products().max(initial=0))

    def bound_added(self, weights: Sequence[Fraction]) -> Fraction:
        """Return the greatest L1 change by one record: ``weights`` of sums and of products of two."""
        return _find_greatest((self._list_sums(), self._list_products()), weights)

    def bound_replaced(self, weights: Sequence[Fraction]) -> Fraction:
        """Return the greatest L1 change when a record replaces another."""
        return _find_greatest(self._moves, weights)

    @cached_property
    def _moves(self) -> tuple[Integers, Integers]:
        """The greatest change of the products, for each L1 change of the sums by a pair."""
        sums, products = [], []
        for one in self._split_chunks():
            moved = np.abs(one[:, None] - self.records[None]).sum(axis=2).ravel()
            both = (
                np.abs(self._list_triangles(one)[:, None] - self._list_triangles(self.records)[None])
                .sum(axis=2)
                .ravel()
            )
            order = np.lexsort((both, moved))
            last = np.flatnonzero(np.diff(moved[order], append=-1))
            sums.append(moved[order][last])
            products.append(both[order][last])
        return np.concatenate(sums), np.concatenate(products)

    def bound_replaced_squared(self, weights: Sequence[Fraction]) -> Fraction:
        """Return the greatest squared L2 change of orders 1, 2, ...; a product counts once per order of its numbers."""
        cross = self.records @ self.records.T
        lengths = np.diag(cross)
        near = np.zeros(cross.shape)
        for order, weight in enumerate(weights, start=1):
            power = lengths.astype(float) ** order
            near += float(weight) * (power[:, None] + power[None, :] - 2 * cross.astype(float) ** order)
        kept = np.argwhere(near >= near.max() - _NEAR * abs(near.max()))
        found = {(int(lengths[i]), int(lengths[j]), int(cross[i, j])) for i, j in kept}
        return max(
            sum((w * (a**i + b**i - 2 * c**i) for i, w in enumerate(weights, start=1)), Fraction(0))
            for a, b, c in found
        )

    def _list_sums(self) -> Integers:
        return np.asarray(np.abs(self.records).sum(axis=1))

    def _list_products(self) -> Integers:
        return np.asarray(np.abs(self._list_triangles(self.records)).sum(axis=1))

    def _list_triangles(self, records: Integers) -> Integers:
        return records[:, self.upper[0]] * records[:, self.upper[1]]

    def _split_chunks(self) -> list[Integers]:
        size = max(1, _ENTRIES // max(len(self.records) * len(self.upper[0]), 1))
        return [self.records[at : at + size] for at in range(0, len(self.records), size)]


def _find_greatest(parts: Sequence[Integers], weights: Sequence[Fraction]) -> Fraction:
    """Return the greatest weighted sum of whole numbers, exactly."""
    flat = np.stack([part.ravel() for part in parts], axis=1)
    near = flat.astype(float) @ np.array([float(w) for w in weights])
    kept = {tuple(row) for row in flat[near >= near.max() - _NEAR * abs(near.max())].tolist()}
    return max(sum((w * x for w, x in zip(weights, row, strict=True)), Fraction(0)) for row in kept)
