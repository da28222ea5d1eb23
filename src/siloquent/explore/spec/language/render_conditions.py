"""Rendering of conditions, expressions, names and constants as text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import singledispatch

from siloquent.explore.spec.language.marks import MARK
from siloquent.explore.spec.language.refusals import RESERVED
from siloquent.explore.spec.numbers import format_number
from siloquent.explore.spec.predicate import (
    JOIN,
    And,
    Arithmetic,
    Call,
    Case,
    Column,
    Compare,
    Constant,
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


@dataclass(frozen=True, slots=True)
class Written(Column):
    """A condition as it is written, in place of the attribute that stands for it; only while a query is rendered."""

    def __post_init__(self) -> None:
        """Take a text of any length."""


_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SUMS, _PRODUCTS = ("+", "-"), ("*", "/", "//", "%")


def render_predicate(predicate: Predicate) -> str:
    """Render a condition as written after WHERE."""
    return _render_predicate(predicate)


def render_expression(expression: Expression) -> str:
    """Render an expression as written after GROUP BY."""
    return _render_expression(expression)


def render_name(name: str) -> str:
    """Render a name, in double quotes if it needs them; with its table in front, if it has one."""
    if MARK in name:
        before, _, column = name.rpartition(MARK)
        return f"{render_name(before)}.{render_name(column)}"
    if _PLAIN_NAME.fullmatch(name) and name.upper() not in RESERVED:
        return name
    return '"' + name.replace('"', '""') + '"'


def render_constant(constant: Constant) -> str:
    """Render a constant as in the language."""
    if constant is None or isinstance(constant, bool):
        return {None: "NULL", True: "TRUE", False: "FALSE"}[constant]
    if isinstance(constant, (int, Decimal)):
        return format_number(constant)
    if isinstance(constant, datetime):
        return f"TIMESTAMP '{constant.isoformat(sep=' ')}'"
    if isinstance(constant, date):
        return f"DATE '{constant.isoformat()}'"
    return "'" + constant.replace("'", "''") + "'"


def _join_texts(texts: Iterable[str]) -> str:
    return ", ".join(texts)


@singledispatch
def _render_predicate(predicate: Predicate) -> str:
    raise TypeError(f"{type(predicate).__name__} is not a condition.")


@_render_predicate.register
def _(predicate: Compare) -> str:
    if isinstance(predicate.left, Written):
        return predicate.left.name
    return f"{_render_expression(predicate.left)} {predicate.op} {_render_expression(predicate.right)}"


@_render_predicate.register
def _(predicate: InList) -> str:
    return _render_in(predicate, "IN")


@_render_predicate.register
def _(predicate: Like) -> str:
    return _render_like(predicate, "LIKE")


@_render_predicate.register
def _(predicate: IsNull) -> str:
    return f"{_render_expression(predicate.expression)} IS NULL"


@_render_predicate.register
def _(predicate: Not) -> str:
    part = predicate.part
    if isinstance(part, InList):
        return _render_in(part, "NOT IN")
    if isinstance(part, Like):
        return _render_like(part, "NOT LIKE")
    if isinstance(part, IsNull):
        return f"{_render_expression(part.expression)} IS NOT NULL"
    return f"NOT {render_inside(part, And, Or)}"


@_render_predicate.register
def _(predicate: And) -> str:
    return " AND ".join(render_inside(part, And, Or) for part in predicate.parts) or "TRUE"


@_render_predicate.register
def _(predicate: Or) -> str:
    return " OR ".join(render_inside(part, Or) for part in predicate.parts) or "FALSE"


def render_inside(predicate: Predicate, *looser: type[And] | type[Or]) -> str:
    """Render ``predicate`` as a part of another one: in parentheses if it is a ``looser`` join of several parts."""
    text = _render_predicate(predicate)
    return (
        f"({text})" if isinstance(predicate, (And, Or)) and isinstance(predicate, looser) and predicate.parts else text
    )


def _render_in(predicate: InList, word: str) -> str:
    return f"{_render_expression(predicate.expression)} {word} ({_join_texts(map(render_constant, predicate.values))})"


def _render_like(predicate: Like, word: str) -> str:
    return f"{_render_expression(predicate.expression)} {word} {render_constant(predicate.pattern)}"


@singledispatch
def _render_expression(expression: Expression) -> str:
    raise TypeError(f"{type(expression).__name__} is not an expression.")


@_render_expression.register
def _(expression: Column) -> str:
    return render_name(expression.name)


@_render_expression.register
def _(expression: Written) -> str:
    return expression.name


@_render_expression.register
def _(expression: Through) -> str:
    return render_name(expression.attribute.name)


@_render_expression.register
def _(expression: Value) -> str:
    return render_constant(expression.value)


@_render_expression.register
def _(expression: Call) -> str:
    arguments = [_render_expression(one) for one in (expression.argument, *expression.more)]
    if expression.function == JOIN:
        return f" {JOIN} ".join(_render_operand(one, _SUMS) for one in (expression.argument, *expression.more))
    if expression.function == "date_add":
        number, unit = (one.value for one in expression.more if isinstance(one, Value))
        return f"{_render_operand(expression.argument, ())} + INTERVAL '{number} {unit}'"
    if expression.function == "date_trunc":
        arguments.reverse()
    if expression.function == "date_diff":
        arguments = [arguments[-1], *arguments[:-1]]
    return f"{expression.function}({_join_texts(arguments)})"


@_render_expression.register
def _(expression: Case) -> str:
    branches = [
        f"WHEN {_render_predicate(one.test)} THEN {_render_expression(one.value)}" for one in expression.branches
    ]
    otherwise = [] if expression.otherwise == Value(None) else [f"ELSE {_render_expression(expression.otherwise)}"]
    return " ".join(["CASE", *branches, *otherwise, "END"])


@_render_expression.register
def _(expression: Arithmetic) -> str:
    is_product = expression.op in _PRODUCTS
    left = _render_operand(expression.left, _SUMS if is_product else ())
    # On the right, equal precedence needs parentheses too: a - (b - c).
    right = _render_operand(expression.right, (*_SUMS, *_PRODUCTS) if is_product else _SUMS)
    return f"{left} {expression.op} {right}"


def _render_operand(expression: Expression, looser: tuple[str, ...]) -> str:
    text = _render_expression(expression)
    # A sign gets its own parentheses: without its space, "5 - -3" would begin a comment.
    is_operator = isinstance(expression, Call) and expression.function in (JOIN, "date_add")
    is_loose = is_operator or text.startswith("-") or (isinstance(expression, Arithmetic) and expression.op in looser)
    return f"({text})" if is_loose else text
