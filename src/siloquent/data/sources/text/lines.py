"""CSV text as rows: the result of a line depends only on that line, the delimiter and the number of columns.

``split_line`` is the definition. ``CsvRows`` gives the same rows much faster: whole blocks are tested with numpy, their
well-formed lines are parsed by Arrow, and only the others are parsed one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from siloquent.data.sources.text.packed import BLOCK_BYTES, BOM, TextFile

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from siloquent.data.engines.base import LineFault

QUOTE = b'"'
_FEED, _RETURN = b"\n\r"
_BEYOND_ASCII = 0x80


def split_line(line: bytes, delimiter: bytes, columns: int, quote: bytes = QUOTE) -> list[str] | LineFault:
    """Return the cells of one line without its end, or the fault in the line; without ``quote``, quotes are text.

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
    at, by, sign = 0, delimiter.decode(), quote.decode() or None
    while at <= len(text):
        if sign is not None and text[at : at + 1] == sign:
            cell, at = _read_quoted(text, at + 1, sign)
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


def _read_quoted(text: str, start: int, quote: str) -> tuple[str, int]:
    """Return the quoted field with content from ``start``, and the position after its last quote; -1 without one."""
    end = start
    while (end := text.find(quote, end)) >= 0:
        if text[end + 1 : end + 2] != quote:
            return text[start:end].replace(quote * 2, quote), end + 1
        end += 2
    return "", -1


@dataclass(frozen=True, slots=True, eq=False)
class _LineBlock:
    """Whole lines: those that Arrow may parse, and the others one by one; ``None`` is a line that is too long."""

    plain: bytes
    others: list[bytes | None]


@dataclass(frozen=True, slots=True)
class CsvRows:
    """The rows of a CSV file after its first lines, for any number of scans by DuckDB.

    Args:
        skip: The number of first lines that are not rows.
        quote: Empty: quotes are text.
        names: All columns; only ``wanted`` are read, the others are NULL.
        spanning: Line ends in quotes are part of a value, so a row is a record of RFC 4180; otherwise it is a line.
        keep_faulty: An unreadable line becomes a row of NULLs; otherwise it is left out.
    """

    file: TextFile
    delimiter: bytes
    names: Sequence[str]
    wanted: frozenset[str]
    line_bytes: int
    spanning: bool = False
    keep_faulty: bool = False
    skip: int = 1
    quote: bytes = QUOTE
    _faults: dict[LineFault, int] = field(default_factory=dict)

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        """Return a new reader from the beginning; DuckDB takes one for each scan of the relation."""
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(self.schema, self.read_batches()).__arrow_c_stream__(requested_schema)

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
        return "form" if line is None else split_line(line, self.delimiter, len(self.names), self.quote)

    def read_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows in batches."""
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
                delimiter=self.delimiter.decode(),
                quote_char=self.quote.decode() or False,
                newlines_in_values=self.spanning,
                ignore_empty_lines=False,
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
        with self.file.open() as opened:
            cutter = _RowCutter(self.quote if self.spanning else b"", self.line_bytes)
            for _ in range(self.skip):
                opened.readline()
            while chunk := opened.read(BLOCK_BYTES):
                for data, ends, overlong in cutter.feed(chunk):
                    yield self._test_lines(data, ends, overlong)
            for data, ends, overlong in cutter.feed(b"", last=True):
                yield self._test_lines(data, ends, overlong)

    def _test_lines(self, data: bytes, ends: NDArray[np.int64], overlong: int) -> _LineBlock:
        """Return the lines of ``data``, with the well-formed ones identified by one vectorized test."""
        starts = np.concatenate([[0], ends[:-1] + 1]) if len(ends) else ends
        good = _find_well_formed(data, starts, ends, self.delimiter[0], len(self.names), self.quote)
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
    """A splitter of a file, read in chunks, after its last whole row; a row that is too long is not kept.

    Within ``quote``, if there is one, line ends are part of a row.
    """

    def __init__(self, quote: bytes, line_bytes: int) -> None:
        self._quote, self._most = quote, line_bytes + 2
        self._rest = b""
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
            self._inside ^= self._is_odd(data)
            self._rest = b""
            if last:
                yield b"", ends, 1
            return
        cut = int(ends[-1]) + 1 if len(ends) else 0
        self._rest = data[cut:]
        if len(self._rest) > self._most and not last:
            self._skipping, self._inside = True, self._is_odd(self._rest)
            self._rest = b""
        elif last and self._rest:  # a record whose quote is never closed
            overlong, self._rest = overlong + 1, b""
        data = data[:cut]
        if len(ends) or overlong:
            yield data, ends, overlong

    def _is_odd(self, data: bytes) -> bool:
        return bool(self._quote) and data.count(self._quote) % 2 == 1

    def _find_ends(self, data: bytes, inside: bool) -> NDArray[np.int64]:
        """Return the ends of rows: each line feed, or each one outside quotes."""
        view = np.frombuffer(data, np.uint8)
        ends = np.flatnonzero(view == _FEED)
        if self._quote and (inside or self._quote in data):
            quotes = np.searchsorted(np.flatnonzero(view == self._quote[0]), ends)
            ends = ends[(quotes + inside) % 2 == 0]
        return ends


def _find_well_formed(
    data: bytes, starts: NDArray[np.int64], ends: NDArray[np.int64], delimiter: int, columns: int, quote: bytes
) -> NDArray[np.bool_]:
    """Return True for lines that Arrow reads as ``split_line`` does, shape (lines,); False also for some of those."""
    view = np.frombuffer(data, np.uint8)
    good = np.ones(len(ends), dtype=np.bool_)
    separators = np.flatnonzero(view == delimiter)
    if quote and quote in data:
        quotes = np.flatnonzero(view == quote[0])
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
    quote = view[quotes[0]]
    line = np.searchsorted(ends, quotes)
    rank = np.arange(len(quotes)) - before[line]
    opens = rank % 2 == 0
    left = view[np.maximum(quotes - 1, 0)]
    right = view[quotes + 1]  # a line's end at the latest
    fits_open = (quotes == starts[line]) | (left == delimiter) | ((rank > 0) & (left == quote))
    returns = (right == _RETURN) & (quotes + 2 == ends[line])
    fits_close = (right == delimiter) | (quotes + 1 == ends[line]) | (right == quote) | returns
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
