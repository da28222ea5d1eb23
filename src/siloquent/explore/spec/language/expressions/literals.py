"""Constants as they are typed: texts, booleans, dates and timestamps, and casts of a constant to another type."""

from __future__ import annotations

import re
from datetime import date, datetime, time
from decimal import ROUND_HALF_UP, Context, Decimal

from siloquent.errors import SyntaxProblem
from siloquent.explore.spec.language.cursor import Cursor
from siloquent.explore.spec.language.refusals import WHY_NOT
from siloquent.explore.spec.numbers import MAX_DIGITS, format_number, read_number
from siloquent.explore.spec.predicate import Constant, Value

WHOLE_TYPES = ("INTEGER", "INT", "BIGINT", "SMALLINT", "TINYINT", "HUGEINT", "INT2", "INT4", "INT8", "INT64")
EXACT_TYPES = ("DOUBLE", "FLOAT", "REAL", "DECIMAL", "NUMERIC", "FLOAT4", "FLOAT8", "FLOAT64")
_TEXT_TYPES = ("VARCHAR", "TEXT", "CHAR", "STRING")
_DATE_TYPES = ("DATE", "TIMESTAMP", "DATETIME")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?")


def read_literal(cursor: Cursor) -> Value | None:
    """Parse the text, boolean, date, or cast of a constant at the cursor; None if there is something else."""
    if cursor.token.kind == "text":
        return Value(cursor.advance().text)
    if cursor.is_at("TRUE", "FALSE"):
        return Value(cursor.advance().word == "TRUE")
    if cursor.is_at(*_DATE_TYPES) and cursor.following.kind == "text":
        word, start = cursor.advance().word, cursor.token.start
        return Value(_read_date(cursor.advance().text, word, start))
    if cursor.is_at(*_DATE_TYPES) and cursor.is_call_of_text():
        word, start = cursor.advance().word, cursor.advance().start
        found = _read_date(cursor.advance().text, word, start)
        cursor.expect(")")
        return Value(found)
    if cursor.is_at("CAST", "TRY_CAST") and cursor.following.word == "(":
        return _read_cast(cursor)
    return None


def read_casts(cursor: Cursor, literal: Value) -> Value:
    """Parse ``::DATE`` and other casts behind ``literal``."""
    while cursor.take("::"):
        literal = convert_constant(cursor, literal)
    return literal


def read_type(cursor: Cursor, *allowed: str) -> tuple[str, int | None]:
    """Parse the name of one of the ``allowed`` types, and the scale of DECIMAL(12, 2) if it is there."""
    word = cursor.expect(*allowed)
    if word == "DOUBLE":
        cursor.take("PRECISION")
    scale = None
    if cursor.take("("):
        cursor.take_number("The precision of a type")
        scale = int(cursor.take_number("The scale of a type")) if cursor.take(",") else None
        cursor.expect(")")
    return word, scale


def _read_cast(cursor: Cursor) -> Value:
    """Parse ``CAST(constant AS type)``; a cast of anything else is refused."""
    refusal = cursor.build_refusal(WHY_NOT["CAST"])
    cursor.advance()
    cursor.expect("(")
    cursor.enter_parenthesis()
    is_number = cursor.is_at("-", "+") or cursor.token.kind == "number"
    literal = Value(cursor.take_number("A constant")) if is_number else read_literal(cursor)
    if literal is None:
        raise refusal
    literal = read_casts(cursor, literal)
    cursor.expect("AS")
    literal = convert_constant(cursor, literal)
    cursor.leave_parenthesis()
    return literal


def convert_constant(cursor: Cursor, literal: Value) -> Value:
    """Parse a type, and return ``literal`` in it."""
    start = cursor.token.start
    word, scale = read_type(cursor, *WHOLE_TYPES, *EXACT_TYPES, *_TEXT_TYPES, *_DATE_TYPES)
    if word in _DATE_TYPES:
        return Value(_convert_to_date(literal.value, word, start))
    found = _convert_to_text(literal.value) if word in _TEXT_TYPES else _convert_to_number(literal.value)
    if found is None:
        raise SyntaxProblem(f"This constant is not a {word}", position=start, expected="a type that it has")
    places = 0 if word in WHOLE_TYPES else scale
    if isinstance(found, str) or places is None:
        return Value(found)
    if not 0 <= places <= MAX_DIGITS:
        raise SyntaxProblem(f"The scale of a type is at most {MAX_DIGITS}", position=start)
    return Value(_round(found, places))


def _round(number: Decimal, places: int) -> Decimal:
    """Round to ``places``, halves away from zero, with digits enough to be exact."""
    exact = Context(prec=3 * MAX_DIGITS, rounding=ROUND_HALF_UP)
    return number.quantize(Decimal(1).scaleb(-places), context=exact)


def _convert_to_date(constant: Constant, word: str, start: int) -> date | datetime:
    if isinstance(constant, datetime):
        return constant.date() if word == "DATE" else constant
    if isinstance(constant, date):
        return constant if word == "DATE" else datetime.combine(constant, time())
    return _read_date(constant if isinstance(constant, str) else "", word, start)


def _read_date(text: str, word: str, start: int) -> date | datetime:
    try:
        if word == "DATE" and _DAY.fullmatch(text):
            return date.fromisoformat(text)
        if word != "DATE" and (_DAY.fullmatch(text) or _MOMENT.fullmatch(text)):
            return datetime.fromisoformat(text)
    except ValueError:
        pass
    expected = "DATE '2024-01-31'" if word == "DATE" else "TIMESTAMP '2024-01-31 10:30:00', without a zone"
    raise SyntaxProblem("Invalid date or timestamp", position=start, expected=expected)


def _convert_to_number(constant: Constant) -> Decimal | None:
    if isinstance(constant, str):
        return read_number(constant)
    return Decimal(constant) if isinstance(constant, (int, Decimal)) else None


def _convert_to_text(constant: Constant) -> str | None:
    if isinstance(constant, bool):
        return str(constant).lower()
    if isinstance(constant, (int, Decimal)):
        return format_number(constant)
    return constant if isinstance(constant, str) else None
