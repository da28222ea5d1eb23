"""Computed columns: exact functions of the cells of a row's declared attributes, as programs over whole numbers.

A program is planned without data and runs where the rows are, on a batch of cells. It never fails, whatever the row:
numbers that a plan did not expect wrap around, and an index outside the planned ones is OUTSIDE.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

NULL, UNKNOWN, KNOWN = np.int8(0), np.int8(1), np.int8(2)
"""The states of a value: NULL, left out by the declaration, or known. The least state of the operands decides."""


@dataclass(frozen=True, slots=True, eq=False)
class Evaluated:
    """A node's value in each row, shape (rows,): ``data`` is 0 where ``states`` is not KNOWN."""

    data: NDArray[np.int64]
    states: NDArray[np.int8]

    @classmethod
    def from_parts(cls, data: NDArray[np.int64], states: NDArray[np.int8]) -> Evaluated:
        """Build values whose data are set to 0 where they are not known."""
        return cls(np.where(states == KNOWN, data, 0), states)

    @property
    def truth(self) -> NDArray[np.int8]:
        """FALSE 0, UNKNOWN 1 or TRUE 2, of values that are 0 or 1."""
        return np.where(self.states == KNOWN, 2 * self.data, 1).astype(np.int8)


Batch = Mapping[str, "NDArray[Any]"]
"""The cells of each declared attribute in some rows, -1 for OUTSIDE; texts as they are stored."""


class _Rows(dict[str, "NDArray[Any]"]):
    """A batch with the values of its ``Shared`` nodes."""

    __slots__ = ("kept",)

    def __init__(self, rows: Batch) -> None:
        super().__init__(rows)
        self.kept: dict[Shared, Evaluated] = {}


class CellNode(Protocol):
    """A part of a program."""

    def evaluate(self, rows: Batch) -> Evaluated:
        """Compute the value in each row."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """``cell * scale + first`` of a declared value; ``null``: the cell of NULL, or -2."""

    attribute: str
    steps: int
    first: int
    scale: int
    null: int

    def evaluate(self, rows: Batch) -> Evaluated:
        """Compute the value in each row."""
        cells = rows[self.attribute].astype(np.int64)
        states = np.where((cells >= 0) & (cells < self.steps), KNOWN, np.where(cells == self.null, NULL, UNKNOWN))
        return Evaluated.from_parts(cells * self.scale + self.first, states.astype(np.int8))


@dataclass(frozen=True, slots=True, eq=False)
class Lookup:
    """``data`` and ``states`` of each run of cells that begins at ``starts``; the last cell, ``size``, is OUTSIDE."""

    attribute: str
    size: int
    starts: NDArray[np.int64]
    data: NDArray[np.int64]
    states: NDArray[np.int8]

    def evaluate(self, rows: Batch) -> Evaluated:
        """Compute the value in each row."""
        cells = rows[self.attribute].astype(np.int64)
        cells = np.where((cells >= 0) & (cells < self.size), cells, self.size)
        every = len(self.starts) == self.size + 1
        places = cells if every else np.searchsorted(self.starts, cells, side="right") - 1
        return Evaluated(self.data[places], self.states[places])


@dataclass(frozen=True, slots=True, eq=False)
class Fixed:
    """The same value in every row."""

    value: int
    state: np.int8 = KNOWN

    def evaluate(self, rows: Batch) -> Evaluated:
        """Compute the value in each row."""
        size = len(next(iter(rows.values())))
        return Evaluated(np.full(size, self.value, dtype=np.int64), np.full(size, self.state, dtype=np.int8))


@dataclass(frozen=True, slots=True, eq=False)
class Recode:
    """``data[value]`` and ``states[value]`` of a value that is the position of a text, or of a few numbers."""

    inner: CellNode
    data: NDArray[np.int64]
    states: NDArray[np.int8] | None = None

    def evaluate(self, rows: Batch) -> Evaluated:
        """Compute the value in each row."""
        inner = self.inner.evaluate(rows)
        places = np.clip(inner.data, 0, len(self.data) - 1)
        states = inner.states if self.states is None else np.minimum(inner.states, self.states[places])
        return Evaluated.from_parts(self.data[places], states)


@dataclass(frozen=True, slots=True, eq=False)
class Scale:
    """A value times a whole number."""

    inner: CellNode
    factor: int

    def evaluate(self, rows: Batch) -> Evaluated:
        """Compute the value in each row."""
        inner = self.inner.evaluate(rows)
        return Evaluated(inner.data * self.factor, inner.states)


@dataclass(frozen=True, slots=True, eq=False)
class Combine:
    """A sum, difference or product; the quotient towards 0 and its remainder, which are NULL for a divisor of 0."""

    left: CellNode
    op: Literal["+", "-", "*", "//", "%"]
    right: CellNode

    def evaluate(self, rows: Batch) -> Evaluated:
        """Compute the value in each row."""
        left, right = self.left.evaluate(rows), self.right.evaluate(rows)
        states = np.minimum(left.states, right.states)
        if self.op in ("+", "-", "*"):
            compute = {"+": np.add, "-": np.subtract, "*": np.multiply}[self.op]
            return Evaluated.from_parts(compute(left.data, right.data), states)
        states = np.where((states == KNOWN) & (right.data == 0), NULL, states)
        divisor = np.where(right.data == 0, 1, right.data)
        rest = np.fmod(left.data, divisor)
        return Evaluated.from_parts(rest if self.op == "%" else (left.data - rest) // divisor, states)


@dataclass(frozen=True, slots=True, eq=False)
class Shared:
    """A value that a program uses several times: computed once, or nested uses would double the work each time."""

    inner: CellNode

    def evaluate(self, rows: Batch) -> Evaluated:
        """Compute the value in each row."""
        if not isinstance(rows, _Rows):
            return self.inner.evaluate(_Rows(rows))
        if self not in rows.kept:
            rows.kept[self] = self.inner.evaluate(rows)
        return rows.kept[self]


def share(node: CellNode) -> CellNode:
    """Return ``node`` for several uses."""
    return node if isinstance(node, (Fixed, Cell, Lookup, Shared)) else Shared(node)


Rounding = Literal["floor", "ceil", "nearest"]


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """A value times ``factor`` / ``divisor``, as a whole number; halves are rounded away from 0."""

    inner: CellNode
    factor: int
    divisor: int
    how: Rounding

    def evaluate(self, rows: Batch) -> Evaluated:
        """Compute the value in each row."""
        inner = self.inner.evaluate(rows)
        data = inner.data * self.factor
        if self.how == "nearest":
            size = np.abs(data)
            whole, rest = size // self.divisor, size % self.divisor
            return Evaluated(np.sign(data) * (whole + (rest >= self.divisor - rest)), inner.states)
        return Evaluated(data // self.divisor if self.how == "floor" else -(-data // self.divisor), inner.states)


@dataclass(frozen=True, slots=True, eq=False)
class Absolute:
    """The distance from 0; with ``sign``, -1, 0 or 1."""

    inner: CellNode
    sign: bool = False

    def evaluate(self, rows: Batch) -> Evaluated:
        """Compute the value in each row."""
        inner = self.inner.evaluate(rows)
        return Evaluated(np.sign(inner.data) if self.sign else np.abs(inner.data), inner.states)


@dataclass(frozen=True, slots=True, eq=False)
class Choose:
    """The value of the first test that is TRUE, otherwise the last value."""

    tests: tuple[CellNode, ...]
    values: tuple[CellNode, ...]

    def evaluate(self, rows: Batch) -> Evaluated:
        """Compute the value in each row."""
        last = self.values[-1].evaluate(rows)
        data, states = last.data, last.states
        for test, value in zip(reversed(self.tests), reversed(self.values[:-1]), strict=True):
            passed, chosen = test.evaluate(rows).truth == 2, value.evaluate(rows)
            data, states = np.where(passed, chosen.data, data), np.where(passed, chosen.states, states)
        return Evaluated(data, states)


@dataclass(frozen=True, slots=True, eq=False)
class FirstKnown:
    """The first value that is not NULL."""

    values: tuple[CellNode, ...]

    def evaluate(self, rows: Batch) -> Evaluated:
        """Compute the value in each row."""
        *before, last = (value.evaluate(rows) for value in self.values)
        data, states = last.data, last.states
        for one in reversed(before):
            is_null = one.states == NULL
            data, states = np.where(is_null, data, one.data), np.where(is_null, states, one.states)
        return Evaluated(data, states)


@dataclass(frozen=True, slots=True, eq=False)
class RowExtreme:
    """The largest or smallest of the values that are not NULL; not known if one of them is left out."""

    values: tuple[CellNode, ...]
    largest: bool

    def evaluate(self, rows: Batch) -> Evaluated:
        """Compute the value in each row."""
        first, *others = (value.evaluate(rows) for value in self.values)
        data, states = first.data, first.states
        pick = np.maximum if self.largest else np.minimum
        for one in others:
            best = np.where(states == NULL, one.data, np.where(one.states == NULL, data, pick(data, one.data)))
            both = (states != NULL) & (one.states != NULL)
            states = np.where(both, np.minimum(states, one.states), np.maximum(states, one.states))
            data = np.where(states == KNOWN, best, 0)
        return Evaluated(data, states)


@dataclass(frozen=True, slots=True, eq=False)
class CellComparison:
    """Whether one value is equal to, or less than, another; not known if a side is not."""

    left: CellNode
    op: Literal["=", "<", "<="]
    right: CellNode

    def evaluate(self, rows: Batch) -> Evaluated:
        """Compute the value in each row."""
        left, right = self.left.evaluate(rows), self.right.evaluate(rows)
        compare = {"=": np.equal, "<": np.less, "<=": np.less_equal}[self.op]
        states = np.minimum(left.states, right.states)
        return Evaluated.from_parts(compare(left.data, right.data).astype(np.int64), states)


@dataclass(frozen=True, slots=True, eq=False)
class NullTest:
    """Whether a value is NULL; not known for rows that the declaration leaves out."""

    inner: CellNode

    def evaluate(self, rows: Batch) -> Evaluated:
        """Compute the value in each row."""
        states = self.inner.evaluate(rows).states
        known = np.where(states == UNKNOWN, UNKNOWN, KNOWN).astype(np.int8)
        return Evaluated((states == NULL).astype(np.int64), known)


@dataclass(frozen=True, slots=True, eq=False)
class TruthValue:
    """The truth of ``test`` as a value: where it is UNKNOWN, NULL, or left out if one of ``sides`` is."""

    test: CellNode
    sides: tuple[CellNode, ...]

    def evaluate(self, rows: Batch) -> Evaluated:
        """Compute the value in each row."""
        found = self.test.evaluate(rows)
        left_out = np.zeros(len(found.states), dtype=bool)
        for side in self.sides:
            left_out |= side.evaluate(rows).states == UNKNOWN
        states = np.where(found.states == KNOWN, KNOWN, np.where(left_out, UNKNOWN, NULL)).astype(np.int8)
        return Evaluated.from_parts(found.data, states)


@dataclass(frozen=True, slots=True, eq=False)
class Opposite:
    """NOT."""

    inner: CellNode

    def evaluate(self, rows: Batch) -> Evaluated:
        """Compute the value in each row."""
        inner = self.inner.evaluate(rows)
        return Evaluated.from_parts(1 - inner.data, inner.states)


@dataclass(frozen=True, slots=True, eq=False)
class Joined:
    """AND of ``parts``, or OR with ``any_of``, in three-valued logic; there is at least one part."""

    parts: tuple[CellNode, ...]
    any_of: bool

    def evaluate(self, rows: Batch) -> Evaluated:
        """Compute the value in each row."""
        truths = [part.evaluate(rows).truth for part in self.parts]
        found = np.max(truths, axis=0) if self.any_of else np.min(truths, axis=0)
        return Evaluated((found == 2).astype(np.int64), np.where(found == 1, UNKNOWN, KNOWN).astype(np.int8))


@dataclass(frozen=True, slots=True, eq=False)
class Computed:
    """The cells of a computed attribute: ``node`` minus ``first``, of ``steps`` values; ``null``: the cell of NULL.

    ``inputs``: the declared attributes of which the program is a function. ``text``: the expression. ``identity``:
    a digest that differs for expressions that may differ in a value. ``is_test``: a result that is not known has the
    cell of NULL, since both are UNKNOWN.
    """

    text: str
    identity: str
    inputs: tuple[str, ...]
    node: CellNode
    first: int
    steps: int
    null: int
    is_test: bool = False

    def compute_cells(self, rows: Batch) -> NDArray[np.int64]:
        """Compute the cell of each row, shape (rows,): 0..steps-1, the cell of NULL, or -1 for OUTSIDE.

        It lies in that range whatever the cells of ``rows``, so bounds derived from the range hold for every row.
        """
        found = self.node.evaluate(_Rows(rows))
        cells = found.data - self.first
        inside = (found.states == KNOWN) & (cells >= 0) & (cells < self.steps)
        is_null = found.states == NULL
        if self.is_test:
            is_null |= found.states == UNKNOWN
        return np.where(inside, cells, np.where(is_null, self.null, -1))
