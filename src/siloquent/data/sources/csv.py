"""CSV files: names from the header line, every cell as text, lines that cannot be read left out.

Nothing is sniffed from rows: neither types nor quoting nor how many lines to skip may hang on one person's row. And
nothing is shown of the first line: a file without a header has somebody's row there.
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from sqlglot import exp

from siloquent.data.engines.base import OWNER_LOG, SOURCE, Limits
from siloquent.data.sources.files import SourceFile, first_bytes, source_file
from siloquent.data.sources.quoting import shape_of
from siloquent.errors import SchemaError

if TYPE_CHECKING:
    import duckdb

    from siloquent.data.engines.base import LineFault
    from siloquent.data.engines.duckdb import LinesLeftOut

MOST_REJECTS = 1_000_000
DELIMITERS = (",", ";", "\t", "|")
_GZIP = b"\x1f\x8b"


def attach_csv(
    connection: duckdb.DuckDBPyConnection, file: SourceFile, limits: Limits, columns: Iterable[str], *, table: str
) -> LinesLeftOut:
    """Make ``SOURCE`` the rows of a CSV file, gzipped or not, UTF-8, with a header line, quoted by ``"``.

    Args:
        columns: The columns that will be read.
    Returns:
        What counts the lines that are left out.
    Raises:
        SchemaError: There is no header line, or it is too long, too wide, not UTF-8, or lacks or repeats a column; or
            a quoted field is opened and not closed, so that it takes other lines' rows along.
    """
    packed = first_bytes(file, 2) == _GZIP
    names, delimiter = read_header(file, limits, packed=packed, table=table)
    read = _found(names, columns, table)
    strict = _require_closed(file, delimiter, packed=packed, table=table)
    rows = _reading(file, limits, names, delimiter, packed=packed, strict=strict)
    # DuckDB leaves a line out for what is wrong in those columns alone that a query asks for. A line must count in all
    # queries or in none, so every query asks for all that are declared; a hash is never NULL, but DuckDB cannot know.
    whole = f"WHERE hash({', '.join(map(_name, read))}) IS NOT NULL" if read else ""
    connection.execute(f"CREATE VIEW {SOURCE} AS SELECT * FROM read_csv({rows}, ignore_errors = true) {whole}")
    return lambda connection: _lines_left_out(connection, rows, whole)


def _found(names: list[str], columns: Iterable[str], table: str) -> list[str]:
    """The names in the header line of ``columns``, all of which are there; the owner's log says what is instead."""
    by_name = {name.casefold(): name for name in names}
    wanted = {column: by_name.get(column.casefold()) for column in columns}
    missing = [column for column, name in wanted.items() if name is None]
    if not missing:
        return [name for name in wanted.values() if name is not None]
    OWNER_LOG.error("the header line of %s names these columns: %s", table, names)
    first, more = ", ".join(map(repr, missing[:5])), f" and {len(missing) - 5} more" if len(missing) > 5 else ""
    raise SchemaError(
        f"The first line of the CSV file of {table!r} does not name {first}{more}. What it names instead is in the "
        "owner's log alone, since it could be somebody's row.",
        fix="write a header line with the attributes' names, or the columns' names into the table file",
    )


def _require_closed(file: SourceFile, delimiter: str, *, packed: bool, table: str) -> bool:
    """Refuse a file with a field that is opened and not closed; whether all its lines end alike."""
    with gzip.open(file.path, "rb") if packed else open(file.path, "rb") as opened:
        try:
            shape = shape_of(cast(BinaryIO, opened), delimiter)
        except (OSError, EOFError, zlib.error):
            raise _unpackable(table) from None
    if not shape.is_closed:
        raise SchemaError(
            f'The CSV file of {table!r} has a field that a quote (") opens and none closes: it would take the rows '
            "of the lines behind it along.",
            fix="write the file anew with a CSV library, which doubles quotes within fields",
        )
    return shape.is_uniform


def _lines_left_out(connection: duckdb.DuckDBPyConnection, rows: str, whole: str) -> dict[LineFault, int]:
    """How many lines are left out, by what is wrong with them first."""
    stored = f"store_rejects = true, rejects_limit = {MOST_REJECTS}, rejects_table = 'left_out', rejects_scan = 'scans'"
    connection.execute(f"SELECT COUNT(*) FROM read_csv({rows}, {stored}) {whole}").fetchall()
    found = connection.execute(
        "SELECT fault, COUNT(*) FROM (SELECT MIN(CASE WHEN error_type = 'INVALID ENCODING' THEN 'encoding' "
        "ELSE 'form' END) AS fault FROM left_out GROUP BY line) GROUP BY fault"
    ).fetchall()
    connection.execute("DROP TABLE left_out; DROP TABLE scans")
    return {fault: int(count) for fault, count in found}


def _reading(file: SourceFile, limits: Limits, names: list[str], delimiter: str, *, packed: bool, strict: bool) -> str:
    """The file and how it is read, but for what becomes of lines that cannot be."""
    columns = ", ".join(f"{_text(name)}: 'VARCHAR'" for name in names)
    # One thread: how a file is cut among threads must not decide which of its broken lines are left out. Strict, so
    # that lines with too many columns are left out as those with too few are; but strict mode gives up on a whole file
    # when one line ends differently from the others.
    return (
        f"{_text(file.path)}, auto_detect = false, header = true, columns = {{{columns}}}, "
        f"delim = {_text(delimiter)}, quote = '\"', escape = '\"', encoding = 'utf-8', null_padding = false, "
        f"compression = '{'gzip' if packed else 'none'}', max_line_size = {limits.line_bytes}, "
        f"strict_mode = {str(strict).lower()}, parallel = false"
    )


def read_header(file: SourceFile, limits: Limits, *, packed: bool, table: str) -> tuple[list[str], str]:
    """The names in the header line and the delimiter between them.

    Raises:
        SchemaError: as ``attach_csv``.
    """

    def refused(what: str) -> SchemaError:
        return _refused(what, table)

    with gzip.open(file.path, "rb") if packed else open(file.path, "rb") as opened:
        try:
            line = io.BufferedReader(opened).readline(limits.line_bytes + 1).decode("utf-8-sig")
        except UnicodeDecodeError:
            raise refused("is not UTF-8 in its header line") from None
        except (OSError, EOFError, zlib.error):
            raise _unpackable(table) from None
    if not line.strip() or len(line) > limits.line_bytes:
        raise refused(
            "has no header line" if not line.strip() else f"has a header line over {limits.line_bytes:,} bytes"
        )
    line = line.splitlines()[0]
    delimiter = max(DELIMITERS, key=line.count)
    try:
        names = [name.strip() for name in next(csv.reader([line], delimiter=delimiter, strict=True))]
    except csv.Error:
        raise refused("has quotes in its header line that do not match") from None
    if len(names) > limits.columns:
        raise refused(f"has {len(names):,} columns; the most is {limits.columns:,}")
    names = [name or f"column{i}" for i, name in enumerate(names, 1)]
    folded = [name.casefold() for name in names]
    places: dict[str, int] = {}
    for place, name in enumerate(folded, 1):
        if places.setdefault(name, place) != place:
            raise refused(f"gives its columns {places[name]} and {place} the same name")
    return names, delimiter


def csv_header(file: Path) -> tuple[list[str], str, bool]:
    """The columns' names and the delimiter of a file that anybody may see, and whether it is gzipped.

    Raises:
        SchemaError: as ``attach_csv``.
    """
    straight = file.resolve()
    found = source_file(straight.name, straight.parent, table=file.stem)
    packed = first_bytes(found, 2) == _GZIP
    return *read_header(found, Limits(), packed=packed, table=file.stem), packed


def _refused(what: str, table: str) -> SchemaError:
    return SchemaError(f"The CSV file of {table!r} {what}.", fix="write a header line with one name a column, in UTF-8")


def _unpackable(table: str) -> SchemaError:
    return _refused("cannot be unpacked", table)


def _text(text: str) -> str:
    return exp.Literal.string(text).sql("duckdb")


def _name(text: str) -> str:
    return exp.to_identifier(text, quoted=True).sql("duckdb")
