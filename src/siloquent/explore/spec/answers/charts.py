"""Answers as pictures: bars for groups, lines for long orders, maps for two large keys. Free."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from siloquent.charts import Bars, Chart, HeatMap, Labels, Lines, Series
from siloquent.charts.text import format_label
from siloquent.explore.spec.aggregates import Quantile
from siloquent.explore.spec.answers.text import format_interval

if TYPE_CHECKING:
    from siloquent.explore.spec.query import Query

MAX_BARS = 40
MAX_SERIES = 6
MAX_DRAWN = 10_000


@dataclass(frozen=True, slots=True)
class _Values:
    """One aggregate of an answer: its name, and the position of its columns."""

    name: str
    place: int

    def build_series(self, rows: Sequence[Sequence[Any]], name: str = "") -> Series:
        value, low, high = (
            [None if row[self.place + i] is None else float(row[self.place + i]) for row in rows] for i in range(3)
        )
        return Series(value, low=low, high=high, name=name)


def has_values(query: Query) -> bool:
    """Return whether the answer has values and intervals; otherwise it has only names and cannot be drawn."""
    return query.kind == "wcq" and not all(isinstance(item.aggregate, Quantile) for item in query.items)


def draw_pictures(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], *, table: str, promise: str
) -> tuple[Chart, ...]:
    """Draw one picture per aggregate with intervals, in order; none for answers that only name groups.

    Args:
        columns, rows: The answer's, in declared order.
        table, promise: The table's name and the answer's promise, for the texts of the pictures.
    """
    found = _find_values(columns)
    if not found or not 1 <= len(rows) <= MAX_DRAWN:
        return ()
    keys = {i: columns[i] for i in range(found[0].place) if columns[i] != "all" or len(rows) > 1}
    return tuple(_draw_picture(rows, values, keys, table, promise) for values in found)


def _find_values(columns: Sequence[str]) -> list[_Values]:
    """Find the values that are followed by the ends of their interval."""
    return [
        _Values(name, i)
        for i, name in enumerate(columns)
        if tuple(columns[i + 1 : i + 3]) in (("low", "high"), (f"{name}_low", f"{name}_high"))
    ]


def _draw_picture(
    rows: Sequence[Sequence[Any]], values: _Values, keys: dict[int, str], table: str, promise: str
) -> Chart:
    """Draw one aggregate; ``keys`` are the positions and names of the group's columns."""
    names = list(keys.values())
    title = f"{values.name} by {', '.join(names)}" if names else f"{values.name} of {table}"
    words = Labels(title, f"{_describe_range(values, rows)} {promise}", across=values.name)
    if len(keys) == 2 and (grid := _find_grid(rows, list(keys))) is not None:
        first, second = grid
        if len(second) <= MAX_SERIES and len(first) <= MAX_BARS:
            series = [
                values.build_series(rows[j :: len(second)], f"{names[1]} {name}") for j, name in enumerate(second)
            ]
            return Bars(words, first, series)
        heat = [[_convert_to_float(row[values.place]) for row in rows[j :: len(second)]] for j in range(len(second))]
        return HeatMap(Labels(title, words.about, across=names[0], up=names[1]), heat, across=first, up=second)
    labels = [", ".join(format_label(row[i]) for i in keys) or "all" for row in rows]
    if len(rows) <= MAX_BARS:
        return Bars(words, labels, [values.build_series(rows)])
    along = Labels(title, words.about, across=", ".join(names), up=values.name)
    return Lines(along, range(len(rows)), [values.build_series(rows)], labels)


def _find_grid(rows: Sequence[Sequence[Any]], keys: list[int]) -> tuple[list[str], list[str]] | None:
    """Return the labels of both keys, if every combination occurs once, in order."""
    first, second = (list(dict.fromkeys(row[i] for row in rows)) for i in keys)
    if [(row[keys[0]], row[keys[1]]) for row in rows] != [(a, b) for a in first for b in second]:
        return None
    return [format_label(one) for one in first], [format_label(one) for one in second]


def _describe_range(values: _Values, rows: Sequence[Sequence[Any]]) -> str:
    cells = [row[values.place : values.place + 3] for row in rows]
    seen = [three for three in cells if None not in three]
    if not seen:
        return f"{len(rows):,} values, none of them measured."
    least, most = (format_interval(choose(seen, key=lambda one: one[0]))[0] for choose in (min, max))
    return f"{len(rows):,} values from {least} to {most}." if len(rows) > 1 else ""


def _convert_to_float(value: Any) -> float | None:
    return None if value is None else float(value)
