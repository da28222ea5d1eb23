"""CSV files: names from the header line, every cell as text, each line read separately (``lines``).

Nothing is inferred from rows: types, quoting and the number of skipped lines must not depend on one person's row. The
first line is never shown: in a file without a header it is a person's row.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterable
from pathlib import Path

from siloquent.data.engines.base import OWNER_LOG, ReadLimits
from siloquent.data.sources.files import SourceFile, find_source_file, read_first_bytes
from siloquent.data.sources.lines import BLOCK_BYTES, CsvRows
from siloquent.errors import SchemaError

DELIMITERS = (",", ";", "\t", "|")
_GZIP = b"\x1f\x8b"


def open_csv_rows(
    file: SourceFile, limits: ReadLimits, columns: Iterable[str], *, table: str, spanning: bool, keep_faulty: bool
) -> CsvRows:
    """Return the rows of a CSV file, gzipped or not, UTF-8, with a header line, quoted by ``"``.

    Args:
        columns: The columns that will be read.
        spanning: Quoted fields may hold line ends, so a row is a record; otherwise a row is a line.
        keep_faulty: An unreadable line becomes a row of NULLs; otherwise it is left out.
    Raises:
        SchemaError: the header line is missing, too long, too wide or not UTF-8, or lacks or repeats a column; or the
            file cannot be unpacked.
    """
    packed = read_first_bytes(file, 2) == _GZIP
    columns = list(columns)
    names, delimiter = read_header(file, limits, packed=packed, table=table, declared=columns)
    read = frozenset(_find_columns(names, columns, table))
    if packed:
        _require_whole(file, table)
    return CsvRows(
        file.path, packed, delimiter.encode(), names, read, limits.line_bytes, spanning, keep_faulty=keep_faulty
    )


def _require_whole(file: SourceFile, table: str) -> None:
    """Refuse a gzipped file that cannot be unpacked completely, before anything is charged."""
    try:
        with gzip.open(file.path, "rb") as opened:
            while opened.read(BLOCK_BYTES):
                pass
    except (OSError, EOFError, zlib.error):
        raise _build_unpack_refusal(table) from None


def _find_columns(names: list[str], columns: Iterable[str], table: str) -> list[str]:
    """Return the header names of ``columns``, all of which must be there; the owner's log gets the actual ones."""
    by_name = {name.casefold(): name for name in names}
    wanted = {column: by_name.get(column.casefold()) for column in columns}
    missing = [column for column, name in wanted.items() if name is None]
    if not missing:
        return [name for name in wanted.values() if name is not None]
    OWNER_LOG.error("the header line of %s names these columns: %s", table, names)
    first, more = ", ".join(map(repr, missing[:5])), f" and {len(missing) - 5} more" if len(missing) > 5 else ""
    raise SchemaError(
        f"The first line of the CSV file of {table!r} does not name {first}{more}. The names found are only in "
        "the owner's log, since the line could be a row of data.",
        fix="write a header line with the attributes' names, or the columns' names into the table file",
    )


def read_header(
    file: SourceFile, limits: ReadLimits, *, packed: bool, table: str, declared: Iterable[str] = ()
) -> tuple[list[str], str]:
    """Return the names in the header line and the delimiter between them.

    Args:
        declared: Names that are taken verbatim; blanks around others are stripped.
    Raises:
        SchemaError: as ``open_csv_rows``.
    """

    def refused(what: str) -> SchemaError:
        return _build_refusal(what, table)

    with gzip.open(file.path, "rb") if packed else open(file.path, "rb") as opened:
        try:
            line = io.BufferedReader(opened).readline(limits.line_bytes + 1).decode("utf-8-sig")
        except UnicodeDecodeError:
            raise refused("is not UTF-8 in its header line") from None
        except (OSError, EOFError, zlib.error):
            raise _build_unpack_refusal(table) from None
    if not line.strip() or len(line) > limits.line_bytes:
        raise refused(
            "has no header line" if not line.strip() else f"has a header line over {limits.line_bytes:,} bytes"
        )
    _require_names(line, table)
    line = line.splitlines()[0]
    delimiter = max(DELIMITERS, key=line.count)
    try:
        found = next(csv.reader([line], delimiter=delimiter, strict=True))
    except csv.Error:
        raise refused("has quotes in its header line that do not match") from None
    if len(found) > limits.columns:
        raise refused(f"has {len(found):,} columns; the limit is {limits.columns:,}")
    wanted = {name.casefold() for name in declared}
    names = [name if name.casefold() in wanted else name.strip() for name in found]
    names = [name or f"column{i}" for i, name in enumerate(names, 1)]
    folded = [name.casefold() for name in names]
    places: dict[str, int] = {}
    for place, name in enumerate(folded, 1):
        if places.setdefault(name, place) != place:
            raise refused(f"gives its columns {places[name]} and {place} the same name")
    return names, delimiter


def _require_names(line: str, table: str) -> None:
    """Refuse a first line that holds the whole file, or a spreadsheet's note about its delimiter."""
    if "\r" in line.rstrip("\r\n"):  # the header line would hold all rows up to the first LF
        raise _build_refusal("ends its lines with only CR", table, fix="save it with LF or CR LF at the ends of lines")
    if re.fullmatch(r"sep=.?", line.strip("\r\n"), re.IGNORECASE):
        raise _build_refusal("begins with a sep= line, which does not name columns", table, fix="delete its first line")


def read_public_header(file: Path) -> tuple[list[str], str, bool]:
    """Return the column names and the delimiter of a public file, and whether it is gzipped.

    Raises:
        SchemaError: as ``open_csv_rows``.
    """
    straight = file.resolve()
    found = find_source_file(straight.name, straight.parent, table=file.stem)
    packed = read_first_bytes(found, 2) == _GZIP
    return *read_header(found, ReadLimits(), packed=packed, table=file.stem), packed


def _build_refusal(
    what: str, table: str, *, fix: str = "write a header line with one name per column, in UTF-8"
) -> SchemaError:
    return SchemaError(f"The CSV file of {table!r} {what}.", fix=fix)


def _build_unpack_refusal(table: str) -> SchemaError:
    return _build_refusal("cannot be unpacked", table)
