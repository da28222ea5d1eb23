"""The fine domain of an attribute: the public cells in which its rows are counted once, before they are grouped."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from siloquent.schema import Attribute

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class FineDomain:
    """Runs of cells of one attribute, in order.

    Attributes:
        starts: The first cell of each run, shape (fine cells,).
        size: The number of cells of the attribute.
        ordered: How many of the first runs are ordered values; 0 for categories.
        cuts: Cells at which a group must begin, at the constants of constraints.
    """

    attribute: Attribute
    starts: Integers
    ordered: int
    cuts: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """The attribute's name."""
        return self.attribute.name

    @property
    def size(self) -> int:
        """The number of cells of the attribute."""
        return self.attribute.size

    @property
    def widths(self) -> Integers:
        """The number of cells of each run."""
        return np.diff(np.append(self.starts, self.size))

    def find_runs(self, places: NDArray[np.integer]) -> Integers:
        """Return the run of each cell; OUTSIDE (-1) stays outside."""
        return np.searchsorted(self.starts, places, side="right").astype(np.int64) - 1

    @property
    def cut_runs(self) -> tuple[int, ...]:
        """The runs at which a group must begin; for categories, those that must keep their own group."""
        return tuple(sorted(set(self.find_runs(np.array(self.cuts, dtype=np.int64)).tolist()))) if self.cuts else ()


@dataclass(frozen=True, slots=True, eq=False)
class CellGroups:
    """The group of every cell of one attribute, stored by runs: memory grows with runs, not with the declared grid.

    Attributes:
        starts: The first cell of each run, shape (runs,).
        widths: The number of cells of each run.
        groups: The group of each run.
    """

    starts: Integers
    widths: Integers
    groups: Integers

    def find_groups(self, cells: NDArray[np.integer]) -> Integers:
        """Return the group of each of ``cells``."""
        return self.groups[np.searchsorted(self.starts, cells, side="right") - 1]

    def draw_within(self, cells: NDArray[np.integer], random: np.random.Generator) -> Integers:
        """Draw, for each of ``cells``, any cell of its group."""
        order = np.argsort(self.groups, kind="stable")
        ends = np.cumsum(self.widths[order])
        firsts = ends - self.widths[order]
        runs = np.searchsorted(self.groups[order], np.arange(int(self.groups.max(initial=0)) + 2))
        bounds = np.append(firsts, ends[-1:])[runs]
        mine = self.find_groups(cells)
        first, size = bounds[mine], bounds[mine + 1] - bounds[mine]
        # The group's cells are numbered consecutively; the run that contains the number is looked up.
        wanted = first + np.floor(random.random(len(cells)) * size).astype(np.int64)
        at = np.searchsorted(ends, wanted, side="right")
        return np.asarray(self.starts[order][at] + wanted - firsts[at], dtype=np.int64)


def group_single_cells(groups: NDArray[np.integer]) -> CellGroups:
    """Build the groups of single cells from ``groups``, shape (cells,)."""
    ones = np.ones(len(groups), dtype=np.int64)
    return CellGroups(np.arange(len(groups), dtype=np.int64), ones, np.asarray(groups, dtype=np.int64))
