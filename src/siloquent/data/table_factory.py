"""Opening of a declared table: its source, its engine, and the table that holds both."""

from __future__ import annotations

from collections.abc import Mapping

from siloquent.data.engines.base import Engine
from siloquent.data.sources import open_source
from siloquent.data.sources.engine_factory import open_related
from siloquent.data.table import PermitChecker, PrivateTable
from siloquent.schema import TableSchema
from siloquent.schema.workspace import Workspace


def open_table(
    schema: TableSchema,
    workspace: Workspace | None,
    permits: PermitChecker,
    *,
    salt: str,
    frame: object | None = None,
    beside: Mapping[str, object] | None = None,
) -> PrivateTable:
    """Return the private table that ``schema`` declares.

    Args:
        workspace: The base of relative paths and the list of named databases; None for frames.
        permits: The ledger that pays.
        salt: Hex text, fixed for the table and epoch.
        frame: An Arrow, pandas or polars object that holds the rows; otherwise they are at ``schema.source``.
        beside: The same for tables whose rows are looked up, by their names.
    Raises:
        SchemaError: the source is declared incorrectly, does not exist, or does not fit the declaration.
        MissingExtra: the source needs a package that is not installed.
        DataError: the source exists but cannot be read.
    """
    if not schema.related:
        engine: Engine = open_source(schema, workspace, frame=frame)
    else:
        engine = open_related(schema, workspace, frame, beside or {})
    try:
        return PrivateTable(schema, engine, permits, salt=salt)
    except BaseException:  # allowed: whatever went wrong, the engine is let go and it is raised again
        engine.close()
        raise
