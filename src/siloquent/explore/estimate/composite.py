"""One answer from several measurements: one or three columns per aggregate, one row per group."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from siloquent.explore.estimate.derived import NULL, Evaluator, Range
from siloquent.explore.estimate.ranks import read_off
from siloquent.explore.estimate.reconstruct import (
    EstimatedRows,
    apply_choice,
    are_whole,
    compute_step,
    compute_values,
    round_for_display,
)
from siloquent.explore.estimate.variance import (
    Interval,
    NoisyValue,
    estimate_average,
    estimate_deviation,
    estimate_sample_variance,
    estimate_variance,
)
from siloquent.explore.plan.bounds import Part, list_parts
from siloquent.explore.plan.planner import Plan
from siloquent.explore.plan.quantiles import format_steps
from siloquent.explore.spec.aggregates import (
    Average,
    Count,
    Deviation,
    Distinct,
    Moment,
    Quantile,
    Ranks,
    Sum,
    Variance,
)
from siloquent.explore.spec.derived import Measured, iter_windows, replace_windows
from siloquent.explore.spec.presentation import Presentation
from siloquent.explore.spec.promises import Accuracy
from siloquent.explore.spec.query import Item, Query
from siloquent.explore.spec.stored_measurement import StoredMeasurement
from siloquent.schema import TableSchema

REPORTED, NOT_REPORTED = "reported", "not_reported"
_NAMED = 5


@dataclass(frozen=True, slots=True, eq=False)
class ReleasedPart:
    """A measured part; ``quantile`` selects one of several that were measured together."""

    plan: Plan
    measured: StoredMeasurement
    quantile: Quantile | None = None

    @property
    def error(self) -> Fraction:
        """The promised error of each value."""
        return Fraction(self.measured.alpha)

    @property
    def values(self) -> list[Fraction]:
        """The groups' values, or the indices chosen for them."""
        if self.quantile is not None:
            return [Fraction(place) for place in read_off(self.plan.compiled, self.measured, self.quantile.fraction)]
        if self.measured.form == "chosen":
            return [Fraction(place) for place in self.measured.values]
        return compute_values(self.plan.compiled, self.measured)

    @property
    def each(self) -> dict[Part, ReleasedPart]:
        """The parts by aggregate: several if one measurement answers several quantiles."""
        aggregate = self.plan.asked
        if isinstance(aggregate, Ranks):
            return {one: replace(self, quantile=one) for one in aggregate.quantiles}
        return {aggregate: self}  # type: ignore[dict-item]

    @property
    def intervals(self) -> list[Interval]:
        """The groups' values with the ends of their intervals."""
        return [Interval(one.value, one.low, one.high) for one in self.noisy]

    @property
    def are_whole(self) -> bool:
        """Whether the values are integers, whatever their noise."""
        return are_whole(compute_step(self.plan.compiled, self.measured), self.error)

    @property
    def noisy(self) -> list[NoisyValue]:
        """The groups' values with their error bound."""
        return [NoisyValue(value, self.error) for value in self.values]


def combine(
    query: Query,
    schema: TableSchema,
    found: Mapping[Part, ReleasedPart],
    labels: tuple[tuple[Any, ...], ...],
    keys: tuple[str, ...],
    *,
    chosen: Sequence[int] | None = None,
    with_middles: bool = False,
) -> EstimatedRows:
    """Build the rows of a composite answer: all groups in declared order, or those of a free choice.

    Args:
        found: The measured parts; aggregates with missing parts are left out, except for their count.
        labels: All groups' key values.
        chosen: The indices of the measured groups, if HAVING on another aggregate chose them.
        with_middles: Whether values that nothing is known of are the middle of their interval, not NULL.
    """
    columns: list[_Column] = [_build_column(item, query, schema, found) for item in query.items]
    is_complete = all(column.intervals for column in columns) and not any(column.is_partial for column in columns)
    columns = [column for column in columns if column.intervals]
    columns = [column.fill_middles() for column in columns] if with_middles else columns
    places = range(len(labels)) if chosen is None else chosen
    kept = _select_rows(query, columns, len(places))
    # Without all aggregates, since a second step was refused, those that were paid for are shown themselves.
    if query.presentation is not None and query.presentation.computes and is_complete:
        columns, kept = _compute_columns(query, query.presentation, schema, columns, kept)
    rows = []
    for row, place in enumerate(places):
        if row in kept:
            rows.append((place, [cell for column in columns for cell in column.build_cells(row)]))
    names = [name for column in columns for name in column.list_names(alone=len(columns) == 1)]
    notes = list(dict.fromkeys(note for one in columns for note in one.list_notes([labels[place] for place in places])))
    if chosen is None:
        ordered = sorted(rows, key=lambda one: kept.index(places.index(one[0]))) if query.top else rows
        return EstimatedRows((*keys, *names), tuple((*labels[place], *cells) for place, cells in ordered), tuple(notes))
    by_place = dict(rows)
    empty = [None] * len(names)
    full = [
        (*labels[place], *by_place.get(place, empty), REPORTED if place in places else NOT_REPORTED)
        for place in range(len(labels))
    ]
    return EstimatedRows((*keys, *names, "status"), tuple(full), tuple(notes))


@dataclass(frozen=True, slots=True, eq=False)
class _Column:
    """One aggregate of the answer; for quantiles, ``labels`` instead of intervals."""

    name: str
    intervals: Sequence[Interval]
    labels: Sequence[Any] = ()
    wanted: Fraction | None = None
    whole: bool = False
    stepped: str = ""
    is_partial: bool = False

    def fill_middles(self) -> _Column:
        """Return the column with a value in every row."""
        return replace(self, intervals=[replace(one, is_known=True) for one in self.intervals])

    def build_range(self, row: int) -> Range:
        """Return the value of one row for further computation; a quantile's has no interval."""
        if self.labels:
            return Range(Fraction(self.labels[row]))
        one = self.intervals[row]
        return Range(one.value, one.low, one.high) if one.is_known else NULL

    def list_names(self, *, alone: bool) -> list[str]:
        if self.labels:
            return [self.name]
        return [self.name, "low", "high"] if alone else [self.name, f"{self.name}_low", f"{self.name}_high"]

    def build_cells(self, row: int) -> tuple[Any, ...]:
        if self.labels:
            return (self.labels[row],)
        one = self.intervals[row]
        value, low, high = round_for_display(one.value, one.low, one.high, whole=self.whole)
        return (value if one.is_known else None), low, high

    def list_notes(self, groups: Sequence[tuple[Any, ...]]) -> list[str]:
        notes = [self.stepped] if self.stepped else []
        if missed := [i for i, one in enumerate(self.intervals) if self.wanted is not None and one.error > self.wanted]:
            names = _name_groups(groups, missed)
            notes.append(
                f"accuracy not met by {self.name} of {names}: its interval shows the accuracy that was reached"
            )
        if empty := [i for i, one in enumerate(self.intervals) if not one.is_known]:
            names = _name_groups(groups, empty)
            notes.append(f"{self.name} of {names} has no value: by the noisy count, there may be no rows")
        return notes


@dataclass(frozen=True, slots=True, eq=False)
class _ComputedColumn(_Column):
    """A value computed from aggregates; ``ranges`` instead of intervals, some of which may be missing."""

    ranges: Sequence[Range] = ()

    def build_cells(self, row: int) -> tuple[Any, ...]:
        one = self.ranges[row]
        low = None if one.low is None else _convert_to_float(one.low, -math.inf)
        return _convert_to_float(one.value), low, None if one.high is None else _convert_to_float(one.high, math.inf)

    def list_notes(self, groups: Sequence[tuple[Any, ...]]) -> list[str]:
        missed = [i for i, one in enumerate(self.ranges) if one.value is not None and one.ends is None]
        if not missed:
            return []
        why = "a divisor or logarithm may be of 0, or it takes a quantile or a rank"
        return [f"{self.name} of {_name_groups(groups, missed)} has no interval: {why}"]


def _convert_to_float(value: Fraction | None, outwards: float = 0.0) -> float | None:
    """Return the nearest float, or the next one ``outwards``; None beyond all floats."""
    if value is None:
        return None
    try:
        near = float(value)
    except OverflowError:
        return None
    is_exact = not outwards or Fraction(near) == value or (near < value) == (outwards < 0)
    return near if is_exact else math.nextafter(near, outwards)


def _compute_columns(
    query: Query, shown: Presentation, schema: TableSchema, columns: Sequence[_Column], kept: Sequence[int]
) -> tuple[list[_Column], list[int]]:
    """Compute the shown values from the measured ``columns``, and the rows that pass HAVING."""
    evaluator = Evaluator(query.aggregates, schema)
    rows = [[column.build_range(row) for column in columns] for row in range(len(columns[0].intervals))]
    found: list[_Column] = []
    passing = [row for row in kept if all(evaluator.passes(test, rows[row]) for test in shown.kept)]
    windows = list(dict.fromkeys(window for one in shown.shown for window in iter_windows(one.value)))
    first = len(columns)
    for window in windows:
        for row, value in enumerate(evaluator.compute_window(window, rows, passing)):
            rows[row].append(value)
    for one in shown.shown:
        if isinstance(one.value, Measured):
            found.append(replace(columns[one.value.place], name=one.name))
        else:
            computed = replace_windows(one.value, lambda window: first + windows.index(window))
            ranges = [evaluator.evaluate(computed, row) for row in rows]
            found.append(_ComputedColumn(one.name, columns[0].intervals, ranges=ranges))
    return found or list(columns), passing


def _name_groups(groups: Sequence[tuple[Any, ...]], places: Sequence[int]) -> str:
    names = ", ".join("/".join(map(str, groups[i])) or "the answer" for i in places[:_NAMED])
    return f"{names} and {len(places) - _NAMED} more" if len(places) > _NAMED else names


def _select_rows(query: Query, columns: Sequence[_Column], rows: int) -> list[int]:
    """Return the indices of the rows selected by a free HAVING or ORDER BY, in its order."""
    choice = query.having or query.top
    if choice is None or query.chooses_by_another:
        return list(range(rows))
    by = choice.of or query.aggregate
    (column,) = (c for c, item in zip(columns, query.items, strict=False) if item.aggregate == by)
    # A group without a value passes no HAVING, and stands last in any order.
    known = [place for place, one in enumerate(column.intervals) if one.is_known]
    chosen = [known[place] for place in apply_choice(choice, [column.intervals[place].value for place in known])]
    if query.top is None:
        return chosen
    return [*chosen, *(place for place in range(rows) if place not in known)][: query.top.k]


def _build_column(item: Item, query: Query, schema: TableSchema, found: Mapping[Part, ReleasedPart]) -> _Column:
    aggregate = item.aggregate
    parts = list_parts(aggregate, schema)
    if any(part not in found for part in parts):
        return _build_partial_column(item, schema, parts, found)
    if isinstance(aggregate, Quantile):
        attribute = schema.domain[aggregate.attribute]
        (part,) = parts
        places, compiled = found[part].values, found[part].plan.compiled
        return _Column(
            item.column,
            [Interval(place, place, place) for place in places],
            [attribute.label(int(place) * compiled.value_step) for place in places],
            stepped=format_steps(compiled, attribute),
        )
    noisy = [found[part].noisy for part in parts]
    if isinstance(aggregate, (Count, Distinct, Sum, Moment)):
        (part,) = parts
        return _Column(item.column, found[part].intervals, whole=found[part].are_whole)
    attribute = schema.domain[aggregate.attribute]
    wanted = None
    if isinstance(query.promise, Accuracy):
        wanted = Fraction(query.promise.bounds[query.aggregates.index(aggregate)].error)
    if isinstance(aggregate, Average):
        return _Column(
            item.column, [estimate_average(attribute, *each) for each in zip(*noisy, strict=True)], wanted=wanted
        )
    assert isinstance(aggregate, (Variance, Deviation))
    estimate = estimate_sample_variance if aggregate.sample else estimate_variance
    spreads = [estimate(attribute, *each) for each in zip(*noisy, strict=True)]
    if isinstance(aggregate, Deviation):
        spreads = [estimate_deviation(spread) for spread in spreads]
    return _Column(item.column, spreads, wanted=wanted)


def _build_partial_column(
    item: Item, schema: TableSchema, parts: Sequence[Part], found: Mapping[Part, ReleasedPart]
) -> _Column:
    """Build the count of an aggregate that could not be completed; it is shown because it was paid for."""
    count = parts[0]
    if count not in found or isinstance(item.aggregate, (Count, Distinct, Sum, Moment, Quantile)):
        return _Column(item.column, [])
    name = f"rows_with_{schema.domain[item.aggregate.attribute].name}"
    return _Column(name, found[count].intervals, whole=found[count].are_whole, is_partial=True)
