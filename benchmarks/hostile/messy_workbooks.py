"""Workbooks as people have them: the table of ``messy_files`` as a sheet, and workbooks that must be refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from benchmarks.hostile.messy_files import NAMES, MessyFile, Record, records
from benchmarks.hostile.workbooks import HEAD, MAIN, Book, Raw, Sheet

SOURCE = "xlsx:data/visits.xlsx"
VECTORS = Path(__file__).resolve().parents[2] / "tests" / "vectors" / "workbooks"


Rows = list[list[Any]]


def table(
    *, names: Sequence[str] | None = NAMES, change: Callable[[Record], Record] = dict, above: Sequence[Any] = ()
) -> list[list[Any]]:
    """The rows of a sheet: ``above``, the header row, and the records."""
    rows = [[change(row)[name] for name in NAMES] for row in records()]
    return [*above, *([list(names)] if names else []), *rows]


def _put(book: Book | bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / "visits.xlsx").write_bytes(book if isinstance(book, bytes) else book.write())


def _read(name: str, book: Book, reading: str = "") -> MessyFile:
    return MessyFile(f"sheet: {name}", _put(book), source=SOURCE, reading=reading)


def _refused(name: str, book: Book | bytes, refused: str, fix: str, **more: Any) -> MessyFile:
    return MessyFile(f"sheet: {name}", _put(book), source=SOURCE, refused=refused, fix=fix, **more)


def messy_workbooks() -> Iterator[MessyFile]:
    """All of them."""
    yield from _forms()
    yield from _cells()
    yield from _not_read()
    yield from _found_by_check()


def _forms() -> Iterator[MessyFile]:
    one = Sheet(table())
    yield _read("plain", Book([one]))
    yield _read("texts in cells", Book([one], inline=True))
    yield _read("days from 1904", Book([one], from_1904=True))
    yield _read("a prefix", Book([one], prefix="x:"))
    yield _read("not numbered", Book([replace(one, numbered=False)]))
    two = [Sheet([["read me"]], "Notes"), replace(one, name="Fälle & mehr")]
    yield _read("the second", Book(two), 'sheet = "Fälle & mehr"')
    yield _read("its name in capitals", Book(two), 'sheet = "FÄLLE & MEHR"')
    yield _read("titles", Book([Sheet(table(above=[["Visits"], [], [None, "of 2024"]]))]), "skip = 3")
    yield _read("from row 7", Book([replace(one, first=7)]), "skip = 6")
    listed = ", ".join(f'"{name}"' for name in NAMES)
    yield _read("no header row", Book([Sheet(table(names=None))]), f"names = [{listed}]")
    yield _read("names in capitals", Book([Sheet(table(names=[f" {name.upper()} " for name in NAMES]))]))
    between: Rows = [[None] * 7, [""] * 7] * 31
    blank = [row for pair in zip(table(), between, strict=False) for row in pair]
    yield _read("blank rows", Book([Sheet(blank)]))
    beside = [[*row, None, "a note" if i % 3 else None] for i, row in enumerate(table())]
    beside[0] = list(NAMES)
    yield _read("notes beside it", Book([Sheet([*beside, [None] * 8 + ["and below"]])]))
    for path in sorted(VECTORS.glob("*.xlsx")):
        yield MessyFile(f"sheet: {path.stem}", _put(path.read_bytes()), source=SOURCE, reading='sheet = "Visits"')


def _cells() -> Iterator[MessyFile]:
    def texts(row: Record) -> Record:
        price = (
            None if row["price"] is None else f"{row['price']:,}".replace(",", "_").replace(".", ",").replace("_", ".")
        )
        born = row["born"] and row["born"].strftime("%d.%m.%Y")
        seen = row["seen"] and row["seen"].strftime("%d.%m.%Y %H:%M")
        ill = None if row["ill"] is None else "ja" if row["ill"] else "nein"
        return {**row, "price": price, "age": row["age"] and str(row["age"]), "born": born, "seen": seen, "ill": ill}

    def some(row: Record) -> Record:
        return texts(row) if int(row["patient"][1:]) % 2 else row

    german = (
        'decimal = ","\nthousands = "."\ndate_format = "%d.%m.%Y"\ndatetime_format = "%d.%m.%Y %H:%M"\n'
        'true = ["ja"]\nfalse = ["nein"]'
    )
    yield _read("German texts", Book([Sheet(table(change=texts))]), german)
    yield _read("German texts among numbers and dates", Book([Sheet(table(change=some))]), german)
    yield _read("numbers and dates, read as German texts", Book([Sheet(table())]), german)
    book = Book([])

    def formula(row: Record) -> Record:
        made = {name: book.cell(value) for name, value in row.items() if value is not None and name != "patient"}
        found = {name: replace(raw, inner=f"<f>A1</f>{raw.inner}") for name, raw in made.items()}
        ward = Raw('t="str"', f"<f>A1</f><v>{row['ward']}</v>") if row["ward"] else Raw('t="str"', "<f>A1</f><v></v>")
        return {**row, **found, "ward": ward}

    yield _read("formulas", Book([Sheet(table(change=formula))], texts=book.texts))
    yield _read("errors that mean missing", Book([Sheet(table(change=_mark_missing))]), 'missing = ["#N/A"]')

    def rich(row: Record) -> Record:
        if row["ward"] is None:
            return row
        first, rest = row["ward"][:3], row["ward"][3:]
        inner = f'<is><r><rPr><b/></rPr><t>{first}</t></r><r><t>{rest}</t></r><rPh sb="0" eb="1"><t>x</t></rPh></is>'
        return {**row, "ward": Raw('t="inlineStr"', inner)}

    yield _read("rich texts", Book([Sheet(table(change=rich))]))
    yield _read("escaped characters", Book([Sheet(table(change=_escape_ward))]))
    yield _read("exponents", Book([Sheet(table(change=_write_exponents))]))
    yield _read("ISO dates", Book([Sheet(table(change=_write_iso))]))


def _mark_missing(row: Record) -> Record:
    return {name: Raw('t="e"', "<v>#N/A</v>") if value is None else value for name, value in row.items()}


def _escape_ward(row: Record) -> Record:
    inner = f"<is><t>{(row['ward'] or '').replace('e', '_x0065_')}</t></is>"
    return {**row, "ward": row["ward"] and Raw('t="inlineStr"', inner)}


def _write_exponents(row: Record) -> Record:
    return {**row, "price": None if row["price"] is None else Raw("", f"<v>{row['price'] * 100:f}E-2</v>")}


def _write_iso(row: Record) -> Record:
    dates = {name: Raw('t="d"', f"<v>{row[name].isoformat()}</v>") for name in ("born", "seen") if row[name]}
    return {**row, **dates}


def _not_read() -> Iterator[MessyFile]:
    one = Sheet(table())
    plain = Book([one]).write()
    two = [replace(one, name="Visits"), Sheet([["x"]], "Notes")]
    yield _refused("two, none named", Book(two), "has 2 sheets; expected one. It holds: 'Visits', 'Notes'",
                   'sheet = "Visits" under [reading]', mended='sheet = "Visits"')  # fmt: skip
    yield _refused("no such", Book(two), "no sheet named 'Visit'", 'sheet = "Visits"', reading='sheet = "Visit"',
                   mended='sheet = "Visits"')  # fmt: skip
    merged = '<mergeCells count="1"><mergeCell ref="B1:C1"/></mergeCells>'
    yield _refused("merged names", Book([replace(one, after=merged)]), "merged cells in its header row", "skip = 1")
    yield _refused("title not declared", Book([Sheet(table(above=[["Visits"]]))]), "does not name", "skip = 1",
                   mended="skip = 1")  # fmt: skip
    yield _refused("nothing", Book([Sheet([])]), "has no header row", "header row")
    yield _refused("names alike", Book([Sheet([["ward", "WARD"]])]), "the same name", "header row")
    yield _refused("an encoding", plain, "encoding does not belong", "remove encoding", reading='encoding = "cp1252"',
                   mended="")  # fmt: skip
    yield _refused(
        "password", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(999), "with a password", "without a password"
    )
    yield _refused("binary", Book([one], parts={"xl/workbook.bin": b"x"}), "binary workbook", "save it as .xlsx")
    ods = {"mimetype": b"application/vnd.oasis.opendocument.spreadsheet", "content.xml": b"<x/>"}
    yield _refused("OpenDocument", Book([one], parts=ods), "is an OpenDocument file", "save it as .xlsx")
    yield _refused("a text", b"patient,ward\n", "is not a workbook", "csv:")
    yield _refused("cut", plain[:-40], "not a valid zip file or workbook", "CSV")
    yield _refused("damaged", _spoil(plain), "is damaged", "save it as .xlsx")
    yield _refused("unclosed", Book([replace(one, after="<x>")]), "is damaged", "save it as .xlsx")
    order = f'{HEAD}<worksheet xmlns="{MAIN}"><sheetData><row r="2"/><row r="1"/></sheetData></worksheet>'.encode()
    out_of_order = Book([one], parts={"xl/worksheets/sheet1.xml": order})
    yield _refused("rows out of order", out_of_order, "is damaged", "save it as .xlsx")
    entities = f'<!DOCTYPE x [<!ENTITY a "b">]><worksheet xmlns="{MAIN}"/>'.encode()
    yield _refused("entities", Book([one], parts={"xl/worksheets/sheet1.xml": entities}), "is damaged", "save it")
    deep = f'<worksheet xmlns="{MAIN}">{"<a>" * 9_999}'.encode()
    yield _refused("nested", Book([one], parts={"xl/worksheets/sheet1.xml": deep}), "nested too deeply", "CSV")
    yield MessyFile("sheet: a workbook as CSV", _put(plain), source="csv:data/visits.xlsx", refused="is a workbook",
                    fix='source = "xlsx:')  # fmt: skip


def _spoil(data: bytes) -> bytes:
    at = data.index(b"xl/worksheets/sheet1.xml") + 200
    return data[:at] + bytes(byte ^ 0x55 for byte in data[at : at + 40]) + data[at + 40 :]


def _found_by_check() -> Iterator[MessyFile]:
    def unsaved(row: Record) -> Record:
        return {**row, "price": Raw("", "<f>2*3</f><v></v>")}

    def wrong(row: Record) -> Record:
        return {**row, "age": Raw('t="e"', "<v>#DIV/0!</v>")} if row["age"] == 6 else row

    yield MessyFile("sheet: formulas without values", _put(Book([Sheet(table(change=unsaved))])), source=SOURCE,
                    found="60 cells have formulas whose values are not in the file", fix="save it")  # fmt: skip
    yield MessyFile("sheet: errors", _put(Book([Sheet(table(change=wrong))])), source=SOURCE,
                    found="1 cell holds an error", fix="correct the formulas")  # fmt: skip
    merged = '<mergeCells count="2"><mergeCell ref="B2:B3"/><mergeCell ref="J1:J9"/></mergeCells>'
    rows = table()
    rows[2][1] = None
    yield MessyFile("sheet: merged cells", _put(Book([Sheet(rows, after=merged)])), source=SOURCE,
                    found="1 area of cells is merged", fix="split")  # fmt: skip
    comma = table(change=lambda row: {**row, "price": None if row["price"] is None else _comma(row["price"])})
    yield MessyFile("sheet: decimal commas not declared", _put(Book([Sheet(comma)])), source=SOURCE,
                    found="could be read as a number", fix='decimal = ","', mended='decimal = ","')  # fmt: skip


def _comma(price: Decimal) -> str:
    return str(price).replace(".", ",")
