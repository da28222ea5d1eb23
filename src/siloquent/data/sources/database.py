"""DuckDB files: one table of the file, attached read-only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sqlglot import exp

from siloquent.data.engines.base import SOURCE
from siloquent.data.sources.files import SourceFile, read_first_bytes
from siloquent.errors import SchemaError, UnknownName
from siloquent.schema.files.coercion import EARLIEST, LATEST

if TYPE_CHECKING:
    import duckdb

MAGIC = b"DUCK"


def attach_database(
    connection: duckdb.DuckDBPyConnection, file: SourceFile, inner: str, kinds: Mapping[str, str], *, table: str
) -> None:
    """Make ``SOURCE`` the rows of the table ``inner`` of a DuckDB file.

    A view is a program by the author of the file: it may have endless rows, or derive many rows from one or one from
    many, so that a unit affects more than it is charged for.

    Args:
        kinds: The columns that will be read, and the kinds of their attributes.
        inner: ``TABLE`` or ``SCHEMA.TABLE``.
    Raises:
        SchemaError: the file is not a DuckDB file, or a table is not named, or a view is.
        UnknownName: there is no such table (with suggestions).
    """
    known = _attach(connection, file, table=table)
    if not inner:
        raise SchemaError(f"The source of {table!r} does not name a table.", fix='source = "duckdb:FILE#TABLE"')
    if inner not in known:
        raise UnknownName(f"table in the source of {table!r}", inner, known)
    if known[inner][2] != "BASE TABLE":
        raise SchemaError(
            f"The source of {table!r} is a view; a row of a view may combine rows of several people: {inner[:200]!r}.",
            fix=f"create a table from it in the file: CREATE TABLE {table} AS SELECT ... FROM the view",
        )
    if _has_computed_column(connection, *known[inner][:2]):
        raise SchemaError(
            f"The source of {table!r} has a computed column, which may exceed any memory limit: {inner[:200]!r}.",
            fix=f"create a table from it in the file: CREATE TABLE {table} AS SELECT * FROM the table",
        )
    place = exp.table_(known[inner][1], db=known[inner][0], catalog="origin", quoted=True).sql("duckdb")
    moments = {column.casefold() for column, kind in kinds.items() if kind in ("date", "datetime")}
    described = connection.execute(f"DESCRIBE {place}").fetchall()
    shown = ", ".join(_render_column(str(name), str(kind), name.casefold() in moments) for name, kind, *_ in described)
    connection.execute(f"CREATE VIEW {SOURCE} AS SELECT {shown} FROM {place}")


def list_database_tables(connection: duckdb.DuckDBPyConnection, file: SourceFile, *, table: str) -> list[str]:
    """Return the names of the tables, without views, of a DuckDB file.

    Raises:
        SchemaError: the file is not a DuckDB file.
    """
    known = _attach(connection, file, table=table)
    connection.execute("DETACH origin")
    return [name for name, (_, _, kind) in known.items() if kind == "BASE TABLE"]


def _attach(connection: duckdb.DuckDBPyConnection, file: SourceFile, *, table: str) -> dict[str, tuple[str, str, str]]:
    """Attach a DuckDB file as ``origin``; return the schema, name and kind of its tables by their names in a source."""
    if read_first_bytes(file, 12)[8:] != MAGIC:
        raise SchemaError(f"The source of {table!r} is not a DuckDB file.", fix="check the file, or its kind")
    path = exp.Literal.string(file.path).sql("duckdb")
    connection.execute(f"ATTACH {path} AS origin (READ_ONLY)")
    rows = connection.execute(
        "SELECT table_schema, table_name, table_type FROM information_schema.tables WHERE table_catalog = 'origin'"
    ).fetchall()
    return {name if schema == "main" else f"{schema}.{name}": (schema, name, kind) for schema, name, kind in rows}


def _render_column(column: str, kind: str, is_moment: bool) -> str:
    quoted = exp.to_identifier(column, quoted=True).sql("duckdb")
    if kind == "VARCHAR":  # compared by its bytes: a collation in the file would merge users whose ids differ in case
        return f"{quoted} COLLATE C AS {quoted}"
    if is_moment and kind in ("TIMESTAMP_S", "TIMESTAMP_MS"):
        # These types hold years outside the range of TIMESTAMP on both sides.
        lo, hi = (f"CAST('{bound}' AS {kind})" for bound in (EARLIEST, LATEST.replace(microsecond=0)))
        bounded = f"CASE WHEN {quoted} IS NOT NULL THEN LEAST(GREATEST({quoted}, {lo}), {hi}) END"
        return f"{bounded} AS {quoted}"
    return quoted


def _has_computed_column(connection: duckdb.DuckDBPyConnection, schema: str, name: str) -> bool:
    """Return whether a table's definition has a column that is recomputed each time it is read."""
    (text,) = connection.execute(
        "SELECT sql FROM duckdb_tables() WHERE database_name = 'origin' AND schema_name = ? AND table_name = ?",
        [schema, name],
    ).fetchall()
    return "GENERATED ALWAYS" in str(text[0]).upper()
