"""Statements about form: dependencies, denial constraints, keys. Public, never the basis of a sensitivity proof."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Literal

from siloquent.errors import SchemaError

Operator = Literal["=", "!=", "<", "<=", ">", ">="]
_SWAPPED: dict[str, Operator] = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_TOKEN = re.compile(
    r"\s*(?:(?P<op><=|>=|!=|<>|==|=|<|>)|(?P<number>[-+]?[0-9]+(?:\.[0-9]+)?)|'(?P<text>(?:[^']|'')*)'"
    r'|(?P<name>"[^"]+"|[A-Za-z_]\w*)(?:\s*\.\s*(?P<column>"[^"]+"|[A-Za-z_]\w*))?)'
)
_BARE = re.compile(r"[A-Za-z_]\w*")
MAX_COMPARISONS = 8


@dataclass(frozen=True, slots=True)
class AttributeRef:
    """An attribute of one of the (at most two) rows of a constraint; ``tuple_variable`` is 1 or 2."""

    tuple_variable: int
    attribute: str

    def __str__(self) -> str:
        return f"t{self.tuple_variable}.{_format_name(self.attribute)}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """``left op right``; right is an attribute reference, a number or a text."""

    left: AttributeRef
    op: Operator
    right: AttributeRef | Decimal | str | bool

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes that it uses."""
        right = (self.right.attribute,) if isinstance(self.right, AttributeRef) else ()
        return (self.left.attribute, *right)

    def __str__(self) -> str:
        """Return the comparison as written in table files, with names quoted where necessary.

        >>> print(Comparison(AttributeRef(1, "day of stay"), "!=", "it's"))
        t1."day of stay" != 'it''s'
        """
        right = self.right
        if isinstance(right, bool):
            said = str(right).lower()
        elif isinstance(right, str):
            said = "'" + right.replace("'", "''") + "'"
        else:
            said = f"{right:f}" if isinstance(right, Decimal) else str(right)
        return f"{self.left} {self.op} {said}"


@dataclass(frozen=True, slots=True)
class FunctionalDependency:
    """``lhs -> rhs``, where ``when`` holds (empty: everywhere)."""

    lhs: tuple[str, ...]
    rhs: str
    when: tuple[Comparison, ...] = ()
    hard: bool = True
    weight: Fraction | None = None
    source: str = ""

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes that it uses."""
        return (*self.lhs, self.rhs, *(name for c in self.when for name in c.attributes))


@dataclass(frozen=True, slots=True)
class DenialConstraint:
    """No row or pair of rows may satisfy all comparisons; ``hard`` means infinite weight."""

    comparisons: tuple[Comparison, ...]
    hard: bool = True
    weight: Fraction | None = None
    text: str = ""

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes that it uses."""
        return tuple(dict.fromkeys(name for c in self.comparisons for name in c.attributes))

    @property
    def is_binary(self) -> bool:
        """Whether it involves two rows."""
        places = [p for c in self.comparisons for p in (c.left, c.right) if isinstance(p, AttributeRef)]
        return any(place.tuple_variable == 2 for place in places)


@dataclass(frozen=True, slots=True)
class Key:
    """No two rows agree on all ``columns``."""

    columns: tuple[str, ...]
    hard: bool = True

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes that it uses."""
        return self.columns


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """``columns`` occur as ``referenced`` columns of ``table``."""

    columns: tuple[str, ...]
    table: str
    referenced: tuple[str, ...]

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes that it uses."""
        return self.columns


Constraint = FunctionalDependency | DenialConstraint | Key | ForeignKey


def describe_constraint(constraint: Constraint) -> str:
    """Return a constraint on one line.

    >>> describe_constraint(Key(("patient", "day")))
    'key patient, day'
    """
    if isinstance(constraint, FunctionalDependency):
        when = f" when {' and '.join(str(c) for c in constraint.when)}" if constraint.when else ""
        return f"{_format_names(constraint.lhs)} -> {_format_name(constraint.rhs)}{when}"
    if isinstance(constraint, DenialConstraint):
        return f"not ({' and '.join(str(c) for c in constraint.comparisons)})"
    if isinstance(constraint, Key):
        return f"key {_format_names(constraint.columns)}"
    return f"{_format_names(constraint.columns)} in {constraint.table}({_format_names(constraint.referenced)})"


def _format_names(names: Sequence[str]) -> str:
    return ", ".join(map(_format_name, names))


def _format_name(name: str) -> str:
    return name if _BARE.fullmatch(name) else f'"{name}"'


def parse_comparisons(text: str, *, default_row: int | None = None) -> tuple[Comparison, ...]:
    """Parse the comparisons of ``a and b and ...``; attributes without t1. or t2. belong to ``default_row``.

    Raises:
        SchemaError: the text is not a conjunction of at most eight comparisons; the message says where.

    >>> [str(c) for c in parse_comparisons("t1.age > t2.age and t1.weight < 80")]
    ['t1.age > t2.age', 't1.weight < 80']
    """
    if len(text) > 10_000:
        raise SchemaError("A constraint can have at most 10,000 characters.")
    tokens = _split_tokens(text)
    comparisons = []
    while True:
        side = _ComparisonReader(tokens, text, default_row)
        comparisons.append(side.read_comparison())
        tokens = side.rest
        if not tokens:
            break
        if tokens[0][1] != "and":
            raise _build_error(text, tokens[0][2], "'and' between comparisons")
        tokens = tokens[1:]
    if len(comparisons) > MAX_COMPARISONS:
        raise SchemaError(f"A constraint can have at most {MAX_COMPARISONS} comparisons, not {len(comparisons)}.")
    return tuple(comparisons)


def _build_error(text: str, at: int, expected: str) -> SchemaError:
    return SchemaError(f"Constraint {text[:80]!r} has a syntax error at character {at}: expected {expected}.")


def _split_tokens(text: str) -> list[tuple[str, str | AttributeRef | Decimal, int]]:
    tokens: list[tuple[str, str | AttributeRef | Decimal, int]] = []
    at = 0
    while at < len(text.rstrip()):
        found = _TOKEN.match(text, at)
        if not found:
            raise _build_error(text, at, "an attribute, a comparison or a constant")
        tokens.append((*_parse_token(found), found.start()))
        at = found.end()
    return tokens


def _parse_token(found: re.Match[str]) -> tuple[str, str | AttributeRef | Decimal]:
    if found["op"]:
        return "op", {"<>": "!=", "==": "="}.get(found["op"], found["op"])
    if found["number"]:
        return "constant", Decimal(found["number"])
    if found["text"] is not None:
        return "constant", found["text"].replace("''", "'")
    name, column = found["name"], found["column"]
    if column and name.lower() in ("t1", "t2"):
        return "place", AttributeRef(int(name[1]), column.strip('"'))
    if not column and name.lower() == "and":
        return "word", "and"
    return "bare", name.strip('"')


class _ComparisonReader:
    """A reader of one comparison from a token list; it keeps the position while both sides are parsed."""

    def __init__(self, tokens: list[tuple[str, str | AttributeRef | Decimal, int]], text: str, row: int | None) -> None:
        self.rest, self.text, self.row = tokens, text, row

    def read_comparison(self) -> Comparison:
        left = self._read_side()
        op = self._take("op", "one of = != < <= > >=")
        right = self._read_side()
        if not isinstance(left, AttributeRef):
            if not isinstance(right, AttributeRef):
                raise _build_error(self.text, 0, "an attribute on one side of each comparison")
            return Comparison(right, _SWAPPED[str(op)], left)
        return Comparison(left, _SWAPPED[_SWAPPED[str(op)]], right)

    def _take(self, kind: str, expected: str) -> str | AttributeRef | Decimal:
        if not self.rest or self.rest[0][0] != kind:
            raise _build_error(self.text, self.rest[0][2] if self.rest else len(self.text), expected)
        value = self.rest[0][1]
        self.rest = self.rest[1:]
        return value

    def _read_side(self) -> AttributeRef | Decimal | str | bool:
        if not self.rest or self.rest[0][0] not in ("constant", "place", "bare"):
            raise _build_error(self.text, self.rest[0][2] if self.rest else len(self.text), "an attribute or constant")
        kind, value, at = self.rest[0]
        self.rest = self.rest[1:]
        if kind != "bare":
            return value
        if str(value).lower() in ("true", "false"):
            return str(value).lower() == "true"
        if self.row is None:
            raise _build_error(self.text, at, f"t1.{value} or t2.{value}")
        return AttributeRef(self.row, str(value))


def check_names(constraints: tuple[Constraint, ...], look_up: Callable[[str], object]) -> None:
    """Check that every attribute named by a constraint is declared.

    Raises:
        UnknownName: as raised by ``look_up``.
    """
    for constraint in constraints:
        for name in constraint.attributes:
            look_up(name)
