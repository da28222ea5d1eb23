"""Aggregates of some rows of a group: COUNT(a), FILTER, and CASE inside SUM, COUNT and AVG, as a test of rows."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from siloquent.errors import RequestError
from siloquent.explore.spec.aggregates import Aggregate, Average, Count, Sum
from siloquent.explore.spec.language.conditions import read_expression, read_predicate
from siloquent.explore.spec.language.cursor import Cursor
from siloquent.explore.spec.language.refusals import WHY_NOT, Refusal
from siloquent.explore.spec.predicate import And, Column, Compare, Expression, IsNull, Not, Predicate, Value

_COUNT_OF = Refusal(
    "COUNT takes *, 1, an attribute, or CASE WHEN condition THEN 1 END.", "COUNT(*) FILTER (WHERE ward IS NOT NULL)"
)
_BRANCHES = Refusal("CASE takes a single WHEN here.", "join the conditions with OR, or select one aggregate for each")
_ELSE = Refusal(
    "Rows that fail the condition of CASE cannot add anything here.", "ELSE 0 in SUM; no ELSE in COUNT and AVG"
)


def add_test(aggregate: Aggregate, test: Predicate) -> Aggregate:
    """Return ``aggregate`` of only the rows that also pass ``test``."""
    return replace(aggregate, test=test if aggregate.test is None else And((aggregate.test, test)))


def is_at_one(cursor: Cursor) -> bool:
    """Return whether the constant 1 is the whole argument, so that SUM counts rows."""
    return cursor.token.kind == "number" and Decimal(cursor.token.text) == 1 and cursor.following.word == ")"


def read_count(cursor: Cursor) -> Count:
    """Parse the argument of COUNT: ``*``, a number, or an attribute, whose NULLs do not count."""
    if cursor.take("*") or (cursor.token.kind == "number" and cursor.following.word == ")" and cursor.advance()):
        cursor.expect(")")
        return Count()
    refusal = cursor.build_refusal(_COUNT_OF)
    if cursor.token.kind not in ("word", "quoted"):
        raise refusal
    name = cursor.take_attribute()
    if not cursor.take(")"):
        raise refusal
    return Count(test=Not(IsNull(Column(name))))


def read_case(cursor: Cursor, function: str) -> Aggregate:
    """Parse ``CASE WHEN condition THEN 1 ELSE 0 END)`` of COUNT, SUM or AVG."""
    refusal = cursor.build_refusal(WHY_NOT["CASE"])
    if function not in ("COUNT", "SUM", "AVG"):
        raise refusal
    cursor.expect("CASE")
    subject = None if cursor.is_at("WHEN") else read_expression(cursor)
    cursor.expect("WHEN")
    test = read_predicate(cursor) if subject is None else Compare(subject, "=", read_expression(cursor))
    cursor.expect("THEN")
    value = read_expression(cursor)
    if cursor.is_at("WHEN"):
        raise cursor.build_refusal(_BRANCHES)
    if cursor.take("ELSE") and not (cursor.take("NULL") or (function == "SUM" and _take_zero(cursor))):
        raise cursor.build_refusal(_ELSE)
    cursor.expect("END")
    cursor.expect(")")
    return _build_tested(function, value, test, refusal)


def _take_zero(cursor: Cursor) -> bool:
    is_zero = cursor.token.kind == "number" and not Decimal(cursor.token.text)
    if is_zero:
        cursor.advance()
    return is_zero


def _build_tested(function: str, value: Expression, test: Predicate, refusal: RequestError) -> Aggregate:
    if isinstance(value, Column):
        if function == "COUNT":
            return Count(test=And((test, Not(IsNull(value)))))
        return Sum(value.name, test=test) if function == "SUM" else Average(value.name, test=test)
    counts = isinstance(value, Value) and (function == "COUNT" or (function == "SUM" and value == Value(1)))
    if not counts:
        raise refusal
    return Count(test=test)
