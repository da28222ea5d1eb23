"""One meaning, one form: every question is brought into it, whichever door it came through."""

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

MOST_DEPTH = 64
FLIPPED: dict[CompareOp, CompareOp] = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}


def tidy(predicate: Predicate) -> Predicate:
    """``predicate`` with attributes on the left of constants and no AND or OR of a single part.

    Raises:
        RequestError: it nests more than 64 deep, a side of a comparison mixes attributes, a comparison names none, or
            something is computed with what is no number.
    """
    return _tidy(predicate, 1)


def attribute_of(expression: Expression) -> str | None:
    """The one attribute of ``expression``; None for a constant.

    Raises:
        RequestError: it mixes two attributes, nests more than 64 deep, or computes with what is no number.
    """
    return _attribute(expression, 1)


def one_attribute(expression: Expression) -> str:
    """As ``attribute_of``, but there must be one."""
    name = attribute_of(expression)
    if name is None:
        raise RequestError("A test or a key names an attribute; this one is the same for every row.")
    return name


@singledispatch
def _tidy(predicate: Predicate, depth: int) -> Predicate:
    raise RequestError(f"{type(predicate).__name__} is no condition.")


@_tidy.register
def _(predicate: Compare, depth: int) -> Predicate:
    left, right = attribute_of(predicate.left), attribute_of(predicate.right)
    if left is None and right is None:
        raise RequestError("A comparison names an attribute; this one is the same for every row.", fix="age > 30")
    if Value(None) in (predicate.left, predicate.right):
        raise RequestError("A comparison with NULL is never true.", fix="IS NULL, or IS NOT NULL")
    return predicate if left is not None else Compare(predicate.right, FLIPPED[predicate.op], predicate.left)


@_tidy.register(InList)
@_tidy.register(Like)
@_tidy.register(IsNull)
def _(predicate: InList | Like | IsNull, depth: int) -> Predicate:
    one_attribute(predicate.expression)
    return predicate


@_tidy.register
def _(predicate: Not, depth: int) -> Predicate:
    return Not(_tidy(predicate.part, _deeper(depth)))


@_tidy.register(And)
@_tidy.register(Or)
def _(predicate: And | Or, depth: int) -> Predicate:
    below = _deeper(depth)
    parts = tuple(_tidy(part, below) for part in predicate.parts)
    return parts[0] if len(parts) == 1 else type(predicate)(parts)


@singledispatch
def _attribute(expression: Expression, depth: int) -> str | None:
    raise RequestError(f"{type(expression).__name__} is no expression.")


@_attribute.register
def _(expression: Column, depth: int) -> str | None:
    return expression.name


@_attribute.register
def _(expression: Through, depth: int) -> str | None:
    return expression.key


@_attribute.register
def _(expression: Value, depth: int) -> str | None:
    return None


@_attribute.register
def _(expression: Call, depth: int) -> str | None:
    if expression.function not in FUNCTIONS:
        raise RequestError(f"There is no function {expression.function[:40]!r}. Known: {', '.join(FUNCTIONS)}.")
    return _attribute(expression.argument, _deeper(depth))


@_attribute.register
def _(expression: Arithmetic, depth: int) -> str | None:
    below = _deeper(depth)
    names = _named(_attribute(side, below) for side in (expression.left, expression.right))
    if any(isinstance(side, Value) and side.sort != "number" for side in (expression.left, expression.right)):
        raise RequestError(f"{expression.op} takes numbers.", fix="age - 1 > 30")
    if len(names) == 2:
        raise RequestError(
            f"One side of a comparison mixes the attributes {names[0]!r} and {names[1]!r}.",
            fix="compare them with each other (a < b), or declare what is computed as an attribute of its own",
        )
    return names[0] if names else None


def _named(names: Iterable[str | None]) -> list[str]:
    return sorted({name for name in names if name is not None})


def _deeper(depth: int) -> int:
    if depth >= MOST_DEPTH:
        raise RequestError(f"Conditions and expressions nest at most {MOST_DEPTH} deep.", fix="ask in smaller pieces")
    return depth + 1
