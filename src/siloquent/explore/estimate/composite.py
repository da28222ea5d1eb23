"""One answer from several measurements: one or three columns per aggregate, one row per group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

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
    estimate_variance,
)
from siloquent.explore.plan.bounds import Part, list_parts
from siloquent.explore.plan.planner import Plan
from siloquent.explore.plan.quantiles import format_steps
from siloquent.explore.spec.aggregates import Average, Count, Deviation, Moment, Quantile, Ranks, Sum, Variance
from siloquent.explore.spec.query import Accuracy, Item, Query
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
) -> EstimatedRows:
    """Build the rows of a composite answer: all groups in declared order, or those of a free choice.

    Args:
        found: The measured parts; aggregates with missing parts are left out, except for their count.
        labels: All groups' key values.
        chosen: The indices of the measured groups, if HAVING on another aggregate chose them.
    """
    columns = [_build_column(item, query, schema, found) for item in query.items]
    columns = [column for column in columns if column.intervals]
    places = range(len(labels)) if chosen is None else chosen
    kept = _select_rows(query, columns, len(places))
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

    def list_names(self, *, alone: bool) -> list[str]:
        if self.labels:
            return [self.name]
        return [self.name, "low", "high"] if alone else [self.name, f"{self.name}_low", f"{self.name}_high"]

    def build_cells(self, row: int) -> tuple[Any, ...]:
        if self.labels:
            return (self.labels[row],)
        one = self.intervals[row]
        return round_for_display(one.value, one.low, one.high, whole=self.whole)

    def list_notes(self, groups: Sequence[tuple[Any, ...]]) -> list[str]:
        if self.wanted is None:
            return [self.stepped] if self.stepped else []
        missed = [i for i, one in enumerate(self.intervals) if one.error > self.wanted]
        if not missed:
            return []
        names = ", ".join("/".join(map(str, groups[i])) or "the answer" for i in missed[:_NAMED])
        more = f" and {len(missed) - _NAMED} more" if len(missed) > _NAMED else ""
        return [f"accuracy not met by {self.name} of {names}{more}: the interval says how exact it is"]


def _select_rows(query: Query, columns: Sequence[_Column], rows: int) -> list[int]:
    """Return the indices of the rows selected by a free HAVING or ORDER BY, in its order."""
    choice = query.having or query.top
    if choice is None or query.chooses_by_another:
        return list(range(rows))
    by = choice.of or query.aggregate
    (column,) = (c for c, item in zip(columns, query.items, strict=False) if item.aggregate == by)
    return apply_choice(choice, [one.value for one in column.intervals])


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
    if isinstance(aggregate, (Count, Sum, Moment)):
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
    spreads = [estimate_variance(attribute, *each) for each in zip(*noisy, strict=True)]
    assert isinstance(aggregate, (Variance, Deviation))
    if isinstance(aggregate, Deviation):
        spreads = [estimate_deviation(spread) for spread in spreads]
    return _Column(item.column, spreads, wanted=wanted)


def _build_partial_column(
    item: Item, schema: TableSchema, parts: Sequence[Part], found: Mapping[Part, ReleasedPart]
) -> _Column:
    """Build the count of an aggregate that could not be completed; it is shown because it was paid for."""
    count = parts[0]
    if count not in found or isinstance(item.aggregate, (Count, Sum, Moment, Quantile)):
        return _Column(item.column, [])
    name = f"rows_with_{schema.domain[item.aggregate.attribute].name}"
    return _Column(name, found[count].intervals, whole=found[count].are_whole)
