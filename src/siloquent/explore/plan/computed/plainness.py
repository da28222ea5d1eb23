"""Tests and expressions that are evaluated cell by cell of their attributes; all others need a computed column."""

from __future__ import annotations

from siloquent.explore.spec.predicate import (
    PARAMETRIC,
    Arithmetic,
    Call,
    Case,
    Compare,
    Expression,
    InList,
    IsNull,
    Like,
)
from siloquent.explore.spec.rewriting.normal_form import list_attributes
from siloquent.schema import Domain

Test = Compare | InList | Like | IsNull


def list_sides(test: Test) -> tuple[Expression, ...]:
    """List the expressions that ``test`` is about."""
    return (test.left, test.right) if isinstance(test, Compare) else (test.expression,)


def find_plain_attribute(test: Test, domain: Domain) -> str | None:
    """Find the only attribute of a test that is evaluated value by value; None for other tests.

    Raises:
        UnknownName: the attribute is not declared.
    """
    names = {domain[name].name for side in list_sides(test) for name in list_attributes(side)}
    return names.pop() if len(names) == 1 and all(map(is_plain, list_sides(test))) else None


def is_plain(expression: Expression) -> bool:
    """Return whether ``expression`` has at most one attribute and only functions that are evaluated cell by cell."""
    return _has_plain_functions(expression) and len(list_attributes(expression)) <= 1


def _has_plain_functions(expression: Expression) -> bool:
    if isinstance(expression, Call):
        is_known = not expression.more or expression.function in PARAMETRIC
        return is_known and _has_plain_functions(expression.argument)
    if isinstance(expression, Arithmetic):
        is_known = expression.op != "/"  # and differences of dates have two attributes
        return is_known and _has_plain_functions(expression.left) and _has_plain_functions(expression.right)
    return not isinstance(expression, Case)


def is_cellwise(test: Test, domain: Domain) -> bool:
    """Return whether ``test`` can be evaluated in the cells of its attributes: one, or two of at most 10^6 values.

    Raises:
        UnknownName: an attribute is not declared.
    """
    sides = list_sides(test)
    if not all(map(is_plain, sides)):
        return False
    names = {domain[name].name for side in sides for name in list_attributes(side)}
    return len(names) < 2 or not any(domain[name].is_wide for name in names)
