"""The rows of a workbook's sheet: each cell as text, in the form that its column is declared to have.

Nothing is inferred from rows: what becomes of a row follows from its own cells, the header row and the declaration. A
row is a ``row`` element; one without a value in the named columns is left out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from siloquent.data.sources.workbooks.workbook import TextCollector, Workbook, unescape
from siloquent.foreign.documents import DocumentTooLarge
from siloquent.foreign.markup import Attributes, read_markup
from siloquent.schema.files.coercion import MAX_TEXT
from siloquent.schema.formats.value_formats import PLAIN_FORMAT, Family, ValueFormat
from siloquent.schema.formats.value_writing import write_moment, write_number

if TYPE_CHECKING:
    import pyarrow as pa

    from siloquent.data.engines.base import LineFault

MAX_ROW, MAX_COLUMN, MAX_MERGED = 2**20, 2**14, 2**15
BATCH_CELLS = 2**18
_NUMBER = re.compile(r"[+-]?([0-9]{1,400}[.]?[0-9]{0,400}|[.][0-9]{1,400})([eE][+-]?[0-9]{1,4})?")
_PLAIN_INTEGER = re.compile("0|-?[1-9][0-9]{0,14}")
_EXACT = 2**53
_LEAP = 60
"""The day 1900-02-29, which spreadsheets count though it never was."""

Forms = Mapping[str, tuple[Family, ValueFormat]]
"""What the values of a column are and how they are written, by its name in lower case."""


class _Cell(NamedTuple):
    column: int
    kind: str
    style: str
    has_formula: bool
    value: str | None


class _RowReader:
    """Handlers of a sheet's XML, which gather whole rows, each a list of cells."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, list[_Cell]]] = []
        self.merged: list[tuple[str, str]] = []
        self._row = self._column = 0
        self._cells: list[_Cell] = []
        self._kind, self._style, self._has_formula = "n", "0", False
        self._text: str | None = None
        self._parts: list[str] | None = None
        self._size = 0
        self._inline = TextCollector()
        self.starts: Mapping[str, Callable[[Attributes], None]] = {
            **self._inline.starts,
            "row": self._begin_row,
            "c": self._begin_cell,
            "v": self._begin_value,
            "f": self._begin_formula,
            "mergeCell": self._take_merged,
        }
        self.ends: Mapping[str, Callable[[], None]] = {
            **self._inline.ends,
            "row": self._end_row,
            "c": self._end_cell,
            "v": self._end_value,
        }

    def list_merged(self) -> Iterator[tuple[int, int]]:
        """Yield the first column and the last row of each merged area."""
        for first, last in self.merged:
            yield parse_place(first)[0], parse_place(last)[1]

    def add(self, text: str) -> None:
        """Take a part of a value."""
        if self._parts is None:
            self._inline.add(text)
        elif self._size <= MAX_TEXT:
            self._parts.append(text[: MAX_TEXT + 1])
            self._size += len(text)

    def _begin_row(self, attributes: Attributes) -> None:
        number = int(attributes.get("r", self._row + 1))
        if not self._row < number <= MAX_ROW:
            raise ValueError("rows are not in order")
        self._row, self._column = number, 0

    def _end_row(self) -> None:
        self.rows.append((self._row, self._cells))
        self._cells = []

    def _begin_cell(self, attributes: Attributes) -> None:
        place = attributes.get("r")
        column = self._column + 1 if place is None else _find_column(place.rstrip("0123456789"))
        if not self._column < column <= MAX_COLUMN:
            raise ValueError("cells are not in order")
        self._column, self._text, self._has_formula = column, None, False
        self._kind, self._style = attributes.get("t", "n"), attributes.get("s", "0")

    def _end_cell(self) -> None:
        if self._kind == "inlineStr":
            self._text = self._inline.take() or None
        if self._text is not None or self._has_formula:
            self._cells.append(_Cell(self._column, self._kind, self._style, self._has_formula, self._text))

    def _begin_value(self, attributes: Attributes) -> None:
        self._parts, self._size = [], 0

    def _end_value(self) -> None:
        self._text, self._parts = "".join(self._parts or ()), None

    def _begin_formula(self, attributes: Attributes) -> None:
        self._has_formula = True

    def _take_merged(self, attributes: Attributes) -> None:
        first, _, last = attributes.get("ref", "").partition(":")
        self.merged.append((first, last or first))
        if len(self.merged) > MAX_MERGED:
            raise DocumentTooLarge(f"it has more than {MAX_MERGED:,} merged areas")


@lru_cache(maxsize=MAX_COLUMN)
def _find_column(letters: str) -> int:
    """Return the number of a column, from 1.

    Raises:
        ValueError: it is not a column's name.
    """
    if not (letters.isascii() and letters.isalpha() and letters.isupper() and len(letters) < 4):
        raise ValueError("not a column")
    number = 0
    for letter in letters:
        number = number * 26 + ord(letter) - 64
    return number


def parse_place(text: str) -> tuple[int, int]:
    """Return column and row of a cell, from 1.

    Raises:
        ValueError: it is not the name of a cell.

    >>> parse_place("AB12")
    (28, 12)
    """
    letters = text.rstrip("0123456789")
    return _find_column(letters), int(text[len(letters) :])


@dataclass(frozen=True, slots=True, eq=False)
class SheetRows:
    """The rows of a sheet after its header row, for any number of scans by DuckDB.

    Args:
        names: The names of the first columns; cells of others are not read.
        wanted: The columns to be read; the others are NULL.
        skip: The number of first rows that are not rows of the table.
        keep_blank: A row element without a value becomes a row of NULLs; otherwise it is left out.
    """

    workbook: Workbook
    names: Sequence[str]
    wanted: frozenset[str]
    forms: Forms
    skip: int
    keep_blank: bool = False
    _columns: list[tuple[Family, ValueFormat] | None] = field(init=False)

    def __post_init__(self) -> None:
        plain: tuple[Family, ValueFormat] = ("text", PLAIN_FORMAT)
        columns = [self.forms.get(name.casefold(), plain) if name in self.wanted else None for name in self.names]
        object.__setattr__(self, "_columns", columns)

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
        """Return counts of cells without a value of their own, by fault; reads the whole sheet."""
        faults: Counter[LineFault] = Counter()
        for _ in self.read_batches(faults):
            pass
        return {fault: count for fault, count in faults.items() if count}

    def read_batches(self, faults: Counter[LineFault] | None = None) -> Iterator[pa.RecordBatch]:
        """Yield all rows in batches.

        Args:
            faults: Takes the counts of faults.
        """
        faults = Counter() if faults is None else faults
        rows: list[list[str | None]] = []
        most = max(1, BATCH_CELLS // len(self.names))
        reader = _RowReader()
        for found in _gather(self.workbook, reader):
            for number, cells in found:
                row = self._convert(cells, faults) if number > self.skip else None
                if row is not None:
                    rows.append(row)
                if len(rows) >= most:
                    yield self._build_batch(rows)
                    rows = []
        if rows:
            yield self._build_batch(rows)
        faults["merged"] += sum(last > self.skip and first <= len(self.names) for first, last in reader.list_merged())

    def _convert(self, cells: Sequence[_Cell], faults: Counter[LineFault]) -> list[str | None] | None:
        """Return the texts of a row, one for each named column; None if it is left out."""
        row: list[str | None] = [None] * len(self.names)
        is_blank, columns = True, self._columns
        for cell in cells:
            if cell.column > len(row):
                break
            is_blank = is_blank and not _has_value(self.workbook, cell)
            if (declared := columns[cell.column - 1]) is not None:
                row[cell.column - 1] = convert_cell(self.workbook, cell, declared[1], declared[0], faults)
        return None if is_blank and not self.keep_blank else row

    def _build_batch(self, rows: list[list[str | None]]) -> pa.RecordBatch:
        import pyarrow as pa

        arrays = [
            pa.array([row[place] or None for row in rows], pa.string()) if name in self.wanted else pa.nulls(len(rows))
            for place, name in enumerate(self.names)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _gather(workbook: Workbook, reader: _RowReader) -> Iterator[list[tuple[int, list[_Cell]]]]:
    """Yield the rows of each block of the sheet's XML."""
    with workbook.open_sheet() as opened:
        for _ in read_markup(opened, reader.starts, reader.ends, reader.add):
            found, reader.rows = reader.rows, []
            yield found


def read_names(workbook: Workbook, row: int) -> tuple[list[str], bool]:
    """Return the texts of one row, up to its last one, and whether cells of it are merged; parses the whole sheet.

    Raises:
        ValueError: the sheet is not valid.
    """
    reader, names = _RowReader(), list[str]()
    for found in _gather(workbook, reader):
        for number, cells in found:
            if number == row:
                texts = {c.column: convert_cell(workbook, c, PLAIN_FORMAT, "text", Counter()) or "" for c in cells}
                last = max((column for column, text in texts.items() if text.strip()), default=0)
                names = [texts.get(column, "") for column in range(1, last + 1)]
    merged = [(parse_place(first), parse_place(last)) for first, last in reader.merged]
    return names, any(first[1] <= row <= last[1] and first[0] <= len(names) for first, last in merged)


def convert_cell(
    workbook: Workbook, cell: _Cell, form: ValueFormat, family: Family, faults: Counter[LineFault]
) -> str | None:
    """Return a cell's value as a text in the form of its column; None if it has none."""
    text = cell.value
    if text is None or (not text and cell.has_formula and cell.kind == "n"):
        faults["formula"] += cell.has_formula
        return None
    if cell.kind == "s":
        return _find_shared(workbook, text)
    if cell.kind in ("str", "inlineStr"):
        return _keep_unicode(unescape(text))
    if cell.kind == "b":
        return "true" if text.strip() in ("1", "true") else "false"
    if cell.kind == "e":
        faults["error"] += not form.is_missing(text, "text")
        return None
    if cell.kind == "d":
        return _convert_iso(text.strip(), form, family)
    if cell.style in workbook.date_styles:
        return _convert_serial(text.strip(), workbook.from_1904, form, family)
    return _convert_number(text.strip(), form, family)


def _find_shared(workbook: Workbook, number: str) -> str | None:
    return workbook.texts.get(int(number)) if number.isdecimal() and len(number) < 12 else None


def _has_value(workbook: Workbook, cell: _Cell) -> bool:
    if cell.kind == "s" and cell.value is not None:
        return bool(_find_shared(workbook, cell.value))
    return bool(cell.value) or (cell.has_formula and cell.kind == "n")


def _keep_unicode(text: str) -> str | None:
    return text if text.isascii() or not re.search("[\ud800-\udfff]", text) else None


def _convert_number(text: str, form: ValueFormat, family: Family) -> str | None:
    if _PLAIN_INTEGER.fullmatch(text):
        return text
    if not _NUMBER.fullmatch(text):
        return None
    value = float(text)
    if value.is_integer() and abs(value) < _EXACT:
        return str(int(value))
    if family == "text" and abs(value) >= _EXACT:
        return None  # a spreadsheet keeps 15 digits: two ids would be one
    return write_number(repr(value), form, family)


def _convert_iso(text: str, form: ValueFormat, family: Family) -> str | None:
    try:
        return write_moment(datetime.fromisoformat(text).replace(tzinfo=None), form, family)
    except ValueError:
        return None


@lru_cache(maxsize=2**16)
def _convert_serial(text: str, from_1904: bool, form: ValueFormat, family: Family) -> str | None:
    """Return a day and time, which a spreadsheet stores as a number of days."""
    if not _NUMBER.fullmatch(text):
        return None
    days = float(text)
    if not 0 <= days < 3_000_000:
        return None
    moment = timedelta(milliseconds=round(days * 86_400_000))
    if moment < timedelta(days=1) and not from_1904:
        return str((datetime.min + moment).time())
    if not from_1904 and moment.days == _LEAP:
        return None
    start = datetime(1904, 1, 1) if from_1904 else datetime(1899, 12, 30 if moment.days > _LEAP else 31)
    try:
        return write_moment(start + moment, form, family)
    except OverflowError:
        return None
