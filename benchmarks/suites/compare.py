"""Whether an answer agrees with the exact one: its groups, their order, and each exact value inside its interval."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from itertools import permutations
from typing import Any

from benchmarks.suites.exact import Exact
from siloquent.explore import Answer

TOLERANCE = 1e-9
"""Of a value: DuckDB adds floats."""
WITHOUT_INTERVAL = 0.02
"""Of a value that comes without an interval."""

Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Shown:
    """A value of an answer with its interval, None where it has none."""

    value: Any
    low: Any = None
    high: Any = None


@dataclass(frozen=True, slots=True)
class Fold:
    """An answer's rows, each as its keys and its values."""

    rows: list[tuple[Key, list[Shown]]]
    keys: int
    values: int


def find_fault(answer: Answer, exact: Exact) -> str:
    """Return what is wrong with ``answer``; "" if it agrees with DuckDB's."""
    fold = fold_answer(answer, exact.count_quantiles())
    width = len(exact.names)
    if fold.keys + fold.values != width:
        return f"columns: {answer.columns} for {exact.names}"
    faults = []
    for places in permutations(range(width), fold.keys):
        fault = _compare(fold, exact, places)
        if not fault:
            return ""
        faults.append(fault)
    return faults[0]


def fold_answer(answer: Answer, quantiles: int) -> Fold:
    """Fold each value and its interval; the last ``quantiles`` columns without an interval are values too."""
    columns, rows = list(answer.columns), list(answer.rows)
    if "status" in columns:
        place = columns.index("status")
        if {row[place] for row in rows} <= {"reported", "not_reported"}:
            rows = [(*row[:place], *row[place + 1 :]) for row in rows if row[place] == "reported"]
            columns.pop(place)
    spans, heads, place = {}, [], 0
    while place < len(columns):
        heads.append(place)
        spans[place] = _is_value(columns, place)
        place += 3 if spans[place] else 1
    bare = [place for place in heads if not spans[place]]
    keys = bare[: len(bare) - quantiles]
    values = [place for place in heads if place not in keys]
    folded = [
        (
            tuple(normalize(row[place]) for place in keys),
            [Shown(*row[place : place + 3]) if spans[place] else Shown(row[place]) for place in values],
        )
        for row in rows
    ]
    return Fold(folded, len(keys), len(values))


def _is_value(columns: Sequence[str], place: int) -> bool:
    own = [f"{columns[place]}_low", f"{columns[place]}_high"]
    is_last = place == len(columns) - 3
    return columns[place + 1 : place + 3] == own or (is_last and columns[place + 1 :] == ["low", "high"])


def normalize(value: Any) -> Any:
    """Return a group's value in one form, whichever library made it."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, (int, float, Decimal)):
        return float(value)
    if isinstance(value, datetime) and value.time() == datetime.min.time():
        return value.date().isoformat()
    return value.isoformat() if isinstance(value, (date, datetime)) else value


def _compare(fold: Fold, exact: Exact, places: Sequence[int]) -> str:
    typed, whole = list(_split(exact.typed, places)), list(_split(exact.whole, places))
    wanted, known = [key for key, _ in typed], dict(whole)
    shown = [key for key, _ in fold.rows]
    if len(known) < len(whole) or len({*shown}) < len(shown):
        return "" if _is_same_list(fold, typed) else "rows: other values"
    if missing := [key for key in wanted if key not in shown]:
        return f"groups: {missing[:3]} are missing"
    if more := [key for key in shown if key in known and key not in wanted]:
        return f"groups: {more[:3]} were not asked for"
    if exact.is_ordered and (order := [key for key in shown if key in known]) != wanted:
        return f"order: {order[:5]} for {wanted[:5]}"
    ranks = exact.bound_quantiles() if exact.count_quantiles() else (exact.whole, exact.whole)
    low, high = (dict(_split(rows, places)) for rows in ranks)
    totals = [exact.is_total(place) for place in range(len(exact.names)) if place not in places]
    for key, values in fold.rows:
        for place, value in enumerate(values):
            if key not in known:
                fault = _judge(value, 0, 0) if totals[place] else ""
            else:
                fault = _judge(value, low[key][place], high[key][place])
            if fault:
                return f"value {place + 1} of {key}: {fault}"
    return ""


def _split(rows: Iterable[tuple[Any, ...]], places: Sequence[int]) -> Iterator[tuple[Key, list[Any]]]:
    """Split each row into its keys, at ``places``, and its values."""
    for row in rows:
        values = [value for place, value in enumerate(row) if place not in places]
        yield tuple(normalize(row[place]) for place in places), values


def _is_same_list(fold: Fold, typed: Sequence[tuple[Key, list[Any]]]) -> bool:
    """Return whether rows that have no keys of their own are the same, one by one."""
    if len(fold.rows) != len(typed):
        return False
    pairs = zip(fold.rows, typed, strict=True)
    return all(
        key == wanted and not any(_judge(value, one, one) for value, one in zip(values, exact, strict=True))
        for (key, values), (wanted, exact) in pairs
    )


def _judge(shown: Shown, low: Any, high: Any) -> str:
    """Return "" if a value between ``low`` and ``high`` lies in the interval of ``shown``."""
    if low is None or high is None or (isinstance(low, float) and not math.isfinite(low)):
        return ""  # SQL's NULL of a sum without rows is 0 here, of a mean nothing
    if shown.value is None:
        return f"nothing for {low}"
    if not isinstance(low, (int, float, Decimal)):
        return "" if normalize(low) <= normalize(shown.value) <= normalize(high) else f"{shown.value} for {low}"
    ends = [float(low), float(high)]
    spare = TOLERANCE * max(1.0, *map(abs, ends))
    if shown.low is None and low == high:
        spare = WITHOUT_INTERVAL * max(1.0, *map(abs, ends))
    least = float(shown.value if shown.low is None else shown.low) - spare
    most = float(shown.value if shown.high is None else shown.high) + spare
    return "" if least <= ends[1] and ends[0] <= most else f"{shown.value} ({shown.low} to {shown.high}) for {low}"
