"""Columns with several date formats, or with symbols beside numbers, are read alike in Python and in the engine."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import siloquent
from siloquent.errors import SchemaError, SiloquentError
from siloquent.schema.files.coercion import read_datetime, read_number
from siloquent.schema.files.reading_edits import list_reading_lines
from siloquent.schema.formats.reading import read_settings
from siloquent.schema.formats.value_formats import SYMBOLS, ValueFormat, list_candidates

FORMATS = ["%Y-%m-%d", *(one.date for one in list_candidates("date"))]
TABLE = """format = 1
attribute = [
  {{ name = "day", type = "date", lo = 1990-01-01, hi = 2030-12-31, outside = "drop", null = "drop" }},
  {{ name = "paid", type = "real", lo = -100000, hi = 100000, grid = 0.01, outside = "drop", null = "drop" }},
]
{reading}
[table]
name = "bills"
source = "csv:bills.csv"
adjacency = "add-remove"
size_hint = 100
unit = {{ kind = "row" }}
[budget]
accountant = "pure"
epsilon = "1000"
"""
DAYS = st.dates(date(1990, 1, 1), date(2030, 12, 31))
AMOUNTS = st.decimals(Decimal(-99_999), Decimal(99_999), places=2)


def write_amount(amount: Decimal, symbol: str, place: int, gap: str) -> str:
    bare = f"{abs(amount):,.2f}"
    sign = "-" if amount < 0 else ""
    before = [f"{sign}{symbol}{bare}", f"{symbol}{gap}{sign}{bare}", f"{sign}{bare}{gap}{symbol}"]
    return before[place]


def make(folder: str, rows: list[tuple[str, str]], reading: str = "") -> siloquent.Session:
    place = Path(folder) / "w"
    siloquent.create_workspace(place)
    (place / "schemas" / "bills.toml").write_text(TABLE.format(reading=reading), encoding="utf-8")
    text = "\n".join(["day;paid", *(f"{day};{paid}" for day, paid in rows), ""])
    (place / "bills.csv").write_text(text, encoding="utf-8")
    return siloquent.open(place)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(FORMATS), min_size=1, max_size=4, unique=True), DAYS)
def test_formats_are_refused_or_read_a_day_as_the_only_day_it_can_be(formats: list[str], day: date) -> None:
    try:
        form = ValueFormat(date=" | ".join(formats))
    except SchemaError:
        with pytest.raises(SchemaError, match="another as"):
            ValueFormat(date=" | ".join(formats))
        return
    for one in formats:
        read = read_datetime(form.rewrite(day.strftime(one), "date"))
        alone = read_datetime(ValueFormat(date=one).rewrite(day.strftime(one), "date"))
        assert read == alone is not None


@settings(max_examples=60, deadline=None)
@given(AMOUNTS, st.sampled_from(SYMBOLS), st.integers(0, 2), st.sampled_from(["", " ", "\u00a0"]))
def test_a_symbol_beside_a_number_changes_nothing_and_within_it_everything(
    amount: Decimal, symbol: str, place: int, gap: str
) -> None:
    form = ValueFormat(thousands=",", symbols=(symbol,))
    text = write_amount(amount, symbol, place, gap)
    assert read_number(form.rewrite(text, "number")) == float(amount)
    assert form.rewrite(f"1{symbol}2", "number") is None
    assert form.rewrite(symbol, "number") is None
    assert ValueFormat(thousands=",").rewrite(text, "number") is None


@settings(max_examples=12, deadline=None)
@given(
    st.lists(st.tuples(DAYS, st.integers(0, 2), AMOUNTS, st.integers(0, 2)), min_size=4, max_size=30),
    st.sampled_from(["€", "£", "$", "%", "kr"]),
)
def test_what_check_proposes_reads_every_row_when_it_is_pasted(
    drawn: list[tuple[date, int, Decimal, int]], symbol: str
) -> None:
    shapes = ["%d/%m/%Y", "%Y-%m-%d", "%d-%b-%Y"]
    rows = [
        (day.strftime(shapes[shape]), write_amount(amount, symbol, place, " ")) for day, shape, amount, place in drawn
    ]
    with TemporaryDirectory() as folder, make(folder, rows) as session:
        report = session.check("bills")
        for _ in range(3):  # a proposal is made for what most of the unread rows are
            lines = list_reading_lines(one.fix for one in report.findings)
            if not lines:
                break
            report = session.check("bills", reading="\n".join(lines))
        assert not [one for one in report.findings if one.kind in ("unreadable", "outside")], str(report)
        form = session.schema("bills").reading
        for day, paid in rows:
            assert read_datetime(form.get_format("day").rewrite(day, "date")) is not None
            assert read_number(form.get_format("paid").rewrite(paid, "number")) is not None


def test_settings_that_are_not_valid_are_refused_and_the_file_stays(tmp_path: Path) -> None:
    with make(str(tmp_path), [("2024-01-02", "1.50")]) as session:
        file = session.workspace.get_schema_file("bills")
        before = file.read_bytes()
        for wrong in ('prefix = "£"', 'symbols = ["1"]', 'date_format = "%d/%m/%Y | %m/%d/%Y"', 'symbols = ["e"]'):
            with pytest.raises(SiloquentError) as refused:
                session.check("bills", reading=wrong)
            assert refused.value.spent == "nothing"
            assert refused.value.fix
            assert file.read_bytes() == before
        assert session.check("bills", reading={"missing": ["n/a"]}).is_clean


def test_the_digest_of_a_reading_without_symbols_is_that_of_before() -> None:
    plain, more = read_settings('decimal = ","'), read_settings('decimal = ","\nsymbols = ["€"]')
    assert "symbols" not in repr(plain)
    assert "symbols" not in repr(more)
    assert plain.digest() != more.digest()
    assert plain != more
