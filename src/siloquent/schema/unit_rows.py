"""Rows of persons: one row for each unit of a table, computed from all rows of that unit and from nothing else.

Whatever the rows are, adding or removing a unit adds or removes one row. Proof:
docs/explanation/per-person-subqueries.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from siloquent.schema.attribute import Attribute
    from siloquent.schema.domain import Block

UnitFunction = Literal["count", "distinct", "sum", "least", "largest"]


@dataclass(frozen=True, slots=True)
class ComparedColumns:
    """``left op right`` of two attributes with the same grid; false without a value.

    ``offset``: the number of steps from the first value of ``right`` to that of ``left``.
    """

    left: str
    op: Literal["=", "!=", "<", "<=", ">", ">="]
    right: str
    offset: int


@dataclass(frozen=True, slots=True, eq=False)
class RowTest:
    """The rows that pass a condition: ``groups`` has 0 for the cells of ``block`` that do, and -1 for others.

    ``compared``: comparisons that hold as well.
    """

    block: Block
    groups: NDArray[np.int64]
    compared: tuple[ComparedColumns, ...] = ()

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes that the condition is about, each once."""
        compared = (name for one in self.compared for name in (one.left, one.right))
        return tuple(dict.fromkeys((*self.block.attributes, *compared)))


@dataclass(frozen=True, slots=True, eq=False)
class UnitColumn:
    """A number of each unit: ``function`` of the declared ``argument`` over its rows that pass ``test``.

    Numbers beyond the bounds of ``attribute`` become the bound; SUM, MIN and MAX of no value are NULL.
    """

    attribute: Attribute
    function: UnitFunction
    argument: str = ""
    test: RowTest | None = None


@dataclass(frozen=True, slots=True, eq=False)
class UnitRows:
    """One row with ``columns`` for each unit that has a row which passes ``test``.

    ``identity``: a digest of everything that determines the rows of a unit from its rows in the table.
    """

    identity: str
    columns: tuple[UnitColumn, ...]
    test: RowTest | None = None
