"""CSV text as rows: the result of a line depends only on that line, the delimiter and the number of columns.

``split_line`` is the definition. ``CsvRows`` gives the same rows much faster: whole blocks are tested with numpy, their
well-formed lines are parsed by Arrow, and only the others are parsed one by one.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from siloquent.data.engines.base import LineFault

BLOCK_BYTES = 2**22
BOM = b"\xef\xbb\xbf"
_QUOTE, _FEED, _RETURN = b'"\n\r'
_BEYOND_ASCII = 0x80


def split_line(line: bytes, delimiter: bytes, columns: int) -> list[str] | LineFault:
    """Return the cells of one line without its end, or the fault in the line.

    A field that begins with a quote ends with the next quote that is not doubled, which must be followed by the
    delimiter or the end. Any other field is taken verbatim. One delimiter at the end of a full line is ignored.

    >>> split_line(b'1,"a ""b"", c",5 ft 3"', b",", 3)
    ['1', 'a "b", c', '5 ft 3"']
    >>> split_line(b'1,"a"b', b",", 2), split_line(b"1,2,3", b",", 2), split_line(b"1,2,", b",", 2)
    ('form', 'form', ['1', '2'])
    """
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError:
        return "encoding"
    cells: list[str] = []
    at, by = 0, delimiter.decode()
    while at <= len(text):
        if text[at : at + 1] == '"':
            cell, at = _read_quoted(text, at + 1)
            if at < 0 or text[at : at + 1] not in ("", by):
                return "form"
        else:
            end = text.find(by, at)
            end = len(text) if end < 0 else end
            cell, at = text[at:end], end
        cells.append(cell)
        at += 1
    if len(cells) == columns + 1 and not cells[-1] and line.endswith(delimiter):
        cells.pop()
    return cells if len(cells) == columns else "form"


def _read_quoted(text: str, start: int) -> tuple[str, int]:
    """Return the quoted field with content from ``start``, and the position after its last quote; -1 without one."""
    end = start
    while (end := text.find('"', end)) >= 0:
        if text[end + 1 : end + 2] != '"':
            return text[start:end].replace('""', '"'), end + 1
        end += 2
    return "", -1


@dataclass(frozen=True, slots=True, eq=False)
class _LineBlock:
    """Whole lines: those that Arrow may parse, and the others one by one; ``None`` is a line that is too long."""

    plain: bytes
    others: list[bytes | None]


@dataclass(frozen=True, slots=True)
class CsvRows:
    """The rows of a CSV file after its header line, for any number of scans by DuckDB.

    Args:
        names: All columns; only ``wanted`` are read, the others are NULL.
        spanning: Line ends in quotes are part of a value, so a row is a record of RFC 4180; otherwise it is a line.
        keep_faulty: An unreadable line becomes a row of NULLs; otherwise it is left out.
    """

    path: str
    packed: bool
    delimiter: bytes
    names: Sequence[str]
    wanted: frozenset[str]
    line_bytes: int
    spanning: bool = False
    keep_faulty: bool = False
    _faults: dict[LineFault, int] = field(default_factory=dict)

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        """Return a new reader from the beginning; DuckDB takes one for each scan of the relation."""
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(self.schema, self._read_batches()).__arrow_c_stream__(requested_schema)

    @property
    def schema(self) -> pa.Schema:
        """All columns: texts, and NULL for those that are not read."""
        import pyarrow as pa

        return pa.schema([(name, pa.string() if name in self.wanted else pa.null()) for name in self.names])

    def count_faults(self) -> dict[LineFault, int]:
        """Return counts of unreadable lines, by fault; reads the whole file."""
        found: dict[LineFault, int] = {}
        for block in self._read_blocks():
            for line in block.others:
                cells = self._split(line)
                if isinstance(cells, str):
                    found[cells] = found.get(cells, 0) + 1
        return found

    def _split(self, line: bytes | None) -> list[str] | LineFault:
        return "form" if line is None else split_line(line, self.delimiter, len(self.names))

    def _read_batches(self) -> Iterator[pa.RecordBatch]:
        for block in self._read_blocks():
            if block.plain:
                yield from self._parse_plain(block.plain)
            if block.others:
                yield self._collect_others(block.others)

    def _parse_plain(self, text: bytes) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        from pyarrow import csv

        wanted = [name for name in self.names if name in self.wanted]
        table = csv.read_csv(
            pa.py_buffer(text),
            read_options=csv.ReadOptions(column_names=list(self.names), block_size=len(text) + 1, use_threads=False),
            parse_options=csv.ParseOptions(
                delimiter=self.delimiter.decode(), newlines_in_values=self.spanning, ignore_empty_lines=False
            ),
            convert_options=csv.ConvertOptions(
                include_columns=wanted or [self.names[0]],
                column_types=dict.fromkeys(self.names, pa.string()),
                null_values=[""],
                strings_can_be_null=True,
                check_utf8=False,
            ),
        )
        for batch in table.to_batches():
            yield self._widen({name: batch.column(name) for name in wanted}, batch.num_rows)

    def _collect_others(self, lines: list[bytes | None]) -> pa.RecordBatch:
        """Return the lines that Arrow may not parse; an unreadable line is a row of NULLs with ``keep_faulty``."""
        import pyarrow as pa

        nothing = [""] * len(self.names)
        rows = [nothing if isinstance(cells, str) else cells for cells in map(self._split, lines)
                if self.keep_faulty or not isinstance(cells, str)]  # fmt: skip
        columns = {
            name: pa.array([row[i] or None for row in rows], pa.string())
            for i, name in enumerate(self.names)
            if name in self.wanted
        }
        return self._widen(columns, len(rows))

    def _widen(self, columns: dict[str, pa.Array], rows: int) -> pa.RecordBatch:
        import pyarrow as pa

        arrays = [columns[name] if name in columns else pa.nulls(rows) for name in self.names]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _read_blocks(self) -> Iterator[_LineBlock]:
        """Yield the file in blocks of whole rows."""
        with gzip.open(self.path, "rb") if self.packed else open(self.path, "rb") as opened:
            cutter = _RowCutter(self.spanning, self.line_bytes)
            reader = cast(BinaryIO, opened)
            first = True
            while chunk := reader.read(BLOCK_BYTES):
                for data, ends, overlong in cutter.feed(chunk.removeprefix(BOM) if first else chunk):
                    yield self._test_lines(data, ends, overlong)
                first = False
            for data, ends, overlong in cutter.feed(b"", last=True):
                yield self._test_lines(data, ends, overlong)

    def _test_lines(self, data: bytes, ends: NDArray[np.int64], overlong: int) -> _LineBlock:
        """Return the lines of ``data``, with the well-formed ones identified by one vectorized test."""
        starts = np.concatenate([[0], ends[:-1] + 1]) if len(ends) else ends
        good = _find_well_formed(data, starts, ends, self.delimiter[0], len(self.names))
        lengths = ends - starts
        lengths = lengths - ((lengths > 0) & (np.frombuffer(data, np.uint8)[np.maximum(ends - 1, 0)] == _RETURN))
        long = lengths > self.line_bytes
        good &= ~long
        others: list[bytes | None] = [None] * overlong
        for place in np.flatnonzero(~good):
            start = int(starts[place])
            others.append(None if long[place] else data[start : start + int(lengths[place])])
        if good.all():
            return _LineBlock(data, others)
        chosen = np.repeat(good, ends + 1 - starts)
        return _LineBlock(np.frombuffer(data, np.uint8)[chosen].tobytes(), others)


class _RowCutter:
    """A splitter of a file, read in chunks, after its last whole row; a row that is too long is not kept."""

    def __init__(self, spanning: bool, line_bytes: int) -> None:
        self._spanning, self._most = spanning, line_bytes + 2
        self._rest = b""
        self._header = True
        self._skipping = self._inside = False

    def feed(self, chunk: bytes, *, last: bool = False) -> Iterator[tuple[bytes, NDArray[np.int64], int]]:
        """Yield whole rows, the ends of their lines, and the number of further rows that were too long."""
        data, overlong = self._rest + chunk, 0
        if last and data and not data.endswith(b"\n"):
            data += b"\n"
        ends = self._find_ends(data, self._inside if self._skipping else False)
        if self._skipping and len(ends):
            data, ends = data[ends[0] + 1 :], ends[1:] - ends[0] - 1
            self._skipping, overlong = False, 1
        if self._skipping:
            self._inside ^= bool(data.count(b'"') % 2)
            self._rest = b""
            if last:
                yield b"", ends, 1
            return
        cut = int(ends[-1]) + 1 if len(ends) else 0
        self._rest = data[cut:]
        if len(self._rest) > self._most and not last:
            self._skipping, self._inside = True, bool(self._rest.count(b'"') % 2)
            self._rest = b""
        elif last and self._rest:  # a record whose quote is never closed
            overlong, self._rest = overlong + 1, b""
        data = data[:cut]
        if self._header and len(ends):
            data, ends, self._header = data[ends[0] + 1 :], ends[1:] - ends[0] - 1, False
        if len(ends) or overlong:
            yield data, ends, overlong

    def _find_ends(self, data: bytes, inside: bool) -> NDArray[np.int64]:
        """Return the ends of rows: each line feed, or each one outside quotes."""
        view = np.frombuffer(data, np.uint8)
        ends = np.flatnonzero(view == _FEED)
        if self._spanning and (inside or b'"' in data):
            quotes = np.searchsorted(np.flatnonzero(view == _QUOTE), ends)
            ends = ends[(quotes + inside) % 2 == 0]
        return ends


def _find_well_formed(
    data: bytes, starts: NDArray[np.int64], ends: NDArray[np.int64], delimiter: int, columns: int
) -> NDArray[np.bool_]:
    """Return True for lines that Arrow reads as ``split_line`` does, shape (lines,); False also for some of those."""
    view = np.frombuffer(data, np.uint8)
    good = np.ones(len(ends), dtype=np.bool_)
    separators = np.flatnonzero(view == delimiter)
    if b'"' in data:
        quotes = np.flatnonzero(view == _QUOTE)
        before = np.searchsorted(quotes, starts)  # quotes before each line
        good &= _check_quotes(view, quotes, before, starts, ends, delimiter)
        line = np.searchsorted(ends, separators)
        within = (np.searchsorted(quotes, separators) - before[line]) % 2 == 1
        separators = separators[~within]
    counts = np.searchsorted(separators, ends) - np.searchsorted(separators, starts)
    good &= counts == columns - 1
    if b"\r" in data:  # one that ends nothing: Arrow would end a line there
        returns = np.flatnonzero(view == _RETURN)
        line = np.searchsorted(ends, returns)
        good[line[returns + 1 != ends[line]]] = False
    if BOM in data:  # Arrow takes it for a byte order mark wherever a block begins with it
        good &= view[starts] != BOM[0]
    if not _is_utf8(data):
        for place in np.unique(np.searchsorted(ends, np.flatnonzero(view >= _BEYOND_ASCII))):
            good[place] &= _is_utf8(data[int(starts[place]) : int(ends[place])])
    return good


def _check_quotes(
    view: NDArray[np.uint8],
    quotes: NDArray[np.int64],
    before: NDArray[np.int64],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    delimiter: int,
) -> NDArray[np.bool_]:
    """Return whether each line's quotes come in pairs that open at the beginning of a field and close at its end."""
    line = np.searchsorted(ends, quotes)
    rank = np.arange(len(quotes)) - before[line]
    opens = rank % 2 == 0
    left = view[np.maximum(quotes - 1, 0)]
    right = view[quotes + 1]  # a line's end at the latest
    fits_open = (quotes == starts[line]) | (left == delimiter) | ((rank > 0) & (left == _QUOTE))
    returns = (right == _RETURN) & (quotes + 2 == ends[line])
    fits_close = (right == delimiter) | (quotes + 1 == ends[line]) | (right == _QUOTE) | returns
    fits = np.ones(len(ends), dtype=np.bool_)
    fits[line[np.where(opens, ~fits_open, ~fits_close)]] = False
    totals = np.diff(np.append(before, len(quotes)))
    return np.asarray(fits & (totals % 2 == 0))


def _is_utf8(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
