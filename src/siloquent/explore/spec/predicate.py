"""Predicates over declared attributes: small frozen trees, built by SQL, BIN and the builder."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Literal

from siloquent.errors import RequestError
from siloquent.explore.spec.numbers import check_number

if TYPE_CHECKING:
    from siloquent.schema import Attribute

Constant = int | Decimal | str | bool | date | datetime | None
CompareOp = Literal["=", "!=", "<", "<=", ">", ">="]
ArithmeticOp = Literal["+", "-", "*", "/", "//", "%"]
FUNCTIONS = (
    *("abs", "sign", "round", "floor", "ceil", "sqrt", "ln", "log10", "exp"),
    *("year", "quarter", "month", "day", "hour", "minute", "dayofweek", "week", "dayofyear"),
    *("lower", "upper", "trim", "ltrim", "rtrim", "length"),
)
"""Functions of one value."""
PARAMETRIC = ("round", "substring", "date_trunc", "date_add", "strftime")
"""Functions of one value and constants: decimal places, letters, a unit of time, a format."""
JOIN = "||"
"""The function that joins two texts."""
SEVERAL = ("concat", "date_diff")
"""Functions of several values: texts, of which NULL is empty; two dates and a unit of time."""
CHOICES = ("coalesce", "nullif", "greatest", "least")
"""Functions of several values of one type that return one of them, or NULL."""
MAX_NAME_LENGTH = 128


@dataclass(frozen=True, slots=True)
class Column:
    """The value of one attribute."""

    name: str

    def __post_init__(self) -> None:
        check_name(self.name, "attribute")


@dataclass(frozen=True, slots=True)
class JoinedColumn:
    """A column on which linked tables are joined; ``table``: that of the text, empty if it names none."""

    name: str
    table: str = ""


@dataclass(frozen=True, slots=True)
class Value:
    """A constant typed by its context; whole numbers are ints, so that 5 and 5.0 are equal."""

    value: Constant
    sort: str = field(init=False, repr=False)  # TRUE = 1 in Python, but not here

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", normalize_constant(self.value))
        object.__setattr__(self, "sort", get_constant_type(self.value))


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """``left op right`` of numbers; ``/`` by an attribute is rounded, ``//`` and ``%`` by zero give NULL."""

    left: Expression
    op: ArithmeticOp
    right: Expression


@dataclass(frozen=True, slots=True)
class Call:
    """A call of one of ``FUNCTIONS``; with ``more`` arguments, of ``CHOICES``, ``PARAMETRIC`` or ``JOIN``."""

    function: str
    argument: Expression
    more: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True)
class Branch:
    """``WHEN test THEN value``."""

    test: Predicate
    value: Expression


@dataclass(frozen=True, slots=True)
class Case:
    """The value of the first branch whose test is TRUE, else ``otherwise`` (NULL without ELSE)."""

    branches: tuple[Branch, ...]
    otherwise: Expression = field(default_factory=lambda: Value(None))


@dataclass(frozen=True, slots=True)
class Through:
    """An attribute of a public table, as a function of the private table's ``key``.

    ``places``: its index for each of the key's, -1 if there is none. Used in plans, not in queries.
    """

    key: str
    attribute: Attribute
    places: tuple[int, ...]


Expression = Column | Value | Arithmetic | Call | Case | Through


@dataclass(frozen=True, slots=True)
class Compare:
    """``left op right``, UNKNOWN if a side is NULL."""

    left: Expression
    op: CompareOp
    right: Expression


@dataclass(frozen=True, slots=True)
class InList:
    """``expression IN (values)``."""

    expression: Expression
    values: tuple[Constant, ...]
    sort: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple(normalize_constant(value) for value in self.values))
        sorts = {get_constant_type(value) for value in self.values}
        if len(sorts) != 1 or "null" in sorts:
            raise RequestError("IN takes a list of constants of one type, without NULL.", fix="ward IN ('A', 'B')")
        object.__setattr__(self, "sort", sorts.pop())


@dataclass(frozen=True, slots=True)
class Like:
    """``expression LIKE pattern`` with % and _ on a category."""

    expression: Expression
    pattern: str

    def __post_init__(self) -> None:
        normalize_constant(self.pattern)


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


def build_truth(test: Predicate) -> Case:
    """Return a condition as a value: TRUE, FALSE, or NULL where it is UNKNOWN."""
    return Case((Branch(test, Value(True)), Branch(Not(test), Value(False))))


def find_truth(case: Case) -> Predicate | None:
    """Find the condition whose truth ``case`` is; None if it is another one."""
    if len(case.branches) != 2 or case.otherwise != Value(None):
        return None
    first, second = case.branches
    is_truth = (first.value, second.value) == (Value(True), Value(False)) and second.test == Not(first.test)
    return first.test if is_truth else None


def check_name(name: str, what: str) -> None:
    """Refuse names that no declaration could have: empty, longer than 128 characters, or with control characters."""
    if not 1 <= len(name) <= MAX_NAME_LENGTH or not _is_text(name) or any(ord(letter) < 32 for letter in name):
        raise RequestError(f"The name of an {what} must have 1 to {MAX_NAME_LENGTH} characters, not {name[:20]!r}.")


def normalize_constant(constant: Constant) -> Constant:
    """Return ``constant`` in its normal form: whole numbers as int.

    Raises:
        RequestError: not finite, too long, with a time zone, not Unicode text, or of a type outside the language.
    """
    if isinstance(constant, bool) or constant is None:
        return constant
    if isinstance(constant, (int, Decimal)):
        check_number(constant, "A constant")
        return int(constant) if constant == int(constant) else constant
    if isinstance(constant, str):
        if not _is_text(constant):
            raise RequestError("Text contains a NUL character or a lone surrogate.")
    elif isinstance(constant, datetime):
        if constant.tzinfo is not None:
            raise RequestError("Timestamps cannot have a time zone.", fix="TIMESTAMP '2024-01-31 10:30:00'")
    elif not isinstance(constant, date):
        raise RequestError(
            f"{type(constant).__name__} is not a supported type of constant.", fix="an int, a Decimal or a text"
        )
    return constant


def get_constant_type(constant: Constant) -> str:
    """Return number, text, truth, day, moment or null; constants of different types are never equal."""
    kinds: tuple[tuple[type, str], ...] = (
        (bool, "truth"),
        (int, "number"),
        (Decimal, "number"),
        (str, "text"),
        (datetime, "moment"),
        (date, "day"),
    )
    return next((name for kind, name in kinds if isinstance(constant, kind)), "null")


def name_type(kind: str) -> str:
    """Return the name of a constant's type, as in ``get_constant_type``, for a sentence: ``a boolean``."""
    names = {"number": "a number", "truth": "a boolean", "day": "a date", "moment": "a datetime", "null": "NULL"}
    return names.get(kind, kind)


def negate(number: int | Decimal) -> int | Decimal:
    """Compute ``-number`` exactly: Decimal's own minus rounds to 28 digits."""
    return number.copy_negate() if isinstance(number, Decimal) else -number


def _is_text(text: str) -> bool:
    return not any(letter == "\0" or 0xD800 <= ord(letter) < 0xE000 for letter in text)
