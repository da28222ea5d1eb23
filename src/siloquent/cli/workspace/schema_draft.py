"""A first table file proposed from PUBLIC rows. Its bounds are read from the rows: private rows would leak."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from siloquent.errors import RequestError, SchemaError
from siloquent.schema.declaring import ColumnHeader
from siloquent.schema.declaring.names import find_topic, is_id_like, is_person_like, propose_meaning
from siloquent.schema.files.coercion import DATETIME_PATTERN, NUMBER_PATTERN
from siloquent.schema.files.toml import quote_text

if TYPE_CHECKING:
    import pyarrow as pa

MAX_ROWS, MAX_BYTES = 200_000, 2**28
MAX_GRID_STEPS = 10**11  # a table may have 2^40
DECIMAL_COMMA = r"^-?[0-9]+,[0-9]+$"
_REREAD = "write the file as UTF-8 CSV with a header line and as many columns in every line, or as Parquet"
MAX_CODES, MAX_CODE_SPAN = 20, 100
MAX_VALUES, MAX_DECIMALS, MAX_TEXT_BYTES = 100, 4, 4000


def draft_schema(file: Path, *, name: str, source: str, reading: str = "") -> str:
    """Return a table file for rows like those of ``file``, to be corrected by a domain expert.

    Args:
        file: A CSV or Parquet file, a workbook, or a folder of parts, of public or synthetic rows; the first 200,000
            are read.
        name: The table's name.
        source: The location of the private rows, as written in the table file.
        reading: How both are read: lines of a table file, as they stand under ``[reading]``.
    Raises:
        RequestError: the file cannot be read, or has no columns.
    """
    rows = _read(file, reading)
    if not rows.column_names:
        raise RequestError(f"{file.name} has no columns.", fix="the first line of a CSV file names its columns")
    lines = [line for column in rows.column_names for line in _draft_lines(column, rows[column])]
    return _FILE.format(
        rows=rows.num_rows,
        attributes="\n".join(lines),
        reading=f"\n[reading]\n{reading}\n" if reading else "",
        name=name,
        source=quote_text(source),
        person=quote_text(_find_person(rows.column_names)),
    )


def _find_person(names: list[str]) -> str:
    """Return the column that may say whose row it is, for the question about the unit."""
    ids = [name for name in names if is_id_like(name)]
    return next((name for name in ids if is_person_like(name)), ids[0] if ids else "patient")


def _read(file: Path, reading: str) -> pa.Table:
    import pyarrow as pa

    from siloquent.declaring import find_source, read_public_rows

    try:
        address, _ = find_source(str(file), file.resolve().parent)
        rows = read_public_rows(address, file.resolve().parent, reading, rows=MAX_ROWS, most=MAX_BYTES)
        return rows if address.startswith("parquet:") else _infer_types(rows)
    except (SchemaError, RequestError) as wrong:
        raise RequestError(f"{file.name} cannot be read: {wrong.detail}", fix=wrong.remedy or _REREAD) from None
    except (OSError, ValueError, pa.ArrowException):
        # A parser quotes the failing line, and these rows may not be public after all: its message is not shown.
        raise RequestError(f"{file.name} cannot be read as CSV, workbook or Parquet.", fix=_REREAD) from None


def _infer_types(texts: pa.Table) -> pa.Table:
    """Return columns of texts with the types that all their texts have; codes with leading zeros stay texts."""
    import pyarrow as pa
    import pyarrow.csv as csv

    written = io.BytesIO()
    csv.write_csv(texts, written, csv.WriteOptions(quoting_style="all_valid"))
    written.seek(0)
    return csv.read_csv(  # allowed: the texts that were read above
        written,
        read_options=csv.ReadOptions(
            column_names=texts.column_names, skip_rows=1, block_size=max(2**20, written.getbuffer().nbytes + 1)
        ),
        parse_options=csv.ParseOptions(newlines_in_values=True),
        convert_options=csv.ConvertOptions(
            column_types={name: pa.string() for name in _find_codes(texts)}, null_values=[""], strings_can_be_null=True
        ),
    )


def _find_codes(texts: pa.Table) -> set[str]:
    """Return the columns of whole numbers with leading zeros, which codes such as postcodes would lose as numbers."""
    import pyarrow.compute as pc

    return {
        name
        for name, column in zip(texts.column_names, texts.columns, strict=True)
        if pc.any(pc.match_substring_regex(column, "^0[0-9]+$")).as_py()
        and pc.all(pc.match_substring_regex(column, "^[0-9]+$")).as_py()
    }


def _draft_lines(name: str, column: pa.ChunkedArray) -> list[str]:
    """Return the line that declares one column, preceded by caveats as comments."""
    import pyarrow as pa

    if pa.types.is_binary(column.type):
        raise RequestError(f"Column {name[:40]!r} holds bytes that are not UTF-8.", fix=_REREAD)
    return [*(f"  # {doubt}" for doubt in _list_doubts(name, column)), f"  {_draft_entry(name, column)}"]


def _list_doubts(name: str, column: pa.ChunkedArray) -> Iterator[str]:
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_integer(column.type) and _are_codes(name, column.drop_null().to_pylist() or [0]):
        yield 'listed as codes; if its numbers can be added up: type = "integer", lo = ..., hi = ..., outside = "clamp"'
    if not pa.types.is_string(column.type):
        return
    known = column.drop_null()
    numbers = pc.sum(pc.match_substring_regex(known, NUMBER_PATTERN)).as_py() or 0
    moments = pc.sum(pc.match_substring_regex(known, DATETIME_PATTERN)).as_py() or 0
    for count, kind in ((numbers, "numbers"), (moments, "dates")):
        if len(known) / 2 < count < len(known):
            yield f"{count:,} of {len(known):,} cells are {kind}: as that type, the others are read as NULL"
    if len(known) and pc.all(pc.match_substring_regex(known, DECIMAL_COMMA)).as_py():
        yield "numbers with a decimal comma: draft again with --reading 'decimal = \",\"'"
    elif len(pc.unique(known)) > MAX_VALUES and not _ends_like_id(name) and not is_id_like(name):
        yield 'too many distinct values for a category: type = "id" if these identify people or things'


def _draft_entry(name: str, column: pa.ChunkedArray) -> str:
    """Return the line that declares one column."""
    import pyarrow as pa

    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us"), safe=False)  # finer ones become another library's class
    values = [value for value in column.to_pylist() if value is not None and value == value]  # NaN differs from itself
    null = '"cell"' if column.null_count else '"drop"'
    return f"{{ name = {quote_text(name)}, {_draft_type(name, values, null)} }},"


def _draft_type(name: str, values: list[Any], null: str) -> str:
    kinds = {type(value) for value in values}
    if not values:
        return 'type = "text", max_bytes = 1000'
    if kinds == {bool} or (kinds == {int} and set(values) <= {0, 1}):
        return f'type = "boolean", null = {null}'
    if kinds == {int}:
        return _draft_integer(name, values, null)
    if kinds <= {int, float, Decimal}:
        return _draft_real(values, null)
    if kinds == {date}:
        return f'type = "date", lo = {min(values)}, hi = {max(values)}, outside = "drop", null = {null}'
    if kinds == {datetime}:
        lo, hi = (value.replace(tzinfo=None, second=0, microsecond=0) for value in (min(values), max(values)))
        return f'type = "datetime", lo = {lo}, hi = {hi}, grid = "minute", outside = "drop", null = {null}'
    return _draft_text(name, [str(value) for value in values], null)


def _draft_integer(name: str, values: list[int], null: str) -> str:
    if is_id_like(name) or (len(set(values)) == len(values) and _ends_like_id(name)):
        return 'type = "id"'
    if _are_codes(name, values):
        listed = ", ".join(f'"{value}"' for value in sorted(set(values)))
        return f'type = "category", values = [{listed}], null = {null}'
    lo, hi, grid = _choose_range(min(values), max(values), decimals=0)
    if grid > 1:
        return f'type = "real", lo = {lo}, hi = {hi}, grid = {grid}, outside = "clamp", null = {null}'
    return f'type = "integer", lo = {lo}, hi = {hi}, outside = "clamp", null = {null}'


def _draft_real(values: list[Any], null: str) -> str:
    finite = [value for value in values if math.isfinite(value)] or [0]
    decimals = min(MAX_DECIMALS, max(_count_decimals(value) for value in finite[:1000]))
    lo, hi, grid = _choose_range(math.floor(min(finite)), math.ceil(max(finite)), decimals=decimals)
    return f'type = "real", lo = {lo}, hi = {hi}, grid = {grid:f}, outside = "clamp", null = {null}'


def _choose_range(lowest: int, highest: int, *, decimals: int) -> tuple[int, int, Decimal]:
    """Return round bounds around the values, and the finest allowed grid of at most that many decimals."""
    lo, hi = _round_outwards(lowest, -1), _round_outwards(highest, 1)
    grid = Decimal(1).scaleb(-decimals)
    while max(hi - lo, abs(lo), abs(hi)) > MAX_GRID_STEPS * grid:
        grid *= 10
    step = max(1, int(grid))
    return math.floor(Fraction(lo, step)) * step, math.ceil(Fraction(hi, step)) * step, grid


def _draft_text(name: str, values: list[str], null: str) -> str:
    listed = sorted(set(values))
    if is_id_like(name) or (len(listed) == len(values) and _ends_like_id(name)):
        return 'type = "id"'
    if len(listed) <= MAX_VALUES and not any("\0" in value for value in listed):
        return f'type = "category", values = [{", ".join(map(quote_text, listed))}], null = {null}'
    longest = max(len(value.encode()) for value in listed)
    return f'type = "text", max_bytes = {min(MAX_TEXT_BYTES, _round_outwards(longest, 1))}'


def _are_codes(name: str, values: list[int]) -> bool:
    """Return whether whole numbers are likely codes: few of them, in a column that is not named after an amount."""
    few = len(set(values)) <= MAX_CODES < len(values) and max(values) - min(values) <= MAX_CODE_SPAN
    return (
        few and find_topic(name) not in ("amount", "measure", "count") and propose_meaning(ColumnHeader(name)) is None
    )


def _ends_like_id(name: str) -> bool:
    return bool(re.search(r"(^|_)(id|key|uuid|number|no)$", name.lower()))


def _count_decimals(value: Any) -> int:
    exponent = Decimal(str(value)).normalize().as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0


def _round_outwards(value: int, sign: int) -> int:
    """Round ``value`` away from the data to two digits: exact extremes are a person's values."""
    step: int = 10 ** max(0, len(str(abs(value))) - 2)
    return (math.ceil(Fraction(value, step)) if sign > 0 else math.floor(Fraction(value, step))) * step


_FILE = """\
# A draft from {rows} public rows. Correct every line from what you know of the field, not from private rows:
# bounds, values and units are public statements, and whatever lies outside them is clamped or left out.
format = 1

attribute = [
{attributes}
]
{reading}
[table]
name = "{name}"
source = {source}
adjacency = "add-remove"
# size_hint = 10000    # roughly how many private rows there are, if that is publicly known: averages need it
# Can one person have several rows? Then hide the person, not a row, and say how many rows of one count:
# unit = {{ kind = "user", column = {person}, max_rows = 8 }}
unit = {{ kind = "row" }}

[budget]
accountant = "zcdp"
epsilon = "1"
delta = "1e-6"
"""
