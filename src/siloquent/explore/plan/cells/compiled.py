"""A workload without data: the cells to count, and the integer matrix that turns counts into answers."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from siloquent.maths.sensitivity.linear import Sensitivity
from siloquent.schema import Attribute, Block

Integers = NDArray[np.int64]
_AT_ONCE = 250_000  # weights


@dataclass(frozen=True, slots=True, eq=False)
class WorkloadPart:
    """One block of a workload.

    ``column`` maps the block's cells to columns, -1 for cells that no predicate counts. ``weights``: the columns that
    each answer adds up, 0 or 1, shape (answers, columns); None if every column is an answer by itself, as in GROUP BY,
    or, if ``running``, if every answer adds up all columns up to its own: too many for a matrix.
    """

    block: Block
    column: Integers
    columns: int
    weights: NDArray[np.int8] | None = None
    running: bool = False

    @property
    def matrix(self) -> Integers:
        """W_B, shape (answers, columns)."""
        assert not self.running  # tens of thousands of columns
        if self.weights is None:
            return np.eye(self.columns, dtype=np.int64)
        return self.weights.astype(np.int64)

    @property
    def bytes(self) -> int:
        """The approximate size in bytes."""
        return self.column.nbytes + (0 if self.weights is None else self.weights.nbytes)

    def build_rows(self, low: int, high: int) -> NDArray[np.float64]:
        """Build some rows of W_B, shape (high - low, columns)."""
        if self.weights is not None:
            return self.weights[low:high].astype(np.float64)
        own, columns = np.arange(low, high)[:, None], np.arange(self.columns)
        return np.asarray(columns <= own if self.running else columns == own, dtype=np.float64)

    def add_up(self, columns: NDArray[Any]) -> NDArray[Any]:
        """Compute W_B ``columns``."""
        if self.weights is not None:  # multiplication widens the numbers, so some rows at a time
            size = max(1, _AT_ONCE // max(1, self.columns))
            lows = range(0, max(1, len(self.weights)), size)
            return np.concatenate([self.weights[low : low + size] @ columns for low in lows])
        return np.cumsum(columns) if self.running else columns

    def fold(self, cells: NDArray[Any]) -> NDArray[Any]:
        """Add up cell numbers into columns, shape (columns,)."""
        folded = np.zeros(self.columns, dtype=cells.dtype)
        counted = self.column >= 0
        np.add.at(folded, self.column[counted], cells[counted])
        return folded


@dataclass(frozen=True, slots=True)
class SummedAttribute:
    """The number that is summed, in units of ``quantum`` grid steps.

    A row adds (place + ``offset``)^``power`` grid steps, which lie in [``lowest``, ``highest``] units. ``offset`` is lo
    in grid steps, or the value that puts the centre at 0; ``grid`` is the size of a step of the added numbers.
    ``computed``: the attribute with these bounds, if a query's expression is summed.
    """

    attribute: str
    grid: Fraction
    offset: int
    lowest: int
    highest: int
    quantum: int = 1
    power: int = 1
    computed: Attribute | None = None

    @property
    def largest(self) -> int:
        """The largest absolute value of a row, in units."""
        return max(abs(self.lowest), abs(self.highest))


@dataclass(frozen=True, slots=True, eq=False)
class DistinctUnits:
    """The units with a row in each answer's cells: each in at most ``groups_each`` answers.

    ``groups``: the answer of each cell of the only part, -1 for none, shape (cells,).
    """

    attribute: str
    groups_each: int
    groups: Integers


@dataclass(frozen=True, slots=True)
class DistinctValues:
    """The values of which an answer's rows have one; the only part has ``values`` columns for each answer, in order."""

    attribute: str
    values: int


@dataclass(frozen=True, slots=True, eq=False)
class CompiledWorkload:
    """A query's request to the declared cells; independent of rows.

    ``labels``: each answer's key values, named by ``keys``. ``summed``: None for counts. ``slack``: the maximum error
    of an exact answer because columns were rounded, in units. ``value_step``: for a quantile, the
    number of declared values in each column. ``distinct``: for COUNT(DISTINCT a), what is counted; its answers are not
    linear in the counts of cells.
    """

    parts: tuple[WorkloadPart, ...]
    keys: tuple[str, ...]
    labels: tuple[tuple[Any, ...], ...]
    nested: bool
    disjoint: bool
    sensitivity: Sensitivity
    monotone: bool
    replace_one: bool
    rows: int
    summed: SummedAttribute | None = None
    slack: Fraction = Fraction(0)
    value_step: int = 1
    distinct: DistinctUnits | DistinctValues | None = None
    shape: str = field(init=False, default="")
    """SHA-256 of the matrices, under which strategies are cached."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", self._compute_digest())

    @property
    def answers(self) -> int:
        """L, the number of answers."""
        return len(self.labels)

    @property
    def values(self) -> int:
        """The number of values per group among which a quantile chooses."""
        return self.parts[0].columns // self.answers

    @property
    def attribute(self) -> str:
        """The summed attribute, "" for counts."""
        return "" if self.summed is None or self.summed.power == 0 else self.summed.attribute

    @property
    def offset(self) -> int:
        """lo of the summed number in grid steps, 0 for counts."""
        return 0 if self.summed is None else self.summed.offset

    @property
    def grid(self) -> Fraction:
        """The unit of the answers: 1 for counts, some grid steps for sums."""
        return Fraction(1) if self.summed is None else self.summed.grid * self.summed.quantum

    @property
    def largest(self) -> int:
        """The largest absolute value of a row, in units; 1 for counts."""
        return 1 if self.summed is None else self.summed.largest

    @property
    def spread(self) -> int:
        """The most by which one unit changes one answer more than another; choices among answers depend on it only."""
        if self.summed is None:
            return self.sensitivity.linf * (1 if self.monotone else 2)
        # A row adds its value to an answer or does not; so does the row that it replaces, if any.
        return self.rows * self.largest * (2 if self.replace_one else 1)

    @property
    def bytes(self) -> int:
        """The approximate size in bytes."""
        return sum(part.bytes for part in self.parts) + 200 * len(self.labels)

    def _compute_digest(self) -> str:
        digest = hashlib.sha256()
        for part in self.parts:
            running = (True,) if part.running else ()  # a shape without them keeps its digest, and thus its strategy
            digest.update(repr((self.answers, part.columns, part.weights is None, *running)).encode())
            if part.weights is not None:
                digest.update(np.packbits(part.weights.astype(bool)).tobytes())
        return digest.hexdigest()
