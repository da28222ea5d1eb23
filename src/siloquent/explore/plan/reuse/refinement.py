"""The common refinement of measurements and query: cells that none of them divides further."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from siloquent.explore.plan.reuse.evidence_selection import select_most_telling
from siloquent.explore.plan.reuse.linear_measurements import MeasuredBlock
from siloquent.explore.spec.footprint import Area, Integers
from siloquent.schema import Classes, ClassRuns

MAX_CELLS = 2_000
Reals = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Refinement:
    """Base cells of one requested area, and the pieces that are used.

    ``asked`` maps each base cell to the requested area's column, ``columns[i]`` to that of piece i, -1 for none.
    """

    pieces: tuple[MeasuredBlock, ...]
    asked: Integers
    columns: tuple[Integers, ...]

    @property
    def cells(self) -> int:
        """The number of base cells."""
        return len(self.asked)

    def build_known(self) -> Reals:
        """Build the rows of all pieces over the base cells, for noise of deviation 1."""
        rows = [
            broadcast_columns(piece.matrix, c) / piece.deviation
            for piece, c in zip(self.pieces, self.columns, strict=True)
        ]
        return np.vstack([np.zeros((0, self.cells)), *rows])


def broadcast_columns(matrix: NDArray[np.signedinteger], column: Integers) -> Reals:
    """Convert ``matrix`` over columns to one over the cells that ``column`` maps to them."""
    padded = np.hstack([matrix.astype(np.float64), np.zeros((len(matrix), 1))])
    return np.ascontiguousarray(padded[:, column])


def refine(asked: Area, pieces: Sequence[MeasuredBlock]) -> Refinement:
    """Refine ``asked`` by those of ``pieces`` that are informative about it.

    Pieces about only other attributes are left out, as are all but the most informative ones. Those about only the
    requested attributes come first, newer before older, as long as the product of all classes stays within 2,000 cells.
    """
    names = set(asked.attributes)
    related = select_most_telling(asked, pieces)
    inside = [piece for piece in related if set(piece.area.attributes) <= names]
    outside = [piece for piece in related if not set(piece.area.attributes) <= names]
    grid = Grid(asked)
    taken: list[MeasuredBlock] = []
    if grid.cells <= MAX_CELLS:
        for piece in (*reversed(inside), *reversed(outside)):
            wider = grid.add_area(piece.area)
            if wider is not None and wider.cells <= MAX_CELLS:
                grid = wider
                taken.append(piece)
    return _merge_cells(grid, asked, taken)


def _merge_cells(grid: Grid, asked: Area, taken: list[MeasuredBlock]) -> Refinement:
    """Merge cells that all measurements and the query treat alike."""
    columns = np.vstack([grid.find_columns(asked), *(grid.find_columns(piece.area) for piece in taken)])
    columns = columns[:, np.any(columns >= 0, axis=0)]
    columns = np.unique(columns, axis=1)
    return Refinement(tuple(taken), columns[0], tuple(columns[1:]))


class Grid:
    """The product of refined classes of some attributes."""

    def __init__(self, area: Area) -> None:
        self.declared = dict(zip(area.attributes, area.declared, strict=True))
        self.classes = {n: _from_zero(c) for n, c in zip(area.attributes, area.classes, strict=True)}

    @property
    def cells(self) -> int:
        return math.prod(int(one.max(initial=0)) + 1 for one in self.classes.values())

    def add_area(self, area: Area) -> Grid | None:
        """Return this grid refined by another area; None if an attribute was declared differently there."""
        wider = Grid(area)
        for name, classes in self.classes.items():
            if name not in wider.classes:
                wider.classes[name], wider.declared[name] = classes, self.declared[name]
            elif wider.declared[name] != self.declared[name] or len(wider.classes[name]) != len(classes):
                return None
            else:
                wider.classes[name] = _join_classes(classes, wider.classes[name])
        return wider

    def find_columns(self, area: Area) -> Integers:
        """Return the column of ``area`` for each cell of the product, -1 for none."""
        names = list(self.classes)
        shape = [int(self.classes[name].max(initial=0)) + 1 for name in names]
        cell = np.zeros([1] * len(names), dtype=np.int64)
        lost = np.zeros([1] * len(names), dtype=bool)
        for name, classes, size in zip(area.attributes, area.classes, area.shape, strict=True):
            own = _find_coarser(classes, self.classes[name])
            along = [1] * len(names)
            along[names.index(name)] = -1
            cell = cell * size + np.maximum(own, 0).reshape(along)
            lost = lost | (own < 0).reshape(along)
        found = np.where(lost, -1, area.column[cell])
        return np.ascontiguousarray(np.broadcast_to(found, shape)).reshape(-1)


def _find_coarser(classes: Classes, refined: Classes) -> Integers:
    """Return which of ``classes`` contains each of the refined ones."""
    own = np.empty(int(refined.max(initial=0)) + 1, dtype=np.int64)
    if isinstance(refined, ClassRuns):
        own[refined.classes] = classes[refined.starts]
    elif isinstance(classes, ClassRuns):
        raise AssertionError("an attribute is kept by runs or by cells, as it is declared")
    else:
        own[refined] = classes
    return own


def _join_classes(one: Classes, other: Classes) -> Classes:
    """Combine two maps into classes that both distinguish; equal maps, which are common, cost a comparison."""
    if isinstance(one, ClassRuns) or isinstance(other, ClassRuns):
        assert isinstance(one, ClassRuns)  # the attribute is declared alike in both
        assert isinstance(other, ClassRuns)
        starts = np.union1d(one.starts, other.starts)
        return ClassRuns(starts, _join_classes(one[starts], other[starts]), one.length)  # type: ignore[arg-type]
    return one if np.array_equal(one, other) else _from_zero(one * (int(other.max(initial=0)) + 1) + other)


def _from_zero(classes: Classes) -> Classes:
    """Renumber the classes without gaps."""
    if isinstance(classes, ClassRuns):
        return ClassRuns(classes.starts, np.unique(classes.classes, return_inverse=True)[1], classes.length)
    return np.asarray(np.unique(classes, return_inverse=True)[1], dtype=np.int64).reshape(-1)
