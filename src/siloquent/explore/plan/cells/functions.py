"""Functions of texts, dates and moments in conditions and keys, on arrays of declared values."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from siloquent.errors import RequestError

Function = Callable[[NDArray[Any]], NDArray[Any]]
_TIMES = ("day", "moment")
_DAY = 86_400


def _build_extractor(unit: str, within: str, first: int) -> Function:
    def part(data: NDArray[Any]) -> NDArray[Any]:
        since = data.astype(f"datetime64[{unit}]") - data.astype(f"datetime64[{within}]")
        return np.asarray(since.astype(np.int64) + first)

    return part


def _build_text_function(function: Callable[[str], str]) -> Function:
    return lambda data: np.array([function(text) for text in data], dtype=object)


TEXTS: dict[str, Callable[[str], str]] = {
    "lower": str.lower,
    "upper": str.upper,
    "trim": lambda text: text.strip(" "),
    "ltrim": lambda text: text.lstrip(" "),
    "rtrim": lambda text: text.rstrip(" "),
}
"""Functions of one text that return a text; only spaces are trimmed."""

CALLS: dict[str, tuple[tuple[str, ...], str, Function]] = {
    "year": (_TIMES, "number", lambda data: data.astype("datetime64[Y]").astype(np.int64) + 1970),
    "quarter": (_TIMES, "number", lambda data: _build_extractor("M", "Y", 0)(data) // 3 + 1),
    "month": (_TIMES, "number", _build_extractor("M", "Y", 1)),
    "day": (_TIMES, "number", _build_extractor("D", "M", 1)),
    "hour": (("moment",), "number", _build_extractor("h", "D", 0)),
    "minute": (("moment",), "number", _build_extractor("m", "h", 0)),
    # 1970-01-01 was a Thursday; Sunday is 0.
    "dayofweek": (_TIMES, "number", lambda data: (data.astype("datetime64[D]").astype(np.int64) + 4) % 7),
    "week": (_TIMES, "number", lambda data: count_weeks(data)),
    "dayofyear": (_TIMES, "number", _build_extractor("D", "Y", 1)),
    **{name: (("text",), "text", _build_text_function(function)) for name, function in TEXTS.items()},
    "length": (("text",), "number", lambda data: np.array([len(text) for text in data], dtype=np.int64)),
}
"""Functions of one argument: the kinds that they take, the kind that they return, and what they compute."""


def count_weeks(data: NDArray[Any]) -> NDArray[Any]:
    """Return the ISO week of each moment: the one that holds the first Thursday of a year is its first."""
    days = data.astype("datetime64[D]").astype(np.int64)
    thursday = (days - (days + 3) % 7 + 3).astype("datetime64[D]")
    since = thursday.astype(np.int64) - thursday.astype("datetime64[Y]").astype("datetime64[D]").astype(np.int64)
    return np.asarray(since // 7 + 1)


FORMATS = "YmdHMSyj%"
"""The letters after % in a format of dates."""


def format_dates(data: NDArray[Any], pattern: object) -> NDArray[Any]:
    """Return each date or moment as a text, as strftime writes it.

    Raises:
        RequestError: the format has other letters after % than year, month, day and time of day.
    """
    letters = re.findall(r"%(.?)", str(pattern), re.DOTALL)
    if not isinstance(pattern, str) or any(one not in FORMATS or not one for one in letters):
        raise RequestError(
            f"A date format takes {', '.join(f'%{one}' for one in FORMATS)}.", fix="strftime(day, '%Y-%m')"
        )
    texts = [one.strftime(pattern) for one in data.astype("datetime64[s]").tolist()]
    return np.array(texts, dtype=object)


UNITS = {"year": "Y", "quarter": "M", "month": "M", "week": "W", "day": "D", "hour": "h", "minute": "m", "second": "s"}
"""The units of DATE_TRUNC and INTERVAL, and numpy's codes of them."""


def cut_text(text: str, start: int, length: int | None) -> str:
    """Return SUBSTRING(text, start, length): from letter ``start`` on, counted from 1, or from the end if negative."""
    first = start - 1 if start > 0 else len(text) + start if start < 0 else -1
    last = len(text) if length is None else first + length
    return text[max(first, 0) : max(last, 0)]


def truncate_dates(data: NDArray[Any], unit: str) -> NDArray[Any]:
    """Return the beginning of the year, quarter, month, week (Monday), day, hour, minute or second of each moment."""
    if unit == "quarter":
        months = data.astype("datetime64[M]").astype(np.int64)
        return (months - months % 3).astype("datetime64[M]").astype(data.dtype)
    if unit == "week":  # 1970-01-01 was a Thursday
        days = data.astype("datetime64[D]").astype(np.int64)
        return (days - (days + 3) % 7).astype("datetime64[D]").astype(data.dtype)
    return np.asarray(data.astype(f"datetime64[{UNITS[unit]}]").astype(data.dtype))


def shift_dates(data: NDArray[Any], number: int, unit: str) -> NDArray[Any]:
    """Return each date or moment ``number`` units later; a day beyond the end of its month is the last of it."""
    months = {"year": 12, "quarter": 3, "month": 1}.get(unit, 0) * number
    if not months:
        seconds = number * {"week": 7 * _DAY, "day": _DAY, "hour": 3_600, "minute": 60, "second": 1}[unit]
        return np.asarray(data.astype("datetime64[s]") + np.timedelta64(seconds, "s"))
    first = data.astype("datetime64[M]")
    since = data.astype("datetime64[s]") - first.astype("datetime64[s]")
    later = first + np.timedelta64(months, "M")
    days = since // np.timedelta64(_DAY, "s")
    last = ((later + np.timedelta64(1, "M")).astype("datetime64[D]") - later.astype("datetime64[D]")).astype(int) - 1
    moved = later.astype("datetime64[D]") + np.minimum(days.astype(int), last).astype("timedelta64[D]")
    return np.asarray(moved.astype("datetime64[s]") + since % np.timedelta64(_DAY, "s"))


def require_unit(unit: object) -> str:
    """Return the name of a unit of time.

    Raises:
        RequestError: it is not one.
    """
    name = str(unit).casefold().removesuffix("s")
    if name not in UNITS:
        raise RequestError(f"{str(unit)[:40]!r} is not a unit of time.", fix="'month'")
    return name
