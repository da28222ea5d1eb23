"""The answer to a question from counted reports: its tables, groups and intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from siloquent.collect.estimate.linear import NOTHING, CountAndSum, CountedReports, ReportTables, Sets
from siloquent.collect.estimate.pairwise_model import estimate_modelled_count
from siloquent.collect.spec.answer import AggregateEstimate, CollectAnswer, describe_guarantee
from siloquent.collect.spec.collection import Collection
from siloquent.collect.spec.query import MAX_GROUPS, Aggregate, AggregateQuery, Box, Mask, ServiceColumn
from siloquent.errors import RequestError, TooFewReports
from siloquent.fixes import UseOption
from siloquent.maths.fieller import compute_fieller_interval
from siloquent.maths.local.row_layers import count_users

Z95 = 1.959963984540054


def find_channels(collection: Collection, query: AggregateQuery) -> tuple[int, ...]:
    """Return the channels whose reports a question needs, ascending.

    Raises:
        RequestError: one client reports joined rows, and the question concerns only some of the services.
    """
    found = tuple(sorted({collection.find_channel(name) for name in query.services}))
    for number in found:
        channel = collection.channels[number]
        left_out = [name for name in channel.services if name not in query.services]
        if left_out and channel.padded:
            raise RequestError(
                f"The clients of this collection report joined rows: rows of only {' and '.join(query.services)} are "
                "not known.",
                fix=f"JOIN {left_out[0]} USING (user)",
            )
    return found


def answer(collection: Collection, query: AggregateQuery, counted: CountedReports) -> CollectAnswer:
    """Return the answer to ``query`` from the reports in ``counted``.

    Raises:
        TooFewReports: fewer users than the collection's ``min_reports`` reported, or fell on the layers that cover
            the question; no number is given.
        RequestError: more than 10^4 groups, or a question that no layer or model answers.
    """
    users = sum(count_users(one) for one in counted.supports.values())
    _require_enough(collection, users)
    groups = [_list_groups(collection, column) for column in query.group_by]
    if math.prod(len(one) for one in groups) > MAX_GROUPS:
        raise RequestError(
            f"The query has too many groups: the limit is {MAX_GROUPS:,}.", fix="GROUP BY fewer attributes"
        )
    asker = _Asker(collection, query, counted)
    labels, rows = [], []
    for combination in product(*groups):
        masks = {column: mask for column, (_, mask) in zip(query.group_by, combination, strict=True)}
        labels.append(tuple(label for label, _ in combination))
        rows.append(tuple(asker.estimate(one, masks) for one in query.aggregates))
    return CollectAnswer(
        sql=query.sql,
        groups=tuple(column.name for column in query.group_by),
        aggregates=tuple(str(one) for one in query.aggregates),
        labels=tuple(labels),
        estimates=tuple(rows),
        users=users,
        guarantee=describe_guarantee(collection.spec),
        notes=tuple(asker.list_notes()),
    )


def _require_enough(collection: Collection, users: int) -> None:
    if users < collection.spec.min_reports:
        raise TooFewReports(
            f"{users:,} users reported the attributes of this query; this collection needs at least "
            f"{collection.spec.min_reports:,}.",
            fix="retry when more reports have arrived",
        )


def _list_groups(collection: Collection, column: ServiceColumn) -> list[tuple[Any, Mask]]:
    """Return the groups of a column, in declared order: bins of ordered values, cells of others."""
    role = collection.spec.get_service(column.service).get_role(column.name)
    attribute = role.attribute
    if role.use == "measure":
        raise RequestError(f"{column.name!r} can be summed, but not used in GROUP BY.", fix=UseOption("use", "both"))
    if not role.is_ordered or not role.sensitive:
        places = np.arange(attribute.size)
        return [(attribute.label(at), places == at) for at in range(attribute.size)]
    number = collection.find_channel(column.service)
    named = [(service.name, one.attribute.name) for service, one in collection.list_sensitive_attributes(number)]
    bins = collection.channels[number].trees[named.index((column.service, column.name))].map_to_bins()
    found = []
    for one in np.unique(bins):
        inside = np.flatnonzero(bins == one)
        first, last = attribute.label(int(inside[0])), attribute.label(int(inside[-1]))
        found.append((first if len(inside) == 1 else f"{first}..{last}", bins == one))
    return found


@dataclass(slots=True)
class _BoxParts:
    """The reports of users with certain public values, and the boxes that they may be in."""

    tables: ReportTables
    boxes: list[Box]


class _Asker:
    """The tables for one question, and the notes on its answer."""

    def __init__(self, collection: Collection, query: AggregateQuery, counted: CountedReports) -> None:
        self._collection, self._query, self._counted = collection, query, counted
        self._slots = math.prod(collection.channels[number].slots for number in counted.channels)
        self._tables: dict[frozenset[tuple[int, ...]], ReportTables] = counted.prepared
        self._modelled = self._unbounded = False
        self._enough: set[tuple[Sets, ...]] = set()
        public = [
            (at, number) for number in counted.channels for at in range(len(collection.list_public_attributes(number)))
        ]
        self._public = {ServiceColumn(*self._get_names(number, at)): place for place, (at, number) in enumerate(public)}

    def _get_names(self, channel: int, at: int) -> tuple[str, str]:
        service, role = self._collection.list_public_attributes(channel)[at]
        return service.name, role.attribute.name

    def estimate(self, aggregate: Aggregate, group: dict[ServiceColumn, Mask]) -> AggregateEstimate:
        """Return one number, for the rows of one group."""
        boxes = [box for box in (_restrict_box(box, group) for box in self._query.where) if box is not None]
        total, error, reports, modelled = NOTHING, 0.0, 0, False
        for part in self._split_boxes(boxes):
            part.tables.uneven = part.tables.unknown = False
            columns = {column for box in part.boxes for column in box.masks}
            sets = part.tables.find_covering([*columns, *([aggregate.measure] if aggregate.measure else [])])
            if sets:
                if tuple(sets) not in self._enough:
                    _require_enough(self._collection, part.tables.count_reported(sets))
                    self._enough.add(tuple(sets))
                total = total.combine(part.tables.compute_moments(part.boxes, aggregate.measure, sets))
            else:
                value, own, used = self._estimate_by_model(part, aggregate)
                total = total.combine(CountAndSum(value, 0.0, own**2, 0.0, 0.0, used))
                modelled = True
            modelled |= part.tables.uneven or part.tables.unknown
            self._modelled |= modelled
        reports = total.reports
        if aggregate.function == "AVG":
            return self._estimate_average(aggregate, total, reports, modelled)
        value, variance = (
            (total.count, total.variance_count)
            if aggregate.function == "COUNT"
            else (total.total, total.variance_total)
        )
        error = math.sqrt(max(variance, 0.0))
        return AggregateEstimate(value, error, value - Z95 * error, value + Z95 * error, reports, modelled)

    def _estimate_by_model(self, part: _BoxParts, aggregate: Aggregate) -> tuple[float, float, int]:
        if aggregate.function != "COUNT":
            raise RequestError(
                f"No layer measures {aggregate.measure} with all of these conditions; only counts are modelled.",
                fix='fewer conditions, or scope = "full" in the next design',
            )
        found = [estimate_modelled_count(part.tables, box) for box in part.boxes]
        # Boxes share reports, so their errors may add up.
        return sum(one.value for one in found), sum(one.error for one in found), max(one.reports for one in found)

    def _estimate_average(
        self, aggregate: Aggregate, total: CountAndSum, reports: int, modelled: bool
    ) -> AggregateEstimate:
        assert aggregate.measure is not None
        values = (
            self._collection.spec.get_service(aggregate.measure.service)
            .get_role(aggregate.measure.name)
            .attribute.list_points()
        )
        low, high = float(values[0]), float(values[-1])
        if total.count == 0:
            self._unbounded = True
            return AggregateEstimate((low + high) / 2, high - low, low, high, reports, modelled)
        ratio = total.total / total.count
        square = total.variance_total - 2 * ratio * total.covariance + ratio**2 * total.variance_count
        bounds = compute_fieller_interval(
            total.total,
            total.count,
            variance_top=total.variance_total,
            variance_bottom=total.variance_count,
            covariance=total.covariance,
            z=Z95,
        )
        error = math.sqrt(max(square, 0.0)) / abs(total.count)
        if bounds is None:
            self._unbounded = True
            bounds = (low, high)
        return AggregateEstimate(
            min(max(ratio, low), high), error, max(bounds[0], low), min(bounds[1], high), reports, modelled
        )

    def _split_boxes(self, boxes: Sequence[Box]) -> list[_BoxParts]:
        """Group users by the set of boxes that their public attributes permit."""
        by_boxes: dict[tuple[int, ...], set[tuple[int, ...]]] = {}
        for _, place in self._counted.supports:
            open_ = tuple(at for at, box in enumerate(boxes) if self._is_possible(box, place))
            by_boxes.setdefault(open_, set()).add(place)
        found = []
        for open_, places in by_boxes.items():
            if open_:
                key = frozenset(places)
                if key not in self._tables:
                    self._tables[key] = ReportTables(self._collection, self._counted, key, self._slots)
                found.append(_BoxParts(self._tables[key], [self._select_sensitive(boxes[at]) for at in open_]))
        return found

    def _is_possible(self, box: Box, place: tuple[int, ...]) -> bool:
        return all(mask[place[self._public[column]]] for column, mask in box.masks.items() if column in self._public)

    def _select_sensitive(self, box: Box) -> Box:
        return Box({column: mask for column, mask in box.masks.items() if column not in self._public}, box.sign)

    def list_notes(self) -> list[str]:
        """Return the notes on the answer for its reader."""
        found = []
        if self._slots > 1:
            most = max(self._collection.channels[number].slots for number in self._counted.channels)
            found.append(f"Of users with more than {most} rows, {most} rows count on average.")
        if self._modelled:
            found.append(
                "Some numbers rest on a model: an even slope through bins that a condition cuts, or maximum entropy "
                "over pairs of conditions; standard errors do not cover the model."
            )
        if self._unbounded:
            found.append("An average over so few rows may be anything: its interval is the attribute's range.")
        return found


def _restrict_box(box: Box, group: dict[ServiceColumn, Mask]) -> Box | None:
    masks = dict(box.masks)
    for column, mask in group.items():
        masks[column] = masks[column] & mask if column in masks else mask
        if not masks[column].any():
            return None
    return Box(masks, box.sign)
