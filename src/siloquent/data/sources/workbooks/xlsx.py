"""A sheet of a workbook (.xlsx) as a source: its header row, and the rows below it."""

from __future__ import annotations

from collections.abc import Iterable

from siloquent.data.engines.base import ReadLimits
from siloquent.data.sources.column_names import find_columns, name_columns
from siloquent.data.sources.files import SourceFile
from siloquent.data.sources.text.packed import build_file_refusal
from siloquent.data.sources.workbooks.sheet import Forms, SheetRows, read_names
from siloquent.data.sources.workbooks.workbook import Workbook, open_workbook, refuse_damaged
from siloquent.schema.formats.reading import Reading

_FIX = "write a header row with one name per column; if titles stand above it: skip = 1 under [reading]"


def open_sheet_rows(
    file: SourceFile,
    limits: ReadLimits,
    columns: Iterable[str],
    *,
    table: str,
    keep_blank: bool,
    reading: Reading,
    forms: Forms,
) -> SheetRows:
    """Return the rows of a sheet, of a file that was parsed once from its beginning to its end.

    Args:
        columns: The columns that will be read.
        keep_blank: A row without a value becomes a row of NULLs; otherwise it is left out.
        forms: How the values of columns are written.
    Raises:
        SchemaError: the file is not a workbook, is damaged or unpacks to too much; it has no such sheet; or its header
            row is missing, too wide or merged, or lacks or repeats a column.
    """
    columns = list(columns)
    workbook, names, lines = _read_header(file, reading, limits, table, columns)
    wanted = frozenset(find_columns(names, columns, table, "row of the sheet"))
    return SheetRows(workbook, names, wanted, forms, lines, keep_blank)


def read_sheet_header(file: SourceFile, reading: Reading, *, table: str) -> list[str]:
    """Return the names in the header row before any is declared.

    Raises:
        SchemaError: as ``open_sheet_rows``.
    """
    return _read_header(file, reading, ReadLimits(), table, ())[1]


def _read_header(
    file: SourceFile, reading: Reading, limits: ReadLimits, table: str, declared: Iterable[str]
) -> tuple[Workbook, list[str], int]:
    """Return the workbook, the names of its columns, and the number of rows above those of the table."""
    workbook = open_workbook(file.path, file.size, reading.sheet, table=table)
    row = 0 if reading.names else reading.skip + 1
    with refuse_damaged(table):
        found, is_merged = read_names(workbook, row)
    if is_merged:
        raise build_file_refusal(table, f"has merged cells in its header row, row {row}", _FIX)
    if len(found := found or list(reading.names)) > limits.columns:
        raise build_file_refusal(table, f"has {len(found):,} columns; the limit is {limits.columns:,}", _FIX)
    if not found:
        raise build_file_refusal(table, f"has no header row: row {row} is empty", _FIX)
    if reading.names:
        return workbook, list(reading.names), reading.skip
    try:
        return workbook, name_columns(found, declared), row
    except ValueError as wrong:
        raise build_file_refusal(table, str(wrong), _FIX) from None
