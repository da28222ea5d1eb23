"""Which rows of a user count: at most so many, chosen by that user's rows and the salt alone."""

from __future__ import annotations

import pyarrow as pa
import pytest

from siloquent.data import ReadLimits, open_source
from siloquent.errors import SchemaError
from siloquent.schema import Block
from unit.data.clinic import clinic_schema, full_block, on_engine, opened, visits

USERS = '{{ kind = "user", column = "{}", max_rows = {} }}'
COLUMNS = ["patient", "age", "weight", "ward", "smoker", "day", "note"]


def chosen(rows: pa.Table, *, most: int = 2, salt: str = "aa", column: str = "patient") -> dict[str, list[str]]:
    """The rows that count, by user."""
    table, permit = opened(clinic_schema(unit=USERS.format(column, most)), rows, salt=salt)
    found: dict[str, list[str]] = {}
    for batch in table.read_rows(COLUMNS, permit):
        for row in batch.to_pylist():
            found.setdefault(str(row[column]), []).append(repr(sorted(row.items())))
    return {user: sorted(kept) for user, kept in found.items()}


def test_another_users_presence_changes_nothing() -> None:
    rows = visits(200, seed=5)
    patients = rows.column("patient").to_pylist()
    everybody = chosen(rows)
    for gone in sorted({p for p in patients if p is not None})[:8]:
        rest = chosen(rows.filter(pa.array([p != gone for p in patients])))
        assert rest == {user: kept for user, kept in everybody.items() if user != str(gone)}


def test_the_order_of_the_source_changes_nothing() -> None:
    rows = visits(200, seed=5)
    assert chosen(rows) == chosen(rows.take(pa.array(range(199, -1, -1))))


def test_another_salt_chooses_other_rows_and_as_many() -> None:
    rows = visits(400, seed=5)
    one, other = chosen(rows, salt="aa"), chosen(rows, salt="bb")
    assert {u: len(k) for u, k in one.items()} == {u: len(k) for u, k in other.items()}
    assert one != other


def test_equal_rows_of_a_user_count_up_to_the_limit() -> None:
    row = {"patient": 7, "age": 1, "weight": 1.0, "ward": "A", "smoker": True, "day": None, "note": "n"}
    rows = pa.Table.from_pylist([row] * 9)
    assert [len(kept) for kept in chosen(rows, most=3).values()] == [3]


def test_rows_that_differ_in_a_text_alone_are_told_apart_the_same_way_each_time() -> None:
    rows = [
        {"patient": 7, "age": 1, "weight": 1.0, "ward": "A", "smoker": True, "day": None, "note": f"{i}"}
        for i in range(30)
    ]
    first = chosen(pa.Table.from_pylist(rows), most=5)
    assert first == chosen(pa.Table.from_pylist(rows[::-1]), most=5)


@pytest.mark.parametrize(
    "patients",
    [
        pa.array([1, 1, None, 2]),
        pa.array(["1", "1", None, "2"]),
        pa.array([1.0, 1.0, float("nan"), 2.0], from_pandas=False),
    ],
)
def test_rows_without_a_user_never_count(patients: pa.Array) -> None:
    rows = visits(4).set_column(0, "patient", patients)
    table, permit = opened(clinic_schema(unit=USERS.format("patient", 1)), rows)
    assert table.count_by_cell([Block((), ())], permit)[0].tolist() == [2]


@pytest.mark.parametrize("column", ["age", "weight", "smoker", "day"])
def test_a_user_is_never_a_value_that_is_rounded_as_it_is_read(column: str) -> None:
    with pytest.raises(SchemaError, match="two users could become one"):
        clinic_schema(unit=USERS.format(column, 2))


def test_the_unit_is_found_whatever_its_case() -> None:
    rows = visits(100)
    assert clinic_schema(unit=USERS.format("Patient", 2)).unit.column == "patient"
    table, permit = opened(clinic_schema(unit=USERS.format("PATIENT", 2)), rows)
    lower, other = opened(clinic_schema(unit=USERS.format("patient", 2)), rows)
    blocks = [full_block(table.schema, "ward")]
    assert table.count_by_cell(blocks, permit)[0].tolist() == lower.count_by_cell(blocks, other)[0].tolist()


def test_a_unit_may_be_a_category() -> None:
    rows = visits(100)
    table, permit = opened(clinic_schema(unit=USERS.format("ward", 3)), rows)
    [wards] = table.count_by_cell([full_block(table.schema, "ward")], permit)
    assert wards.tolist() == [3, 3, 3, 6, 0]  # "D" and "" are two users in the cell for others; NULL is none


def test_a_table_too_large_to_keep_is_read_anew_and_gives_the_same() -> None:
    schema, rows = clinic_schema(unit=USERS.format("patient", 2)), visits(500)
    small, permit = on_engine(schema, open_source(schema, None, frame=rows, limits=ReadLimits(kept_bytes=100)))
    large, other = opened(schema, rows)
    blocks = [full_block(schema, "ward"), full_block(schema, "age", "smoker")]
    for a, b in zip(small.count_by_cell(blocks, permit), large.count_by_cell(blocks, other), strict=True):
        assert a.tolist() == b.tolist()
