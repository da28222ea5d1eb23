"""The normal form of every query, from whichever interface: one meaning, one form."""

from __future__ import annotations

from functools import singledispatch
from typing import TYPE_CHECKING

from siloquent.errors import RequestError
from siloquent.explore.spec.predicate import (
    FUNCTIONS,
    And,
    Arithmetic,
    Call,
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

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_DEPTH = 64
FLIPPED: dict[CompareOp, CompareOp] = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}


def normalize_predicate(predicate: Predicate) -> Predicate:
    """Return ``predicate`` with attributes on the left of constants and no AND or OR of a single part.

    Raises:
        RequestError: it nests more than 64 deep, a side of a comparison mixes attributes, a comparison names none, or
            arithmetic has a non-number.
    """
    return _normalize(predicate, 1)


def find_attribute(expression: Expression) -> str | None:
    """Return the one attribute of ``expression``; None for a constant.

    Raises:
        RequestError: it mixes two attributes, nests more than 64 deep, or has arithmetic with a non-number.
    """
    return _find_attribute(expression, 1)


def require_attribute(expression: Expression) -> str:
    """Return the attribute as ``find_attribute`` does, but require that there is one."""
    name = find_attribute(expression)
    if name is None:
        raise RequestError("A condition or key must refer to an attribute; this one is constant.")
    return name


@singledispatch
def _normalize(predicate: Predicate, depth: int) -> Predicate:
    raise RequestError(f"{type(predicate).__name__} is not a condition.")


@_normalize.register
def _(predicate: Compare, depth: int) -> Predicate:
    left, right = find_attribute(predicate.left), find_attribute(predicate.right)
    if left is None and right is None:
        raise RequestError("A comparison must refer to an attribute; this one is constant.", fix="age > 30")
    if Value(None) in (predicate.left, predicate.right):
        raise RequestError("A comparison with NULL is never true.", fix="IS NULL, or IS NOT NULL")
    return predicate if left is not None else Compare(predicate.right, FLIPPED[predicate.op], predicate.left)


@_normalize.register(InList)
@_normalize.register(Like)
@_normalize.register(IsNull)
def _(predicate: InList | Like | IsNull, depth: int) -> Predicate:
    require_attribute(predicate.expression)
    return predicate


@_normalize.register
def _(predicate: Not, depth: int) -> Predicate:
    return Not(_normalize(predicate.part, _increase_depth(depth)))


@_normalize.register(And)
@_normalize.register(Or)
def _(predicate: And | Or, depth: int) -> Predicate:
    below = _increase_depth(depth)
    parts = tuple(_normalize(part, below) for part in predicate.parts)
    return parts[0] if len(parts) == 1 else type(predicate)(parts)


@singledispatch
def _find_attribute(expression: Expression, depth: int) -> str | None:
    raise RequestError(f"{type(expression).__name__} is not an expression.")


@_find_attribute.register
def _(expression: Column, depth: int) -> str | None:
    return expression.name


@_find_attribute.register
def _(expression: Through, depth: int) -> str | None:
    return expression.key


@_find_attribute.register
def _(expression: Value, depth: int) -> str | None:
    return None


@_find_attribute.register
def _(expression: Call, depth: int) -> str | None:
    if expression.function not in FUNCTIONS:
        raise RequestError(f"Unknown function {expression.function[:40]!r}. Known: {', '.join(FUNCTIONS)}.")
    return _find_attribute(expression.argument, _increase_depth(depth))


@_find_attribute.register
def _(expression: Arithmetic, depth: int) -> str | None:
    below = _increase_depth(depth)
    names = _list_names(_find_attribute(side, below) for side in (expression.left, expression.right))
    if any(isinstance(side, Value) and side.sort != "number" for side in (expression.left, expression.right)):
        raise RequestError(f"{expression.op} takes numbers.", fix="age - 1 > 30")
    if len(names) == 2:
        raise RequestError(
            f"One side of a comparison mixes the attributes {names[0]!r} and {names[1]!r}.",
            fix="compare them with each other (a < b), or declare the computed value as a separate attribute",
        )
    return names[0] if names else None


def _list_names(names: Iterable[str | None]) -> list[str]:
    return sorted({name for name in names if name is not None})


def _increase_depth(depth: int) -> int:
    if depth >= MAX_DEPTH:
        raise RequestError(
            f"Conditions and expressions can be nested at most {MAX_DEPTH} levels deep.", fix="split the query"
        )
    return depth + 1
