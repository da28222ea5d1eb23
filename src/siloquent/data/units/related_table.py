"""A table's rows with the attributes that follow from related tables, under the same account and permits."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from siloquent.data.table import PrivateTable
from siloquent.data.units.related_rows import RelatedEngine
from siloquent.schema import Domain

if TYPE_CHECKING:
    from siloquent.schema import TableSchema


MAX_KEPT = 2
"""The questions with conditions on other tables whose rows are kept."""


def relate(schema: TableSchema, table: PrivateTable) -> PrivateTable:
    """Return the rows of ``table`` with the attributes that ``schema`` looks up. Reads nothing.

    Those of the newest questions are kept with their rows.

    Args:
        schema: That of a plan for ``table``, with ``looked_up``.
    """
    with table._lock:
        found = table._related.pop(schema.domain.relation, None) or RelatedTable(schema, table)
        table._related[schema.domain.relation] = found
        while len(table._related) > MAX_KEPT:
            del table._related[next(iter(table._related))]
    return found


class RelatedTable(PrivateTable):
    """The rows of ``table`` with the attributes that ``schema`` looks up; they are kept once measured, if they fit.

    Its exact numbers need permits of the table's account, as the table's own do. Nothing is read when it is made.
    """

    __slots__ = ()

    def __init__(self, schema: TableSchema, table: PrivateTable) -> None:
        assert isinstance(table._engine, RelatedEngine)
        declared = schema.declared
        added = tuple(one.attribute for one in schema.looked_up)
        rows = replace(declared, domain=Domain((*declared.domain, *added)), looked_up=schema.looked_up)
        super().__init__(rows, table._engine.look_up_rows(schema.looked_up), table._permits, salt=table._salt)
