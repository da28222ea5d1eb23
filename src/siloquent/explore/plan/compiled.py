"""A workload without data: which cells to count, and the whole matrix that turns counts into answers."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from siloquent.maths.sensitivity import Sensitivity
from siloquent.schema import Block

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """One block of a workload.

    ``column`` maps the block's cells to the columns of ``matrix``, -1 for cells that no predicate counts;
    ``matrix`` has shape (answers, columns) and is 0 or 1.
    """

    block: Block
    column: Integers
    matrix: Integers

    def fold(self, cells: Integers) -> Integers:
        """Cell numbers added up into the matrix's columns, shape (columns,)."""
        folded = np.zeros(self.matrix.shape[1], dtype=np.int64)
        counted = self.column >= 0
        np.add.at(folded, self.column[counted], cells[counted])
        return folded


@dataclass(frozen=True, slots=True, eq=False)
class Compiled:
    """What a query asks of the declared cells; nothing in it depends on rows.

    ``labels``: for each answer its key values, named by ``keys``. ``attribute``: what is summed, "" for counts; then
    ``grid`` is its step, ``offset`` is lo / grid, and ``lowest``, ``highest`` bound a row's value in steps.
    """

    parts: tuple[Part, ...]
    keys: tuple[str, ...]
    labels: tuple[tuple[Any, ...], ...]
    nested: bool
    disjoint: bool
    sensitivity: Sensitivity
    monotone: bool
    replace_one: bool
    rows: int
    attribute: str = ""
    grid: Fraction = Fraction(1)
    offset: int = 0
    lowest: int = 0
    highest: int = 1
    shape: str = field(init=False, default="")
    """SHA-256 of matrices and sensitivities: strategies and prices are remembered under it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", self._digest())

    @property
    def answers(self) -> int:
        """L, the number of answers."""
        return len(self.labels)

    @property
    def largest(self) -> int:
        """The largest absolute value of a row, in grid steps; 1 for counts."""
        return max(abs(self.lowest), abs(self.highest)) if self.attribute else 1

    def _digest(self) -> str:
        digest = hashlib.sha256()
        for part in self.parts:
            digest.update(repr(part.matrix.shape).encode())
            digest.update(np.packbits(part.matrix.astype(bool)).tobytes())
        digest.update(repr((self.sensitivity, self.monotone, self.replace_one, self.rows, self.largest)).encode())
        return digest.hexdigest()
