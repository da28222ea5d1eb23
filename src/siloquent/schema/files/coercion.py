"""Conversion of any value to a number, moment, boolean or text: one total definition for Python and SQL.

Engines disagree about which texts are numbers (``1_000``, ``0x10``, ``1.5d``) and which words are true. The accepted
forms are therefore defined here, and the SQL of ``siloquent.data`` uses the same patterns. Anything else is NULL.
"""

from __future__ import annotations

import math
import re
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

# Patterns avoid backslashes and look-around, so that RE2, Java and Python agree. Group 1 is the value.
NUMBER_PATTERN = (
    "^ *([+-]?(?:[0-9]+[.]?[0-9]*|[.][0-9]+)(?:[eE][+-]?[0-9]{1,4})?|[+-]?[iI][nN][fF](?:[iI][nN][iI][tT][yY])?) *$"
)
DATETIME_PATTERN = (
    "^ *((?:[0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)-[0-9]{2}-[0-9]{2}"
    "(?:[ T](?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:[.][0-9]{1,6})?)?)?)(?:Z|[+]00(?::?00)?)? *$"
)
"""A date, or a date and a time of day, optionally marked as UTC; a text with another zone is not parsed."""
MAX_TEXT = 2**16
"""The maximum text length in bytes; a longer text is NULL, or an unlisted value of a category."""
TRUE_WORDS = ("true", "t", "yes", "y", "1")
FALSE_WORDS = ("false", "f", "no", "n", "0")
EARLIEST = datetime(1, 1, 1)
LATEST = datetime(9999, 12, 31, 23, 59, 59, 999_999)
"""The earliest and latest moments; moments beyond them, including infinite ones, are clamped."""

_NUMBER, _MOMENT = re.compile(NUMBER_PATTERN), re.compile(DATETIME_PATTERN)
_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)


def count_microseconds(moment: datetime) -> int:
    """Return whole microseconds since 1970 of a moment without a zone.

    >>> count_microseconds(datetime(1970, 1, 2))
    86400000000
    """
    return (moment - _EPOCH) // _MICROSECOND


def is_long(text: str) -> bool:
    """Return whether ``text`` has more than ``MAX_TEXT`` bytes in UTF-8 and is therefore not parsed.

    >>> is_long("9" * 65_536), is_long("\u0669" * 32_769)
    (False, True)
    """
    return len(text) > MAX_TEXT // 4 and len(text.encode("utf-8", "surrogatepass")) > MAX_TEXT


def read_number(value: object) -> float | None:
    """Parse ``value`` as a double; None for NaN and non-numbers. Numbers beyond doubles are infinite.

    >>> read_number(" -1.5e2"), read_number("1_000"), read_number("nan")
    (-150.0, None, None)
    """
    if isinstance(value, str):
        found = None if is_long(value) else _NUMBER.fullmatch(value)
        return float(found[1]) if found else None
    if not isinstance(value, (int, float, Decimal, Fraction, np.integer, np.floating, np.bool_)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    except ValueError:  # a signalling NaN
        return None
    return None if math.isnan(number) else number


def read_boolean(value: object) -> bool | None:
    """Parse ``value`` as a boolean: booleans, the numbers 0 and 1, the words in ``TRUE_WORDS`` and ``FALSE_WORDS``.

    >>> read_boolean(" Yes"), read_boolean(0.0), read_boolean(2)
    (True, False, None)
    """
    if isinstance(value, str):
        word = "" if is_long(value) else value.strip(" ").lower()
        return True if word in TRUE_WORDS else False if word in FALSE_WORDS else None
    return {0.0: False, 1.0: True}.get(read_number(value))  # type: ignore[arg-type]


def read_text(value: object) -> str | None:
    """Return ``value`` as a category's text: texts unchanged, whole numbers in decimal, ``true`` and ``false``.

    Floats and dates give None: engines print them differently, so sources with such columns are refused.
    """
    if isinstance(value, str):
        return str(value)
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    return str(int(value)) if isinstance(value, (int, np.integer)) else None


def read_datetime(value: object) -> int | None:
    """Parse ``value`` as microseconds since 1970 without zone (aware moments in UTC), years 1 to 9999; else None.

    >>> read_datetime("1970-01-01T00:00:01Z"), read_datetime("2024-02-30")
    (1000000, None)
    """
    found = _parse_datetime(value)
    return None if found is None else min(max(found, count_microseconds(EARLIEST)), count_microseconds(LATEST))


def _parse_datetime(value: Any) -> int | None:
    if isinstance(value, str):
        found = None if is_long(value) else _MOMENT.fullmatch(value)
        try:
            return count_microseconds(datetime.fromisoformat(found[1])) if found else None
        except ValueError:  # such as 30 February
            return None
    if isinstance(value, np.datetime64):
        return _convert_numpy_datetime(value)
    if isinstance(value, datetime):
        if value != value:  # pandas' NaT is an instance of datetime
            return None
        offset = value.utcoffset() or timedelta(0)
        return int((value.replace(tzinfo=None) - _EPOCH) // _MICROSECOND) - offset // _MICROSECOND
    return count_microseconds(datetime(value.year, value.month, value.day)) if isinstance(value, date) else None


def _convert_numpy_datetime(value: np.datetime64) -> int | None:
    if np.isnat(value):
        return None
    # Days first: a distant year in a coarse unit would overflow as microseconds.
    days = int(value.astype("datetime64[D]").astype(np.int64))
    if not (EARLIEST - _EPOCH).days <= days <= (LATEST - _EPOCH).days:
        return days * 86_400_000_000
    return int(value.astype("datetime64[us]").astype(np.int64))
