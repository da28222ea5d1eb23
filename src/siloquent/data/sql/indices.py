"""The index functions in SQL: the same index for every value as ``Attribute.index`` gives in Python.

There are two steps, so that nothing is computed twice: first a column is read as double, microseconds, boolean or text
(NULL where that fails), then the value read gets its index. See docs/explanation/index-functions.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from sqlglot import exp

from siloquent.schema import OUTSIDE, Attribute
from siloquent.schema.files.coercion import (
    DATETIME_PATTERN,
    EARLIEST,
    FALSE_WORDS,
    LATEST,
    MAX_TEXT,
    NUMBER_PATTERN,
    TRUE_WORDS,
    count_microseconds,
)
from siloquent.schema.formats.source_kinds import SourceKind
from siloquent.schema.formats.value_formats import PLAIN_FORMAT, Family, ValueFormat

MAX_CASES = 128
"""Categories with more values are looked up in a relation instead of a CASE."""
SHORT_DIGITS = 15
"""Decimals of so many digits are whole numbers below 2^53, divided by a power of ten below 10^22."""
DAY = 86_400_000_000
HOUR = 3_600_000_000
_TIMESTAMP = exp.DataType.build("TIMESTAMP", dialect="duckdb")


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """A declared attribute and the source column of its values, or of the values that it is derived from.

    ``form`` and ``family``: how the values are written, and what they are; ``zoned``: whether they are moments in UTC;
    ``short``: whether they are decimals of at most ``SHORT_DIGITS`` digits.
    """

    attribute: Attribute
    position: int
    source: str
    kind: SourceKind
    form: ValueFormat = PLAIN_FORMAT
    family: Family = "text"
    zoned: bool = False
    short: bool = False

    @property
    def read_name(self) -> str:
        """The column's name once it is read."""
        return f"r{self.position}"

    @property
    def index_name(self) -> str:
        """The column's name once it holds indices."""
        return f"k{self.position}"

    @property
    def raw_name(self) -> str:
        """The column's name as stored in the source."""
        return f"v{self.position}"

    @property
    def lookup(self) -> str:
        """The relation of its values, for categories with many; empty otherwise."""
        many = self.attribute.kind == "category" and len(self.attribute.values) > MAX_CASES
        return f"values{self.position}" if many else ""


def quote_name(text: str, table: str | None = None) -> exp.Column:
    """Return a quoted name."""
    return exp.column(exp.to_identifier(text, quoted=True), table=table)


def try_cast(value: exp.Expr, kind: str | exp.DataType) -> exp.Expr:
    """Return ``value`` cast to ``kind``, NULL where that fails: a plain cast's error would quote the value."""
    return exp.TryCast(this=value, to=exp.DataType.build(kind) if isinstance(kind, str) else kind, safe=True)


def read_column(column: SourceColumn) -> exp.Expr:
    """Return the column as its kind requires: double, microseconds, 0 or 1, text; NULL where it cannot be read."""
    attribute = column.attribute
    value: exp.Expr = quote_name(column.source)
    if column.kind == "text" and attribute.kind != "category":
        value = limit_text(cast_to_text(value), attribute.max_bytes or MAX_TEXT)
    if attribute.function:
        return _derive_value(attribute.function, value, column.kind)
    if attribute.is_numeric:
        return _read_double(value, column.kind, short=column.short)
    if attribute.is_temporal:
        return exp.func("EPOCH_US", _read_datetime(value, column.kind), dialect="duckdb")
    if attribute.kind == "boolean":
        return _read_boolean(value, column.kind)
    if attribute.kind == "id":
        return build_case((exp.not_(exp.IsNan(this=value)), value)) if column.kind == "real" else value
    return value if attribute.kind == "text" else cast_to_text(value)


def index_column(column: SourceColumn) -> exp.Expr:
    """Return the index of the value read: a whole number, never NULL; OUTSIDE is -1."""
    attribute, value = column.attribute, quote_name(column.read_name)
    null = (exp.Is(this=value, expression=exp.Null()), build_int_literal(attribute.null_index))
    if attribute.kind == "boolean":
        return build_case(null, default=value)
    if attribute.kind == "category":
        return _index_category(column, value, null)
    found = _index_number(attribute, value) if attribute.is_numeric else _index_datetime(attribute, value)
    if attribute.outside == "drop":
        return build_case(null, (build_out_of_bounds(column), build_int_literal(OUTSIDE)), default=found)
    return build_case(null, default=found)


def build_out_of_bounds(column: SourceColumn) -> exp.Expr:
    """Return the condition that the value read is outside the bounds of a number, date or datetime."""
    value = quote_name(column.read_name)
    lo, hi = _build_bounds(column.attribute)
    return exp.or_(exp.LT(this=value, expression=lo), exp.GT(this=value, expression=hi))


def build_int_literal(value: int) -> exp.Expr:
    """Return a whole number as a literal."""
    return exp.Literal.number(value) if value >= 0 else exp.Neg(this=exp.Literal.number(-value))


def build_float_literal(value: float | Decimal) -> exp.Expr:
    """Return a number as a literal double, written as text: engines read a bare 0.1 as a decimal."""
    return exp.cast(exp.Literal.string(repr(float(value))), "DOUBLE")


def build_case(*branches: tuple[exp.Expr, exp.Expr], default: exp.Expr | None = None) -> exp.Case:
    """Return the result of the first condition that holds, otherwise ``default``."""
    # ``Case.when`` copies all that was built so far; this copies only what stands in another expression already.
    ifs = [exp.If(this=_own(condition), true=_own(result)) for condition, result in branches]
    return exp.Case(ifs=ifs, default=_own(default)) if default is not None else exp.Case(ifs=ifs)


def _own(part: exp.Expr) -> exp.Expr:
    return part if part.parent is None else part.copy()


def _clamp(value: exp.Expr, lo: exp.Expr, hi: exp.Expr) -> exp.Expr:
    return exp.func("LEAST", exp.func("GREATEST", value, lo), hi)


def cast_to_text(value: exp.Expr) -> exp.Expr:
    """Return ``value`` as text, NULL where that fails."""
    return try_cast(value, "VARCHAR")


def limit_text(text: exp.Expr, most: int) -> exp.Expr:
    """Return ``text``, NULL if it is longer than ``most`` bytes."""
    size = exp.func("OCTET_LENGTH", exp.func("ENCODE", text, dialect="duckdb"), dialect="duckdb")
    return build_case((exp.LTE(this=size, expression=build_int_literal(most)), text.copy()))


def extract_match(value: exp.Expr, pattern: str) -> exp.Expr:
    """Return group 1 of ``value`` if ``pattern`` matches all of it: Java's ``$`` also matches before a line end."""
    whole, part = (
        exp.RegexpExtract(this=value, expression=exp.Literal.string(pattern), group=exp.Literal.number(group))
        for group in (0, 1)
    )
    return build_case((exp.EQ(this=whole, expression=value), part))


def _read_double(value: exp.Expr, kind: SourceKind, *, short: bool = False) -> exp.Expr:
    if kind == "text":
        return try_cast(extract_match(cast_to_text(value), NUMBER_PATTERN), "DOUBLE")
    # By way of text: engines round decimals beyond 2^53 differently when they divide by a power of ten. Of shorter ones
    # the digits and the power are doubles themselves, so that every division rounds as the text does.
    number = try_cast(cast_to_text(value) if kind == "decimal" and not short else value, "DOUBLE")
    return build_case((exp.not_(exp.IsNan(this=number)), number)) if kind == "real" else number


def _read_datetime(value: exp.Expr, kind: SourceKind) -> exp.Expr:
    """Return a TIMESTAMP within years 1 to 9999."""
    if kind == "text":
        return try_cast(extract_match(cast_to_text(value), DATETIME_PATTERN), _TIMESTAMP)
    # A date is bounded as a date: years beyond the range of timestamps would be NULL or an error as timestamps.
    bounded_as = exp.DataType.build("DATE") if kind == "date" else _TIMESTAMP
    earliest, latest = (str(bound.date() if kind == "date" else bound) for bound in (EARLIEST, LATEST))
    whole = try_cast(value, bounded_as)
    lo, hi = (exp.cast(exp.Literal.string(bound), bounded_as) for bound in (earliest, latest))
    bounded = build_case((exp.Is(this=value, expression=exp.Null()), exp.Null()), default=_clamp(whole, lo, hi))
    return exp.cast(bounded, _TIMESTAMP)


def _read_boolean(value: exp.Expr, kind: SourceKind) -> exp.Expr:
    one, zero = exp.Literal.number(1), exp.Literal.number(0)
    if kind == "text":
        word = exp.Lower(this=exp.Trim(this=cast_to_text(value), expression=exp.Literal.string(" ")))
        return build_case(*((exp.In(this=word.copy(), expressions=[exp.Literal.string(w) for w in words]), result)
                       for words, result in ((TRUE_WORDS, one), (FALSE_WORDS, zero))))  # fmt: skip
    number = _read_double(value, kind)
    return build_case(
        (exp.EQ(this=number, expression=build_float_literal(0)), zero),
        (exp.EQ(this=number, expression=build_float_literal(1)), one),
    )


def _derive_value(function: str, value: exp.Expr, kind: SourceKind) -> exp.Expr:
    if function == "length":
        return exp.cast(exp.Length(this=cast_to_text(value)), "DOUBLE")
    moment = _read_datetime(value, kind)
    if function in ("year", "month", "day"):
        return exp.cast(exp.Extract(this=exp.var(function.upper()), expression=moment), "DOUBLE")
    # Counted from year 1, a Monday, so that nothing is negative: engines divide negative numbers differently.
    since = exp.Paren(
        this=exp.Sub(
            this=exp.func("EPOCH_US", moment, dialect="duckdb"),
            expression=build_int_literal(count_microseconds(EARLIEST)),
        )
    )
    if function == "hour":
        return exp.cast(exp.Mod(this=exp.Paren(this=_divide(since, HOUR)), expression=build_int_literal(24)), "DOUBLE")
    days = exp.Paren(this=exp.Add(this=_divide(since, DAY), expression=build_int_literal(1)))
    return exp.cast(exp.Mod(this=days, expression=build_int_literal(7)), "DOUBLE")


def _divide(value: exp.Expr, by: int) -> exp.Expr:
    return exp.IntDiv(this=value, expression=build_int_literal(by))


def _build_bounds(attribute: Attribute) -> tuple[exp.Expr, exp.Expr]:
    if attribute.is_numeric:
        return build_float_literal(attribute.lo), build_float_literal(attribute.hi)  # type: ignore[arg-type]
    first, _, last = attribute.moments
    return build_int_literal(first), build_int_literal(last)


def _index_number(attribute: Attribute, value: exp.Expr) -> exp.Expr:
    lo, hi = _build_bounds(attribute)
    since = exp.Paren(this=exp.Sub(this=_clamp(value, lo, hi), expression=lo))
    steps = exp.Add(
        this=exp.Div(this=since, expression=build_float_literal(attribute.grid or 1)),
        expression=build_float_literal(0.5),
    )
    return exp.cast(exp.Floor(this=steps), "BIGINT")


def _index_datetime(attribute: Attribute, value: exp.Expr) -> exp.Expr:
    lo, hi = _build_bounds(attribute)
    return _divide(exp.Paren(this=exp.Sub(this=_clamp(value, lo, hi), expression=lo)), attribute.moments[1])


def _index_category(column: SourceColumn, value: exp.Expr, null: tuple[exp.Expr, exp.Expr]) -> exp.Expr:
    attribute, other = column.attribute, build_int_literal(column.attribute.other_index)
    if column.lookup:
        found = exp.func("COALESCE", quote_name("place", column.lookup), other)
        return build_case(null, default=found)
    listed: list[tuple[Any, exp.Expr]] = [
        (exp.EQ(this=value.copy(), expression=exp.Literal.string(text)), build_int_literal(index))
        for index, text in enumerate(attribute.values)
    ]
    return build_case(null, *listed, default=other)
