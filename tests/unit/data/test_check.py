"""A check counts what is wrong with a table, for its owner alone, and says how to mend it."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from siloquent.data import CheckReport, TableFinding, check
from unit.data.clinic import ATTRIBUTES, clinic_schema, opened, visits

USER = '{ kind = "user", column = "patient", max_rows = 2 }'
GOOD = {"patient": 1, "age": 30, "weight": 70.0, "ward": "A", "smoker": True, "day": None, "note": "n"}


def rows(*changes: dict[str, object]) -> pa.Table:
    """One row for each of ``changes`` to a good one."""
    schema = visits(1).schema.set(5, pa.field("day", pa.string())).set(1, pa.field("age", pa.string()))
    return pa.Table.from_pylist([{**GOOD, "age": "30", "day": "2024-05-05", **change} for change in changes], schema)


def found(report: CheckReport, kind: str, subject: str) -> TableFinding:
    [finding] = [f for f in report.findings if (f.kind, f.subject) == (kind, subject)]
    return finding


def test_a_good_table_is_clean() -> None:
    report = check(opened(clinic_schema(), rows({}, {}, {}))[0])
    assert (report.rows, report.counted, report.findings) == (3, 3, ())
    assert report.is_clean


def test_every_kind_of_bad_value_is_counted_once() -> None:
    changes = [
        {"age": None},
        {"age": "old"},
        {"age": "121"},
        {"age": "-1"},
        {"weight": float("nan")},
        {"weight": float("inf")},
        {"ward": "Z"},
        {"ward": ""},
        {"ward": None},
        {"smoker": None},
        {"day": "2024-02-30"},
        {"day": "2023-12-31"},
        {"note": "x" * 41},
    ]
    report = check(opened(clinic_schema(), rows(*changes))[0])
    assert {(f.kind, f.subject, f.count) for f in report.findings} == {
        ("null", "attribute age", 1),
        ("unreadable", "attribute age", 1),
        ("outside", "attribute age", 2),
        ("null", "attribute weight", 1),
        ("outside", "attribute weight", 1),
        ("unlisted", "attribute ward", 2),
        ("null", "attribute ward", 1),
        ("null", "attribute smoker", 1),
        ("unreadable", "attribute day", 1),
        ("outside", "attribute day", 1),
        ("too_long", "attribute note", 1),
    }
    assert not report.is_clean


@pytest.mark.parametrize(
    ("written", "count"),
    [(["1.5", "2", "2.25", "1e1", "3.0"], 2), (["-0.5", "121.5", "7"], 2), (["0", "120", "1e2"], 0), (["x", None], 0)],
)
def test_decimals_that_are_rounded_in_a_column_of_whole_numbers_are_counted(
    written: list[str | None], count: int
) -> None:
    report = check(opened(clinic_schema(), rows(*({"age": one} for one in written)))[0])
    told = [one for one in report.findings if one.kind == "rounded"]
    assert [one.count for one in told] == ([count] if count else [])
    assert all("rounded to whole numbers" in one.sentence and 'type = "real"' in one.fix for one in told)
    assert not any(one.is_problem for one in told)


def test_rows_of_which_the_declaration_says_what_becomes_are_no_fault() -> None:
    schema = clinic_schema(unit=USER)
    report = check(opened(schema, rows({"age": "999"}, {"ward": "Z"}, {"day": "2023-12-31"}, {"age": None}))[0])
    assert {f.kind for f in report.findings} == {"outside", "unlisted", "null", "over_max_rows"}
    assert report.is_clean
    assert not check(opened(schema, rows({"patient": None}))[0]).is_clean


def test_each_finding_says_what_happens_and_which_line_mends_it() -> None:
    report = check(opened(clinic_schema(), rows({"age": "999"}, {"ward": "Z"}, {"day": "31.1.2024"}, {"age": None}))[0])
    outside = found(report, "outside", "attribute age")
    assert outside.sentence == "1 row lies outside 0..120: it is moved to the nearest bound."
    assert outside.fix.startswith('lo = ..., hi = ... in the attribute named "age" of schemas/visits.toml')
    assert "share the cell (other)" in found(report, "unlisted", "attribute ward").sentence
    unread = found(report, "unreadable", "attribute day")
    assert unread.fix == 'date_format = "%d.%m.%Y | %Y-%m-%d" under [reading] in schemas/visits.toml'
    assert unread.sentence.endswith("Is it written as %d.%m.%Y or as %Y-%m-%d?")  # as the other rows are
    assert 'null = "cell"' in found(report, "null", "attribute age").fix


def test_no_value_of_a_row_is_shown() -> None:
    secret = "Zyklamen"
    report = check(opened(clinic_schema(), rows({"ward": secret, "age": secret, "note": secret * 9}))[0])
    assert secret not in json.dumps(report.to_json())


def test_users_with_more_rows_than_count_are_found() -> None:
    users = [{"patient": user} for user in (1, 1, 1, 1, 2, 3, 3, 3, None)]
    report = check(opened(clinic_schema(unit=USER), rows(*users))[0])
    assert (report.rows, report.counted) == (9, 5)
    assert found(report, "no_user", "unit patient").count == 1
    over = found(report, "over_max_rows", "unit patient")
    assert over.sentence == "2 users have more than 2 rows: 3 rows do not count."


def test_columns_that_are_not_declared_are_named() -> None:
    report = check(opened(clinic_schema(), rows({}).append_column("shoe", pa.array([44])))[0])
    extra = found(report, "extra_column", "source")
    assert "shoe" in extra.sentence
    assert report.is_clean


CONSTRAINTS = {
    'kind = "fd", lhs = ["ward"], rhs = "smoker"': (
        [{"ward": "A"}, {"ward": "A", "smoker": False}, {"ward": "B"}, {"ward": "B", "smoker": None}],
        1,
    ),
    'kind = "fd", lhs = ["ward"], rhs = "smoker", when = "age >= 18 and weight < 80.5"': (
        [{"ward": "A"}, {"ward": "A", "smoker": False, "age": "17"}, {"ward": "B"}, {"ward": "B", "smoker": False}],
        1,
    ),
    'kind = "key", columns = ["patient", "day"]': (
        [{}, {}, {"day": "2024-05-06"}, {"day": None}, {"day": None}],
        1,
    ),
    'kind = "denial", not = "age < 18 and smoker = true"': (
        [{"age": "17"}, {"age": "18"}, {"age": "17", "smoker": False}, {"age": "x"}],
        1,
    ),
    "kind = \"denial\", not = \"ward = 'B' and day > '2024-06-01'\"": (
        [{"ward": "B"}, {"ward": "B", "day": "2024-06-02"}, {"day": "2024-06-02"}],
        1,
    ),
    'kind = "denial", not = "t1.age > t2.age and t1.weight < t2.weight"': (
        [{"age": "1", "weight": 10.0}, {"age": "2", "weight": 20.0}, {"age": "3", "weight": 15.0}],
        1,
    ),
    'kind = "denial", not = "t1.ward = t2.ward and t1.smoker != t2.smoker"': (
        [{}, {}, {"smoker": False}, {"ward": "B", "smoker": False}],
        4,
    ),
    'kind = "denial", not = "t1.ward = t2.ward"': ([{}, {}, {"ward": "B"}], 2),
    "kind = \"denial\", not = \"t1.note = 'n' and t2.note = 'm'\"": ([{}, {}, {"note": "m"}], 2),
}


@pytest.mark.parametrize("constraint", CONSTRAINTS)
def test_violations_of_every_kind_of_constraint_are_counted(constraint: str) -> None:
    changes, expected = CONSTRAINTS[constraint]
    report = check(opened(clinic_schema(more=f"constraint = [{{ {constraint} }}]"), rows(*changes))[0])
    [violated] = [f for f in report.findings if f.kind == "violated"]
    assert violated.count == expected
    assert violated.subject.startswith("constraint 1 (")


def test_what_a_soft_constraint_allows_is_told_and_is_no_fault() -> None:
    rule = 'kind = "denial", not = "t1.ward = t2.ward", hard = false'
    report = check(opened(clinic_schema(more=f"constraint = [{{ {rule} }}]"), rows({}, {}, {"ward": "B"}))[0])
    [told] = [f for f in report.findings if f.subject.startswith("constraint 1")]
    assert (told.kind, told.count, told.is_problem, "allows" in told.sentence) == ("allowed", 2, False, True)
    assert report.is_clean


@pytest.mark.parametrize("constraint", CONSTRAINTS)
def test_rows_that_keep_a_constraint_are_not_reported(constraint: str) -> None:
    report = check(opened(clinic_schema(more=f"constraint = [{{ {constraint} }}]"), rows({"ward": "C"}))[0])
    assert [f for f in report.findings if f.kind in ("violated", "not_checked")] == []


@pytest.mark.parametrize("text", ["t1.age = t2.ward", "age = 'x'", "ward > 'a' and day = 5", "smoker = 1"])
def test_what_cannot_be_compared_is_said_and_no_error(text: str) -> None:
    schema = clinic_schema(more=f'constraint = [{{ kind = "denial", not = "{text}" }}]')
    report = check(opened(schema, rows({}))[0])
    assert [f.kind for f in report.findings] == ["not_checked"]
    assert report.is_clean


def test_pairs_among_many_rows_are_looked_at_within_reason() -> None:
    schema = clinic_schema(more='constraint = [{ kind = "denial", not = "t1.age < t2.age" }]')
    report = check(opened(schema, visits(33_000))[0])
    [violated] = [f for f in report.findings if f.kind == "violated"]
    assert "among the first 20,000 rows" in violated.sentence


def test_pairs_that_must_agree_are_all_looked_at_in_a_large_table() -> None:
    schema = clinic_schema(
        more='constraint = [{ kind = "denial", not = "t1.patient = t2.patient and t1.age < t2.age" }]'
    )
    rows = visits(33_000)
    report = check(opened(schema, rows)[0])
    [violated] = [f for f in report.findings if f.kind == "violated"]
    ages: dict[object, list[int]] = {}
    for row in rows.select(["patient", "age"]).to_pylist():
        if None not in row.values():
            ages.setdefault(row["patient"], []).append(row["age"])
    assert violated.count == sum(a < b for some in ages.values() for a in some for b in some)
    assert "among" not in violated.sentence


WARDS = '{ name = "ward", type = "category", values = ["A", "B"], null = "drop" }'
REFERS = 'constraint = [{ kind = "foreign_key", columns = ["ward"], references = "wards(ward)" }]'


def test_rows_that_refer_to_nothing_are_counted_where_the_other_table_is_at_hand() -> None:
    wards = opened(clinic_schema(attributes=WARDS), pa.table({"ward": ["A", "B", None]}))[0]
    table = opened(clinic_schema(more=REFERS), rows({}, {"ward": "C"}, {"ward": "D"}, {"ward": None}))[0]
    [violated] = [f for f in check(table, others={"wards": wards}).findings if f.kind == "violated"]
    assert violated.sentence == "2 rows refer to nothing in wards."
    assert found(check(table), "not_checked", "constraint 1 (ward in wards(ward))").count == 0


def test_a_check_of_a_user_table_needs_no_permit_and_leaves_it_usable() -> None:
    table, permit = opened(clinic_schema(unit=USER, attributes=ATTRIBUTES), visits(100))
    check(table)
    assert sum(batch.num_rows for batch in table.read_rows(["age"], permit)) == check(table).counted
