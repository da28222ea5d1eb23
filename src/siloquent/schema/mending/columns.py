"""Attributes of a table file as they are meant: keys, words and bounds of others in the form that is read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any

from siloquent.schema.attribute import FUNCTIONS, MAX_CODES, STEP_SECONDS
from siloquent.schema.files.trade_words import suggest_key, suggest_value

Entry = dict[str, Any]
TYPES = ("integer", "real", "category", "boolean", "date", "datetime", "id", "text")
COLUMN_KEYS = ("name", "type", "lo", "hi", "grid", "bins", "values", "other", "outside", "max_bytes", "null", "labels")
DERIVED_KEYS = (*COLUMN_KEYS, "from", "function")
_RANGED = ("integer", "real", "date", "datetime")
_DATE = re.compile(r"(\d{4})-(\d\d?)-(\d\d?)|(\d\d?)[./](\d\d?)[./](\d{4})|(\d{4})(\d\d)(\d\d)")
_FUNCTION_RANGES = {
    "length": (0, 1000),
    "year": (1900, 2100),
    "month": (1, 12),
    "day": (1, 31),
    "hour": (0, 23),
    "dayofweek": (0, 6),
}


def rename_keys(entry: Mapping[str, Any], known: tuple[str, ...]) -> Entry:
    """Return ``entry`` with unknown keys under the names that they may stand for; others are left out."""
    renamed = {key: value for key, value in entry.items() if key in known}
    for key, value in entry.items():
        if key in known:
            continue
        meant = suggest_key(str(key), [one for one in known if one not in renamed])
        if meant in known and meant not in renamed:
            renamed[meant] = value
    return renamed


def mend_column(raw: Mapping[str, Any], place: int, *, derived: bool = False) -> Entry:
    """Return an attribute's entry as it is meant."""
    entry = rename_keys(raw, DERIVED_KEYS if derived else COLUMN_KEYS)
    name = entry.get("name")
    entry["name"] = str(name)[:128] if isinstance(name, (str, int)) and str(name) else f"column_{place + 1}"
    kind = entry["type"] = "integer" if derived else _read_type(entry)
    if derived:
        entry["function"] = choose_word(entry.get("function"), tuple(FUNCTIONS), "year")
        source = entry.get("from")
        entry["from"] = [str(one) for one in source][:1] if isinstance(source, list) and source else [str(source or "")]
    _mend_domain(entry)
    kind = entry["type"]
    for key, wanted in _BELONGS.items():
        if key in entry and kind not in wanted:
            del entry[key]
    if "other" in entry:
        entry["other"] = choose_word(entry["other"], ("drop", "cell"), "cell", key="other")
    if "labels" in entry:
        _mend_labels(entry)
    order = ["name", "from", "function", *COLUMN_KEYS[1:]]
    return {key: entry[key] for key in order if key in entry}


def list_made_up(raw: Mapping[str, Any], mended: Entry) -> list[str]:
    """Return the bounds of ``mended`` that stand for no value of ``raw``: whoever knows the field has to say them."""
    if mended["type"] not in _RANGED or mended.get("function") in _FUNCTION_RANGES:
        return []
    given = rename_keys(raw, DERIVED_KEYS)
    read = _read_moment if mended["type"] in ("date", "datetime") else read_number
    return [key for key in ("lo", "hi") if read(given.get(key)) is None]


def _mend_domain(entry: Entry) -> None:
    """Make the keys for the entry's type what they are meant to be; a category without values becomes a text."""
    if entry["type"] in _RANGED:
        _mend_range(entry)
    if entry["type"] == "category":
        _mend_values(entry)
    kind = entry["type"]
    if kind in ("integer", "real") and "bins" in entry and not _are_bins(entry):
        del entry["bins"]
    if kind not in ("id", "text"):
        entry["null"] = _mend_null(entry)
    if kind == "text":
        size = entry.get("max_bytes", 1000)
        entry["max_bytes"] = size if type(size) is int and size > 0 else 1000


_BELONGS = {
    **dict.fromkeys(("lo", "hi", "grid", "outside"), _RANGED),
    "bins": ("integer", "real"),
    "values": ("category",),
    "other": ("category",),
    "max_bytes": ("text",),
    "null": tuple(kind for kind in TYPES if kind not in ("id", "text")),
    "labels": ("integer", "category", "boolean"),
}


def choose_word(value: object, allowed: tuple[str, ...], default: str, *, key: str = "") -> str:
    if value in allowed:
        return str(value)
    meant = suggest_value(key, value, allowed)
    return meant if meant in allowed else default


def _read_type(entry: Mapping[str, Any]) -> str:
    """Return the type that is meant; without one, the type that the other keys belong to."""
    said = entry.get("type")
    if said is not None:
        meant = said if said in TYPES else suggest_value("type", said, TYPES)
        if " or " in meant:
            return "category" if "values" in entry else "text"
        if meant in TYPES:
            return str(meant)
    if "values" in entry:
        return "category"
    bounds = [entry[key] for key in ("lo", "hi") if key in entry]
    if any(isinstance(bound, datetime) for bound in bounds):
        return "datetime"
    if any(isinstance(bound, date) or (isinstance(bound, str) and _DATE.fullmatch(bound)) for bound in bounds):
        return "datetime" if entry.get("grid") in ("hour", "minute", "second") else "date"
    if bounds:
        numbers = [*bounds, entry.get("grid", 1)]
        return "real" if any(isinstance(one, Decimal) and one % 1 for one in numbers) else "integer"
    return "text" if "max_bytes" in entry else "boolean" if "null" in entry else "id"


def _mend_range(entry: Entry) -> None:
    kind = entry["type"]
    entry["outside"] = choose_word(entry.get("outside"), ("clamp", "drop"), "clamp", key="outside")
    if kind in ("date", "datetime"):
        _mend_dates(entry)
        return
    lo, hi = (read_number(entry.get(key)) for key in ("lo", "hi"))
    if entry.get("function") in _FUNCTION_RANGES:
        lo, hi = (
            one if one is not None else Decimal(usual)
            for one, usual in zip((lo, hi), _FUNCTION_RANGES[entry["function"]], strict=True)
        )
    lo = lo if lo is not None else min(Decimal(0), hi or Decimal(0))
    hi = hi if hi is not None else max(Decimal(100), lo + 100)
    lo, hi = min(lo, hi), max(lo, hi)
    grid = read_number(entry.get("grid"))
    if kind == "integer":
        lo, hi = Decimal(int(lo)), Decimal(int(hi))
        grid = grid if grid is not None and grid >= 1 and not grid % 1 else None
    if grid is not None and grid > 0 and (Fraction(lo) % Fraction(grid) or Fraction(hi) % Fraction(grid)):
        grid = None
    if grid is None or grid <= 0:
        decimals = max(-int(one.as_tuple().exponent) for one in (lo, hi))
        grid = Decimal(1) if kind == "integer" else Decimal(1).scaleb(-max(decimals, 2 if hi - lo < 1000 else 0))
    while kind == "real" and (hi - lo) / grid > 10**11:
        grid *= 10
    entry["lo"], entry["hi"] = _to_plain(lo), _to_plain(hi)
    if kind == "real" or grid != 1:
        entry["grid"] = _to_plain(grid)
    else:
        entry.pop("grid", None)


def read_number(value: object) -> Decimal | None:
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, (int, Decimal)):
        number = Decimal(value)
        return number if number.is_finite() and abs(number) < 10**12 else None
    text = str(value).strip().replace("_", "").replace(" ", "")
    if re.fullmatch(r"-?\d+,\d+", text):
        text = text.replace(",", ".")
    return Decimal(text) if re.fullmatch(r"-?\d{1,12}(\.\d{1,12})?", text) else None


def _to_plain(number: Decimal) -> int | Decimal:
    return int(number) if number == int(number) else number.normalize()


def _mend_dates(entry: Entry) -> None:
    kind = entry["type"]
    lo = _read_moment(entry.get("lo")) or datetime(2000, 1, 1)
    hi = _read_moment(entry.get("hi")) or max(datetime(2030, 12, 31), lo)
    lo, hi = min(lo, hi), max(lo, hi)
    grid = entry.get("grid") if entry.get("grid") in STEP_SECONDS else "day"
    if kind == "date":
        grid = "day"
        entry["lo"], entry["hi"] = lo.date(), hi.date()
    else:
        seconds = STEP_SECONDS[str(grid)]
        hi -= timedelta(seconds=int((hi - lo).total_seconds()) % seconds)
        entry["lo"], entry["hi"] = lo, hi
    entry["grid"] = grid


def _read_moment(value: object) -> datetime | None:
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day)
    found = _DATE.match(str(value).strip())
    if found is None:
        return None
    year, month, day = (
        int(one or two or three)
        for one, two, three in zip(found.group(1, 2, 3), found.group(6, 5, 4), found.group(7, 8, 9), strict=True)
    )
    month, day = (day, month) if month > 12 else (month, day)
    try:
        return datetime(year, month, day)
    except ValueError:
        return datetime(year, min(max(month, 1), 12), min(max(day, 1), 28)) if year else None


def _mend_values(entry: Entry) -> None:
    values = entry.get("values")
    if isinstance(values, dict):
        name = next((one for one in values.values() if isinstance(one, str)), "")
        if set(values) == {"released"} and name:
            return
        values = None
    if isinstance(values, str):
        values = re.split(r"\s*[,;|]\s*", values)
    listed = (
        [
            str(one) if isinstance(one, Decimal) else one
            for one in values
            if isinstance(one, (str, int, Decimal)) and not isinstance(one, bool)
        ]
        if isinstance(values, list)
        else []
    )
    kept = [one for one in dict.fromkeys(listed) if one != "(other)" and "\0" not in str(one)]
    if kept:
        entry["values"] = kept
        return
    # Values that nobody knows are found by discovery, which takes a text.
    entry.pop("values", None)
    entry.pop("other", None)
    entry["type"] = "text"


def _mend_null(entry: Mapping[str, Any]) -> Any:
    null = entry.get("null")
    if isinstance(null, dict) and "value" in null and len(null) == 1 and _is_own(entry, null["value"]):
        return null
    return choose_word(null, ("drop", "cell"), "drop", key="null")


def _is_own(entry: Mapping[str, Any], value: object) -> bool:
    kind = entry["type"]
    if kind == "category":
        return value in entry.get("values", ())
    if kind == "boolean":
        return isinstance(value, bool)
    if kind in ("integer", "real"):
        number = read_number(value) if not isinstance(value, str) else None
        return number is not None and entry["lo"] <= number <= entry["hi"]
    return False


def _are_bins(entry: Entry) -> bool:
    """Return whether the bins fit the bounds; numbers that are written as text become numbers."""
    bins = entry["bins"]
    if not isinstance(bins, dict) or len(bins) != 1:
        return False
    lo, hi, grid = (Fraction(entry.get(key, 1)) for key in ("lo", "hi", "grid"))
    if "width" in bins:
        width = read_number(bins["width"])
        bins = entry["bins"] = {"width": bins["width"] if width is None else _to_plain(width)}
        return width is not None and width > 0 and not Fraction(width) % grid and (hi - lo) / Fraction(width) < 10**5
    edges = [read_number(one) for one in bins.get("edges", ())] if isinstance(bins.get("edges"), list) else []
    if len(edges) < 2 or any(edge is None for edge in edges):
        return False
    exact = [Fraction(edge) for edge in edges if edge is not None]
    entry["bins"] = {"edges": [_to_plain(edge) for edge in edges if edge is not None]}
    rising = all(a < b for a, b in pairwise(exact))
    return rising and exact[0] == lo and exact[-1] in (hi, hi + grid) and not any(edge % grid for edge in exact)


def _mend_labels(entry: Entry) -> None:
    labels = entry.pop("labels")
    if not isinstance(labels, dict) or (entry["type"] == "integer" and entry["hi"] - entry["lo"] >= MAX_CODES):
        return
    kept: dict[str, str] = {}
    for key, label in labels.items():
        text = str(label)
        is_value = {
            "integer": bool(re.fullmatch(r"-?\d{1,9}", key)) and entry.get("lo", 0) <= int(key) <= entry.get("hi", 0)
            if re.fullmatch(r"-?\d{1,9}", key)
            else False,
            "category": key in [str(one) for one in entry.get("values", ())]
            if isinstance(entry.get("values"), list)
            else False,
            "boolean": key in ("0", "1", "true", "false"),
        }.get(entry["type"], False)
        if is_value and text and text not in kept.values():
            kept[key] = text
    if kept:
        entry["labels"] = kept
