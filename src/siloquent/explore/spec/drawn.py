"""Answers as pictures: bars for groups, lines for long orders, maps for two large keys. Free."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from siloquent.explore.spec.aggregates import Quantile
from siloquent.explore.spec.shown import value_and_ends
from siloquent.pictures import Bars, HeatMap, Lines, Picture, Series, Words
from siloquent.pictures.plain import label

if TYPE_CHECKING:
    from siloquent.explore.spec.answer import Answer
    from siloquent.explore.spec.query import Query

MOST_BARS = 40
MOST_SERIES = 6
MOST_DRAWN = 10_000


@dataclass(frozen=True, slots=True)
class _Values:
    """One aggregate of an answer: its name, and its columns' place."""

    name: str
    place: int

    def series(self, rows: Sequence[Sequence[Any]], name: str = "") -> Series:
        value, low, high = (
            [None if row[self.place + i] is None else float(row[self.place + i]) for row in rows] for i in range(3)
        )
        return Series(value, low=low, high=high, name=name)


def has_values(query: Query) -> bool:
    """Whether it is answered with values and intervals; else with names alone, and there is nothing to draw."""
    return query.kind == "wcq" and not all(isinstance(item.aggregate, Quantile) for item in query.items)


def pictures_of(answer: Answer) -> tuple[Picture, ...]:
    """One picture for each aggregate with intervals, in order; none of answers that only name groups."""
    found = _values(answer.columns)
    if not found or not 1 <= len(answer.rows) <= MOST_DRAWN:
        return ()
    keys = [i for i in range(found[0].place) if answer.columns[i] != "all" or len(answer.rows) > 1]
    return tuple(_picture(answer, values, keys) for values in found)


def _values(columns: Sequence[str]) -> list[_Values]:
    """Where a value is followed by the ends of its interval."""
    return [
        _Values(name, i)
        for i, name in enumerate(columns)
        if tuple(columns[i + 1 : i + 3]) in (("low", "high"), (f"{name}_low", f"{name}_high"))
    ]


def _picture(answer: Answer, values: _Values, keys: list[int]) -> Picture:
    rows, names = answer.rows, [answer.columns[i] for i in keys]
    title = f"{values.name} by {', '.join(names)}" if names else f"{values.name} of {answer.table_name}"
    words = Words(title, f"{_range(values, rows)} {answer.promise}", across=values.name)
    if len(keys) == 2 and (grid := _grid(rows, keys)) is not None:
        first, second = grid
        if len(second) <= MOST_SERIES and len(first) <= MOST_BARS:
            series = [values.series(rows[j :: len(second)], f"{names[1]} {name}") for j, name in enumerate(second)]
            return Bars(words, first, series)
        heat = [[_float(row[values.place]) for row in rows[j :: len(second)]] for j in range(len(second))]
        return HeatMap(Words(title, words.about, across=names[0], up=names[1]), heat, across=first, up=second)
    labels = [", ".join(label(row[i]) for i in keys) or "all" for row in rows]
    if len(rows) <= MOST_BARS:
        return Bars(words, labels, [values.series(rows)])
    along = Words(title, words.about, across=", ".join(names), up=values.name)
    return Lines(along, range(len(rows)), [values.series(rows)], labels)


def _grid(rows: Sequence[Sequence[Any]], keys: list[int]) -> tuple[list[str], list[str]] | None:
    """The labels of both keys, if every combination is there once, in order."""
    first, second = (list(dict.fromkeys(row[i] for row in rows)) for i in keys)
    if [(row[keys[0]], row[keys[1]]) for row in rows] != [(a, b) for a in first for b in second]:
        return None
    return [label(one) for one in first], [label(one) for one in second]


def _range(values: _Values, rows: Sequence[Sequence[Any]]) -> str:
    seen = [row[values.place : values.place + 3] for row in rows if row[values.place] is not None]
    if not seen:
        return f"{len(rows):,} values, none of them measured."
    least, most = (value_and_ends(choose(seen, key=lambda one: one[0]))[0] for choose in (min, max))
    return f"{len(rows):,} values from {least} to {most}." if len(rows) > 1 else ""


def _float(value: Any) -> float | None:
    return None if value is None else float(value)
