"""The choice of an engine for a source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from siloquent.data.digests import hash_files, prepare_frame_digest, prepare_name_digest
from siloquent.data.engines.base import Engine, ReadLimits
from siloquent.errors import SchemaError

if TYPE_CHECKING:
    import duckdb

    from siloquent.data.engines.duckdb import Streamable
    from siloquent.data.sources.files import SourceFile
    from siloquent.schema import TableSchema
    from siloquent.schema.workspace import Workspace

SMALL_BYTES = 2**24


def open_source(
    schema: TableSchema, workspace: Workspace | None, *, frame: object | None = None, limits: ReadLimits | None = None
) -> Engine:
    """Return an engine with the source of ``schema`` open as ``SOURCE``.

    Args:
        workspace: The base of relative paths and the list of named databases.
        frame: An Arrow, pandas or polars object that holds the rows instead.
    Raises:
        SchemaError: the source is not declared, is of an unknown kind, or does not exist.
        MissingExtra: it needs a package that is not installed.
        DataError: it exists but cannot be read.
    """
    from siloquent.data.engines.duckdb import DuckDBEngine

    limits = limits or ReadLimits()
    if frame is not None:
        from siloquent.data.sources.frames import convert_to_arrow

        arrow = convert_to_arrow(frame, limits, _list_kinds(schema), table=schema.name)
        digest = prepare_frame_digest(arrow, _list_stored(schema))
        return DuckDBEngine(arrow=arrow, limits=_adjust_limits(arrow.nbytes, limits), digest=digest)
    if not schema.source:
        raise SchemaError(
            f"Table {schema.name!r} has no source.",
            fix=f'source = "csv:data/{schema.name}.csv" under [table] in schemas/{schema.name}.toml',
        )
    kind, _, where = schema.source.partition(":")
    if kind == "postgres":
        return _open_postgres_engine(where, schema, workspace, limits)
    if kind == "spark":
        return _open_spark_engine(where, schema, workspace)
    return _open_file_engine(kind, where, schema, workspace, limits)


def _open_postgres_engine(where: str, schema: TableSchema, workspace: Workspace | None, limits: ReadLimits) -> Engine:
    from siloquent.data.column_mapping import require_types
    from siloquent.data.engines.duckdb import DuckDBEngine
    from siloquent.data.sources.postgres import PostgresTable

    name, _, inner = where.partition("#")
    found = PostgresTable(
        workspace, name, inner, schema.domain.names, limits, table=schema.name, listed=_list_enumerated(schema)
    )
    require_types(schema, found.types)
    digest = prepare_name_digest("postgres", where)
    return DuckDBEngine(arrow=found.build_empty_table(), fill=found.open_rows, limits=limits, digest=digest)


def _open_spark_engine(where: str, schema: TableSchema, workspace: Workspace | None) -> Engine:
    from siloquent.data.sources.spark import open_spark

    return open_spark(where, workspace.spark_master if workspace else "local[*]", table=schema.name)


def _open_file_engine(
    kind: str, where: str, schema: TableSchema, workspace: Workspace | None, limits: ReadLimits
) -> Engine:
    from siloquent.data.engines.duckdb import DuckDBEngine
    from siloquent.data.sources.files import find_source_file

    path, _, inner = where.partition("#") if kind == "duckdb" else (where, "", "")
    file = find_source_file(path, workspace.folder if workspace else Path.cwd(), table=schema.name)

    limits = _adjust_limits(file.size, limits)
    if kind in ("csv", "csv-records"):
        from siloquent.data.sources.csv import open_csv_rows

        rows = open_csv_rows(
            file,
            limits,
            _list_stored(schema),
            table=schema.name,
            spanning=kind == "csv-records",
            keep_faulty=schema.replace_one,  # if the number of rows is public, no row's text may change it
        )
        return DuckDBEngine(
            arrow=rows,
            limits=limits,
            unchanged=file.is_unchanged,
            faults=rows.count_faults,
            digest=lambda: hash_files(file.path),
        )

    def attach(connection: duckdb.DuckDBPyConnection) -> Mapping[str, Streamable]:
        return _attach(connection, kind, file, inner, schema, limits)

    read = [file.path, f"{file.path}.wal"] if kind == "duckdb" else [file.path]
    return DuckDBEngine(
        attach,
        files=[file.path],
        limits=limits,
        unchanged=file.is_unchanged,
        digest=lambda: hash_files(*read),
    )


def _list_kinds(schema: TableSchema) -> dict[str, str]:
    """Return the columns read, and the kinds of their attributes; derived attributes have no columns of their own."""
    return {attribute.name: attribute.kind for attribute in schema.domain if not attribute.function}


def _list_stored(schema: TableSchema) -> list[str]:
    """Return the names of the columns read."""
    return list(_list_kinds(schema))


def _list_enumerated(schema: TableSchema) -> list[str]:
    """Return the names of the columns whose values are listed."""
    return [attribute.name for attribute in schema.domain if attribute.kind == "category"]


def _adjust_limits(size: int, limits: ReadLimits) -> ReadLimits:
    """Return limits with one thread for a small table: waking the others costs more than they save."""
    return replace(limits, threads=1) if size < SMALL_BYTES else limits


def _attach(
    connection: duckdb.DuckDBPyConnection,
    kind: str,
    file: SourceFile,
    inner: str,
    schema: TableSchema,
    limits: ReadLimits,
) -> Mapping[str, Streamable]:
    if kind == "parquet":
        from siloquent.data.sources.parquet import attach_parquet

        return attach_parquet(
            connection,
            file,
            limits,
            _list_stored(schema),
            table=schema.name,
            kinds=_list_kinds(schema),
            user=schema.unit.column,
        )
    from siloquent.data.sources.database import attach_database

    attach_database(connection, file, inner, _list_kinds(schema), table=schema.name)
    return {}
