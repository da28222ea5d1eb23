"""The fine domain of an attribute: the public cells in which its rows are counted once, before they are grouped."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from siloquent.schema import Attribute

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Fine:
    """Runs of cells of one attribute, in order.

    Attributes:
        starts: The first cell of each run, shape (fine cells,).
        size: How many cells the attribute has.
        ordered: How many of the first runs are ordered values; 0 for categories.
        cuts: Cells at which a group must begin, since a constraint's constant stands there.
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
        """How many cells the attribute has."""
        return self.attribute.size

    @property
    def widths(self) -> Integers:
        """How many cells each run has."""
        return np.diff(np.append(self.starts, self.size))

    def of(self, places: NDArray[np.integer]) -> Integers:
        """The run of each cell; OUTSIDE (-1) stays outside."""
        return np.searchsorted(self.starts, places, side="right").astype(np.int64) - 1

    @property
    def cut_runs(self) -> tuple[int, ...]:
        """The runs at which a group must begin; for categories, those that must stay alone."""
        return tuple(sorted(set(self.of(np.array(self.cuts, dtype=np.int64)).tolist()))) if self.cuts else ()
