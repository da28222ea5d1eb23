"""Columns of Python objects as texts, value by value: one value's type must not decide how the others are read.

pandas has one type for a column whose values differ, and turns whole numbers into floats where one is missing. A type
that is inferred from values hangs on every row, so such columns are not typed at all: each value becomes the text that
is read as that value.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa

_EXACT = 2.0**53
"""Whole doubles below this are exact."""


def has_objects(dtype: object) -> bool:
    """Whether a pandas-like or polars column of that type holds Python objects.

    >>> has_objects(np.dtype(object)), has_objects(np.dtype("int64"))
    (True, False)
    """
    return str(dtype) in ("object", "Object")


def had_whole_numbers(dtype: object) -> bool:
    """Whether whole numbers become a numpy column of that type as soon as one of them is missing."""
    return isinstance(dtype, np.dtype) and dtype.kind == "f"


def texts_of(values: Collection[Any]) -> pa.Array:
    """The text of each value, NULL for what has none: lists, say."""
    import pyarrow as pa

    return pa.array([text_of(value) for value in values], pa.string())


def text_of(value: Any) -> str | None:
    """The text that is read as ``value`` is; None for NULL in any form, and for types that no attribute reads.

    >>> text_of(7), text_of(7.0), text_of(0.5), text_of(float("nan")), text_of(True), text_of([7])
    ('7', '7', '0.5', None, 'true', None)
    """
    if isinstance(value, str):
        return str(value) if _is_unicode(value) else None
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (int, np.integer)):
        return _whole(int(value))
    if isinstance(value, (float, np.floating)):
        return _real(float(value))
    if isinstance(value, Decimal):
        return None if value.is_nan() else str(value)
    if isinstance(value, (date, np.datetime64)):
        return _moment(value)
    if isinstance(value, bytes):
        return f"\\x{value.hex()}"
    return str(value) if isinstance(value, UUID) else None


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return False
    return True


def _whole(number: int) -> str:
    try:
        return str(number)
    except ValueError:  # more digits than Python writes
        return "inf" if number > 0 else "-inf"


def _real(number: float) -> str | None:
    if math.isnan(number):
        return None
    return str(int(number)) if number.is_integer() and abs(number) < _EXACT else repr(number)


def _moment(value: Any) -> str | None:
    if value != value:  # pandas' NaT says it is a datetime
        return None
    if isinstance(value, np.datetime64):
        # Nanoseconds are written where there are any: two moments, which may be ids, are never one text.
        micro = value if np.isnat(value) else value.astype("datetime64[us]")
        return None if np.isnat(value) else str(micro if micro == value else value)
    if not isinstance(value, datetime):
        return str(value.isoformat())
    return value.isoformat(timespec="nanoseconds" if getattr(value, "nanosecond", 0) else "microseconds")
