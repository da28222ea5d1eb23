"""The columns of a source before it is declared: names and types from a header line, a schema or a catalogue.

No row is read: of a CSV file its first line, of a sheet its header row, of other sources what they say of themselves.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from siloquent.data.engines.base import ReadLimits, get_source_kind, hide_failures
from siloquent.data.sources.files import SUFFIXES, find_source_file, find_source_parts
from siloquent.data.sources.text.packed import is_workbook_name
from siloquent.errors import RequestError, SchemaError
from siloquent.fixes import run
from siloquent.schema.declaring.columns import ColumnHeader, RawSource
from siloquent.schema.formats.reading import Reading
from siloquent.schema.formats.source_kinds import SourceKind
from siloquent.schema.table import SOURCE_KINDS

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from siloquent.schema.workspace import Workspace

_DUCK, _PARQUET = b"DUCK", b"PAR1"


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
        if file.is_dir() or re.search("[*?]", Path(text).name):
            return _find_parts(text, folder)
        if not file.is_file():
            raise RequestError(f"{text[:100]} is not there.", fix=run("declare", "ROWS.csv"))
        with file.open("rb") as opened:
            first = opened.read(12)
    except OSError as failed:
        raise RequestError(f"{text[:100]} cannot be read: {failed.strerror}.", fix="correct its permissions") from None
    except ValueError:
        raise RequestError(f"{text[:100]!r} is not a file name.", fix=run("declare", "ROWS.csv")) from None
    there = _name_within(file.resolve(), folder)
    if first[:4] == _PARQUET:
        return f"parquet:{there}", file.name
    if first[8:] == _DUCK:
        return f"duckdb:{there}#{inner}", f"{file.name}#{inner}"
    if is_workbook_name(file):
        return f"xlsx:{there}", file.name
    return f"csv:{there}", file.name


def _name_within(straight: Path, folder: Path) -> str:
    inside = folder.resolve()
    return straight.relative_to(inside).as_posix() if straight.is_relative_to(inside) else str(straight)


def _find_parts(text: str, folder: Path) -> tuple[str, str]:
    """Return the source of a folder or pattern of files, of the kind that their names end with."""
    place = Path(text)
    pattern = "" if place.is_dir() else place.name
    inside = place if place.is_dir() else place.parent
    names = sorted(one.name for one in inside.iterdir() if not one.name.startswith((".", "_")))
    names = [name for name in names if not pattern or fnmatch.fnmatchcase(name, pattern)]
    kinds = {kind for name in names for kind, ends in SUFFIXES.items() if name.lower().endswith(ends)}
    if len(kinds) != 1:
        what = "are of several kinds" if kinds else "are neither CSV nor Parquet"
        raise RequestError(f"The files of {text[:100]} {what}.", fix=run("declare", "FOLDER/*.csv"))
    there = _name_within(inside.resolve(), folder)
    return f"{kinds.pop()}:{there}{f'/{pattern}' if pattern else ''}", place.name if not pattern else inside.name


def read_columns(address: str, workspace: Workspace | None, reading: Reading | None = None) -> RawSource:
    """Return the columns of the source ``address``, in order; ``reading`` says how a file is read.

    Raises:
        SchemaError: it does not exist, or its columns cannot be read. MissingExtra, DataError: as for a table.
    """
    kind, _, where = address.partition(":")
    if reading is not None and kind in SOURCE_KINDS:
        reading.check_kind(kind)
    folder = workspace.folder if workspace else Path.cwd()
    if kind in ("csv", "csv-records"):
        return RawSource(address, _read_header(where, folder, reading or Reading()))
    if kind == "xlsx":
        return RawSource(address, _read_sheet_header(where, folder, reading or Reading()))
    if kind == "parquet":
        return RawSource(address, _read_parquet_columns(where, folder))
    if kind == "duckdb":
        path, _, inner = where.partition("#")
        found, columns = _read_database_columns(path, inner, folder)
        return RawSource(f"duckdb:{path}#{found}", columns)
    if kind == "postgres":
        return RawSource(address, _read_catalogue(where, workspace))
    if kind == "spark":
        from siloquent.data.sources.spark import open_spark

        engine = open_spark(where, workspace.spark_master if workspace else "local[*]", table="the new table")
        return RawSource(address, _convert_types(engine.list_columns()))
    raise SchemaError(
        f"{address[:60]!r} is not a valid source.", fix=f"begin with one of {', '.join(SOURCE_KINDS)}, and a colon"
    )


def _read_header(where: str, folder: Path, reading: Reading) -> tuple[ColumnHeader, ...]:
    from siloquent.data.sources.text.csv import read_file_header

    parts = find_source_parts(where, folder, kind="csv", table=Path(where).name)
    first = next((file for file in parts.files if file.size), parts.files[0])
    header = read_file_header(first, reading, table=Path(where).name)
    return tuple(ColumnHeader(name) for name in header.names)


def _read_sheet_header(where: str, folder: Path, reading: Reading) -> tuple[ColumnHeader, ...]:
    from siloquent.data.sources.workbooks.xlsx import read_sheet_header

    name = Path(where).name
    file = find_source_file(where, folder, table=name)
    return tuple(ColumnHeader(one) for one in read_sheet_header(file, reading, table=name))


def _read_parquet_columns(where: str, folder: Path) -> tuple[ColumnHeader, ...]:
    from siloquent.data.sources.parquet import attach_parquet

    parts = find_source_parts(where, folder, kind="parquet", table=Path(where).name)

    def attach(connection: duckdb.DuckDBPyConnection) -> None:
        attach_parquet(connection, parts.files, ReadLimits(), (), table=Path(where).name)

    return _describe(attach, *parts.paths)


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


def _describe(attach: Callable[[duckdb.DuckDBPyConnection], None], *paths: str) -> tuple[ColumnHeader, ...]:
    from siloquent.data.engines.duckdb import DuckDBEngine

    engine = DuckDBEngine(attach, files=paths, limits=ReadLimits(threads=1))
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
def read_frame_columns(frame: Any) -> RawSource:
    """Return the columns of an Arrow, pandas, polars or other frame by its declared types; no value is looked at.

    Raises:
        SchemaError: it is not a frame. DataError: its types cannot be read.
    """
    import pyarrow as pa

    module = type(frame).__module__.partition(".")[0]
    if module != "polars" and hasattr(frame, "dtypes") and hasattr(frame, "columns"):
        # Other readers of pandas look into columns of objects to find their type.
        named = zip(map(str, frame.columns), frame.dtypes, strict=True)
        return RawSource("", tuple(_convert_pandas_type(name, str(holds).partition("[")[0]) for name, holds in named))
    if isinstance(frame, (pa.Table, pa.RecordBatch, pa.RecordBatchReader)):
        return RawSource("", tuple(_convert_arrow_type(field.name, field.type) for field in frame.schema))
    schema = getattr(frame, "collect_schema", None)
    if callable(schema):
        return RawSource("", tuple(_convert_named_type(str(name), str(holds)) for name, holds in schema().items()))
    if hasattr(frame, "__arrow_c_schema__"):
        return RawSource("", tuple(_convert_arrow_type(field.name, field.type) for field in pa.schema(frame)))
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
