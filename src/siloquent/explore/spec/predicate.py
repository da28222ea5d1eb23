"""Predicates over declared attributes: small frozen trees that SQL, BIN and the builder all end in."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Literal

Constant = int | Decimal | str | bool | date | datetime | None
CompareOp = Literal["=", "!=", "<", "<=", ">", ">="]
ArithmeticOp = Literal["+", "-", "*", "//", "%"]
FUNCTIONS = ("abs", "round", "year", "month", "day", "hour", "dayofweek", "lower", "length")


@dataclass(frozen=True, slots=True)
class Column:
    """The value of one attribute."""

    name: str


@dataclass(frozen=True, slots=True)
class Value:
    """A constant typed by its place."""

    value: Constant


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """``left op right`` of numbers; division by zero gives NULL."""

    left: Expression
    op: ArithmeticOp
    right: Expression


@dataclass(frozen=True, slots=True)
class Call:
    """One of ``FUNCTIONS`` of one expression."""

    function: str
    argument: Expression


Expression = Column | Value | Arithmetic | Call


@dataclass(frozen=True, slots=True)
class Compare:
    """``left op right``, UNKNOWN where a side is NULL; each side is an expression of one attribute or a constant."""

    left: Expression
    op: CompareOp
    right: Expression


@dataclass(frozen=True, slots=True)
class InList:
    """``expression IN (values)``."""

    expression: Expression
    values: tuple[Constant, ...]


@dataclass(frozen=True, slots=True)
class Like:
    """``expression LIKE pattern`` with % and _ on a category."""

    expression: Expression
    pattern: str


@dataclass(frozen=True, slots=True)
class IsNull:
    """``expression IS NULL``."""

    expression: Expression


@dataclass(frozen=True, slots=True)
class And:
    """All of ``parts``, three-valued; no parts: TRUE."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Any of ``parts``, three-valued; no parts: FALSE."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """Not ``part``; UNKNOWN stays UNKNOWN."""

    part: Predicate


Predicate = Compare | InList | Like | IsNull | And | Or | Not
