"""The shapes of a tree's reconstruction of all cumulative sums, in time proportional to nodes times levels.

A cumulative sum covers whole subtrees left of one path from the root to a cell, and none of those right of it. Within
such a subtree the reconstruction is one number times a pattern that is the same for all sums, so that powers are summed
once a node. Notation as in ``trees.solve_tree``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from siloquent.maths.strategies.base import Reals
from siloquent.maths.strategies.layered import Integers, Shapes, TreeAxis


@dataclass(frozen=True, slots=True, eq=False)
class _Level:
    """Nodes of one level: the pattern's sum, its squares, fourth powers, absolute values and largest, of each node.

    ``first``: the start of each node's children on the level below, ``strength`` and ``kept`` as in ``solve_tree``,
    ``own``: the weight of the node's own measurement, 0 if it has none.
    """

    first: Integers
    strength: Reals
    kept: Reals
    own: Reals
    sums: Reals
    powers: tuple[Reals, ...]
    largest: Reals


def compute_prefix_shapes(axis: TreeAxis) -> Shapes:
    """Return the shapes of all cumulative sums over ``axis``; ``largest`` may be a sibling's, but never too small."""
    levels = _list_levels(axis)
    cell = np.arange(axis.cells)
    paths = [np.searchsorted(edges, cell, side="right") - 1 for edges in axis.shape] + [cell]
    # Up: the covered cells below each node of the path.
    held = [levels[-1].sums[cell]]
    for level in range(len(axis.shape) - 1, -1, -1):
        node, below = paths[level], levels[level + 1]
        ends = np.append(0.0, np.cumsum(below.sums))
        left = ends[paths[level + 1]] - ends[levels[level].first[node]]
        held.append((left + held[-1]) * levels[level].kept[node])
    held.reverse()
    # Down: the factor of subtrees right of the path; that left of it is larger by one.
    found = _Totals(axis.cells)
    shift = np.zeros(axis.cells)
    found.add_siblings(levels[0], np.zeros_like(cell), paths[0], np.full_like(cell, len(levels[0].sums)), shift)
    for level, edges in enumerate(axis.shape):
        here, node = levels[level], paths[level]
        found.add(np.abs(here.own[node] * (held[level] + shift * here.sums[node])))
        shift = shift * here.kept[node] - here.strength[node] * held[level]
        ends = np.append(here.first, len(levels[level + 1].sums))
        found.add_siblings(levels[level + 1], ends[node], paths[level + 1], ends[node + 1], shift)
        assert len(edges) == len(here.sums)
    found.add(np.abs(axis.leaves * levels[-1].sums * (1 + shift)))
    return Shapes(found.powers[1], found.powers[2], found.largest * (1 + 1e-9), found.powers[0])


def _list_levels(axis: TreeAxis) -> list[_Level]:
    """Return the levels of nodes, coarsest first, and the cells."""
    ones = 1.0 / axis.leaves.astype(np.float64) ** 2
    pattern = axis.leaves * ones
    none = np.zeros(axis.cells)
    powers = (pattern, pattern**2, pattern**4)
    found = [_Level(np.arange(0), none, none, none, ones, powers, pattern)]
    below = np.arange(axis.cells)
    for edges, weight in zip(axis.shape[::-1], axis.weights[::-1], strict=True):
        first = np.searchsorted(below, edges)
        wide = np.diff(np.append(edges, axis.cells)) > 1
        child = found[-1]
        total = np.add.reduceat(child.sums, first)
        strength = np.where(wide, float(weight) ** 2, 0.0)
        kept = 1 / (1 + strength * total)
        weights = np.where(wide, float(weight), 0.0)
        own = weights * total * kept
        powers = tuple(  # type: ignore[assignment]
            own**power + kept**power * np.add.reduceat(part, first)
            for power, part in zip((1, 2, 4), child.powers, strict=True)
        )
        largest = np.maximum(own, kept * np.maximum.reduceat(child.largest, first))
        found.append(_Level(first, strength, kept, weights, total * kept, powers, largest))
        below = edges
    return found[::-1]


class _Totals:
    """Sums of powers of all entries of each row so far, and the maximum."""

    def __init__(self, rows: int) -> None:
        self.powers = [np.zeros(rows) for _ in range(3)]
        self.largest = np.zeros(rows)

    def add(self, entry: Reals) -> None:
        """Add one entry a row."""
        for power, total in zip((1, 2, 4), self.powers, strict=True):
            total += entry**power
        self.largest = np.maximum(self.largest, entry)

    def add_siblings(self, level: _Level, low: Integers, path: Integers, high: Integers, shift: Reals) -> None:
        """Add the subtrees from ``low`` to the path, times shift + 1, and those behind it to ``high``, times shift."""
        for number, (power, part) in enumerate(zip((1, 2, 4), level.powers, strict=True)):
            ends = np.append(0.0, np.cumsum(part))
            self.powers[number] += np.abs(1 + shift) ** power * (ends[path] - ends[low])
            self.powers[number] += np.abs(shift) ** power * (ends[high] - ends[path + 1])
        families, family = np.unique(low, return_inverse=True)
        largest = np.maximum.reduceat(level.largest, families)[family.reshape(-1)]
        factor = np.maximum(np.where(path > low, np.abs(1 + shift), 0.0), np.where(high > path + 1, np.abs(shift), 0.0))
        self.largest = np.maximum(self.largest, factor * largest)
