"""DiffGen: a table generalised top down by a taxonomy, then counted with noise; written from its paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Cell = tuple[int, ...]
"""Places of a category; of a number, its first and last place."""


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """An attribute of so many places: a number, or a category with public groups of places (one group: no taxonomy)."""

    size: int
    groups: tuple[Cell, ...] = ()

    @property
    def is_number(self) -> bool:
        """Whether it is split at places."""
        return not self.groups


@dataclass(frozen=True, slots=True, eq=False)
class Generalised:
    """What was released: the cells of each attribute, and noisy counts (cells..., classes), none negative."""

    columns: tuple[Column, ...]
    cells: tuple[tuple[Cell, ...], ...]
    counts: Integers

    @property
    def rows(self) -> int:
        """How many rows it says there are."""
        return int(self.counts.sum())

    def drawn(self, rows: int, random: np.random.Generator) -> Integers:
        """Rows of places (rows, attributes + 1), the class last: a group and class by its count, uniform within."""
        share = self.counts.ravel() / max(self.rows, 1)
        if not self.rows:
            return np.zeros((0, len(self.columns) + 1), dtype=np.int64)
        chosen = np.unravel_index(random.choice(share.size, rows, p=share), self.counts.shape)
        made = np.empty((rows, len(self.columns) + 1), dtype=np.int64)
        made[:, -1] = chosen[-1]
        for i, (column, cells) in enumerate(zip(self.columns, self.cells, strict=True)):
            for number, cell in enumerate(cells):
                at = np.flatnonzero(chosen[i] == number)
                if column.is_number:
                    made[at, i] = random.integers(cell[0], cell[1] + 1, len(at))
                else:
                    made[at, i] = random.choice(np.array(cell), len(at))
        return made


class _Growing:
    """A cut through the taxonomies that is specialised step by step."""

    def __init__(
        self, columns: Sequence[Column], rows: Integers, classes: int, rate: float, random: np.random.Generator
    ) -> None:
        self.columns, self.rows, self.classes, self.rate, self.random = columns, rows, classes, rate, random
        self.cells: list[list[Cell]] = [[(0, c.size - 1) if c.is_number else tuple(range(c.size))] for c in columns]
        self.options: dict[tuple[int, Cell], tuple[Cell, ...]] = {}
        for i in range(len(columns)):
            self._offer(i, self.cells[i][0])

    def step(self) -> None:
        """Specialise one cell, chosen by how well its children tell the classes apart."""
        if not self.options:
            return
        keys = list(self.options)
        utilities = np.array([self._utility(i, self.options[i, cell]) for i, cell in keys])
        i, cell = keys[self._choice(utilities, np.zeros(len(keys)))]
        children = self.options.pop((i, cell))
        self.cells[i] = [c for c in self.cells[i] if c != cell] + list(children)
        for child in children:
            self._offer(i, child)

    def counted(self) -> Integers:
        """Exact counts of all groups and classes."""
        shape = (*(len(cells) for cells in self.cells), self.classes)
        where = [self._cell_of(i) for i in range(len(self.columns))]
        flat = np.ravel_multi_index([*where, self.rows[:, -1]], shape)
        return np.bincount(flat, minlength=int(np.prod(shape))).reshape(shape)

    def _offer(self, i: int, cell: Cell) -> None:
        """Decide how ``cell`` would be specialised, if it can be."""
        column = self.columns[i]
        if column.is_number:
            if cell[1] > cell[0]:
                cut = self._split(i, cell)
                self.options[i, cell] = ((cell[0], cut - 1), (cut, cell[1]))
        elif len(cell) > 1:
            groups = tuple(g for g in column.groups if set(g) < set(cell))
            self.options[i, cell] = groups or tuple((place,) for place in cell)

    def _split(self, i: int, cell: Cell) -> int:
        """The first place on the right, by the exponential mechanism over all places of the cell."""
        inside = (self.rows[:, i] >= cell[0]) & (self.rows[:, i] <= cell[1])
        values, classes = self.rows[inside, i], self.rows[inside, -1]
        # The utility is constant from one present place to the next: one candidate stands for all cuts between.
        starts = np.unique(np.concatenate([[cell[0] + 1], values[values > cell[0]], values[values < cell[1]] + 1]))
        widths = np.diff(np.append(starts, cell[1] + 1))
        order = np.argsort(values, kind="stable")
        below = np.zeros((len(values) + 1, self.classes))
        below[1:] = np.cumsum(np.eye(self.classes)[classes[order]], axis=0)
        left = below[np.searchsorted(values[order], starts)]
        utilities = left.max(axis=1) + (below[-1] - left).max(axis=1)
        at = self._choice(utilities, np.log(widths))
        return int(starts[at] + self.random.integers(widths[at]))

    def _utility(self, i: int, children: Sequence[Cell]) -> float:
        """The most frequent class of each child, added up."""
        table = np.zeros((self.columns[i].size, self.classes))
        np.add.at(table, (self.rows[:, i], self.rows[:, -1]), 1)
        spans = [slice(c[0], c[1] + 1) if self.columns[i].is_number else list(c) for c in children]
        return float(sum(table[span].sum(axis=0).max() for span in spans))

    def _choice(self, utilities: Any, logs: Any) -> int:
        return int((self.rate * utilities / 2 + logs + self.random.gumbel(size=len(utilities))).argmax())

    def _cell_of(self, i: int) -> Integers:
        """The number of the cell of each row in attribute ``i``."""
        of_place = np.zeros(self.columns[i].size, dtype=np.int64)
        for number, cell in enumerate(self.cells[i]):
            of_place[slice(cell[0], cell[1] + 1) if self.columns[i].is_number else list(cell)] = number
        return of_place[self.rows[:, i]]


def diffgen(
    columns: Sequence[Column], rows: Integers, *, classes: int, steps: int, epsilon: float, random: np.random.Generator
) -> Generalised:
    """Rows of places (rows, attributes + 1), the class last, generalised in ``steps`` specialisations.

    Source: "Differentially Private Data Release for Data Mining" (KDD 2011), algorithm 1 with the Max utility: half of
        epsilon in (numbers + 2 steps) equal parts for splits and choices, half for the counts.
    """
    numbers = sum(column.is_number for column in columns)
    grown = _Growing(columns, rows, classes, epsilon / (2 * (numbers + 2 * steps)), random)
    for _ in range(steps):
        grown.step()
    exact = grown.counted()
    noisy = np.rint(exact + random.laplace(0, 2 / epsilon, exact.shape))
    counts = np.maximum(noisy, 0).astype(np.int64)
    return Generalised(tuple(columns), tuple(tuple(cells) for cells in grown.cells), counts)
