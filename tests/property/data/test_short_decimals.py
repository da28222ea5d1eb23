"""Decimals of few digits are read without their text, and as the same doubles."""

from __future__ import annotations

from decimal import Decimal
from typing import cast

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp

from siloquent.data.column_mapping import map_columns
from siloquent.data.sql.indices import SHORT_DIGITS, read_column
from siloquent.schema.build import parse_schema

SCHEMA = """
format = 1
attribute = [{ name = "x", type = "real", lo = 0, hi = 1, grid = 0.01, outside = "clamp", null = "drop" }]
[table]
name = "t"
adjacency = "add-remove"
unit = { kind = "row" }
[budget]
accountant = "pure"
epsilon = "1"
"""


def read(type_name: str, values: pa.Table) -> list[float]:
    """The values of ``x`` as read, if its type has that name."""
    (column,) = map_columns(parse_schema(SCHEMA), {"x": type_name})
    query = exp.select(read_column(column)).from_("source")
    with duckdb.connect() as engine:
        engine.register("source", values)
        return [cast("float", row[0]) for row in engine.execute(query.sql("duckdb")).fetchall()]


@given(
    st.integers(0, SHORT_DIGITS),
    st.lists(st.integers(-(10**SHORT_DIGITS) + 1, 10**SHORT_DIGITS - 1), min_size=1, max_size=50),
)
def test_a_short_decimal_is_read_as_its_text_is(scale: int, digits: list[int]) -> None:
    values = [Decimal(number).scaleb(-scale) for number in digits]
    rows = pa.table({"x": pa.array(values, pa.decimal128(SHORT_DIGITS, scale))})
    assert read(f"DECIMAL({SHORT_DIGITS},{scale})", rows) == [float(value) for value in values]
    assert read("DECIMAL(38,2)", rows) == [float(value) for value in values]


@pytest.mark.parametrize(("type_name", "is_short"), [("DECIMAL(15,2)", True), ("DECIMAL(16,2)", False)])
def test_only_short_decimals_are_read_without_their_text(type_name: str, is_short: bool) -> None:
    (column,) = map_columns(parse_schema(SCHEMA), {"x": type_name})
    assert ("TEXT" not in read_column(column).sql("duckdb")) is is_short
