"""Opening of a declared table: its source, its engine, and the table that holds both."""

from __future__ import annotations

from siloquent.data.sources import open_source
from siloquent.data.table import PermitChecker, PrivateTable
from siloquent.schema import TableSchema
from siloquent.schema.workspace import Workspace


def open_table(
    schema: TableSchema, workspace: Workspace | None, permits: PermitChecker, *, salt: str, frame: object | None = None
) -> PrivateTable:
    """Return the private table that ``schema`` declares.

    Args:
        workspace: The base of relative paths and the list of named databases; None for frames.
        permits: The ledger that pays.
        salt: Hex text, fixed for the table and epoch.
        frame: An Arrow, pandas or polars object that holds the rows; otherwise they are at ``schema.source``.
    Raises:
        SchemaError: the source is declared incorrectly, does not exist, or does not fit the declaration.
        MissingExtra: the source needs a package that is not installed.
        DataError: the source exists but cannot be read.
    """
    engine = open_source(schema, workspace, frame=frame)
    try:
        return PrivateTable(schema, engine, permits, salt=salt)
    except BaseException:  # allowed: whatever went wrong, the engine is let go and it is raised again
        engine.close()
        raise
