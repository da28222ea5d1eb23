"""The canonical bytes of cells and values: fixed vectors for other languages, and nothing that can be cut two ways."""

from __future__ import annotations

import json
import math
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from siloquent.errors import RequestError
from siloquent.profile.measure import encode_cell, encode_value
from siloquent.profile.measure.encode import MAX_CELL_BYTES, NULL
from siloquent.profile.measure.local import discover_locally
from siloquent.profile.measure.snapshot import encode_snapshot
from siloquent.profile.spec import Dependency, ProfileColumn

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "encoding.json").read_text(encoding="utf-8"))
READ = {
    "decimal": Decimal,
    "date": date.fromisoformat,
    "datetime": datetime.fromisoformat,
    "bytes": bytes.fromhex,
}


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["says"] for vector in VECTORS])
def test_a_cell_has_the_bytes_of_the_published_vector(vector: dict[str, Any]) -> None:
    column = ProfileColumn(**{"name": "c", **vector["column"]})
    value = vector["value"]
    read = READ.get(column.type)
    assert encode_cell(column, read(value) if read and value is not None else value).hex() == vector["bytes"]


def test_there_are_as_many_vectors_as_rules_need() -> None:
    assert len(VECTORS) == 28
    assert {vector["column"]["type"] for vector in VECTORS} == set(READ) | {"text", "integer", "boolean", "real"}


CELLS = st.one_of(
    st.tuples(st.just("text"), st.text(max_size=6)),
    st.tuples(st.just("integer"), st.integers()),
    st.tuples(st.just("bytes"), st.binary(max_size=6)),
    st.tuples(st.just("text"), st.none()),
)


@settings(deadline=None, max_examples=400)
@given(one=st.lists(CELLS, max_size=4), other=st.lists(CELLS, max_size=4))
def test_different_values_have_different_bytes(one: list[Any], other: list[Any]) -> None:
    cells = [[encode_cell(ProfileColumn("c", kind), value) for kind, value in row] for row in (one, other)]
    assert (encode_value(cells[0]) == encode_value(cells[1])) == (cells[0] == cells[1])


@settings(deadline=None, max_examples=200)
@given(number=st.integers())
def test_whole_numbers_are_one_whatever_type_holds_them(number: int) -> None:
    column = ProfileColumn("c", "integer")
    assert encode_cell(column, number) == encode_cell(column, Decimal(number))


def test_nan_is_null_and_zero_has_one_sign() -> None:
    real = ProfileColumn("c", "real", grid="0.1")
    assert encode_cell(real, math.nan) == NULL == encode_cell(real, None)
    assert encode_cell(real, -0.0) == encode_cell(real, 0.0)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        (ProfileColumn("c", "integer"), 1.5),
        (ProfileColumn("c", "integer"), "one"),
        (ProfileColumn("c", "decimal", scale=2), Decimal("1.005")),
        (ProfileColumn("c", "text"), 7),
        (ProfileColumn("c", "boolean"), "yes"),
        (ProfileColumn("c", "real", grid="0.1"), math.inf),
        (ProfileColumn("c", "date"), "2024-01-01"),
        (ProfileColumn("c", "text"), "x" * 70_000),
    ],
)
def test_what_is_not_of_the_declared_type_is_refused_without_being_shown(column: ProfileColumn, value: Any) -> None:
    with pytest.raises(RequestError) as refused:
        encode_cell(column, value)
    assert str(value)[:20] not in str(refused.value).replace("70000", "")


def test_reals_need_a_grid_and_texts_alone_are_trimmed() -> None:
    with pytest.raises(RequestError, match="grid"):
        ProfileColumn("c", "real")
    with pytest.raises(RequestError, match="texts"):
        ProfileColumn("c", "integer", trim=True)


def test_nulls_meet_or_never_meet_as_the_session_says() -> None:
    columns = [ProfileColumn("a", "text"), ProfileColumn("b", "text")]
    table = [["x", None, None], ["y", "y", "y"]]
    assert encode_snapshot(columns, table).count_distinct(0b01) == 2
    apart = encode_snapshot(columns, table, nulls="distinct", party="north", random=bytes(16))
    assert apart.count_distinct(0b01) == 3
    elsewhere = encode_snapshot(columns, table, nulls="distinct", party="south", random=bytes(16))
    assert set(apart.list_values(0b01)) & set(elsewhere.list_values(0b01)) == {encode_cell(columns[0], "x")}


def test_a_commitment_hangs_on_rows_and_salt_and_not_on_their_order() -> None:
    columns = [ProfileColumn("a", "text"), ProfileColumn("b", "integer")]
    one = encode_snapshot(columns, [["x", "y", "x"], [1, 2, 1]])
    same = encode_snapshot(columns, [["x", "x", "y"], [1, 1, 2]])
    fewer = encode_snapshot(columns, [["x", "y"], [1, 2]])
    salt = bytes(32)
    assert one.compute_commitment(salt) == same.compute_commitment(salt)
    assert len({one.compute_commitment(salt), fewer.compute_commitment(salt), one.compute_commitment(b"\1" * 32)}) == 3
    assert repr(one).count("x") <= repr(one.columns).count("x")


def test_cells_that_cannot_be_read_are_apart_where_nulls_are() -> None:
    long = "x" * (MAX_CELL_BYTES + 1)
    columns, table = (ProfileColumn("a", "text"),), [[long, long, None, "y", "y"]]
    apart = encode_snapshot(columns, table, nulls="distinct", party="north", random=bytes(16), refuse=False)
    assert apart.count_distinct(1) == 4
    assert encode_snapshot(columns, table, refuse=False).count_distinct(1) == 2


def test_in_one_table_nulls_are_equal_or_equal_to_nothing_as_its_owner_says() -> None:
    table = pa.table({"a": [None, None, 1, 2], "b": [1, 2, 3, 3], "c": [5.0, float("nan"), None, 5.0]})

    def holds(lhs: str, rhs: str, **given: str) -> bool:
        return Dependency((lhs,), rhs) in discover_locally(table, **given).dependencies

    assert not holds("a", "b")  # two NULLs, two values
    assert not holds("a", "b", nulls="value")
    assert holds("a", "b", nulls="distinct")
    assert not holds("b", "c", nulls="distinct")  # NaN is NULL: rows 3 and 4 differ
    assert discover_locally(pa.table({"a": [None, None]})).constants == ("a",)
    assert discover_locally(pa.table({"a": [None, None]}), nulls="distinct").constants == ()
