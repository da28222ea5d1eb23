"""Workbooks (.xlsx) of any rows, written by hand: every way to write a cell, and what no program would write."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from xml.sax.saxutils import escape, quoteattr

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006/relationships"
HEAD = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
STYLES = f"""{HEAD}<styleSheet xmlns="{MAIN}"><numFmts count="1">
<numFmt numFmtId="164" formatCode="dd\\.mm\\.yyyy\\ hh:mm;@"/></numFmts>
<cellStyleXfs count="1"><xf numFmtId="14"/></cellStyleXfs>
<cellXfs count="3"><xf numFmtId="0"/><xf numFmtId="14"/><xf numFmtId="164"/></cellXfs></styleSheet>"""


@dataclass(frozen=True, slots=True)
class Raw:
    """A cell's attributes and contents, as they stand in the file."""

    attributes: str
    inner: str


@dataclass(slots=True)
class Sheet:
    """A sheet: its rows of cells, and XML after them; ``first`` is the number of the first row."""

    rows: Sequence[Sequence[Any]]
    name: str = "Sheet1"
    after: str = ""
    first: int = 1
    numbered: bool = True


@dataclass(slots=True)
class Book:
    """A workbook to be written.

    Attributes:
        inline: Texts stand in their cells, not in the shared part.
        prefix: Of all elements of the sheet, such as ``x:``.
        parts: Further parts, or others in place of those with that name.
    """

    sheets: Sequence[Sheet]
    inline: bool = False
    from_1904: bool = False
    prefix: str = ""
    parts: Mapping[str, bytes] = field(default_factory=dict)
    texts: dict[str, int] = field(default_factory=dict)

    def write(self, *, packing: int = zipfile.ZIP_DEFLATED) -> bytes:
        """The file's bytes."""
        parts = {f"xl/worksheets/sheet{i}.xml": self._sheet(sheet) for i, sheet in enumerate(self.sheets, 1)}
        parts |= {"xl/styles.xml": STYLES, "xl/workbook.xml": self._workbook(), "xl/sharedStrings.xml": self._shared()}
        parts["[Content_Types].xml"] = f'{HEAD}<Types xmlns="{PACKAGE}"/>'
        parts["_rels/.rels"] = _relations({"officeDocument": "xl/workbook.xml"})
        sheets = {f"worksheet{i}": f"worksheets/sheet{i}.xml" for i in range(1, len(self.sheets) + 1)}
        parts["xl/_rels/workbook.xml.rels"] = _relations({**sheets, "styles": "styles.xml",
                                                          "sharedStrings": "/xl/sharedStrings.xml"})  # fmt: skip
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", packing) as archive:
            for name, text in {**{name: text.encode() for name, text in parts.items()}, **self.parts}.items():
                archive.writestr(name, text)
        return out.getvalue()

    def _workbook(self) -> str:
        sheets = "".join(
            f'<sheet name={quoteattr(sheet.name)} sheetId="{i}" r:id="worksheet{i}"/>'
            for i, sheet in enumerate(self.sheets, 1)
        )
        base = ' date1904="1"' if self.from_1904 else ""
        return (
            f'{HEAD}<workbook xmlns="{MAIN}" xmlns:r="{OFFICE}"><workbookPr{base}/><sheets>{sheets}</sheets></workbook>'
        )

    def _shared(self) -> str:
        texts = "".join(f'<si><t xml:space="preserve">{_escape(text)}</t></si>' for text in self.texts)
        return f'{HEAD}<sst xmlns="{MAIN}" count="{len(self.texts)}">{texts}</sst>'

    def _sheet(self, sheet: Sheet) -> str:
        p = self.prefix
        rows = "".join(self._row(sheet, i, row) for i, row in enumerate(sheet.rows, sheet.first))
        space = f'xmlns:{p[:-1]}="{MAIN}"' if p else f'xmlns="{MAIN}"'
        return (
            f'{HEAD}<{p}worksheet {space}><{p}dimension ref="A1:XFD1048576"/>'
            f"<{p}sheetData>{rows}</{p}sheetData>{sheet.after}</{p}worksheet>"
        )

    def _row(self, sheet: Sheet, number: int, row: Sequence[Any]) -> str:
        p, cells = self.prefix, ""
        for column, value in enumerate(row):
            if value is None:
                if not sheet.numbered:
                    cells += f"<{p}c/>"
                continue
            place = f'r="{_letters(column)}{number}" ' if sheet.numbered else ""
            raw = value if isinstance(value, Raw) else self.cell(value)
            inner = raw.inner.replace("<v>", f"<{p}v>").replace("</v>", f"</{p}v>")
            cells += f"<{p}c {place}{raw.attributes}>{inner}</{p}c>"
        at = f' r="{number}"' if sheet.numbered else ""
        return f"<{p}row{at}>{cells}</{p}row>"

    def cell(self, value: Any) -> Raw:
        """A value as a cell of its type."""
        if isinstance(value, bool):
            return Raw('t="b"', f"<v>{int(value)}</v>")
        if isinstance(value, (int, float, Decimal)):
            return Raw("", f"<v>{value}</v>")
        if isinstance(value, (date, datetime)):
            return Raw(f's="{2 if isinstance(value, datetime) else 1}"', f"<v>{self.serial(value)!r}</v>")
        if self.inline:
            return Raw('t="inlineStr"', f"<is><t>{_escape(value)}</t></is>")
        return Raw('t="s"', f"<v>{self.texts.setdefault(value, len(self.texts))}</v>")

    def serial(self, value: date) -> float:
        """A day as spreadsheets count it."""
        moment = value if isinstance(value, datetime) else datetime.combine(value, time())
        return (moment - datetime(1904, 1, 1) if self.from_1904 else moment - datetime(1899, 12, 30)) / timedelta(
            days=1
        )


_NOT_IN_XML = re.compile("[\x00-\x08\x0b-\x1f\ufffe\uffff]|_(?=x[0-9A-Fa-f]{4}_)")


def _escape(text: str) -> str:
    """A text with the characters that XML cannot hold, or reads as others, as spreadsheets write them."""
    return escape(_NOT_IN_XML.sub(lambda sign: f"_x{ord(sign[0]):04X}_", text))


def _letters(column: int) -> str:
    text = ""
    column += 1
    while column:
        column, rest = divmod(column - 1, 26)
        text = chr(65 + rest) + text
    return text


def _relations(targets: Mapping[str, str]) -> str:
    listed = "".join(
        f'<Relationship Id="{name}" Type="{OFFICE}/{name.rstrip("0123456789")}" Target="{target}"/>'
        for name, target in targets.items()
    )
    return f'{HEAD}<Relationships xmlns="{PACKAGE}">{listed}</Relationships>'
