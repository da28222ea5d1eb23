"""The normal form of every query, from whichever interface: one meaning, one form."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import singledispatch
from typing import Any, TypeVar

from siloquent.errors import RequestError
from siloquent.explore.spec.predicate import (
    CHOICES,
    FUNCTIONS,
    JOIN,
    PARAMETRIC,
    SEVERAL,
    And,
    Arithmetic,
    Branch,
    Call,
    Case,
    Column,
    Compare,
    CompareOp,
    Expression,
    InList,
    IsNull,
    Like,
    Not,
    Or,
    Predicate,
    Through,
    Value,
)

T = TypeVar("T")
MAX_DEPTH = 64
FLIPPED: dict[CompareOp, CompareOp] = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}


def normalize_predicate(predicate: Predicate) -> Predicate:
    """Return ``predicate`` with attributes on the left of constants and no AND or OR of a single part.

    Raises:
        RequestError: it nests more than 64 deep, a comparison names no attribute, or arithmetic has a non-number.
    """
    return _normalize(predicate, 1)


def normalize_expression(expression: Expression) -> Expression:
    """Return ``expression`` with the conditions of its CASEs in normal form.

    Raises:
        RequestError: as for ``normalize_predicate``.
    """
    list_attributes(expression)
    return _normalize_expression(expression, 1)


def list_attributes(expression: Expression) -> tuple[str, ...]:
    """List the attributes of ``expression``, each once, in order.

    Raises:
        RequestError: it nests more than 64 deep, or has arithmetic with a non-number.
    """
    if isinstance(expression, Column):  # by far the most frequent
        return (expression.name,)
    return () if isinstance(expression, Value) else tuple(dict.fromkeys(_iter_attributes(expression, 1)))


def find_attribute(expression: Expression) -> str | None:
    """Return the one attribute of ``expression``; None for a constant.

    Raises:
        RequestError: it mixes two attributes, nests more than 64 deep, or has arithmetic with a non-number.
    """
    names = list_attributes(expression)
    if len(names) > 1:
        raise RequestError(
            f"One expression mixes the attributes {names[0]!r} and {names[1]!r}.",
            fix="compare them with each other (a < b), or declare the computed value as a separate attribute",
        )
    return names[0] if names else None


def require_attribute(expression: Expression) -> str:
    """Return the first attribute of ``expression``, but require that there is one."""
    names = list_attributes(expression)
    if not names:
        raise RequestError("A condition or key must refer to an attribute; this one is constant.")
    return names[0]


@singledispatch
def _normalize(predicate: Predicate, depth: int) -> Predicate:
    raise RequestError(f"{type(predicate).__name__} is not a condition.")


@_normalize.register
def _(predicate: Compare, depth: int) -> Predicate:
    left, right = list_attributes(predicate.left), list_attributes(predicate.right)
    if not left and not right:
        raise RequestError("A comparison must refer to an attribute; this one is constant.", fix="age > 30")
    if Value(None) in (predicate.left, predicate.right):
        raise RequestError("A comparison with NULL is never true.", fix="IS NULL, or IS NOT NULL")
    sides = [_normalize_expression(side, depth) for side in (predicate.left, predicate.right)]
    if left:
        return _replace(predicate, left=sides[0], right=sides[1])
    return Compare(sides[1], FLIPPED[predicate.op], sides[0])


@_normalize.register(InList)
@_normalize.register(Like)
@_normalize.register(IsNull)
def _(predicate: InList | Like | IsNull, depth: int) -> Predicate:
    require_attribute(predicate.expression)
    return _replace(predicate, expression=_normalize_expression(predicate.expression, depth))


@_normalize.register
def _(predicate: Not, depth: int) -> Predicate:
    return Not(_normalize(predicate.part, _increase_depth(depth)))


@_normalize.register(And)
@_normalize.register(Or)
def _(predicate: And | Or, depth: int) -> Predicate:
    below = _increase_depth(depth)
    parts = tuple(_normalize(part, below) for part in predicate.parts)
    return parts[0] if len(parts) == 1 else type(predicate)(parts)


def _normalize_expression(expression: Expression, depth: int) -> Expression:
    """Return ``expression`` with the conditions of its CASEs normalized; itself, if it has none."""
    if isinstance(expression, Arithmetic):
        left, right = (_normalize_expression(side, depth) for side in (expression.left, expression.right))
        return _replace(expression, left=left, right=right)
    if isinstance(expression, Call):
        argument, *more = (_normalize_expression(one, depth) for one in (expression.argument, *expression.more))
        return _replace(expression, argument=argument, more=tuple(more))
    if isinstance(expression, Case):
        below = _increase_depth(depth)
        branches = tuple(
            Branch(_normalize(one.test, below), _normalize_expression(one.value, below)) for one in expression.branches
        )
        return _replace(expression, branches=branches, otherwise=_normalize_expression(expression.otherwise, below))
    return expression


def _replace(node: T, **changed: Any) -> T:
    """Return ``node`` with the changed fields; itself, if none is."""
    is_same = all(getattr(node, name) == value for name, value in changed.items())
    return node if is_same else replace(node, **changed)  # type: ignore[type-var]


def iter_expressions(predicate: Predicate) -> Iterator[Expression]:
    """Yield the expressions that the tests of ``predicate`` compare, in order."""
    left: list[Predicate] = [predicate]
    while left:
        one = left.pop()
        if isinstance(one, (And, Or)):
            left += reversed(one.parts)
        elif isinstance(one, Not):
            left.append(one.part)
        elif isinstance(one, Compare):
            yield from (one.left, one.right)
        else:
            yield one.expression


@singledispatch
def _iter_attributes(expression: Expression, depth: int) -> Iterable[str]:
    raise RequestError(f"{type(expression).__name__} is not an expression.")


@_iter_attributes.register
def _(expression: Column, depth: int) -> Iterable[str]:
    return (expression.name,)


@_iter_attributes.register
def _(expression: Through, depth: int) -> Iterable[str]:
    return (expression.key,)


@_iter_attributes.register
def _(expression: Value, depth: int) -> Iterable[str]:
    return ()


@_iter_attributes.register
def _(expression: Call, depth: int) -> Iterable[str]:
    if expression.function not in ((*CHOICES, *PARAMETRIC, *SEVERAL, JOIN) if expression.more else FUNCTIONS):
        known = ", ".join(dict.fromkeys(FUNCTIONS + PARAMETRIC + SEVERAL + CHOICES))
        raise RequestError(f"Unknown function {expression.function[:40]!r}. Known: {known}.")
    if expression.function in PARAMETRIC and not all(isinstance(one, Value) for one in expression.more):
        raise RequestError(f"{expression.function} takes constants after its first argument.", fix="round(cost, 2)")
    return _iter_all((expression.argument, *expression.more), _increase_depth(depth))


@_iter_attributes.register
def _(expression: Arithmetic, depth: int) -> Iterable[str]:
    sides = (expression.left, expression.right)
    if any(isinstance(side, Value) and side.sort != "number" for side in sides):
        raise RequestError(f"{expression.op} takes numbers.", fix="age - 1 > 30")
    return _iter_all(sides, _increase_depth(depth))


@_iter_attributes.register
def _(expression: Case, depth: int) -> Iterable[str]:
    tested = [one for branch in expression.branches for one in iter_expressions(branch.test)]
    values = [branch.value for branch in expression.branches]
    return _iter_all((*tested, *values, expression.otherwise), _increase_depth(depth))


def _iter_all(expressions: Iterable[Expression], depth: int) -> list[str]:
    return [name for one in expressions for name in _iter_attributes(one, depth)]


def _increase_depth(depth: int) -> int:
    if depth >= MAX_DEPTH:
        raise RequestError(
            f"Conditions and expressions can be nested at most {MAX_DEPTH} levels deep.", fix="split the query"
        )
    return depth + 1
