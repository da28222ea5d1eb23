"""CSV files: names from the header line, every cell as text, lines that cannot be read left out.

Nothing is sniffed from rows: neither types nor quoting nor how many lines to skip may hang on one person's row.
"""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Callable
from typing import TYPE_CHECKING

from sqlglot import exp

from siloquent.data.engines.base import SOURCE, Limits
from siloquent.data.sources.files import SourceFile, first_bytes
from siloquent.errors import SchemaError

if TYPE_CHECKING:
    import duckdb

MOST_REJECTS = 1_000_000
DELIMITERS = (",", ";", "\t", "|")
_GZIP = b"\x1f\x8b"


def attach_csv(
    connection: duckdb.DuckDBPyConnection, file: SourceFile, limits: Limits, *, table: str
) -> Callable[[duckdb.DuckDBPyConnection], int]:
    """Make ``SOURCE`` the rows of a CSV file, gzipped or not, UTF-8, with a header line, quoted by ``"``.

    Returns:
        What counts the lines that are left out.
    Raises:
        SchemaError: There is no header line, or it is too long, too wide, not UTF-8, or names a column twice.
    """
    packed = first_bytes(file, 2) == _GZIP
    names, delimiter = read_header(file, limits, packed=packed, table=table)
    rows = _reading(file, limits, names, delimiter, packed=packed)
    connection.execute(f"CREATE VIEW {SOURCE} AS SELECT * FROM read_csv({rows}, ignore_errors = true)")
    return lambda connection: _lines_left_out(connection, rows)


def _lines_left_out(connection: duckdb.DuckDBPyConnection, rows: str) -> int:
    stored = f"store_rejects = true, rejects_limit = {MOST_REJECTS}, rejects_table = 'left_out', rejects_scan = 'scans'"
    connection.execute(f"SELECT COUNT(*) FROM read_csv({rows}, {stored})").fetchall()
    count = connection.execute("SELECT COUNT(DISTINCT line) FROM left_out").fetchall()[0][0]
    connection.execute("DROP TABLE left_out; DROP TABLE scans")
    return int(count)


def _reading(file: SourceFile, limits: Limits, names: list[str], delimiter: str, *, packed: bool) -> str:
    """The file and how it is read, but for what becomes of lines that cannot be."""
    columns = ", ".join(f"{_text(name)}: 'VARCHAR'" for name in names)
    # One thread: how a file is cut among threads must not decide which of its broken lines are left out. Not strict:
    # strict mode gives up on a whole file when one line ends differently from the others.
    return (
        f"{_text(file.path)}, auto_detect = false, header = true, columns = {{{columns}}}, "
        f"delim = {_text(delimiter)}, quote = '\"', escape = '\"', encoding = 'utf-8', null_padding = false, "
        f"compression = '{'gzip' if packed else 'none'}', max_line_size = {limits.line_bytes}, "
        f"strict_mode = false, parallel = false"
    )


def read_header(file: SourceFile, limits: Limits, *, packed: bool, table: str) -> tuple[list[str], str]:
    """The names in the header line and the delimiter between them.

    Raises:
        SchemaError: as ``attach_csv``.
    """

    def refused(what: str) -> SchemaError:
        return SchemaError(
            f"The CSV file of {table!r} {what}.", fix="write a header line with one name a column, in UTF-8"
        )

    with gzip.open(file.path, "rb") if packed else open(file.path, "rb") as opened:
        try:
            line = io.BufferedReader(opened).readline(limits.line_bytes + 1).decode("utf-8-sig")
        except UnicodeDecodeError:
            raise refused("is not UTF-8 in its header line") from None
        except (OSError, EOFError):
            raise refused("cannot be unpacked") from None
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
    twice = next((name for name in names if folded.count(name.casefold()) > 1), None)
    if twice is not None:
        raise refused(f"names the column {twice[:100]!r} twice")
    return names, delimiter


def _text(text: str) -> str:
    return exp.Literal.string(text).sql("duckdb")
