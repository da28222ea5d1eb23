"""Aggregates of expressions and of some rows of a group: COUNT(a), FILTER, and CASE inside SUM, COUNT and AVG."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from siloquent.errors import SyntaxProblem
from siloquent.explore.spec.aggregates import Aggregate, Average, Count, Deviation, Extreme, Quantile, Sum, Variance
from siloquent.explore.spec.language.cursor import Cursor
from siloquent.explore.spec.language.expressions.conditions import read_expression
from siloquent.explore.spec.predicate import And, Case, Expression, IsNull, Not, Predicate, Value
from siloquent.explore.spec.rewriting.normal_form import list_attributes

_NULL, _ZERO, _ONE = Value(None), Value(0), Value(1)
_FUNCTIONS: dict[str, type[Sum | Average | Variance | Deviation]] = {
    "SUM": Sum,
    "AVG": Average,
    "VAR": Variance,
    "VAR_POP": Variance,
    "STDDEV": Deviation,
    "STDDEV_POP": Deviation,
}


def add_test(aggregate: Aggregate, test: Predicate) -> Aggregate:
    """Return ``aggregate`` of only the rows that also pass ``test``."""
    return replace(aggregate, test=test if aggregate.test is None else And((aggregate.test, test)))


def is_at_one(cursor: Cursor) -> bool:
    """Return whether the constant 1 is the whole argument, so that SUM counts rows."""
    return cursor.token.kind == "number" and Decimal(cursor.token.text) == 1 and cursor.following.word == ")"


def read_count(cursor: Cursor) -> Count:
    """Parse the argument of COUNT: ``*``, a number, or an expression, whose NULLs do not count."""
    if cursor.take("*") or (cursor.token.kind == "number" and cursor.following.word == ")" and cursor.advance()):
        cursor.expect(")")
        return Count()
    argument = _read_argument(cursor, "COUNT")
    cursor.expect(")")
    test, value = _split_case(argument)
    if test is not None and isinstance(value, Value):
        return Count(test=test)
    known = Not(IsNull(value))
    return Count(test=known if test is None else And((test, known)))


def read_of_expression(cursor: Cursor, function: str) -> Aggregate:
    """Parse the argument of an aggregate other than COUNT: an attribute, or an expression of each row."""
    argument = _read_argument(cursor, function)
    if function in ("QUANTILE", "MEDIAN"):
        share = Decimal("0.5")
        if function == "QUANTILE":
            cursor.expect(",")
            share = cursor.take_number("The share of a quantile")
        cursor.expect(")")
        return Quantile("", share, computed=argument)
    cursor.expect(")")
    return _build(function, argument)


def _read_argument(cursor: Cursor, function: str) -> Expression:
    start = cursor.token.start
    cursor.enter_parenthesis()
    argument = read_expression(cursor)
    cursor.leave_parenthesis("")
    if not list_attributes(argument):
        raise SyntaxProblem(f"{function} takes an expression of attributes, not a constant", position=start)
    return argument


def _build(function: str, argument: Expression) -> Aggregate:
    """Build SUM, AVG, VAR or STDDEV of ``argument``: of some rows, if it is CASE with one condition."""
    test, value = _split_case(argument, zero=function == "SUM")
    if test is None or (isinstance(value, Value) and not (function == "SUM" and value == _ONE)):
        return _build_plain(function, argument)
    if isinstance(value, Value):
        return Count(test=test)
    return _build_plain(function, value, test)


def _build_plain(function: str, argument: Expression, test: Predicate | None = None) -> Aggregate:
    if function in ("MIN", "MAX"):
        return Extreme("", computed=argument, test=test, largest=function == "MAX")
    if function in ("VAR", "STDDEV"):
        spread = Variance if function == "VAR" else Deviation
        return spread("", computed=argument, test=test, sample=True)
    return _FUNCTIONS[function]("", computed=argument, test=test)


def _split_case(argument: Expression, *, zero: bool = False) -> tuple[Predicate | None, Expression]:
    """Split CASE WHEN test THEN value END into its parts, if other rows add nothing; else return no test."""
    if not isinstance(argument, Case) or len(argument.branches) != 1:
        return None, argument
    (branch,) = argument.branches
    adds_nothing = argument.otherwise == _NULL or (zero and argument.otherwise == _ZERO)
    return (branch.test, branch.value) if adds_nothing and branch.value != _NULL else (None, argument)
