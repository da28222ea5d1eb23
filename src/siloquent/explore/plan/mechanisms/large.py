"""Strategies over more cells than dense matrices can hold: trees along the axes of each part's grid of cells."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from siloquent.explore.plan.cache import ByteLRU
from siloquent.explore.plan.cells.compiled import CompiledWorkload, Integers, WorkloadPart
from siloquent.explore.plan.mechanisms.reconstruction import PARTS_OF_A_STEP
from siloquent.explore.plan.mechanisms.strategy_choice import MAX_COLUMNS, StrategyChoice
from siloquent.maths.sensitivity.linear import Sensitivity
from siloquent.maths.strategies.base import Norm
from siloquent.maths.strategies.layered import (
    LayeredStrategy,
    Shapes,
    build_layered,
    choose_chunk_rows,
    find_laplace_level,
)
from siloquent.maths.strategies.prefixes import compute_prefix_shapes
from siloquent.maths.strategies.sparse import Sparse
from siloquent.maths.tails.calibration import Factor, compute_normal_factor

MAX_CELLS, MAX_ENTRIES = 2**18, 5 * 10**8
_SEEN = 16
_GOLDEN = (math.sqrt(5) - 1) / 2

_offers: ByteLRU[StrategyChoice | None] = ByteLRU(
    2**28, lambda one: 0 if one is None else sum(matrix.nbytes for matrix in one.matrices) + 1_000
)


def find_layered_choice(
    compiled: CompiledWorkload, beta: float, *, norm: Norm, two_sided: bool, bits: int
) -> StrategyChoice | None:
    """Find layered trees for discrete Laplace (``l1``) or Gaussian (``l2``) noise; None if even these are too many.

    One axis of few cells has better strategies than trees, so it also gets None.
    """
    if compiled.disjoint:
        return None
    settings = (compiled.replace_one, compiled.rows, compiled.largest, compiled.summed is None)
    grids = tuple(build_grid(part)[0] for part in compiled.parts if part.columns)
    cells = sum(math.prod(shape) for shape in grids)
    is_small = cells <= MAX_COLUMNS and all(sum(axis > 1 for axis in shape) < 2 for shape in grids)
    if is_small or cells > MAX_CELLS or compiled.answers * cells > MAX_ENTRIES:
        return None
    key = (compiled.shape, grids, beta, norm, two_sided, bits, settings)
    return _offers.get(key, lambda: _find_choice(compiled, beta, norm, two_sided, bits))


@lru_cache(maxsize=64)
def build_grid(part: WorkloadPart) -> tuple[tuple[int, ...], Integers]:
    """Build the smallest grid over the part's attributes with one cell per column, and return these cells.

    Classes of an attribute that all predicates treat alike, wherever the others fall, share a step of its axis.
    """
    cells = part.column.reshape(part.block.shape or (1,))
    steps, shape = [], []
    for axis in range(cells.ndim):
        slices = np.moveaxis(cells, axis, 0).reshape(cells.shape[axis], -1)
        _, first, group = np.unique(slices, axis=0, return_index=True, return_inverse=True)
        counted = (slices[first] >= 0).any(axis=1)
        order = np.argsort(np.where(counted, first, len(slices)), kind="stable")
        rank = np.empty(len(first), dtype=np.int64)
        rank[order] = np.arange(len(first))
        steps.append(rank[group.reshape(-1)])
        shape.append(int(counted.sum()))
    _, first_cell = np.unique(part.column[part.column >= 0], return_index=True)
    flat = np.flatnonzero(part.column >= 0)[first_cell]
    places = np.unravel_index(flat, cells.shape)
    return tuple(shape), np.ravel_multi_index([step[at] for step, at in zip(steps, places, strict=True)], shape)


def _find_choice(
    compiled: CompiledWorkload, beta: float, norm: Norm, two_sided: bool, bits: int
) -> StrategyChoice | None:
    """Find a choice in which all blocks fail equally often; their weights follow their individual prices."""
    parts = [_GridPart(compiled, part) for part in compiled.parts if part.columns]
    one_of = beta / len(parts)
    weights = [1.0]
    if len(parts) > 1:
        prices = np.array(
            [_find_level(p.compute_shapes(p.build_strategy(norm, 1.0, bits)), one_of, norm, two_sided) for p in parts]
        )
        weights = (prices / (prices.sum() if norm == "l1" else np.sqrt((prices * prices).sum()))).tolist()
    chosen = [part.build_strategy(norm, weight, bits) for part, weight in zip(parts, weights, strict=True)]
    found = [part.compute_shapes(strategy) for part, strategy in zip(parts, chosen, strict=True)]
    every = Shapes(*(np.concatenate([getattr(one, name) for one in found]) for name in Shapes.__slots__))
    matrices = [strategy.build_matrix(part.place) for part, strategy in zip(parts, chosen, strict=True)]
    left = iter(matrices)
    empty = np.zeros((0, 0), dtype=np.int64)
    return StrategyChoice(
        name=" | ".join(dict.fromkeys(strategy.name for strategy in chosen)),
        matrices=tuple(next(left) if part.columns else empty for part in compiled.parts),
        factor=Factor(
            _find_level(every, beta, norm, two_sided), "chernoff" if norm == "l1" else _name_method(two_sided)
        ),
        margin=float(every.total.max()) + 1 / (2 * PARTS_OF_A_STEP),
        sensitivity=_bound_sensitivity(compiled, matrices),
    )


def _name_method(two_sided: bool) -> str:
    return "sidak" if two_sided else "union"


def _find_level(shapes: Shapes, beta: float, norm: Norm, two_sided: bool) -> float:
    if norm == "l1":
        return find_laplace_level(shapes, beta, two_sided=two_sided)
    return compute_normal_factor(np.sqrt(shapes.squares), beta, two_sided=two_sided).value


def _bound_sensitivity(compiled: CompiledWorkload, matrices: list[Sparse]) -> Sensitivity:
    """Bound the sensitivity; exact for added or removed rows. Entries are >= 0, so replacing moves two columns at most.

    Values v, w of one sign move by |v a - w b|^2 <= v^2 |a|^2 + w^2 |b|^2, those of two signs by both in one direction.
    """
    lengths = [matrix.compute_lengths() for matrix in matrices]
    rows, largest, ways = compiled.rows, compiled.largest, 2 if compiled.replace_one else 1
    summed = compiled.summed
    reach = largest  # of one answer, from the least value to the greatest
    if summed is not None and compiled.replace_one:
        reach = max(summed.highest, 0) - min(summed.lowest, 0)
    return Sensitivity(
        l1=rows * largest * ways * sum(one for one, _, _ in lengths),
        l2_squared=rows**2 * max(ways * largest**2, reach**2) * sum(two for _, two, _ in lengths),
        linf=rows * reach * max(most for _, _, most in lengths),
    )


class _GridPart:
    """A part of a workload with its columns placed in their grid."""

    def __init__(self, compiled: CompiledWorkload, part: WorkloadPart) -> None:
        self.part = part
        self.shape, self.place = build_grid(part)
        sums = np.ones(compiled.answers, dtype=bool) if part.weights is None else part.weights.any(axis=1)
        self.answers = np.flatnonzero(sums)

    def build_strategy(self, norm: Norm, weight: float, bits: int) -> LayeredStrategy:
        # Evenly spaced answers might all end where a tree's wide nodes do, so that its narrow ones would get no weight.
        spread = np.arange(1, _SEEN + 1) * _GOLDEN % 1 * len(self.answers)
        picked = np.unique(np.append(spread.astype(np.int64), [0, len(self.answers) - 1]))
        seen = np.concatenate([self._lay_out(i, i + 1) for i in self.answers[picked].tolist()])
        return build_layered(self.shape, seen, norm=norm, weight=weight, bits=bits)

    def compute_shapes(self, strategy: LayeredStrategy) -> Shapes:
        """Compute the shapes of only the part's own answers; the others have no noise from it."""
        if self._is_running():
            return compute_prefix_shapes(strategy.axes[0])
        return strategy.compute_shapes(self._iter_chunks)

    def _is_running(self) -> bool:
        """Return whether the answers are the cumulative sums of the grid's cells."""
        weights, cells = self.part.weights, self.part.columns
        if self.shape != (cells,) or not np.array_equal(self.place, np.arange(cells)):
            return False
        if weights is None:
            return self.part.running
        running = weights.shape == (cells, cells) and np.array_equal(weights.sum(axis=1), np.arange(1, cells + 1))
        return running and bool((weights[:, :-1] >= weights[:, 1:]).all())

    def _iter_chunks(self) -> Iterator[NDArray[np.float64]]:
        size = choose_chunk_rows(math.prod(self.shape))
        for low in range(0, len(self.answers), size):
            own = self.answers[low : low + size]
            rows = self._lay_out(int(own[0]), int(own[-1]) + 1)
            yield rows[own - own[0]]

    def _lay_out(self, low: int, high: int) -> NDArray[np.float64]:
        rows = np.zeros((high - low, math.prod(self.shape)))
        rows[:, self.place] = self.part.build_rows(low, high)
        return rows
