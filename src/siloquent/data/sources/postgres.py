"""PostgreSQL tables: declared columns as text, in one read-only transaction, kept as Arrow in this process.

The reasons against DuckDB's extension and against aggregation in PostgreSQL: docs/decisions/data-postgres.md.
"""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from siloquent.data.engines.base import ReadLimits, hide_failures
from siloquent.data.sources.encodings import decode_texts, find_codec
from siloquent.errors import MissingExtra, SchemaError, UnknownName
from siloquent.schema.formats.source_kinds import SourceKind

if TYPE_CHECKING:
    import psycopg
    import pyarrow as pa

    from siloquent.data.engines.duckdb import Streamable
    from siloquent.schema.workspace import Workspace

TIMEOUT_SECONDS = 600
MAX_SECRET = 10_000
_SETTINGS = (
    "TimeZone = 'UTC'",
    "DateStyle = 'ISO'",
    "extra_float_digits = 1",
    f"statement_timeout = {TIMEOUT_SECONDS}000",
)
_READABLE = (
    "c.relkind IN ('r', 'p', 'v', 'm', 'f') AND "
    "(has_table_privilege(c.oid, 'SELECT') OR has_any_column_privilege(c.oid, 'SELECT'))"
)
_TABLES = (
    "SELECT n.nspname, c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
    f"WHERE {_READABLE} AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_' ORDER BY 1, 2 LIMIT 1000"
).encode()
# A domain has the type under it, through any number of domains.
_COLUMNS = (
    "WITH RECURSIVE held AS (SELECT a.attnum, a.attname, a.atttypid AS of FROM pg_catalog.pg_attribute a "
    "JOIN pg_catalog.pg_class c ON c.oid = a.attrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
    f"WHERE n.nspname = %s AND c.relname = %s AND a.attnum > 0 AND NOT a.attisdropped AND {_READABLE} "
    "AND has_column_privilege(c.oid, a.attnum, 'SELECT') "
    "UNION ALL SELECT h.attnum, h.attname, t.typbasetype FROM held h "
    "JOIN pg_catalog.pg_type t ON t.oid = h.of AND t.typtype = 'd') "
    "SELECT h.attname, t.typname, t.typcategory, format_type(t.oid, NULL) FROM held h "
    "JOIN pg_catalog.pg_type t ON t.oid = h.of AND t.typtype <> 'd' ORDER BY h.attnum"
).encode()
_KINDS: dict[str, SourceKind] = {
    **dict.fromkeys(("int2", "int4", "int8"), "integer"),
    "numeric": "decimal",
    **dict.fromkeys(("float4", "float8"), "real"),
    "bool": "boolean",
    "uuid": "text",
    "date": "date",
    **dict.fromkeys(("timestamp", "timestamptz"), "datetime"),
}


def _get_kind(name: str, category: str) -> SourceKind:
    """Return the kind of column for a PostgreSQL type; texts (S) and enumerations (E) are known by category."""
    return _KINDS.get(name, "text" if category in ("S", "E") else "other")


class PostgresTable:
    """One table or view of a named database, known by its columns until its rows are requested.

    Materialised views, partitioned and foreign tables also count as tables.

    Args:
        listed: Columns whose values are listed: there a text that is too long is not listed, otherwise it is NULL.
        name: The database's name in ``siloquent.toml``.
        inner: ``TABLE`` (of schema public) or ``SCHEMA.TABLE``.
    Raises:
        SchemaError, UnknownName: the database or the table is not declared, or its connection text is unavailable.
        MissingExtra: psycopg is not installed.
        DataError: the server cannot be reached.
    """

    def __init__(
        self,
        workspace: Workspace | None,
        name: str,
        inner: str,
        wanted: Sequence[str],
        limits: ReadLimits,
        *,
        table: str,
        listed: Sequence[str] = (),
    ) -> None:
        if not inner:
            raise SchemaError(
                f"The source of {table!r} does not name a table.", fix=f'source = "postgres:{name}#TABLE"'
            )
        schema, _, relation = inner.rpartition(".")
        self._dsn = read_connection_text(workspace, name, table=table)
        self._relation, self._limits = (schema or "public", relation), limits
        self.types, known, self._encoding = self._inspect_table()
        self._codec = find_codec(self._encoding, table=table)
        columns = list(self.types)
        if not columns:
            raise UnknownName(f"table in the source of {table!r}", inner, known)
        folded = {column.casefold() for column in wanted}
        self._columns = columns
        self._listed = {column.casefold() for column in listed}
        self._wanted = [column for column in columns if column.casefold() in folded]

    def build_empty_table(self) -> pa.Table:
        """Return all columns without rows."""
        import pyarrow as pa

        return pa.table({name: pa.array([], pa.string()) for name in self._columns})

    @hide_failures
    def open_rows(self) -> Streamable:
        """Return the rows with the declared columns, as text of at most ``limits.value_bytes``; see ``listed``.

        They are kept in memory if they fit, otherwise fetched each time they are read. The number of rows must not
        decide whether there is an answer.
        """
        import pyarrow as pa

        batches, size = [], 0
        for batch in self._read_batches():
            batches.append(batch)
            size += batch.nbytes
            if size > self._limits.kept_bytes:
                return self
        found: Streamable = pa.Table.from_batches(batches, self._sent)
        return found

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the current rows."""
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(self._sent, self._read_batches()).__arrow_c_stream__(requested_schema)

    @property
    def _sent(self) -> pa.Schema:
        import pyarrow as pa

        return pa.schema([(name, pa.string()) for name in self._wanted or ["nothing"]])

    def _read_batches(self) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        with self._open_connection() as connection, connection.cursor() as cursor:
            # Texts are sent as stored and decoded here: asked for UTF-8, the server fails on the first text that has no
            # equivalent, and so for all rows.
            cursor.execute(f"SET LOCAL client_encoding = '{self._encoding}'".encode())
            with cursor.copy(self._build_copy_statement()) as copy:
                for batch in _parse_blocks(iter(copy), self._sent.names, self._limits):
                    texts = [decode_texts(column, self._codec) for column in batch]
                    yield from pa.table(texts, batch.schema.names).to_batches()

    @hide_failures
    def _inspect_table(self) -> tuple[dict[str, tuple[SourceKind, str]], list[str], str]:
        """Return each column's kind and type in order, the tables that this role can read, and the database's encoding.

        ``information_schema`` leaves out materialised views and says "ARRAY" or "USER-DEFINED" for many types.
        """
        with self._open_connection() as connection:
            columns = connection.execute(_COLUMNS, self._relation).fetchall()
            known = connection.execute(_TABLES).fetchall()
            encoding = connection.info.parameter_status("server_encoding") or ""
        names = [name if schema == "public" else f"{schema}.{name}" for schema, name in known]
        types = {str(name): (_get_kind(str(of), str(category)), str(holds)) for name, of, category, holds in columns}
        return types, names, encoding

    def _build_copy_statement(self) -> bytes:
        """Return the statement that sends the rows as CSV: NULL is an empty cell, everything else is quoted."""
        cells = []
        for name in self._wanted:
            text = exp.cast(exp.column(exp.to_identifier(name, quoted=True)), "TEXT")
            most = exp.Literal.number(self._limits.value_bytes)
            long: exp.Expr = exp.GT(this=exp.Anonymous(this="OCTET_LENGTH", expressions=[text]), expression=most)
            if self.types[name][0] == "other":  # written as text, it may be longer than any text can be
                stored = exp.Anonymous(this="PG_COLUMN_SIZE", expressions=[text.this.copy()])
                long = exp.or_(exp.GT(this=stored, expression=most.copy()), long)
            other: exp.Expr = exp.Null()
            if name.casefold() in self._listed:  # longer than any value that counts, so no list holds it
                sign, count = exp.Literal.string("?"), exp.Literal.number(self._limits.value_bytes + 1)
                other = exp.Anonymous(this="REPEAT", expressions=[sign, count])
            cells.append(exp.alias_(exp.Case().when(long, other).else_(text.copy()), name, quoted=True))
        query = exp.select(*(cells or [exp.alias_(exp.Literal.number(0), "nothing")]))
        query = query.from_(exp.table_(self._relation[1], db=self._relation[0], quoted=True))
        return f"COPY ({query.sql('postgres')}) TO STDOUT (FORMAT csv, FORCE_QUOTE *)".encode(self._codec)

    @contextmanager
    def _open_connection(self) -> Iterator[psycopg.Connection[Any]]:
        """Open a connection in one read-only transaction that sees the database as of its beginning."""
        import psycopg

        with psycopg.connect(self._dsn, connect_timeout=10, client_encoding="UTF8") as connection:
            connection.read_only = True
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            for setting in _SETTINGS:
                connection.execute(f"SET LOCAL {setting}".encode())
            yield connection


def read_connection_text(workspace: Workspace | None, name: str, *, table: str) -> str:
    """Return the connection text of database ``name``: from an environment variable, or from the owner's private file.

    Raises:
        UnknownName: ``siloquent.toml`` has no ``[postgres.NAME]``.
        SchemaError: the variable or file does not exist, or others can read the file.
        MissingExtra: psycopg is not installed.
    """
    try:
        import psycopg  # noqa: F401
    except ImportError:
        raise MissingExtra("postgres", f"The source of {table!r}") from None
    declared = {known: (where, value) for known, where, value in (workspace.postgres if workspace else ())}
    if name not in declared:
        raise UnknownName(
            "database in siloquent.toml", name, declared, fix=f'[postgres.{name}] with dsn_env = "SOME_VARIABLE"'
        )
    where, value = declared[name]
    assert workspace is not None
    text = os.environ.get(value, "") if where == "dsn_env" else _read_secret(workspace.folder / value, name)
    if not text.strip():
        raise SchemaError(
            f"[postgres.{name}] is kept in {value}, which is not set.",
            fix=f"export {value}=postgresql://USER@HOST/DATABASE",
        )
    return text.strip().replace("postgresql+psycopg://", "postgresql://", 1)


def _read_secret(path: Path, name: str) -> str:
    """Return the text of a private file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        raise SchemaError(
            f"[postgres.{name}] is kept in {path}, which cannot be opened or is a symbolic link."
        ) from None
    with open(descriptor, encoding="utf-8", errors="replace") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_mode & 0o077 or found.st_uid not in (os.geteuid(), 0):
            raise SchemaError(f"{path} contains a password and is readable by other users.", fix=f"chmod 600 {path}")
        return file.read(MAX_SECRET)


class _CopyStream(io.RawIOBase):
    """The blocks of a COPY as a file."""

    def __init__(self, blocks: Iterator[Any]) -> None:
        self._blocks, self._rest = blocks, b""

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill ``buffer`` from the next block, or the rest of the last one."""
        if not self._rest:
            self._rest = bytes(next(self._blocks, b""))
        count = min(len(buffer), len(self._rest))
        buffer[:count], self._rest = self._rest[:count], self._rest[count:]
        return count


def _parse_blocks(blocks: Iterator[Any], names: Sequence[str], limits: ReadLimits) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    from pyarrow import csv

    first = next((block for block in blocks if len(block)), None)
    if first is None:  # an empty table, which the reader takes for an error
        return
    blocks = chain([first], blocks)
    # A row must fit into a block: its cells are bounded, and a quote within a cell is doubled.
    block = max(2**23, len(names) * (2 * limits.value_bytes + 3))
    with csv.open_csv(
        pa.PythonFile(io.BufferedReader(_CopyStream(blocks)), mode="r"),
        read_options=csv.ReadOptions(column_names=list(names), block_size=block, use_threads=False),
        parse_options=csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        convert_options=csv.ConvertOptions(
            column_types={name: pa.string() for name in names},
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            check_utf8=False,
        ),
    ) as reader:
        yield from reader
