"""DuckDB reads the same text the same way: our precedence, our NOT and our BETWEEN are SQL's."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from siloquent.errors import RequestError
from siloquent.explore.spec import parse_predicate
from siloquent.explore.spec.predicate import (
    And,
    Arithmetic,
    Call,
    Column,
    Compare,
    Expression,
    InList,
    IsNull,
    Not,
    Or,
    Predicate,
    Value,
)

ROWS = "(VALUES (4, 3), (-7, 2), (5, 9), (12, NULL), (1, -1)) AS rows(a, b)"


def numbers_of(column: str) -> st.SearchStrategy[str]:
    """Arithmetic as people type it: parentheses only here and there, so that precedence decides."""
    return st.recursive(
        st.just(column) | st.integers(1, 9).map(str),
        lambda inner: st.one_of(
            st.tuples(inner, st.sampled_from(["+", "-", "*", "//", "%"]), inner).map(" ".join),
            inner.map("- {}".format),
            inner.map("({})".format),
            inner.map("abs({})".format),
        ),
        max_leaves=5,
    )


numbers = st.sampled_from("ab").flatmap(numbers_of)
CASTS = ["CAST('3' AS INTEGER)", "'-7'::INT", "CAST(9 AS DECIMAL(4, 1))", "TRY_CAST(2.5 AS INTEGER)", "'1'::DOUBLE"]
comparisons = st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "!=", "=="])
tests = st.one_of(
    st.tuples(numbers, comparisons, numbers).map(" ".join),
    st.tuples(numbers, st.sampled_from(["BETWEEN", "NOT BETWEEN"]), numbers, st.just("AND"), numbers).map(" ".join),
    st.tuples(numbers, st.sampled_from(["IN (0, 5)", "NOT IN (1)", "IS NULL", "IS NOT NULL"])).map(" ".join),
    st.tuples(numbers, st.sampled_from(["IS DISTINCT FROM", "IS NOT DISTINCT FROM"]), numbers).map(" ".join),
    st.tuples(numbers, st.sampled_from(["ISNULL", "NOTNULL", "IS DISTINCT FROM NULL"])).map(" ".join),
    st.tuples(numbers, comparisons, st.sampled_from(CASTS)).map(" ".join),
)
truth_tests = st.sampled_from(
    [f"IS {word}" for word in ("TRUE", "FALSE", "UNKNOWN", "NOT TRUE", "NOT FALSE", "NOT UNKNOWN")]
)
conditions = st.recursive(
    tests,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map(" ".join),
        inner.map("NOT {}".format),
        inner.map("({})".format),
        st.tuples(inner.map("({})".format), truth_tests).map(" ".join),
        st.tuples(tests, truth_tests).map(" ".join),
    ),
    max_leaves=6,
)


def spelled(node: Predicate | Expression) -> str:
    """The tree with every pair of parentheses written out, so that nothing is left to precedence."""
    match node:
        case Column(name):
            return name
        case Value(value):
            return f"({value})"
        case Call(function, argument):
            return f"{function}({spelled(argument)})"
        case Arithmetic(left, op, right) | Compare(left, op, right):
            return f"({spelled(left)} {op} {spelled(right)})"
        case InList(expression, values):
            return f"({spelled(expression)} IN {'(' + ', '.join(map(str, values)) + ')'})"
        case IsNull(expression):
            return f"({spelled(expression)} IS NULL)"
        case Not(part):
            return f"(NOT {spelled(part)})"
        case And(parts):
            return f"({' AND '.join(map(spelled, parts)) or 'TRUE'})"
        case Or(parts):
            return f"({' OR '.join(map(spelled, parts)) or 'FALSE'})"
    raise AssertionError(node)


@pytest.fixture(scope="module")
def engine() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


def truths(engine: duckdb.DuckDBPyConnection, text: str) -> list[tuple[Any, ...]]:
    """The condition's value for each row; nothing where a row divides by zero, which newer engines refuse."""
    try:
        return engine.sql(f"SELECT ({text}) FROM {ROWS}").fetchall()
    except duckdb.InvalidInputException:
        return []


@pytest.mark.slow
@given(text=conditions)
def test_what_we_read_is_what_duckdb_reads(engine: duckdb.DuckDBPyConnection, text: str) -> None:
    try:
        tree = parse_predicate(text)
    except RequestError as refused:
        # SQL has an answer for comparisons without any attribute; we refuse them on purpose.
        reject() if "this one is constant" in refused.detail else pytest.fail(f"{text}: {refused}")
    assert truths(engine, text) == truths(engine, spelled(tree))


def test_the_comparison_would_catch_a_wrong_precedence(engine: duckdb.DuckDBPyConnection) -> None:
    wrong = Not(And((Compare(Column("a"), ">", Value(3)), Compare(Column("b"), ">", Value(0)))))
    assert truths(engine, "NOT a > 3 AND b > 0") != truths(engine, spelled(wrong))
