"""Python values as texts, one by one: one value's type must not decide how the others are read.

pandas has one type for a column of mixed values, and turns whole numbers into floats if one is missing. A type inferred
from values depends on every row, so such columns are not typed at all: each value becomes the text that is read as
that value.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np

from siloquent.schema.files.coercion import read_datetime

if TYPE_CHECKING:
    import pyarrow as pa

TOLD_APART = ("id", "category", "text")
"""Kinds of attributes whose values are compared by their texts."""
FIRST_INEXACT = 2**53
"""The number from which floats, as made by pandas, no longer distinguish whole numbers: two users could become one."""
_MOMENTS = ("date", "datetime")
_NUMBERS = ("integer", "real")
_EPOCH = datetime(1970, 1, 1)


def format_texts(values: Iterable[Any], kind: str) -> pa.Array:
    """Return the text of each value for an attribute of ``kind``, NULL for values without one, such as lists."""
    import pyarrow as pa

    return pa.array([_format_or_none(value, kind) for value in values], pa.string())


def _format_or_none(value: Any, kind: str) -> str | None:
    try:
        return format_text(value, kind)
    except Exception:  # allowed: a value may be of any class, and what its methods raise must not reach other rows
        return None


def format_text(value: Any, kind: str = "category") -> str | None:
    """Return the text that is read as ``value`` is; None for NULL in any form, and for types that no attribute reads.

    >>> [format_text(value) for value in (7, 7.0, 0.5, float("nan"), True, [7])]
    ['7', '7', '0.5', None, 'true', None]
    >>> format_text(True, "integer"), format_text(2**53, "id"), format_text(date(2024, 1, 2), "date")
    ('1', None, '2024-01-02 00:00:00')
    """
    if isinstance(value, (complex, np.complexfloating)):  # floats, if a complex number was added to them
        value = None if value.imag else value.real
    if isinstance(value, str):
        return str(value) if _is_unicode(value) else None
    if isinstance(value, (bool, np.bool_)):
        return str(int(value)) if kind in _NUMBERS else "true" if value else "false"
    if isinstance(value, (int, np.integer, float, np.floating)):
        if kind in TOLD_APART and not -FIRST_INEXACT < value < FIRST_INEXACT:
            return None
        return _format_int(int(value)) if isinstance(value, (int, np.integer)) else _format_float(float(value))
    if isinstance(value, Decimal):
        return None if value.is_nan() else str(value)
    if isinstance(value, (date, np.datetime64)):
        return _clamp_time(value) if kind in _MOMENTS else _format_datetime(value)
    if isinstance(value, bytes):
        return f"\\x{value.hex()}"
    return str(value) if isinstance(value, UUID) else None


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return False
    return True


def _format_int(number: int) -> str:
    try:
        return str(number)
    except ValueError:  # more digits than Python writes
        return "inf" if number > 0 else "-inf"


def _format_float(number: float) -> str | None:
    if math.isnan(number):
        return None
    return str(int(number)) if number.is_integer() and abs(number) < FIRST_INEXACT else repr(number)


def _clamp_time(value: Any) -> str | None:
    """Return a time in microseconds and within years 1 to 9999; None in another zone than UTC."""
    if isinstance(value, datetime) and value == value and value.utcoffset():
        return None
    micro = read_datetime(value)
    return None if micro is None else str(_EPOCH + timedelta(microseconds=micro))


def _format_datetime(value: Any) -> str | None:
    if value != value:  # pandas' NaT says it is a datetime
        return None
    if isinstance(value, np.datetime64):
        # Nanoseconds are written where there are any: two times, which may be ids, never have one text.
        micro = value if np.isnat(value) else value.astype("datetime64[us]")
        return None if np.isnat(value) else str(micro if micro == value else value)
    if not isinstance(value, datetime):
        return str(value.isoformat())
    return value.isoformat(timespec="nanoseconds" if getattr(value, "nanosecond", 0) else "microseconds")
