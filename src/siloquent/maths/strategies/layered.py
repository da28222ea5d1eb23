"""Strategies for large workloads: a tree of ranges along each axis of the cells, and every combination of their nodes.

Everything is done along one axis at a time, level by level: the only matrix over all cells is the sparse one that is
measured. Reconstructions are examined some rows at a time, for a few numbers a row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from siloquent.maths.strategies.base import Norm, Reals
from siloquent.maths.strategies.sparse import Sparse, kronecker
from siloquent.maths.strategies.trees import add_runs, build_levels, find_best_weights, link_levels, solve_tree

Integers = NDArray[np.int64]
Rows = Callable[[], Iterator[NDArray[np.float64]]]
"""The answers' weights over the grid, some rows at a time, each chunk of shape (rows, cells)."""

_CHUNK = 500_000


@dataclass(frozen=True, slots=True, eq=False)
class TreeAxis:
    """A tree over one axis with a whole weight a level, coarsest first; a single cell on several levels is one node.

    Attributes:
        shape: The start of the nodes of each level.
        weights: Of each level.
        cells: The number of cells.
        norm: How the weights of a cell's levels are combined: their sum (``l1``) or that of their squares (``l2``).
    """

    shape: tuple[Integers, ...]
    weights: tuple[int, ...]
    cells: int
    norm: Norm

    @property
    def leaves(self) -> Integers:
        """The weight of each cell's own node."""
        power = 1 if self.norm == "l1" else 2
        below = np.cumsum(np.array(self.weights[::-1], dtype=np.int64) ** power)[::-1]
        whole = below if power == 1 else np.rint(np.sqrt(below)).astype(np.int64)
        return np.asarray(whole[link_levels(self.shape, self.cells).single])

    def build_matrix(self) -> Sparse:
        """Return the measurements along this axis: wide nodes by level, then every cell."""
        starts, places, entries = [0], [], []
        for edges, weight in zip(self.shape, self.weights, strict=True):
            ends = np.append(edges[1:], self.cells)
            for low, high in zip(edges.tolist(), ends.tolist(), strict=True):
                if high - low > 1:
                    places.append(np.arange(low, high))
                    entries.append(np.full(high - low, weight, dtype=np.int64))
                    starts.append(starts[-1] + high - low)
        every = np.arange(self.cells)
        return Sparse(
            self.cells,
            np.concatenate([np.array(starts, dtype=np.int64), starts[-1] + every + 1]),
            np.concatenate([*places, every]),
            np.concatenate([*entries, self.leaves]),
        )

    def solve(self, target: Reals) -> Reals:
        """Return (A'A)^-1 ``target`` along the first axis."""
        ones = 1.0 / self.leaves.astype(np.float64) ** 2
        levels = link_levels(self.shape, self.cells)
        return solve_tree(levels, np.array(self.weights, dtype=np.float64) ** 2, ones, target)

    def measure(self, values: Reals) -> Reals:
        """Return A ``values`` along the first axis."""
        parts, sums, levels = [self.leaves[:, None] * values], values, link_levels(self.shape, self.cells)
        for level in range(len(self.shape) - 1, -1, -1):
            sums, wide = add_runs(sums, levels.first[level], levels.children[level]), levels.wide[level]
            if wide.any():
                parts.append(self.weights[level] * sums[wide])
        return np.concatenate(parts[::-1])


@dataclass(frozen=True, slots=True, eq=False)
class Shapes:
    """Of each row of a reconstruction, shape (answers,): sums of squares and fourth powers, the largest, the sum."""

    squares: Reals
    fourths: Reals
    largest: Reals
    total: Reals


@dataclass(frozen=True, slots=True, eq=False)
class LayeredStrategy:
    """A product of axes: its whole matrix has a row for each combination of nodes."""

    name: str
    axes: tuple[TreeAxis, ...]

    def build_matrix(self, place: Integers) -> Sparse:
        """Return the whole matrix: its first columns are the cells ``place`` of the grid, in that order."""
        full = self.axes[0].build_matrix()
        for axis in self.axes[1:]:
            full = kronecker(full, axis.build_matrix())
        column = np.full(full.columns, -1, dtype=np.int64)
        column[place] = np.arange(len(place))
        column[column < 0] = np.arange(len(place), full.columns)
        return Sparse(len(place), full.starts, column[full.places], full.entries, full.columns - len(place))

    def compute_shapes(self, rows: Rows) -> Shapes:
        """Return the shapes of the reconstruction R = W (A'A)^-1 A' over the whole grid."""
        found = [self._compute_chunk_shapes(chunk) for chunk in rows()]
        return Shapes(*(np.concatenate([getattr(one, name) for one in found]) for name in Shapes.__slots__))

    def _compute_chunk_shapes(self, chunk: Reals) -> Shapes:
        count = len(chunk)
        values = chunk.reshape(count, *(axis.cells for axis in self.axes))
        for place, axis in enumerate(self.axes, start=1):
            values = _apply_along(values, place, lambda flat, axis=axis: axis.measure(axis.solve(flat)))  # type: ignore[misc]
        flat = np.abs(values.reshape(count, -1))
        return compute_row_shapes(flat)


def compute_row_shapes(absolute: Reals) -> Shapes:
    """Return the shapes of rows of absolute values, shape (answers, noises)."""
    squares = absolute * absolute
    fourths = np.einsum("rn,rn->r", squares, squares)
    return Shapes(squares.sum(axis=1), fourths, absolute.max(axis=1), absolute.sum(axis=1))


def _apply_along(values: Reals, axis: int, change: Callable[[Reals], Reals]) -> Reals:
    moved = np.moveaxis(values, axis, 0)
    changed = change(np.ascontiguousarray(moved).reshape(len(moved), -1))
    return np.moveaxis(changed.reshape(-1, *moved.shape[1:]), 0, axis)


def build_layered(
    shape: Sequence[int], seen: Reals, *, norm: Norm, weight: float = 1.0, bits: int = 16
) -> LayeredStrategy:
    """Return a tree for each axis, tuned to the parts of some rows of the workload along that axis only.

    Args:
        shape: Cells along each axis.
        seen: A few rows of the workload over the grid, shape (rows, cells).
        weight: Of the whole strategy, at most 1.
        bits: A column's norm is 2^bits quanta at most; each axis has its share.
    """
    grid = seen.reshape(len(seen), *shape) != 0
    bits = max(4, bits // len(shape))
    axes, names = [], []
    for place, cells in enumerate(shape):
        others = tuple(other + 1 for other in range(len(shape)) if other != place)
        asked = np.unique(grid.any(axis=others), axis=0).astype(np.float64)
        branching, weights = find_best_weights(cells, asked, norm=norm)
        scaled = weights * (2.0**bits * (weight if place == 0 else 1.0))
        whole = np.maximum(np.floor(scaled + 1e-7), 1).astype(np.int64)
        axes.append(TreeAxis(build_levels(cells, branching), tuple(whole.tolist()), cells, norm))
        names.append("cells" if len(whole) == 1 else f"H{branching} tree")
    return LayeredStrategy(" x ".join(names), tuple(axes))


def choose_chunk_rows(cells: int) -> int:
    """Return the number of rows over ``cells`` that are processed together."""
    return max(1, _CHUNK // cells)


def bound_laplace_tails(shapes: Shapes, x: float) -> Reals:
    """Return upper bounds on P[sum_i r_i X_i > x], X_i independent Laplace(1), for each row, shape (answers,).

    Proof: docs/explanation/calibration.md, on large workloads.
    """
    n, n4, z = shapes.squares / shapes.largest**2, shapes.fourths / shapes.largest**4, x / shapes.largest
    low, high = np.zeros(len(n)), np.ones(len(n))
    for _ in range(40):  # finds the zero of the derivative of the bound's exponent; any u in (0, 1) would be valid
        u = (low + high) / 2
        slope = 2 * u * (n + n4 * u * u / (1 - u * u))
        low, high = np.where(slope < z, u, low), np.where(slope < z, high, u)
    u = low
    exponent = n * u * u - n4 * (np.log1p(-u * u) + u * u) - u * z
    # Noise tilted by u has a unimodal, log-concave density, which is at most 1/deviation.
    deviation = np.sqrt(2 * n + 6 * n4 * u * u)
    peak = np.minimum(1 / deviation, _bound_fourier_peak(n, n4, u))
    return np.asarray(np.exp(exponent) * np.minimum(1.0, peak / np.maximum(u, 1e-300)))


def _bound_fourier_peak(n: Reals, n4: Reals, u: Reals) -> Reals:
    """Bound the density's maximum by its Fourier integral: at most that of ``k`` equal noises, infinite for too few."""
    from scipy.special import gammaln

    k = (n + n4 * u * u) * (1 - u * u)
    enough = k > 1
    safe = np.where(enough, k, 2.0)
    ratio = np.exp(gammaln(safe - 0.5) - gammaln(safe))
    return np.where(enough, ratio * np.sqrt((1 - u * u) / math.pi) / 2 * (1 + 1e-9), np.inf)


def find_laplace_level(shapes: Shapes, beta: float, *, two_sided: bool) -> float:
    """Return the level at which all rows' bounds sum to ``beta``; noise of scale b keeps an error of b times it."""
    from scipy.optimize import brentq

    sides = 2 if two_sided else 1

    def excess(x: float) -> float:
        return math.log(max(sides * float(bound_laplace_tails(shapes, x).sum()), 1e-300) / beta)

    low = float(np.sqrt(shapes.squares).max())
    high = low * math.sqrt(2) * math.log(4 * len(shapes.squares) / beta)
    while excess(high) > 0:
        high *= 2
    return low if excess(low) <= 0 else float(brentq(excess, low, high, rtol=1e-10)) * (1 + 1e-8)
