"""Tables that give the number of stored rows with which a new row breaks a rule, for all its values at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
NOBODY = -1
MAX_CELLS = 10**7


@dataclass(frozen=True, slots=True, eq=False)
class CountAxis:
    """One coordinate of a box: the ranks of stored rows, and those that match a query row.

    Attributes:
        stored_column, stored: The column and, for each of its cells, the rank of a stored row; ``NOBODY``: not stored.
        asked_column, asked: The column and, for each of its cells, which ranks match: that one, or, if ``ordered``,
            the first ones, that many; ``NOBODY``: none.
        size: The number of ranks.
    """

    stored_column: int
    stored: Integers
    asked_column: int
    asked: Integers
    size: int
    ordered: bool


@dataclass(frozen=True, slots=True)
class CountTerm:
    """A signed box count; the counts of a rule's terms add up. ``rule`` counts from 0."""

    rule: int
    sign: int
    axes: tuple[CountAxis, ...]

    @property
    def cells(self) -> int:
        """The number of cells of its table."""
        return math.prod(axis.size for axis in self.axes)


class PairTables:
    """Rows stored under several rules; a query for all values of one column is one walk through Fenwick trees.

    Args:
        terms: Of all rules.
        target: The column to draw or exchange.
        values: The number of cells of that column.
    """

    def __init__(self, terms: Sequence[CountTerm], *, rules: int, target: int, values: int) -> None:
        self.target, self.values, self.rules = target, values, rules
        maps: list[Integers] = []
        lines: list[tuple[int, ...]] = []
        axes: list[tuple[int, ...]] = []
        length = base = 0
        for term in terms:
            # Large axes first: the last one is contiguous, and the target's is read as a whole.
            mine = sorted(term.axes, key=lambda axis: axis.asked_column == target)
            asking = [place for place, axis in enumerate(mine) if axis.asked_column == target]
            vector = asking[0] if len(asking) == 1 else (-1 if not asking else -2)
            stride = term.cells
            lines.append((term.sign, len(axes), len(mine), base, term.rule, vector))
            for axis in mine:
                stride //= axis.size
                stored, asked = length, length + len(axis.stored)
                maps += [axis.stored, axis.asked]
                length = asked + len(axis.asked)
                axes.append(
                    (axis.stored_column, stored, axis.asked_column, asked, int(axis.ordered), axis.size, stride)
                )
            base += term.cells
        self._terms = np.array(lines, dtype=np.int64).reshape(-1, 6)
        self._axes = np.array(axes, dtype=np.int64).reshape(-1, 7)
        self._maps = np.concatenate(maps) if maps else np.zeros(0, dtype=np.int64)
        self._cells = np.zeros(base, dtype=np.int64)
        self._found = np.zeros((rules, values), dtype=np.int64)

    @property
    def _plan(self) -> tuple[Integers, Integers, Integers, Integers]:
        return self._terms, self._axes, self._maps, self._cells

    def add(self, rows: Integers, count: int = 1) -> None:
        """Store rows, shape (rows, columns); ``count`` -1 removes them."""
        from siloquent.maths.pairs.kernels import add_all

        add_all(*self._plan, np.ascontiguousarray(rows, dtype=np.int64), count)

    def count_broken(self, row: Integers) -> Integers:
        """Return the number of stored rows with which ``row`` breaks each rule, by target value: (rules, values)."""
        from siloquent.maths.pairs.kernels import count_candidates

        count_candidates(*self._plan, np.array(row, dtype=np.int64), self.target, self.values, self._found)
        return self._found.copy()

    def draw(
        self,
        rows: Integers,
        order: Integers,
        *,
        weights: Floats,
        chances: Floats,
        uniforms: Floats,
        stored: bool = False,
    ) -> NDArray[np.bool_]:
        """Draw the target of the rows in ``order``, in place: P[v] ~ chance(v) exp(-sum of weight x broken pairs).

        Args:
            rows: Cells, shape (rows, columns), int64 and contiguous.
            weights: Of the rules, shape (rules,); infinite for hard ones.
            chances: Probabilities, one line for each entry of ``order``, shape (steps, values).
            uniforms: In [0, 1), shape (steps,).
            stored: Whether the rows are stored already and are removed before they are redrawn.
        Returns:
            Which steps found no value that keeps all hard rules; their rows are neither changed nor stored anew.
        """
        from siloquent.maths.pairs.kernels import draw_column

        stuck = np.zeros(len(order), dtype=np.int64)
        draw_column(*self._plan, rows, self._found, self.target, weights, chances, uniforms, order, stuck, int(stored))
        return stuck.astype(bool)

    def swap(self, rows: Integers, pairs: Integers, *, broken: int, wanted: float, close: float) -> int:
        """Exchange the target of stored rows if that brings the broken pairs of the only rule nearer to ``wanted``.

        Args:
            rows: Cells, int64 and contiguous; changed in place.
            pairs: Rows to try, shape (tries, 2).
        Returns:
            The final number of broken pairs.
        """
        from siloquent.maths.pairs.kernels import swap_towards

        return int(
            swap_towards(
                *self._plan,
                rows,
                self._found,
                self.target,
                self.values,
                broken,
                wanted,
                close,
                np.ascontiguousarray(pairs, dtype=np.int64),
            )
        )
