"""Rows of a public file for a draft: read as private ones are, with each text as every source has it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from siloquent.data.engines.base import LineFault, ReadLimits
from siloquent.data.sources.files import SourceParts, find_source_parts
from siloquent.data.sources.text.csv import open_csv_rows, read_file_header
from siloquent.data.sources.workbooks.xlsx import open_sheet_rows, read_sheet_header
from siloquent.errors import SchemaError
from siloquent.schema.files.coercion import read_boolean, read_datetime, read_number
from siloquent.schema.formats.reading import Reading
from siloquent.schema.formats.value_formats import Family, ValueFormat

if TYPE_CHECKING:
    import pyarrow as pa

_FAULTS: dict[LineFault, tuple[str, str]] = {
    "encoding": ("is not {encoding} in some lines", 'encoding = "cp1252" under [reading]'),
    "form": ("has lines with more or fewer columns than the first, or quotes that do not match", "correct these lines"),
    "formula": ("has formulas whose values are not in the file", "save it in a spreadsheet program"),
}
_READERS: dict[Family, Callable[[str | None], object]] = {
    "date": read_datetime,
    "datetime": read_datetime,
    "boolean": read_boolean,
    "number": read_number,
}


def read_public_rows(address: str, folder: Path, reading: Reading, *, rows: int, most: int) -> pa.Table:
    """Return the first rows of a public file: texts of CSV and sheets, and typed columns of Parquet.

    Args:
        address: A source as a table file names it.
        rows: The number of rows.
        most: The most bytes that the files may have together.
    Raises:
        SchemaError: the file cannot be read with these settings, is too large, or is of another kind.
    """
    kind, _, where = address.partition(":")
    name = Path(where).name
    if kind not in ("csv", "csv-records", "xlsx", "parquet"):
        raise SchemaError(
            f"A draft is made from CSV, sheets of workbooks and Parquet, not {kind}.", fix="write its rows as CSV"
        )
    reading.check_kind(kind)
    parts = find_source_parts(where, folder, kind=kind, table=name)
    if parts.size > most:
        raise SchemaError(f"{name} is larger than {most >> 20} MiB.", fix="draft from a part of it: the first lines do")
    if kind == "parquet":
        from siloquent.foreign.tables import read_parquet

        tables = (read_parquet(Path(path)) for path in parts.paths)
        return _take((batch for table in tables for batch in table.to_batches(max_chunksize=10_000)), rows)
    return _PublicTexts(kind, parts, reading, name, rows).read_plain()


def _take(batches: Iterable[pa.RecordBatch], rows: int) -> pa.Table:
    """Return the first rows of batches."""
    import pyarrow as pa

    taken, count = [], 0
    for batch in batches:
        taken.append(batch.slice(0, rows - count))
        count += taken[-1].num_rows
        if count >= rows:
            break
    if not taken:
        raise SchemaError("The file has no rows.", fix="add at least one row below the header")
    return pa.Table.from_batches(taken)


@dataclass(slots=True)
class _PublicTexts:
    """The texts of a file of CSV or of a sheet, whose typed cells are written as a family of values is."""

    kind: str
    parts: SourceParts
    reading: Reading
    name: str
    rows: int
    _read: dict[Family, pa.Table] = field(default_factory=dict)

    def read_plain(self) -> pa.Table:
        """Return the texts as every source has them; a column that fits none of its formats is left as it is."""
        import pyarrow as pa

        texts = self._find_texts("text")
        return pa.table({name: pa.array(self._rewrite(name), pa.string()) for name in texts.column_names})

    def _find_texts(self, family: Family) -> pa.Table:
        family = family if self.kind == "xlsx" else "text"
        if family not in self._read:
            self._read[family] = self._open(family)
        return self._read[family]

    def _open(self, family: Family) -> pa.Table:
        first = next((file for file in self.parts.files if file.size), self.parts.files[0])
        if self.kind == "xlsx":
            names = read_sheet_header(first, self.reading, table=self.name)
            forms = {name.casefold(): (family, self.reading.get_format(name)) for name in names}
            sheet = open_sheet_rows(
                first, ReadLimits(), names, table=self.name, keep_blank=False, reading=self.reading, forms=forms
            )
            _refuse_faults(sheet.count_faults(), self.reading, self.name)
            return _take(sheet.read_batches(), self.rows)
        names = read_file_header(first, self.reading, table=self.name).names
        lines = open_csv_rows(
            self.parts.files,
            ReadLimits(),
            names,
            table=self.name,
            spanning=self.kind == "csv-records",
            keep_faulty=False,
            reading=self.reading,
        )
        _refuse_faults(lines.count_faults(), self.reading, self.name)
        return _take(lines.read_batches(), self.rows)

    def _rewrite(self, name: str) -> list[str | None]:
        """Return the texts of a column: of the first family all of whose texts fit, or without those for missing."""
        form = self.reading.get_format(name)
        for family in _list_families(form):
            found = [_rewrite_text(form, text, family) for text in self._find_texts(family)[name].to_pylist()]
            if "" not in found and any(text is not None for text in found):
                return found
        texts = self._find_texts("text")[name].to_pylist()
        return [None if text is None or form.is_missing(text, "text") else text for text in texts]


def _list_families(form: ValueFormat) -> Iterator[Family]:
    """Yield the families of values that a format writes otherwise than every source does."""
    if form.date:
        yield "date"
    if form.datetime or form.time_zone:
        yield "datetime"
    if form.true or form.false:
        yield "boolean"
    if not form.is_plain_number:
        yield "number"


def _rewrite_text(form: ValueFormat, text: str | None, family: Family) -> str | None:
    """Return a text as every source has it; None if it is missing, empty if it does not fit."""
    if text is None or form.is_missing(text, family):
        return None
    found = form.rewrite(text, family)
    return found if found is not None and _READERS[family](found) is not None else ""


def _refuse_faults(faults: dict[LineFault, int], reading: Reading, name: str) -> None:
    for fault in faults:
        if fault in _FAULTS:
            what, fix = _FAULTS[fault]
            raise SchemaError(f"{name} {what.format(encoding=reading.encoding.upper())}.", fix=fix)
