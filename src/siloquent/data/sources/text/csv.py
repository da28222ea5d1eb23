"""CSV files: names from the header line, every cell as text, each line read separately (``lines``).

Nothing is inferred from rows: types, quoting and the number of skipped lines must not depend on one person's row. The
first line is never shown: in a file without a header it is a person's row.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from siloquent.data.engines.base import OWNER_LOG, LineFault, ReadLimits
from siloquent.data.sources.column_names import find_columns, name_columns
from siloquent.data.sources.files import SourceFile
from siloquent.data.sources.text.lines import CsvRows
from siloquent.data.sources.text.packed import TextFile, build_file_refusal, find_text
from siloquent.errors import SchemaError
from siloquent.schema.formats.reading import Reading

if TYPE_CHECKING:
    import pyarrow as pa

DELIMITERS = (",", ";", "\t", "|")
_FIX = "write a header line with one name per column, in UTF-8; if titles stand above it: skip = 1 under [reading]"


@dataclass(frozen=True, slots=True)
class CsvHeader:
    """The names of the columns, the delimiter between them, and the number of lines before the rows."""

    names: list[str]
    delimiter: str
    lines: int


@dataclass(frozen=True, slots=True)
class CsvParts:
    """The rows of several files with the same columns, in the order of the first file's."""

    parts: Sequence[CsvRows]

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        """Return a new reader from the beginning of the first file."""
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(self.schema, self.read_batches()).__arrow_c_stream__(requested_schema)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the first file."""
        return self.parts[0].schema

    def count_faults(self) -> dict[LineFault, int]:
        """Return counts of unreadable lines in all files, by fault."""
        found: dict[LineFault, int] = {}
        for part in self.parts:
            for fault, count in part.count_faults().items():
                found[fault] = found.get(fault, 0) + count
        return found

    def read_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows in batches."""
        import pyarrow as pa

        schema = self.schema
        for part in self.parts:
            places = {name.casefold(): place for place, name in enumerate(part.names)}
            chosen = [places[name.casefold()] for name in schema.names]
            for batch in part.read_batches():
                yield pa.RecordBatch.from_arrays([batch.column(place) for place in chosen], schema=schema)


def open_csv_rows(
    files: Sequence[SourceFile],
    limits: ReadLimits,
    columns: Iterable[str],
    *,
    table: str,
    spanning: bool,
    keep_faulty: bool,
    reading: Reading | None = None,
) -> CsvRows | CsvParts:
    """Return the rows of CSV files, in the form that ``reading`` says.

    Args:
        columns: The columns that will be read.
        spanning: Quoted fields may hold line ends, so a row is a record; otherwise a row is a line.
        keep_faulty: An unreadable line becomes a row of NULLs; otherwise it is left out.
    Raises:
        SchemaError: a header line is missing, too long, too wide or not in the encoding, or lacks or repeats a column;
            a file cannot be unpacked; or two files have different columns.
    """
    reading, columns = reading or Reading(), list(columns)
    parts: list[CsvRows] = []
    for file in files:
        if len(files) > 1 and not file.size:
            continue  # an empty part has no rows, and no header line either
        text = _find_text(file, reading, table)
        header = read_header(text, limits, reading, table=table, declared=columns)
        read = frozenset(find_columns(header.names, columns, table, "line of the CSV file"))
        if parts and {name.casefold() for name in parts[0].names} != {name.casefold() for name in header.names}:
            OWNER_LOG.error("%s and %s name other columns: %s", parts[0].file.path, text.path, header.names)
            name = Path(file.path).name
            raise build_file_refusal(table, f"{name!r} has other columns than the first part", "write the same header")
        parts.append(
            CsvRows(
                text,
                header.delimiter.encode(),
                header.names,
                read,
                limits.line_bytes,
                spanning,
                keep_faulty=keep_faulty,
                skip=header.lines,
                quote=reading.quote.encode(),
            )
        )
    if not parts:
        raise _build_refusal("has no header line", table)
    return parts[0] if len(parts) == 1 else CsvParts(parts)


def _find_text(file: SourceFile, reading: Reading, table: str) -> TextFile:
    return find_text(
        file.path,
        file.size,
        member=reading.member,
        encoding=reading.encoding,
        has_header=not reading.names or reading.skip > 0,
        table=table,
    )


def read_header(
    text: TextFile, limits: ReadLimits, reading: Reading, *, table: str, declared: Iterable[str] = ()
) -> CsvHeader:
    """Return the names in the header line, or the declared ones of a file without.

    Args:
        declared: Names that are taken verbatim; blanks around others are stripped.
    Raises:
        SchemaError: as ``open_csv_rows``.
    """
    if reading.names:
        names = list(reading.names)
        if len(names) > limits.columns:
            raise _build_refusal(f"has {len(names):,} columns; the limit is {limits.columns:,}", table)
        _read_first_lines(text, limits, reading.skip, table)
        return CsvHeader(names, reading.delimiter or ",", reading.skip)
    line = _decode_header(_read_first_lines(text, limits, reading.skip + 1, table), reading, table)
    delimiter = reading.delimiter or max(DELIMITERS, key=line.count)
    found = _split_header(line, delimiter, reading.quote, table)
    if len(found) > limits.columns:
        raise _build_refusal(f"has {len(found):,} columns; the limit is {limits.columns:,}", table)
    try:
        names = name_columns(found, declared)
    except ValueError as wrong:
        raise _build_refusal(str(wrong), table) from None
    return CsvHeader(names, delimiter, reading.skip + 1)


def _split_header(line: str, delimiter: str, quote: str, table: str) -> list[str]:
    style: dict[str, Any] = {"quotechar": quote} if quote else {"quoting": csv.QUOTE_NONE}
    try:
        return next(csv.reader([line], delimiter=delimiter, strict=True, **style))
    except csv.Error:
        raise _build_refusal("has quotes in its header line that do not match", table) from None


def _read_first_lines(text: TextFile, limits: ReadLimits, count: int, table: str) -> bytes:
    """Return the last of the first lines, none of which may be too long; it is empty if there are fewer."""
    line = b""
    with text.open() as opened:
        for _ in range(count):
            line = opened.readline(limits.line_bytes + 1)
            if len(line) > limits.line_bytes:
                raise _build_refusal(f"has a header line over {limits.line_bytes:,} bytes", table)
    return line


def _decode_header(raw: bytes, reading: Reading, table: str) -> str:
    try:
        line = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        what = f"is not {reading.encoding.upper()} in its header line"
        raise _build_refusal(what, table, fix='encoding = "cp1252" under [reading], or save it as UTF-8') from None
    if not line.strip():
        raise _build_refusal("has no header line", table)
    if "\r" in line.rstrip("\r\n"):  # the header line would hold all rows up to the first LF
        raise _build_refusal("ends its lines with only CR", table, fix="save it with LF or CR LF at the ends of lines")
    if re.fullmatch(r"sep=.?", line.strip("\r\n"), re.IGNORECASE):
        raise _build_refusal(
            "begins with a sep= line, which does not name columns",
            table,
            fix=f"skip = {reading.skip + 1} under [reading], or delete its first line",
        )
    return line.splitlines()[0]


def read_file_header(file: SourceFile, reading: Reading, *, table: str) -> CsvHeader:
    """Return the names in a file's header line before any is declared.

    Raises:
        SchemaError: as ``open_csv_rows``.
    """
    return read_header(_find_text(file, reading, table), ReadLimits(), reading, table=table)


def _build_refusal(what: str, table: str, *, fix: str = _FIX) -> SchemaError:
    return SchemaError(f"The CSV file of {table!r} {what}.", fix=fix)
