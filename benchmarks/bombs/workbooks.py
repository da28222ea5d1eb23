"""Workbooks that would fill a machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from benchmarks.hostile.workbooks import HEAD, MAIN, Book, Sheet

SHEET, TEXTS, STYLES = "xl/worksheets/sheet1.xml", "xl/sharedStrings.xml", "xl/styles.xml"
_ROWS = Sheet([["x", "note"], [1, "a"], [2, "b"]])


def book(part: str, root: str, inner: bytes, *, times: int = 1) -> Callable[[Path], None]:
    """A workbook of which one part holds ``inner`` so many times."""

    def write(path: Path) -> None:
        data = f'{HEAD}<{root} xmlns="{MAIN}">'.encode() + inner * times + f"</{root}>".encode()
        path.write_bytes(Book([_ROWS], parts={part: data}).write())

    return write


def _names(count: int) -> bytes:
    return "".join(f"<a{i}/>" for i in range(count)).encode()


def _attributes(count: int) -> bytes:
    return "".join(f'<c a{i}=""/>' for i in range(count)).encode()


def laughs(path: Path) -> None:
    """A sheet whose entities stand for 10^10 others."""
    entities = "".join(f'<!ENTITY a{i} "{f"&a{i - 1};" * 10 if i else "ha"}">' for i in range(11))
    data = f'<!DOCTYPE x [{entities}]><worksheet xmlns="{MAIN}"><c>&a10;</c></worksheet>'.encode()
    path.write_bytes(Book([_ROWS], parts={SHEET: data}).write())


def sheets(path: Path) -> None:
    """A workbook of 5,000 sheets."""
    path.write_bytes(Book([Sheet([["x", "note"]], name=f"s{i}") for i in range(5_000)]).write())


def _rows(inner: Iterable[bytes]) -> bytes:
    return b"<sheetData>" + b"".join(inner) + b"</sheetData>"


WORKBOOKS: Mapping[str, Callable[[Path], None]] = {
    "entities": laughs,
    "5,000 sheets": sheets,
    "nested": book(SHEET, "worksheet", b"<a>", times=2**18),
    "10^5 names": book(SHEET, "worksheet", _names(90_000)),
    "10^5 attributes": book(SHEET, "worksheet", _attributes(60_000)),
    "a tag of 1 MB": book(SHEET, "worksheet", b'<c r="' + b"A" * (2**20 - 999) + b'"/>'),
    "a comment of 1 MB": book(TEXTS, "sst", b"<!--" + b"x" * (2**20 - 999) + b"-->"),
    "a value of 1 MB": book(SHEET, "worksheet", _rows([b"<row><c><v>", b"1" * (2**20 - 999), b"</v></c></row>"])),
    "10^8 shared texts": book(TEXTS, "sst", b"<si/>", times=10**8),
    "shared texts up to the limit": book(TEXTS, "sst", b"<si/>", times=(2**20 - 999) // 5),
    "a sheet of 400 MB": book(SHEET, "worksheet", bytes(4 * 10**8)),
    "rows up to the limit": book(SHEET, "worksheet", _rows([b"<row/>" * 172_000])),
    "2 10^5 cells in a row": book(SHEET, "worksheet", _rows([b"<row>", b"<c/>" * 200_000, b"</row>"])),
    "cells up to the limit": book(SHEET, "worksheet", _rows([b"<row>" + b"<c/>" * 16_000 + b"</row>"] * 16)),
    "4 10^4 merged areas": book(SHEET, "worksheet", b'<mergeCell ref="A9:B9"/>', times=38_000),
    "6 10^4 styles": book(STYLES, "styleSheet", b"<cellXfs>" + b'<xf numFmtId="0"/>' * 57_000 + b"</cellXfs>"),
}
"""Workbooks with columns x and note, or with none."""
