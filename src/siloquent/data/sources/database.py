"""DuckDB files: one table of the file, attached for reading only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sqlglot import exp

from siloquent.data.engines.base import SOURCE
from siloquent.data.sources.files import SourceFile, first_bytes
from siloquent.errors import SchemaError, UnknownName
from siloquent.schema.reading import EARLIEST, LATEST

if TYPE_CHECKING:
    import duckdb

MAGIC = b"DUCK"


def attach_database(
    connection: duckdb.DuckDBPyConnection, file: SourceFile, inner: str, kinds: Mapping[str, str], *, table: str
) -> None:
    """Make ``SOURCE`` the rows of the table or view ``inner`` of a DuckDB file.

    Args:
        kinds: The columns that will be read, and the kinds of their attributes.
        inner: ``TABLE`` or ``SCHEMA.TABLE``.
    Raises:
        SchemaError: It is not a DuckDB file, or no table is named.
        UnknownName: There is no such table (did you mean).
    """
    if first_bytes(file, 12)[8:] != MAGIC:
        raise SchemaError(f"The source of {table!r} is not a DuckDB file.", fix="check the file, or its kind")
    if not inner:
        raise SchemaError(f"The source of {table!r} names no table.", fix='source = "duckdb:FILE#TABLE"')
    path = exp.Literal.string(file.path).sql("duckdb")
    connection.execute(f"ATTACH {path} AS origin (READ_ONLY)")
    rows = connection.execute(
        "SELECT table_schema, table_name FROM information_schema.tables WHERE table_catalog = 'origin'"
    ).fetchall()
    known = {name if schema == "main" else f"{schema}.{name}": (schema, name) for schema, name in rows}
    if inner not in known:
        raise UnknownName(f"table in the source of {table!r}", inner, known)
    place = exp.table_(known[inner][1], db=known[inner][0], catalog="origin", quoted=True).sql("duckdb")
    moments = {column.casefold() for column, kind in kinds.items() if kind in ("date", "datetime")}
    described = connection.execute(f"DESCRIBE {place}").fetchall()
    shown = ", ".join(_shown(str(name), str(kind), name.casefold() in moments) for name, kind, *_ in described)
    connection.execute(f"CREATE VIEW {SOURCE} AS SELECT {shown} FROM {place}")


def _shown(column: str, kind: str, is_moment: bool) -> str:
    quoted = exp.to_identifier(column, quoted=True).sql("duckdb")
    if kind == "VARCHAR":  # compared by its bytes: a collation of the file's would melt users whose ids differ in case
        return f"{quoted} COLLATE C AS {quoted}"
    if is_moment and kind in ("TIMESTAMP_S", "TIMESTAMP_MS"):
        # These hold years that TIMESTAMP does not, on either side.
        lo, hi = (f"CAST('{bound}' AS {kind})" for bound in (EARLIEST, LATEST.replace(microsecond=0)))
        bounded = f"CASE WHEN {quoted} IS NOT NULL THEN LEAST(GREATEST({quoted}, {lo}), {hi}) END"
        return f"{bounded} AS {quoted}"
    return quoted
