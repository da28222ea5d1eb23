"""DuckDB files: one table of the file, attached for reading only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from siloquent.data.engines.base import SOURCE
from siloquent.data.sources.files import SourceFile, first_bytes
from siloquent.errors import SchemaError, UnknownName

if TYPE_CHECKING:
    import duckdb

MAGIC = b"DUCK"


def attach_database(connection: duckdb.DuckDBPyConnection, file: SourceFile, inner: str, *, table: str) -> None:
    """Make ``SOURCE`` the rows of the table or view ``inner`` of a DuckDB file.

    Args:
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
    # Texts are compared by their bytes: a collation of the file's would melt users whose ids differ in case.
    shown = ", ".join(
        f"{quoted} COLLATE C AS {quoted}" if kind == "VARCHAR" else quoted
        for quoted, kind in (
            (exp.to_identifier(str(row[0]), quoted=True).sql("duckdb"), str(row[1]))
            for row in connection.execute(f"DESCRIBE {place}").fetchall()
        )
    )
    connection.execute(f"CREATE VIEW {SOURCE} AS SELECT {shown} FROM {place}")
