"""Attributes of a table's rows that follow from the rows of another table that belong to the same unit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from siloquent.schema.attribute import Attribute
    from siloquent.schema.unit_rows import ComparedColumns, RowTest


@dataclass(frozen=True, slots=True, eq=False)
class RelatedColumn:
    """Whether a row of ``table`` passes ``test``, has the row's unit, and equals it in the pairs ``on``.

    ``compared``: an attribute of the row, left, and one of that table's row, right, that compare as asked, too.
    ``attribute``: the boolean that it is. Proof: docs/explanation/related-rows.md.
    """

    attribute: Attribute
    table: str
    on: tuple[tuple[str, str], ...] = ()
    test: RowTest | None = None
    compared: ComparedColumns | None = None
