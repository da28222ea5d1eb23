"""Workbooks (.xlsx): which part is the sheet, which styles are dates, and the texts that cells share.

The zip file is bounded as any other (``packed``), and its parts are parsed as streams. Texts that cells share are kept
together, in memory that is bounded by the size of the file.
"""

from __future__ import annotations

import posixpath
import re
import zipfile  # allowed: opened by open_archive, which bounds it
import zlib
from array import array
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import BinaryIO, cast

from siloquent.data.sources.text.packed import build_file_refusal, open_archive
from siloquent.errors import SchemaError
from siloquent.foreign.documents import DocumentTooLarge
from siloquent.foreign.markup import Attributes, MarkupError, read_markup
from siloquent.schema.files.coercion import MAX_TEXT
from siloquent.schema.files.toml import quote_text

Starts = Mapping[str, Callable[[Attributes], None]]
Ends = Mapping[str, Callable[[], None]]
Text = Callable[[str], None]
MAX_SHEETS, MAX_STYLES = 1_000, 2**16
MAX_PART, MAX_RATIO = 2**20, 200
"""A part may unpack to more than ``MAX_PART`` bytes only if that is at most ``MAX_RATIO`` times the file's size."""
SAVE_AS_XLSX = "open it in a spreadsheet program and save it as .xlsx, without a password"
_DATES = frozenset((*range(14, 23), *range(27, 37), *range(50, 59)))
"""The numbers of built-in formats that show a date or a time of day; 45 to 47 are durations."""
_NOT_SHOWN = re.compile(r'"[^"]*"|\\.|_.|\*.|\[[^\]]*\]', re.DOTALL)
_ESCAPE = re.compile("_x([0-9A-Fa-f]{4})_")
_UNDECODABLE = b"\xff"


@dataclass(frozen=True, slots=True)
class SharedTexts:
    """The texts that cells refer to by number."""

    data: bytearray = field(default_factory=bytearray)
    ends: array[int] = field(default_factory=lambda: array("Q"))

    def add(self, text: str) -> None:
        """Add the next text."""
        try:
            self.data.extend(unescape(text).encode())
        except UnicodeEncodeError:
            self.data.extend(_UNDECODABLE)
        self.ends.append(len(self.data))

    def get(self, number: int) -> str | None:
        """Return a text; None if there is none of that number, or if it is not Unicode."""
        if not 0 <= number < len(self.ends):
            return None
        try:
            return self.data[self.ends[number - 1] if number else 0 : self.ends[number]].decode()
        except UnicodeDecodeError:
            return None


def unescape(text: str) -> str:
    """Return a text with the characters that XML cannot hold, which are written as ``_x000D_``.

    >>> unescape("a_x0041_b_x005F_x0041_")
    'aAb_x0041_'
    """
    if "_x" not in text:
        return text
    found = _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)
    try:  # two halves of a character beyond 16 bits
        return found.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        return found


@dataclass(frozen=True, slots=True)
class Workbook:
    """One sheet of a workbook, and what its cells refer to.

    Attributes:
        part: The name of the sheet's part of the zip file.
        date_styles: The numbers of the styles of dates and times.
        from_1904: Days are counted from 1904-01-01.
    """

    path: str
    part: str
    texts: SharedTexts
    date_styles: frozenset[str]
    from_1904: bool

    @contextmanager
    def open_sheet(self) -> Iterator[BinaryIO]:
        """Open the sheet's XML."""
        with zipfile.ZipFile(self.path) as archive, archive.open(self.part) as opened:
            yield cast(BinaryIO, opened)


def open_workbook(path: str, size: int, sheet: str, *, table: str) -> Workbook:
    """Return the sheet named ``sheet`` of a workbook; without a name, its only one.

    Raises:
        SchemaError: the file is not a workbook, is damaged, or unpacks to too much; or it has no such sheet.
    """
    _require_zip(path, table)
    with open_archive(path, size, table=table) as archive, refuse_damaged(table):
        parts = _Parts(archive, size, table)
        found = _read_contents(parts, table)
        chosen = _choose_sheet(found.sheets, sheet, table)
        texts = SharedTexts()
        if found.strings:
            _read_texts(parts, found.strings, texts)
        dates = _read_date_styles(parts, found.styles) if found.styles else frozenset()
        return Workbook(path, parts.find(chosen), texts, dates, found.from_1904)


def _require_zip(path: str, table: str) -> None:
    with open(path, "rb") as opened:
        first = opened.read(8)
    if first.startswith(b"\xd0\xcf\x11\xe0"):
        raise build_file_refusal(table, "is an .xls workbook, or one with a password", SAVE_AS_XLSX)
    if not first.startswith(b"PK"):
        raise build_file_refusal(table, "is not a workbook", 'source = "csv:..." if it is a text')


@contextmanager
def refuse_damaged(table: str) -> Iterator[None]:
    """Refuse a file whose parts are damaged or exceed a bound.

    Raises:
        SchemaError: instead of the readers' own errors.
    """
    try:
        yield
    except SchemaError:
        raise
    except DocumentTooLarge as wrong:
        raise build_file_refusal(
            table, f"cannot be read as a workbook: {wrong}", "save its rows as CSV (UTF-8)"
        ) from None
    except (MarkupError, OSError, EOFError, zlib.error, zipfile.BadZipFile, ValueError, KeyError):
        raise build_file_refusal(table, "is damaged: it is not a valid workbook", SAVE_AS_XLSX) from None


class _Parts:
    """The parts of a workbook, by their names whatever their case."""

    def __init__(self, archive: zipfile.ZipFile, size: int, table: str) -> None:
        self._archive, self._size, self._table = archive, size, table
        self._names = {name.lower(): name for name in archive.namelist()}

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._names

    def find(self, name: str) -> str:
        """Return the name of a part as the file has it, if it does not unpack to too much."""
        info = self._archive.getinfo(self._names[name.lower()])
        most = max(MAX_PART, MAX_RATIO * self._size)
        if info.file_size > most:
            what = f"holds more than {most >> 20:,} MiB in {info.filename[:60]!r}"
            raise build_file_refusal(self._table, what, "save its rows as CSV (UTF-8)")
        return info.filename

    def read(self, name: str, starts: Starts, ends: Ends | None = None, text: Text | None = None) -> None:
        """Parse a part."""
        with self._archive.open(self.find(name)) as opened:
            for _ in read_markup(cast(BinaryIO, opened), starts, ends or {}, text):
                pass


@dataclass(slots=True)
class _Contents:
    """The contents of a workbook: its sheets' parts by name, and its other parts."""

    sheets: dict[str, str] = field(default_factory=dict)
    styles: str = ""
    strings: str = ""
    from_1904: bool = False


def _read_contents(parts: _Parts, table: str) -> _Contents:
    _require_workbook(parts, table)
    main = next((target for kind, target in _read_relations(parts, "").values() if kind == "officeDocument"), "")
    main = main or "xl/workbook.xml"
    relations = _read_relations(parts, main)
    found = _Contents()
    for kind, target in relations.values():
        if kind == "styles" and target in parts:
            found.styles = target
        elif kind == "sharedStrings" and target in parts:
            found.strings = target

    def take_properties(attributes: Attributes) -> None:
        found.from_1904 = attributes.get("date1904", "0") in ("1", "true")

    def take_sheet(attributes: Attributes) -> None:
        link = next((value for key, value in attributes.items() if key.rpartition(":")[2] == "id"), "")
        kind, target = relations.get(link, ("", ""))
        if kind == "worksheet" and target in parts:
            found.sheets[attributes.get("name", "")] = target
        if len(found.sheets) > MAX_SHEETS:
            raise DocumentTooLarge(f"it has more than {MAX_SHEETS:,} sheets")

    parts.read(main, {"workbookPr": take_properties, "sheet": take_sheet})
    return found


def _require_workbook(parts: _Parts, table: str) -> None:
    if "xl/workbook.bin" in parts:
        raise build_file_refusal(table, "is a binary workbook (.xlsb)", SAVE_AS_XLSX)
    if "content.xml" in parts and "mimetype" in parts:
        raise build_file_refusal(table, "is an OpenDocument file", SAVE_AS_XLSX)
    if "[Content_Types].xml" not in parts:
        raise build_file_refusal(table, "is a zip file, not a workbook", 'source = "csv:..." if it holds a CSV file')


def _read_relations(parts: _Parts, part: str) -> dict[str, tuple[str, str]]:
    """Return the parts that one part refers to: kinds and names by id."""
    folder, name = posixpath.split(part)
    place = posixpath.join(folder, "_rels", f"{name}.rels")
    found: dict[str, tuple[str, str]] = {}

    def take(attributes: Attributes) -> None:
        if attributes.get("TargetMode") == "External":
            return
        target = posixpath.normpath(posixpath.join("/", folder, attributes.get("Target", ""))).lstrip("/")
        found[attributes.get("Id", "")] = (attributes.get("Type", "").rpartition("/")[2], target)

    if place in parts:
        parts.read(place, {"Relationship": take})
    return found


def _choose_sheet(sheets: dict[str, str], wanted: str, table: str) -> str:
    by_name = {name.casefold(): name for name in sheets}
    if wanted and wanted.casefold() in by_name:
        return sheets[by_name[wanted.casefold()]]
    if not wanted and len(sheets) == 1:
        return next(iter(sheets.values()))
    known = ", ".join(repr(name[:60]) for name in list(sheets)[:20]) or "none"
    which = f"no sheet named {wanted[:60]!r}" if wanted else f"{len(sheets):,} sheets; expected one"
    first = quote_text(next(iter(sheets), "Sheet1")[:60])
    raise build_file_refusal(table, f"has {which}. It holds: {known}", f"sheet = {first} under [reading]")


def _read_texts(parts: _Parts, name: str, texts: SharedTexts) -> None:
    collected = TextCollector()
    parts.read(name, collected.starts, {**collected.ends, "si": lambda: texts.add(collected.take())}, collected.add)


class TextCollector:
    """The text in ``t`` elements, without readings of characters (``rPh``), cut where it is too long to be read."""

    __slots__ = ("_open", "_parts", "_phonetic", "_size")

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._size = self._phonetic = 0
        self._open = False

    @property
    def starts(self) -> Starts:
        """Handlers of elements as they begin."""
        return {"t": self._begin, "rPh": lambda _: self._count_phonetic(1)}

    @property
    def ends(self) -> Ends:
        """Handlers of elements as they end."""
        return {"t": self._end, "rPh": lambda: self._count_phonetic(-1)}

    def _begin(self, attributes: Attributes) -> None:
        self._open = not self._phonetic

    def _end(self) -> None:
        self._open = False

    def _count_phonetic(self, step: int) -> None:
        self._phonetic += step

    def add(self, text: str) -> None:
        """Take a part of the text, if it belongs to the value."""
        if self._open and self._size <= MAX_TEXT:
            self._parts.append(text[: MAX_TEXT + 1])
            self._size += len(text)

    def take(self) -> str:
        """Return the text, and begin anew."""
        found = "".join(self._parts)
        self._parts.clear()
        self._size = 0
        return found


def _read_date_styles(parts: _Parts, name: str) -> frozenset[str]:
    codes: dict[str, str] = {}
    styles: list[str] = []
    is_within = False

    def enter(attributes: Attributes) -> None:
        nonlocal is_within
        is_within = True

    def leave() -> None:
        nonlocal is_within
        is_within = False

    def take_format(attributes: Attributes) -> None:
        codes[attributes.get("numFmtId", "")] = attributes.get("formatCode", "")

    def take_style(attributes: Attributes) -> None:
        if is_within:
            styles.append(attributes.get("numFmtId", "0"))
        if len(styles) > MAX_STYLES:
            raise DocumentTooLarge(f"it has more than {MAX_STYLES:,} styles")

    parts.read(name, {"cellXfs": enter, "numFmt": take_format, "xf": take_style}, {"cellXfs": leave})
    dates = {number for number in set(styles) if _is_date(number, codes)}
    return frozenset(str(place) for place, number in enumerate(styles) if number in dates)


def _is_date(number: str, codes: dict[str, str]) -> bool:
    if number in codes:
        return is_date_format(codes[number])
    return number.isdecimal() and int(number) in _DATES


def is_date_format(code: str) -> bool:
    """Return whether a number format shows a date or a time of day; elapsed hours are a number of days.

    >>> is_date_format("dd.mm.yyyy"), is_date_format('0.00 "day"'), is_date_format("[h]:mm:ss")
    (True, False, False)
    """
    if re.search(r"\[(h+|m+|s+)\]", code, re.IGNORECASE):
        return False
    return bool(re.search("[dmyhs]", _NOT_SHOWN.sub("", code.partition(";")[0]).lower().replace("general", "")))
