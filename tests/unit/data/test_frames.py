"""Frames of every library give the same counts; what is no frame is refused."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from siloquent.data import ReadLimits
from siloquent.data.sources.frames import convert_to_arrow
from siloquent.errors import DataError, SchemaError, UnknownName
from siloquent.schema import Block
from siloquent.schema.build import parse_schema
from unit.data.clinic import clinic_schema, full_block, opened, visits


class OnlyAStream:
    """What the Arrow standard asks of a foreign frame, and nothing else."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize(
    "as_frame",
    [
        lambda t: t,
        lambda t: t.combine_chunks().to_batches()[0],
        lambda t: t.to_reader(),
        lambda t: t.to_pandas(types_mapper=pd.ArrowDtype),
        lambda t: t.to_pandas(),
        lambda t: pl.from_arrow(t),
        lambda t: pl.from_arrow(t).lazy(),
        OnlyAStream,
        lambda t: t.set_column(3, "ward", t.column("ward").dictionary_encode()),
    ],
)
def test_every_kind_of_frame_is_read(as_frame: Callable[[pa.Table], Any]) -> None:
    schema, rows = clinic_schema(), visits(200)
    expected, permit = opened(schema, rows)
    table, other = opened(schema, as_frame(rows))
    for names in (["age"], ["weight"], ["ward", "smoker"], ["day"]):
        block = full_block(schema, *names)
        counted, right = table.count_by_cell([block], other)[0], expected.count_by_cell([block], permit)[0]
        assert counted.tolist() == right.tolist(), names


@pytest.mark.parametrize(
    "frame",
    [
        {"age": [1]},
        [1, 2],
        "visits.csv",
        7,
        object(),
        pd.Series([1, 2], name="age"),
        pl.Series("age", [1, 2]),
        pa.chunked_array([[1, 2]]),
        pa.Table,
    ],
)
def test_what_is_no_frame_is_refused(frame: object) -> None:
    with pytest.raises(SchemaError, match="expected an Arrow, pandas or polars table"):
        opened(clinic_schema(), frame)


MIXED = [
    3,
    3.0,
    "3",
    np.int64(3),
    Decimal(3),
    np.float32(3),
    "secret",
    [3],
    b"3",
    None,
    float("nan"),
    2**4000,
    "\ud800",
]


@pytest.mark.parametrize(
    "frame", [pd.DataFrame, lambda c: pl.DataFrame({n: pl.Series(v, dtype=pl.Object) for n, v in c.items()})]
)
def test_a_value_of_a_mixed_column_is_read_by_itself(frame: Callable[[dict[str, Any]], Any]) -> None:
    schema = parse_schema(MIXED_SCHEMA)
    table, permit = opened(schema, frame({"age": MIXED, "code": MIXED, "day": [date(2024, 1, 2), *MIXED[1:]]}))
    ages, codes, days = table.count_by_cell([full_block(schema, name) for name in ("age", "code", "day")], permit)
    assert ages.tolist() == [0, 0, 0, 6, 1, 6]  # 2^4000 is the highest; six cannot be read
    assert codes.tolist() == [6, 2, 5]  # nor can 2^4000 as a text: pandas would round it
    assert days.tolist() == [0, 1, 12]


def test_one_missing_value_changes_nothing_for_whole_numbers_that_pandas_makes_floats() -> None:
    schema = parse_schema(MIXED_SCHEMA)
    counted = []
    for last in (3, None):
        rows = pd.DataFrame({"age": [3] * 9 + [last], "code": [3] * 9 + [last], "day": ["2024-01-02"] * 10})
        table, permit = opened(schema, rows)
        blocks = [full_block(schema, name) for name in ("age", "code")]
        counted.append([table.count_by_cell([block], permit)[0].tolist() for block in blocks])
    assert counted == [[[0, 0, 0, 10, 0, 0], [10, 0, 0]], [[0, 0, 0, 9, 0, 1], [9, 0, 1]]]


def test_a_text_that_is_not_utf_8_is_null_and_takes_no_other_along() -> None:
    schema = parse_schema(MIXED_SCHEMA)
    raw = pa.chunked_array([[b"3", b"\xff"], [b"3", None, b"\xed\xa0\x80"]], pa.binary())
    kinds = [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())]
    for kind in kinds:
        if kind == kinds[1]:
            texts = pa.chunked_array([c.cast(pa.large_binary()).view(kind) for c in raw.chunks])
        else:
            texts = pa.chunked_array([c.view(pa.string()) for c in raw.chunks])
            texts = texts.dictionary_encode() if kind == kinds[2] else texts
        rows = pa.table({"age": texts, "code": texts, "day": texts})
        table, permit = opened(schema, rows)
        assert table.count_by_cell([full_block(schema, "code")], permit)[0].tolist() == [2, 0, 3]
        assert table.count_by_cell([full_block(schema, "age")], permit)[0].tolist() == [0, 0, 0, 2, 0, 3]


def test_a_day_in_milliseconds_that_is_no_whole_day_takes_no_other_along() -> None:
    schema = parse_schema(MIXED_SCHEMA)
    day = 19_724 * 86_400_000  # 2024-01-02
    milliseconds = pa.array([day, day + 1, 2**63 - 1, -(2**62), None], pa.int64())
    rows = pa.table({"age": range(5), "code": ["3"] * 5, "day": milliseconds.view(pa.date64())})
    table, permit = opened(schema, rows)
    assert table.count_by_cell([full_block(schema, "day")], permit)[0].tolist() == [0, 2, 1]  # two lie outside


MIXED_SCHEMA = """
format = 1
attribute = [
  { name = "age", type = "integer", lo = 0, hi = 4, outside = "clamp", null = "cell" },
  { name = "code", type = "category", values = ["3"], other = "cell", null = "cell" },
  { name = "day", type = "date", lo = 2024-01-01, hi = 2024-01-02, outside = "drop", null = "cell" },
]
[table]
name = "t"
adjacency = "add-remove"
unit = { kind = "row" }
[budget]
accountant = "pure"
epsilon = "100"
"""


@pytest.mark.parametrize("name", [0, None, 1.5, b"age", date(2024, 1, 1), ("age", 1)])
def test_columns_whose_names_are_not_texts_are_refused_with_a_fix_that_works(name: object) -> None:
    frame = visits(20).to_pandas()
    frame[name] = 1
    with pytest.raises(SchemaError, match="names are not texts") as refused:
        opened(clinic_schema(), frame)
    assert refused.value.fix == "frame.columns = [str(name) for name in frame.columns]"
    frame.columns = [str(name) for name in frame.columns]
    opened(clinic_schema(), frame)


def test_two_columns_of_one_name_are_refused() -> None:
    with pytest.raises(SchemaError, match="two columns with the same name"):
        opened(clinic_schema(), pa.table([pa.array([1]), pa.array([2])], names=["age", "AGE"]))


def test_a_missing_column_is_named_with_the_nearest_one() -> None:
    rows = visits(5).rename_columns(["patient", "agee", "weight", "ward", "smoker", "day", "note"])
    with pytest.raises(UnknownName, match=r"No column in the source of 'visits' named 'age'\. Did you mean 'agee'"):
        opened(clinic_schema(), rows)


def test_several_missing_columns_are_named_at_once() -> None:
    rows = visits(5).select(["patient", "weight", "ward", "note"])
    with pytest.raises(SchemaError, match=r"3 attributes have no column .* 'age'.*'smoker'.*'day'"):
        opened(clinic_schema(), rows)


@pytest.mark.parametrize(
    ("attribute", "column"),
    [
        ("age", pa.array([[1]])),
        ("ward", pa.array([1.5])),
        ("day", pa.array([5])),
        ("note", pa.array([5])),
        ("smoker", pa.array([None], pa.date32())),
    ],
)
def test_a_column_of_a_type_that_cannot_be_read_is_refused(attribute: str, column: pa.Array) -> None:
    rows = visits(1)
    rows = rows.set_column(rows.column_names.index(attribute), attribute, column)
    with pytest.raises(SchemaError, match=f"Attribute '{attribute}' of 'visits' is declared as .*, but its column"):
        opened(clinic_schema(), rows)


def test_a_column_without_a_single_value_is_all_null() -> None:
    rows = visits(20)
    for name in rows.column_names[1:]:
        rows = rows.set_column(rows.column_names.index(name), name, pa.nulls(20))
    schema = clinic_schema()
    table, permit = opened(schema, rows)
    assert table.count_by_cell([full_block(schema, "ward")], permit)[0].tolist() == [0, 0, 0, 0, 20]


def test_more_columns_than_the_limit_are_refused() -> None:
    wide = pa.table({f"c{i}": [1] for i in range(5_000)})
    with pytest.raises(SchemaError, match="has 5,000 columns; the limit is 4,096"):
        opened(clinic_schema(), wide)


@pytest.mark.parametrize(
    ("offsets", "data"),
    [([0, 1, 2**31 - 1, 3], b"ABC"), ([0, 2, 1, 3], b"ABC"), ([0, 2, 1, 3], b"A\xffC")],
    ids=["beyond the end", "backwards", "backwards and no UTF-8"],
)
def test_buffers_that_are_not_right_are_never_read(offsets: list[int], data: bytes) -> None:
    rows = visits(3)
    buffers = [None, pa.py_buffer(np.array(offsets, dtype=np.int32).tobytes()), pa.py_buffer(data)]
    wards = pa.Array.from_buffers(pa.string(), 3, buffers)
    with pytest.raises(DataError):
        opened(clinic_schema(), rows.set_column(3, "ward", wards))
    more = rows.append_column("more", wards)  # nobody asks for it
    table, permit = opened(clinic_schema(), more)
    assert table.count_by_cell([Block((), ())], permit)[0].tolist() == [3]


@pytest.mark.parametrize("unit", ["s", "ms"])
@pytest.mark.parametrize("zone", [None, "UTC"])
def test_moments_beyond_all_years_are_the_first_and_the_last(unit: str, zone: str | None) -> None:
    """In microseconds they would overflow, and one such row would make every question fail."""
    bounds = 'lo = 2024-01-01, hi = 2024-01-03, grid = "day", outside = "clamp", null = "cell"'
    day = f'{{ name = "day", type = "datetime", {bounds} }}'
    schema = clinic_schema(attributes=day)
    whole = 86_400 * (1 if unit == "s" else 1_000)
    moments = pa.array([-(2**62), 19_724 * whole, None, 2**62], pa.int64()).cast(pa.timestamp(unit, zone))
    table, permit = opened(schema, pa.table({"day": moments}))
    assert table.count_by_cell([full_block(schema, "day")], permit)[0].tolist() == [1, 1, 1, 1]


def test_columns_of_several_levels_are_refused_in_words() -> None:
    frame = pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([("age", "low"), ("age", "high")]))
    with pytest.raises(SchemaError, match="columns of several levels"):
        convert_to_arrow(frame, ReadLimits(), {"age": "integer"}, table="visits")


def test_moments_of_another_time_zone_are_refused() -> None:
    frame = pd.DataFrame({"day": pd.to_datetime(["2024-03-01"] * 50).tz_localize("Europe/Berlin")})
    with pytest.raises(SchemaError, match="Europe/Berlin"):
        convert_to_arrow(frame, ReadLimits(), {"day": "datetime"}, table="visits")
    assert convert_to_arrow(frame, ReadLimits(), {"age": "integer"}, table="visits").num_rows == 50
    utc = frame.assign(day=frame["day"].dt.tz_convert("UTC"))
    assert convert_to_arrow(utc, ReadLimits(), {"day": "datetime"}, table="visits").num_rows == 50
