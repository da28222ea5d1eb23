"""Functions of a row's values, casts and intervals, in the spellings of several engines."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from difflib import get_close_matches

from siloquent.errors import RequestError, SyntaxProblem
from siloquent.explore.spec.language.cursor import Cursor
from siloquent.explore.spec.language.expressions.literals import EXACT_TYPES, WHOLE_TYPES, convert_constant, read_type
from siloquent.explore.spec.language.refusals import Refusal
from siloquent.explore.spec.predicate import FUNCTIONS, Arithmetic, Call, Expression, Value

ReadValue = Callable[[Cursor], Expression]
_SAME = {
    **{"ceiling": "ceil", "substr": "substring", "len": "length", "ucase": "upper", "lcase": "lower"},
    **{"char_length": "length", "character_length": "length", "pow": "power", "weekofyear": "week", "log": "log10"},
    **{"datediff": "date_diff", "timestamp_diff": "date_diff", "to_char": "strftime", "format_date": "strftime"},
}
FOREIGN_FUNCTIONS = {
    **dict.fromkeys(("weekday", "dayname", "day_name", "dow", "day_of_week"), "dayofweek"),
    **dict.fromkeys(("dayofmonth", "day_of_month", "mday"), "day"),
    **dict.fromkeys(("monthname", "month_name"), "month"),
    **dict.fromkeys(("doy", "day_of_year", "yday"), "dayofyear"),
    **dict.fromkeys(("isoweek", "week_of_year", "weekiso"), "week"),
    **dict.fromkeys(("trunc", "int"), "floor"),
}
"""Functions of other languages, by the one that comes nearest: it is offered, since its values differ."""
_TO_CHAR = (("YYYY", "%Y"), ("MM", "%m"), ("DD", "%d"), ("HH24", "%H"), ("MI", "%M"), ("SS", "%S"))
MAX_POWER = 8
_PARTS = {"dow": "dayofweek", "weekday": "dayofweek", "doy": "dayofyear"}
_UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
_INTERVAL = re.compile(r"([+-]?[0-9]{1,6}) *([a-z]+)", re.IGNORECASE)
_CAST = Refusal(
    "Casts of attributes are to whole numbers, decimals and dates.", "write the constant in the attribute's type"
)
CASTS = (*WHOLE_TYPES, *EXACT_TYPES, "DATE")


def is_at_date_of_today(cursor: Cursor) -> bool:
    """Return whether CURRENT_DATE stands here."""
    is_call = cursor.following.word == "("
    return cursor.is_at("CURRENT_DATE") or (cursor.is_at("TODAY") and is_call)


def read_date_of_today(cursor: Cursor) -> Value:
    """Parse CURRENT_DATE: the date of today in UTC is written into the question."""
    cursor.advance()
    if cursor.take("("):
        cursor.expect(")")
    return Value(datetime.now(UTC).date())


def read_function(cursor: Cursor, read_value: ReadValue) -> Expression:
    """Parse a call of a function, or a cast.

    Raises:
        RequestError: it is not a function of the language.
    """
    start, word = cursor.token.start, cursor.token.word
    name = _SAME.get(cursor.token.text.lower(), cursor.token.text.lower())
    if name not in (*FUNCTIONS, *_READERS):
        raise _build_unknown(name, start)
    cursor.advance()
    cursor.expect("(")
    cursor.enter_parenthesis()
    found = _READERS.get(name, _read_plain)(cursor, read_value, name)
    if cursor.is_at(","):
        raise SyntaxProblem(f"{word} has too many arguments", position=cursor.token.start)
    cursor.leave_parenthesis()
    return found


def _build_unknown(name: str, start: int) -> RequestError:
    near = [FOREIGN_FUNCTIONS[name]] if name in FOREIGN_FUNCTIONS else get_close_matches(name[:40], FUNCTIONS, n=1)
    hint = f" Did you mean {near[0]}?" if near else ""
    return RequestError(
        f"Unknown function {name[:40]!r} (at character {start}).{hint} Known: {', '.join(FUNCTIONS)}.",
        fix="declare a derived attribute, or compare the attribute directly",
    )


def _read_plain(cursor: Cursor, read_value: ReadValue, name: str) -> Expression:
    return Call(name, read_value(cursor))


def _read_round(cursor: Cursor, read_value: ReadValue, name: str) -> Expression:
    argument = read_value(cursor)
    places = _read_whole(cursor) if cursor.take(",") else 0
    return Call(name, argument, (Value(places),) if places else ())


def _read_substring(cursor: Cursor, read_value: ReadValue, name: str) -> Expression:
    """Parse ``substring(a, 2, 3)`` or ``substring(a FROM 2 FOR 3)``."""
    argument = read_value(cursor)
    cursor.expect(",", "FROM")
    parameters = [Value(_read_whole(cursor))]
    if cursor.take(",", "FOR"):
        parameters.append(Value(_read_whole(cursor)))
    return Call(name, argument, tuple(parameters))


def _read_date_trunc(cursor: Cursor, read_value: ReadValue, name: str) -> Expression:
    unit = _read_unit(cursor)
    cursor.expect(",")
    return Call(name, read_value(cursor), (Value(unit),))


def _read_part(cursor: Cursor, read_value: ReadValue, name: str) -> Expression:
    """Parse ``extract(month FROM day)`` or ``date_part('month', day)``."""
    start, text = cursor.token.start, cursor.advance().text.lower()
    part = _PARTS.get(text, text)
    known = ("year", "quarter", "month", "week", "day", "hour", "minute", "dayofweek", "dayofyear")
    if part not in known:
        raise SyntaxProblem(f"{text[:40]!r} is not a part of a date", position=start, expected=" or ".join(known))
    cursor.expect("FROM" if name == "extract" else ",")
    return Call(part, read_value(cursor))


def _read_mod(cursor: Cursor, read_value: ReadValue, name: str) -> Expression:
    argument = read_value(cursor)
    cursor.expect(",")
    return Arithmetic(argument, "%", read_value(cursor))


def _read_power(cursor: Cursor, read_value: ReadValue, name: str) -> Expression:
    """Parse ``power(a, 3)`` as a product, which is exact."""
    argument, start = read_value(cursor), cursor.token.start
    cursor.expect(",")
    power = _read_whole(cursor)
    if not 1 <= power <= MAX_POWER:
        raise SyntaxProblem(f"The exponent must be a whole number from 1 to {MAX_POWER}", position=start)
    found = argument
    for _ in range(power - 1):
        found = Arithmetic(found, "*", argument)
    return found


def _read_concat(cursor: Cursor, read_value: ReadValue, name: str) -> Expression:
    parts = [read_value(cursor)]
    while cursor.take(","):
        parts.append(read_value(cursor))
    return Call(name, parts[0], tuple(parts[1:]) or (Value(""),))


def _read_difference(cursor: Cursor, read_value: ReadValue, name: str) -> Expression:
    """Parse ``date_diff('day', first, last)``, ``datediff(day, first, last)`` or ``date_diff(last, first, DAY)``."""
    is_first = cursor.following.word == "," and cursor.token.text.lower().removesuffix("s") in _UNITS
    unit = _read_unit(cursor) if is_first else ""
    if is_first:
        cursor.expect(",")
    one = read_value(cursor)
    cursor.expect(",")
    other = read_value(cursor)
    first, last = (one, other) if is_first else (other, one)
    if not is_first:
        cursor.expect(",")
        unit = _read_unit(cursor)
    months = {"year": 12, "quarter": 3, "month": 1}.get(unit)
    if months is None:
        return Call(name, first, (last, Value(unit)))
    ends = [_count_months(last, unit), _count_months(first, unit)]
    return Arithmetic(ends[0], "-", ends[1])


def _count_months(moment: Expression, unit: str) -> Expression:
    """Return the number of years, quarters or months up to ``moment``."""
    parts = {"year": 1, "quarter": 4, "month": 12}[unit]
    if isinstance(moment, Value) and isinstance(moment.value, date):
        return Value(moment.value.year * parts + (moment.value.month - 1) * parts // 12 + (parts > 1))
    years = Call("year", moment)
    return years if unit == "year" else Arithmetic(Arithmetic(years, "*", Value(parts)), "+", Call(unit, moment))


def _read_format(cursor: Cursor, read_value: ReadValue, name: str) -> Expression:
    """Parse ``strftime(day, '%Y-%m')``, its arguments in either order, or ``to_char(day, 'YYYY-MM')``."""
    one = read_value(cursor)
    cursor.expect(",")
    other = read_value(cursor)
    moment, pattern = (other, one) if isinstance(one, Value) else (one, other)
    if not isinstance(pattern, Value) or not isinstance(pattern.value, str):
        raise cursor.build_problem("a format in single quotes, such as '%Y-%m'")
    text = pattern.value
    if "%" not in text:
        for letters, code in _TO_CHAR:
            text = text.replace(letters, code)
    return Call(name, moment, (Value(text),))


def read_interval_seconds(cursor: Cursor) -> int:
    """Parse ``INTERVAL 60 MINUTE`` of a fixed length, and return its seconds."""
    start = cursor.token.start
    number, unit = _read_interval(cursor)
    seconds = {"week": 604_800, "day": 86_400, "hour": 3_600, "minute": 60, "second": 1}.get(unit)
    if seconds is None:
        raise SyntaxProblem("A difference can be compared only with days, hours, minutes or seconds", position=start)
    return number * seconds


def _read_cast(cursor: Cursor, read_value: ReadValue, name: str) -> Expression:
    argument = read_value(cursor)
    cursor.expect("AS")
    return convert_constant(cursor, argument) if isinstance(argument, Value) else read_cast_type(cursor, argument)


def read_cast_type(cursor: Cursor, argument: Expression) -> Expression:
    """Parse a type behind CAST(... AS or ::, and return ``argument`` in it; numbers with a point stay exact."""
    if not cursor.is_at(*CASTS):
        raise cursor.build_refusal(_CAST)
    word, scale = read_type(cursor, *CASTS)
    if word == "DATE":
        return Call("date_trunc", argument, (Value("day"),))
    places = 0 if word in WHOLE_TYPES else scale
    if places is None:
        return argument
    return Call("round", argument, (Value(places),) if places else ())


_READERS: dict[str, Callable[[Cursor, ReadValue, str], Expression]] = {
    "round": _read_round,
    "substring": _read_substring,
    "date_trunc": _read_date_trunc,
    "extract": _read_part,
    "date_part": _read_part,
    "cast": _read_cast,
    "try_cast": _read_cast,
    "mod": _read_mod,
    "power": _read_power,
    "concat": _read_concat,
    "date_diff": _read_difference,
    "strftime": _read_format,
}


def _read_whole(cursor: Cursor) -> int:
    start, number = cursor.token.start, cursor.take_number("An argument")
    if number != int(number) or abs(number) > 10**6:
        raise SyntaxProblem("This argument must be a whole number", position=start)
    return int(number)


def _read_unit(cursor: Cursor) -> str:
    """Parse a unit of time, as a word or text, in singular or plural."""
    start, text = cursor.token.start, cursor.advance().text.lower()
    unit = text.removesuffix("s")
    if unit not in _UNITS:
        raise SyntaxProblem(f"{text[:40]!r} is not a unit of time", position=start, expected=" or ".join(_UNITS))
    return unit


def add_interval(cursor: Cursor, moment: Expression, sign: int) -> Expression:
    """Parse ``INTERVAL '3' MONTH``, ``INTERVAL 3 MONTH`` or ``INTERVAL '3 months'``, and add it to ``moment``."""
    start = cursor.token.start
    number, unit = _read_interval(cursor)
    if isinstance(moment, Value):
        return Value(_shift(moment.value, sign * number, unit, start))
    return Call("date_add", moment, (Value(sign * number), Value(unit)))


def _read_interval(cursor: Cursor) -> tuple[int, str]:
    cursor.expect("INTERVAL")
    start = cursor.token.start
    written = _INTERVAL.fullmatch(cursor.token.text.strip()) if cursor.token.kind == "text" else None
    if written is not None:
        cursor.advance()
        number, unit = int(written[1]), written[2].lower().removesuffix("s")
        if unit not in _UNITS:
            raise SyntaxProblem(f"{unit[:40]!r} is not a unit of time", position=start, expected=" or ".join(_UNITS))
        return number, unit
    text = cursor.advance().text
    if not text.removeprefix("-").isdigit() or len(text) > 7:
        raise SyntaxProblem("Invalid interval", position=start, expected="INTERVAL '3' MONTH")
    return int(text), _read_unit(cursor)


def _shift(constant: object, number: int, unit: str, start: int) -> date | datetime:
    """Return a constant date ``number`` units later; a day beyond the end of its month is the last of it."""
    if not isinstance(constant, date):
        raise SyntaxProblem("Only a date can take an interval", position=start, expected="DATE '2024-01-31' before it")
    months = {"year": 12, "quarter": 3, "month": 1}.get(unit, 0) * number
    try:
        if months:
            year, month = divmod(constant.year * 12 + constant.month - 1 + months, 12)
            following = divmod(year * 12 + month + 1, 12)
            last = (date(following[0], following[1] + 1, 1) - timedelta(1)).day
            return constant.replace(year=year, month=month + 1, day=min(constant.day, last))
        if unit in ("hour", "minute", "second") and not isinstance(constant, datetime):
            constant = datetime(constant.year, constant.month, constant.day)  # as all moments here
        seconds = {"week": 604_800, "day": 86_400, "hour": 3_600, "minute": 60, "second": 1}.get(unit, 0)
        return constant + timedelta(seconds=seconds * number)
    except (ValueError, OverflowError):
        raise SyntaxProblem("This date is out of range", position=start) from None
