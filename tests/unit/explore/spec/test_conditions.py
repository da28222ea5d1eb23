"""Conditions and expressions by themselves."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal

import pytest

from siloquent.errors import RequestError, SyntaxProblem
from siloquent.explore.spec import parse_expression, parse_predicate
from siloquent.explore.spec.predicate import (
    And,
    Arithmetic,
    Call,
    Column,
    Compare,
    Expression,
    InList,
    IsNull,
    Like,
    Not,
    Or,
    Predicate,
    Value,
)

AGE, SMOKER = Column("age"), Column("smoker")
A, B, C = (Compare(Column(name), "=", Value(True)) for name in "abc")


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("age > 30", Compare(AGE, ">", Value(30))),
        ("30 < age", Compare(AGE, ">", Value(30))),
        ("30 = age", Compare(AGE, "=", Value(30))),
        ("age <> 30", Compare(AGE, "!=", Value(30))),
        ("age == 30.0", Compare(AGE, "=", Value(30))),
        ("age > lo", Compare(AGE, ">", Column("lo"))),
        ("age >= -3", Compare(AGE, ">=", Value(-3))),
        ("age >= 2.50", Compare(AGE, ">=", Value(Decimal("2.5")))),
        ("smoker", Compare(SMOKER, "=", Value(True))),
        ("NOT smoker", Not(Compare(SMOKER, "=", Value(True)))),
        ("smoker = FALSE", Compare(SMOKER, "=", Value(False))),
        ("TRUE", And(())),
        ("FALSE", Or(())),
        ("age BETWEEN 3 AND 5", And((Compare(AGE, ">=", Value(3)), Compare(AGE, "<=", Value(5))))),
        ("age NOT BETWEEN 3 AND 5", Not(And((Compare(AGE, ">=", Value(3)), Compare(AGE, "<=", Value(5)))))),
        ("age IN (3, -5, 2.5)", InList(AGE, (3, -5, Decimal("2.5")))),
        ("age NOT IN (3)", Not(InList(AGE, (3,)))),
        ("day IN (DATE '2024-01-31')", InList(Column("day"), (date(2024, 1, 31),))),
        ("ward LIKE 'A%'", Like(Column("ward"), "A%")),
        ("ward NOT LIKE '_'", Not(Like(Column("ward"), "_"))),
        ("ward IS NULL", IsNull(Column("ward"))),
        ("ward IS NOT NULL", Not(IsNull(Column("ward")))),
        ("ward = 'it''s'", Compare(Column("ward"), "=", Value("it's"))),
        ("day > '2024-01-31'", Compare(Column("day"), ">", Value("2024-01-31"))),
        (
            "day > TIMESTAMP '2024-01-31 10:30:00.5'",
            Compare(Column("day"), ">", Value(datetime(2024, 1, 31, 10, 30, 0, 500_000))),
        ),
        ("a AND b AND c", And((A, B, C))),
        ("a AND (b AND c)", And((A, And((B, C))))),
        ("a OR b AND c", Or((A, And((B, C))))),
        ("(a OR b) AND c", And((Or((A, B)), C))),
        ("NOT a AND b", And((Not(A), B))),
        ("NOT age = 3", Not(Compare(AGE, "=", Value(3)))),
        ("NOT NOT a", Not(Not(A))),
        (
            "a AND age BETWEEN 1 AND 2 AND b",
            And((A, And((Compare(AGE, ">=", Value(1)), Compare(AGE, "<=", Value(2)))), B)),
        ),
    ],
)
def test_a_condition_is_read_as_sql_reads_it(text: str, read: Predicate) -> None:
    assert parse_predicate(text) == read


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("age", AGE),
        ("((age))", AGE),
        ("-age", Arithmetic(Value(0), "-", AGE)),
        ("+age", AGE),
        ("age + 1 * 2", Arithmetic(AGE, "+", Arithmetic(Value(1), "*", Value(2)))),
        ("(age + 1) * 2", Arithmetic(Arithmetic(AGE, "+", Value(1)), "*", Value(2))),
        ("age - 1 - 2", Arithmetic(Arithmetic(AGE, "-", Value(1)), "-", Value(2))),
        ("age - (1 - 2)", Arithmetic(AGE, "-", Arithmetic(Value(1), "-", Value(2)))),
        ("age // 10 % 3", Arithmetic(Arithmetic(AGE, "//", Value(10)), "%", Value(3))),
        ("abs(age - 50)", Call("abs", Arithmetic(AGE, "-", Value(50)))),
        ("YEAR(day)", Call("year", Column("day"))),
        ("age - -1", Arithmetic(AGE, "-", Value(-1))),
    ],
)
def test_an_expression_is_read_as_sql_reads_it(text: str, read: Expression) -> None:
    assert parse_expression(text) == read


def test_true_is_not_one() -> None:
    assert parse_predicate("smoker = TRUE") != parse_predicate("smoker = 1")
    assert parse_predicate("smoker IN (TRUE)") != parse_predicate("smoker IN (1)")


def test_constants_keep_all_their_digits() -> None:
    digits = "-0." + "1234567890" * 6
    read = parse_predicate(f"age > {digits}")
    assert read == Compare(AGE, ">", Value(Decimal(digits)))


@pytest.mark.parametrize(
    ("text", "reason", "fix"),
    [
        ("1 < 2", "is constant", "age > 30"),
        ("age = NULL", "never true", "IS NULL"),
        ("ward IN ('A', NULL)", "IN never matches NULL", "ward IS NULL"),
        ("CAST(age AS TEXT) = '3'", "Casts of attributes", "constant"),
        ("age::TEXT = '3'", "Casts of attributes", "constant"),
        ("COUNT(*) > 3", "condition on rows", "HAVING"),
        ("MIN(age) > 3", "values of single people", "QUANTILE"),
        ("yaer(day) = 2024", "Did you mean year", "derived"),
        ("age > $1", "Query parameters", "write the value"),
        ("age > ?", "Query parameters", "write the value"),
        ("age IN (SELECT age FROM t)", "Subqueries", "AND, OR and NOT"),
        ("CASE WHEN a THEN b", "The text ends", ""),
        ("coalesce(a) = 1", "takes several values", ""),
        ("nullif(a, b, 1) = 1", "takes 2 values", ""),
        ("day > INTERVAL 3 DAY", "INTERVAL", "DATE"),
        ("lower(ward) + 'x' = 3", "takes numbers", "age - 1"),
    ],
)
def test_what_sql_has_and_we_do_not_is_refused_with_a_reason(text: str, reason: str, fix: str) -> None:
    with pytest.raises(RequestError) as refused:
        parse_predicate(text)
    assert reason in refused.value.detail
    assert fix in refused.value.fix


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("age > 3 > 2", 8),
        ("age >", 5),
        ("(age > 3", 8),
        ("age 3", 4),
        ("3", 1),
        ("ward LIKE 3", 10),
        ("day > DATE '2024-02-30'", 11),
        ("age > 12abc", 8),
    ],
)
def test_an_unreadable_condition_says_where(text: str, position: int) -> None:
    with pytest.raises(SyntaxProblem) as refused:
        parse_predicate(text)
    assert refused.value.position == position


def test_sixty_four_levels_are_read_and_one_more_is_not() -> None:
    assert parse_predicate("NOT " * 63 + "age > 3")
    with pytest.raises(RequestError, match="at most 64 levels deep"):
        parse_predicate("NOT " * 64 + "age > 3")


@pytest.mark.parametrize("unit", ["YEAR", "QUARTER", "MONTH", "WEEK", "DAY"])
def test_no_units_of_time_change_no_date(unit: str) -> None:
    assert parse_predicate(f"day < DATE '2024-01-31' + INTERVAL 0 {unit}") == parse_predicate("day < DATE '2024-01-31'")
