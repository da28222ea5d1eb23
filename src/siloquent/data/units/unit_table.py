"""The rows of a table's units, one each, as a private table of their own: under the same account and permits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from siloquent.data.grouped_counts import KEPT
from siloquent.data.sql.indices import quote_name
from siloquent.data.table import PrivateTable
from siloquent.data.units.unit_rows import build_unit_rows, list_unit_columns
from siloquent.errors import RequestError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from siloquent.data.cell_queries import Request
    from siloquent.data.computed_columns import ComputedColumn
    from siloquent.data.grouped_counts import GroupedCount
    from siloquent.data.sql.indices import SourceColumn
    from siloquent.schema import TableSchema


class UnitTable(PrivateTable):
    """The units' rows: computed anew for each measurement, so that none are kept.

    Its exact numbers need permits of the table's account, as the table's own do. Nothing is read when it is made.

    Args:
        schema: That of the units' rows, with ``grouped``.
        table: The table whose units they are.
    """

    __slots__ = ("_grouped_rows", "_prepare")

    def __init__(self, schema: TableSchema, table: PrivateTable) -> None:
        assert schema.grouped is not None
        self._open(schema, table._engine, table._permits, tuple(list_unit_columns(schema.grouped)))
        self._grouped_rows = build_unit_rows(schema.grouped, table._find_column, table._find_column(schema.unit.column))
        self._prepare = table._look_up

    def _run_scans(
        self, scans: list[GroupedCount], summed: SourceColumn | ComputedColumn | None
    ) -> list[NDArray[np.int64]]:
        self._prepare()
        return self._scan_rows(scans, summed, self._grouped_rows.subquery(KEPT), in_memory=True)

    def _run_together(self, requests: Sequence[Request]) -> list[list[NDArray[np.int64]]]:
        return [self._run_scans(*one) for one in requests]

    def _select_rows(self, chosen: list[SourceColumn]) -> exp.Query:
        self._prepare()
        if any(not column.attribute.is_countable for column in chosen):
            raise RequestError("The rows of units have only indices.")
        shown = (quote_name(column.index_name) for column in chosen)
        return exp.select(*shown).from_(self._grouped_rows.subquery(KEPT))
