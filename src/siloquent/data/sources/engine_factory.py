"""The choice of an engine for a source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from siloquent.data.column_mapping import get_family, require_types
from siloquent.data.digests import prepare_file_digest, prepare_frame_digest, prepare_name_digest
from siloquent.data.engines.base import Engine, ReadLimits
from siloquent.data.units.linked_rows import LinkedRows, leave_parent_out
from siloquent.data.units.related_rows import RelatedEngine, RelatedSource
from siloquent.errors import SchemaError
from siloquent.schema.table import TILDE, list_tables_of

if TYPE_CHECKING:
    import duckdb

    from siloquent.data.engines.duckdb import DuckDBEngine, Streamable
    from siloquent.data.sources.files import SourceParts
    from siloquent.schema import TableSchema
    from siloquent.schema.formats.value_formats import Family, ValueFormat
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
    limits = limits or ReadLimits()
    if schema.link is None:
        return _open_engine(schema, workspace, frame, limits, None)
    _require_joinable(schema)
    parent = cast("DuckDBEngine", open_source(schema.link.parent, workspace, limits=limits))  # of Spark was refused
    try:
        linked = LinkedRows(schema, parent)
        return _open_engine(leave_parent_out(schema), workspace, frame, limits, linked)
    except BaseException:  # allowed: whatever went wrong, the parent's engine is let go and it is raised again
        parent.close()
        raise


def open_related(
    schema: TableSchema, workspace: Workspace | None, frame: object | None, beside: Mapping[str, object]
) -> RelatedEngine:
    """Return an engine on the rows of ``schema``, and on those of its related tables, each opened for it alone.

    Args:
        frame, beside: The objects that hold the rows of the table, and of related ones by their names.
    Raises:
        As for ``open_source``.
    """
    _require_joinable(schema)
    bare = replace(schema, name=schema.name.partition(TILDE)[0], related=())
    opened: list[Engine] = []
    try:
        opened.append(open_source(bare, workspace, frame=frame))
        opened += [open_source(one, workspace, frame=beside.get(one.name)) for one in schema.related]
        own, *others = (cast("DuckDBEngine", one) for one in opened)  # of Spark was refused
        found = {one.name: RelatedSource(one, engine) for one, engine in zip(schema.related, others, strict=True)}
        return RelatedEngine(bare, own, found)
    except BaseException:  # allowed: whatever went wrong, the engines are let go and it is raised again
        for engine in opened:
            engine.close()
        raise


def _require_joinable(schema: TableSchema) -> None:
    """Refuse a linked table with a table of Spark on its way to the unit, before any of them is opened."""
    for one in (schema, *schema.ancestors):
        if one.source.partition(":")[0] != "spark":
            continue
        name = list_tables_of(one.name)[0]
        why = f"Table {schema.name!r} is linked through other tables, but {name!r} is in Spark: links are followed only"
        if schema.related:
            why = f"A condition looks up rows of another table, but {name!r} is in Spark: rows are looked up only"
        raise SchemaError(
            f"{why} between files and databases that DuckDB reads.",
            fix=f'write its rows as Parquet: source = "parquet:data/{name}.parquet" in schemas/{name}.toml',
        )


def _open_engine(
    schema: TableSchema,
    workspace: Workspace | None,
    frame: object | None,
    limits: ReadLimits,
    linked: LinkedRows | None,
) -> Engine:
    """Open the rows of ``schema``, with their owners if they are ``linked``."""
    from siloquent.data.engines.duckdb import DuckDBEngine

    if frame is not None:
        from siloquent.data.sources.frames import convert_to_arrow

        arrow = convert_to_arrow(frame, limits, _list_kinds(schema), table=schema.name, zoned=_list_zoned(schema))
        digest = prepare_frame_digest(arrow, _list_stored(schema), schema.reading)
        limits = _adjust_limits(arrow.nbytes, limits)
        return DuckDBEngine(arrow=arrow, limits=limits, digest=digest, linked=linked)
    if not schema.source:
        raise SchemaError(
            f"Table {schema.name!r} has no source.",
            fix=f'source = "csv:data/{schema.name}.csv" under [table] in schemas/{schema.name}.toml',
        )
    kind, _, where = schema.source.partition(":")
    if kind == "postgres":
        return _open_postgres_engine(where, schema, workspace, limits, linked)
    if kind == "spark":
        return _open_spark_engine(where, schema, workspace)
    return _open_file_engine(kind, where, schema, workspace, limits, linked)


def _open_postgres_engine(
    where: str, schema: TableSchema, workspace: Workspace | None, limits: ReadLimits, linked: LinkedRows | None
) -> Engine:
    from siloquent.data.engines.duckdb import DuckDBEngine
    from siloquent.data.sources.postgres import PostgresTable

    name, _, inner = where.partition("#")
    found = PostgresTable(
        workspace, name, inner, schema.domain.names, limits, table=schema.name, listed=_list_enumerated(schema)
    )
    require_types(schema, found.types)
    digest = prepare_name_digest("postgres", where, schema.reading)
    return DuckDBEngine(
        arrow=found.build_empty_table(), fill=found.open_rows, limits=limits, digest=digest, linked=linked
    )


def _open_spark_engine(where: str, schema: TableSchema, workspace: Workspace | None) -> Engine:
    from siloquent.data.sources.spark import open_spark

    return open_spark(where, workspace.spark_master if workspace else "local[*]", table=schema.name)


def _open_file_engine(
    kind: str,
    where: str,
    schema: TableSchema,
    workspace: Workspace | None,
    limits: ReadLimits,
    linked: LinkedRows | None,
) -> Engine:
    from siloquent.data.engines.duckdb import DuckDBEngine
    from siloquent.data.sources.files import find_source_parts

    path, _, inner = where.partition("#") if kind == "duckdb" else (where, "", "")
    parts = find_source_parts(path, workspace.folder if workspace else Path.cwd(), kind=kind, table=schema.name)

    limits = _adjust_limits(parts.size, limits)
    digest = prepare_file_digest(parts.paths, schema.reading)
    if kind in ("csv", "csv-records"):
        from siloquent.data.sources.text.csv import open_csv_rows

        rows = open_csv_rows(
            parts.files,
            limits,
            _list_stored(schema),
            table=schema.name,
            spanning=kind == "csv-records",
            keep_faulty=schema.replace_one,  # if the number of rows is public, no row's text may change it
            reading=schema.reading,
        )
        return DuckDBEngine(
            arrow=rows,
            limits=limits,
            unchanged=parts.is_unchanged,
            faults=rows.count_faults,
            digest=digest,
            linked=linked,
        )

    if kind == "xlsx":
        from siloquent.data.sources.workbooks.xlsx import open_sheet_rows

        sheet = open_sheet_rows(
            parts.files[0],
            limits,
            _list_stored(schema),
            table=schema.name,
            keep_blank=schema.replace_one,  # as for lines of CSV
            reading=schema.reading,
            forms=_list_forms(schema),
        )
        return DuckDBEngine(
            arrow=sheet,
            limits=limits,
            unchanged=parts.is_unchanged,
            faults=sheet.count_faults,
            digest=digest,
            linked=linked,
        )

    def attach(connection: duckdb.DuckDBPyConnection) -> Mapping[str, Streamable]:
        return _attach(connection, kind, parts, inner, schema, limits)

    if kind == "duckdb":
        digest = prepare_file_digest([*parts.paths, f"{parts.paths[0]}.wal"], schema.reading)
    return DuckDBEngine(
        attach, files=parts.paths, limits=limits, unchanged=parts.is_unchanged, digest=digest, linked=linked
    )


def _list_kinds(schema: TableSchema) -> dict[str, str]:
    """Return the columns read, and the kinds of their attributes; derived attributes have no columns of their own."""
    return {attribute.name: attribute.kind for attribute in schema.domain if not attribute.function}


def _list_zoned(schema: TableSchema) -> frozenset[str]:
    """Return the columns whose moments are local times of a declared zone, in lower case."""
    names = (attribute.name for attribute in schema.domain if not attribute.function)
    return frozenset(name.casefold() for name in names if schema.reading.get_format(name).time_zone)


def _list_forms(schema: TableSchema) -> dict[str, tuple[Family, ValueFormat]]:
    """Return what the values of the columns read are, and how they are written, by names in lower case."""
    stored = (attribute for attribute in schema.domain if not attribute.function)
    return {one.name.casefold(): (get_family(one), schema.reading.get_format(one.name)) for one in stored}


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
    parts: SourceParts,
    inner: str,
    schema: TableSchema,
    limits: ReadLimits,
) -> Mapping[str, Streamable]:
    if kind == "parquet":
        from siloquent.data.sources.parquet import attach_parquet

        return attach_parquet(
            connection,
            parts.files,
            limits,
            _list_stored(schema),
            table=schema.name,
            kinds=_list_kinds(schema),
        )
    from siloquent.data.sources.database import attach_database

    attach_database(connection, parts.files[0], inner, _list_kinds(schema), table=schema.name)
    return {}
