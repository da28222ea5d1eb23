"""The columns of a source before it is declared: names and types from a header line, a schema or a catalogue.

No row is read: of a CSV file its first line, of other sources what they say of themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from siloquent.data.engines.base import ReadLimits, get_source_kind, hide_failures
from siloquent.data.sources.files import find_source_file, read_first_bytes
from siloquent.errors import RequestError, SchemaError
from siloquent.fixes import run
from siloquent.schema.declaring.columns import ColumnHeader, Source
from siloquent.schema.source_kinds import SourceKind
from siloquent.schema.table import SOURCE_KINDS

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from siloquent.schema.workspace import Workspace

_GZIP, _ZIP, _DUCK, _PARQUET = b"\x1f\x8b", b"PK\x03\x04", b"DUCK", b"PAR1"
_FILES = ("csv", "csv-records", "parquet", "duckdb")


def find_address(text: str, folder: Path) -> tuple[str, str]:
    """Return the source that ``text`` names as a table file does, and its file or place in words.

    Raises:
        SchemaError: the file does not exist, or files of its type cannot be sources.
    """
    kind, _, where = text.partition(":")
    if kind in SOURCE_KINDS and where:
        return text, where
    path, _, inner = text.partition("#")
    try:
        file = Path(text) if Path(text).exists() else Path(path)
        if not file.is_file():
            found = "a folder" if file.is_dir() else "not there"
            raise RequestError(f"{text[:100]} is {found}.", fix=run("declare", "ROWS.csv"))
        with file.open("rb") as opened:
            first = opened.read(12)
    except OSError as failed:
        raise RequestError(f"{text[:100]} cannot be read: {failed.strerror}.", fix="correct its permissions") from None
    except ValueError:
        raise RequestError(f"{text[:100]!r} is not a file name.", fix=run("declare", "ROWS.csv")) from None
    straight, inside = file.resolve(), folder.resolve()
    there = straight.relative_to(inside).as_posix() if straight.is_relative_to(inside) else str(straight)
    if first[:4] == _PARQUET:
        return f"parquet:{there}", file.name
    if first[8:] == _DUCK:
        return f"duckdb:{there}#{inner}", f"{file.name}#{inner}"
    if first[:4] == _ZIP:
        raise RequestError(f"{file.name} is a zip file or a workbook.", fix="save its rows as CSV (UTF-8)")
    return f"csv:{there}", file.name


def read_columns(address: str, workspace: Workspace | None) -> Source:
    """Return the columns of the source ``address``, in order.

    Raises:
        SchemaError: it does not exist, or its columns cannot be read. MissingExtra, DataError: as for a table.
    """
    kind, _, where = address.partition(":")
    folder = workspace.folder if workspace else Path.cwd()
    if kind in ("csv", "csv-records"):
        return Source(address, _read_header(where, folder))
    if kind == "parquet":
        return Source(address, _read_parquet_columns(where, folder))
    if kind == "duckdb":
        path, _, inner = where.partition("#")
        found, columns = _read_database_columns(path, inner, folder)
        return Source(f"duckdb:{path}#{found}", columns)
    if kind == "postgres":
        return Source(address, _read_catalogue(where, workspace))
    if kind == "spark":
        from siloquent.data.sources.spark import open_spark

        engine = open_spark(where, workspace.spark_master if workspace else "local[*]", table="the new table")
        return Source(address, _convert_types(engine.list_columns()))
    raise SchemaError(
        f"{address[:60]!r} is not a valid source.", fix=f"begin with one of {', '.join(SOURCE_KINDS)}, and a colon"
    )


def _read_header(where: str, folder: Path) -> tuple[ColumnHeader, ...]:
    from siloquent.data.sources.csv import read_header

    file = find_source_file(where, folder, table=Path(where).name)
    packed = read_first_bytes(file, 2) == _GZIP
    names, _ = read_header(file, ReadLimits(), packed=packed, table=Path(where).name)
    return tuple(ColumnHeader(name) for name in names)


def _read_parquet_columns(where: str, folder: Path) -> tuple[ColumnHeader, ...]:
    from siloquent.data.sources.parquet import attach_parquet

    file = find_source_file(where, folder, table=Path(where).name)

    def attach(connection: duckdb.DuckDBPyConnection) -> None:
        attach_parquet(connection, file, ReadLimits(), (), table=Path(where).name)

    return _describe(attach, file.path)


def _read_database_columns(path: str, inner: str, folder: Path) -> tuple[str, tuple[ColumnHeader, ...]]:
    """Return the table of a DuckDB file, the only one if none is named, and its columns."""
    from siloquent.data.sources.database import attach_database, list_database_tables

    file = find_source_file(path, folder, table=Path(path).name)
    tables: list[str] = []

    def attach(connection: duckdb.DuckDBPyConnection) -> None:
        tables.extend([inner] if inner else list_database_tables(connection, file, table=Path(path).name))
        if len(tables) != 1:
            known = ", ".join(tables[:20]) or "none"
            raise SchemaError(
                f"{Path(path).name} contains these tables: {known}; name one of them.", fix=f"{path}#TABLE"
            )
        attach_database(connection, file, tables[0], {}, table=Path(path).name)

    columns = _describe(attach, file.path)
    return tables[0], columns


def _describe(attach: Callable[[duckdb.DuckDBPyConnection], None], path: str) -> tuple[ColumnHeader, ...]:
    from siloquent.data.engines.duckdb import DuckDBEngine

    engine = DuckDBEngine(attach, files=[path], limits=ReadLimits(threads=1))
    try:
        return _convert_types(engine.list_columns())
    finally:
        engine.close()


def _convert_types(columns: Mapping[str, str]) -> tuple[ColumnHeader, ...]:
    return tuple(ColumnHeader(name, get_source_kind(holds), holds) for name, holds in columns.items())


def _read_catalogue(where: str, workspace: Workspace | None) -> tuple[ColumnHeader, ...]:
    from siloquent.data.sources.postgres import PostgresTable

    name, _, inner = where.partition("#")
    found = PostgresTable(workspace, name, inner, (), ReadLimits(), table=inner or name)
    return tuple(ColumnHeader(column, kind, holds) for column, (kind, holds) in found.types.items())


@hide_failures
def read_frame_columns(frame: Any) -> Source:
    """Return the columns of an Arrow, pandas, polars or other frame by its declared types; no value is looked at.

    Raises:
        SchemaError: it is not a frame. DataError: its types cannot be read.
    """
    import pyarrow as pa

    module = type(frame).__module__.partition(".")[0]
    if module != "polars" and hasattr(frame, "dtypes") and hasattr(frame, "columns"):
        # Other readers of pandas look into columns of objects to find their type.
        named = zip(map(str, frame.columns), frame.dtypes, strict=True)
        return Source("", tuple(_convert_pandas_type(name, str(holds).partition("[")[0]) for name, holds in named))
    if isinstance(frame, (pa.Table, pa.RecordBatch, pa.RecordBatchReader)):
        return Source("", tuple(_convert_arrow_type(field.name, field.type) for field in frame.schema))
    schema = getattr(frame, "collect_schema", None)
    if callable(schema):
        return Source("", tuple(_convert_named_type(str(name), str(holds)) for name, holds in schema().items()))
    if hasattr(frame, "__arrow_c_schema__"):
        return Source("", tuple(_convert_arrow_type(field.name, field.type) for field in pa.schema(frame)))
    raise SchemaError(
        f"{type(frame).__name__} is neither a file's name nor a frame that tells its columns' types.",
        fix='siloquent.declare("visits.csv"), or an Arrow, pandas or polars table',
    )


_PANDAS: dict[str, SourceKind] = {
    **dict.fromkeys(("bool", "boolean"), "boolean"),
    **dict.fromkeys(("str", "string", "category"), "text"),
    **dict.fromkeys(("datetime64", "datetime64tz"), "datetime"),
}


def _convert_pandas_type(name: str, holds: str) -> ColumnHeader:
    if holds == "object":
        return ColumnHeader(name)
    head = holds.casefold().rstrip("0123456789") if not holds.startswith("datetime64") else "datetime64"
    kinds: dict[str, SourceKind] = {"int": "integer", "uint": "integer", "float": "real"}
    return ColumnHeader(name, _PANDAS.get(head) or kinds.get(head) or "other", holds)


def _convert_named_type(name: str, holds: str) -> ColumnHeader:
    """Return a column for the name of a polars type, or of a type of another library named alike."""
    head = holds.partition("(")[0].casefold().rstrip("0123456789")
    kinds: dict[str, SourceKind] = {
        **dict.fromkeys(("int", "uint"), "integer"),
        **dict.fromkeys(("utf", "string", "categorical", "enum", "null"), "text"),
        "float": "real",
        "decimal": "decimal",
        "boolean": "boolean",
        "date": "date",
        "datetime": "datetime",
    }
    return ColumnHeader(name, kinds.get(head, "other"), holds)


def _convert_arrow_type(name: str, holds: pa.DataType) -> ColumnHeader:
    import pyarrow as pa

    plain = holds.value_type if pa.types.is_dictionary(holds) else holds
    tests: dict[SourceKind, tuple[Callable[[pa.DataType], bool], ...]] = {
        "integer": (pa.types.is_integer,),
        "real": (pa.types.is_floating,),
        "decimal": (pa.types.is_decimal,),
        "boolean": (pa.types.is_boolean,),
        "text": (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_null),
        "date": (pa.types.is_date,),
        "datetime": (pa.types.is_timestamp,),
    }
    fits = [kind for kind, some in tests.items() if any(test(plain) for test in some)]
    kind: SourceKind = fits[0] if fits else "other"
    return ColumnHeader(name, kind, str(holds))
