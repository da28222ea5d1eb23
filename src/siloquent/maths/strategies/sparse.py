"""Whole matrices with few entries that are not zero: strategies over more cells than a dense matrix could hold."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Reals = NDArray[np.float64]

_SAFE = 2**62
_CLOSE = 1e-13
_MAX_STEPS = 400


@dataclass(frozen=True, slots=True, eq=False)
class Sparse:
    """A whole matrix by rows; no row is empty.

    Attributes:
        columns: The number of columns for cells of a workload: the first ones.
        beyond: The number of further columns, for cells that no row falls into: measurements there are pure noise.
        starts: The start of each row's entries, and the end of the last ones, shape (rows + 1,).
        places: The column of each entry.
        entries: The entries.
    """

    columns: int
    starts: Integers
    places: Integers
    entries: Integers
    beyond: int = 0

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and columns."""
        return len(self), self.columns

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def nbytes(self) -> int:
        """The bytes of its arrays."""
        return self.starts.nbytes + self.places.nbytes + self.entries.nbytes

    @property
    def sums(self) -> Integers:
        """The sums of the absolute entries of each row, shape (rows,)."""
        return np.add.reduceat(np.abs(self.entries), self.starts[:-1])

    def apply(self, x: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return ``A x``, exactly, for the numbers of the first columns; in Python integers if 64 bits are too few."""
        x = np.concatenate([x, np.zeros(self.beyond, dtype=np.int64)])
        largest = int(self.sums.max(initial=0)) * max(1, int(np.abs(x).max(initial=0)))
        kind = np.int64 if largest < _SAFE else object
        found: NDArray[np.int64] = np.add.reduceat(
            self.entries.astype(kind) * x[self.places].astype(kind), self.starts[:-1]
        )
        return found

    def compute_lengths(self) -> tuple[int, int, int]:
        """Return the first columns' largest L1 norm, squared L2 norm and entry, exactly; no entry may be negative."""
        assert self.entries.min(initial=0) >= 0
        order = np.argsort(self.places, kind="stable")
        edges = np.searchsorted(self.places[order], np.arange(self.columns))
        end = int(np.searchsorted(self.places[order], self.columns))
        entries = self.entries[order][:end].astype(object)  # an overflowing sum would break the guarantee
        ones, squares = (np.add.reduceat(part, edges) for part in (entries, entries * entries))
        return int(max(ones)), int(max(squares)), int(max(entries))

    def solve_least_squares(self, y: NDArray[np.int64]) -> Reals:
        """Return the x that fits A x = y best, its first columns, by conjugate gradients.

        A layered strategy has about ten distinct singular values, so about ten steps reach a float's precision.
        """
        unit, width = float(np.abs(self.entries).max()), self.columns + self.beyond
        entries = self.entries / unit

        def forth(x: Reals) -> Reals:
            return np.asarray(np.add.reduceat(entries * x[self.places], self.starts[:-1]))

        def back(r: Reals) -> Reals:
            weights = entries * np.repeat(r, np.diff(self.starts))
            found: Reals = np.bincount(self.places, weights=weights, minlength=width).astype(np.float64)
            return found

        x, rest = np.zeros(width), y / unit
        slope = back(rest)
        step, size = slope.copy(), float(slope @ slope)
        goal = _CLOSE**2 * size
        for _ in range(_MAX_STEPS):
            if size <= goal:
                break
            along = forth(step)
            length = size / float(along @ along)
            x, rest = x + length * step, rest - length * along
            slope = back(rest)
            before, size = size, float(slope @ slope)
            step = slope + size / before * step
        return np.asarray(x[: self.columns])


def kronecker(first: Sparse, second: Sparse) -> Sparse:
    """Return the Kronecker product: every row of the first with every row of the second, the second running fastest."""
    counts = np.outer(np.diff(first.starts), np.diff(second.starts)).reshape(-1)
    starts = np.concatenate([[0], np.cumsum(counts)])
    places, entries = np.empty(starts[-1], dtype=np.int64), np.empty(starts[-1], dtype=np.int64)
    ends = zip(first.starts[:-1].tolist(), first.starts[1:].tolist(), strict=True)
    done = 0
    for low, high in ends:
        at, weight = first.places[low:high], first.entries[low:high]
        for start, end in zip(second.starts[:-1].tolist(), second.starts[1:].tolist(), strict=True):
            size = (high - low) * (end - start)
            places[done : done + size] = (at[:, None] * second.columns + second.places[start:end]).reshape(-1)
            entries[done : done + size] = np.multiply.outer(weight, second.entries[start:end]).reshape(-1)
            done += size
    return Sparse(first.columns * second.columns, starts, places, entries)
