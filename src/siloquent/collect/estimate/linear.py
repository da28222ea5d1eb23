"""Estimates from reports directly: tables of sets of attributes that some layers cover together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from siloquent.collect.plan.sets import compute_role_values
from siloquent.collect.spec.collection import Collection, LayerPlan
from siloquent.collect.spec.query import Box, ServiceColumn
from siloquent.collect.spec.role import AttributeRole
from siloquent.maths.local.consistency import CombinedLayers, Layer, LayerQuestion
from siloquent.maths.local.row_layers import Supports, count_users, merge_supports

Floats = NDArray[np.float64]
Sets = tuple[tuple[int, ...], ...]
ALIGNED = 1e-9


class CountedReports(Protocol):
    """The counts of reports: see ``measure.tally.Tally``."""

    @property
    def channels(self) -> tuple[int, ...]:
        """The channels, ascending."""
        ...

    @property
    def supports(self) -> Mapping[tuple[tuple[int, ...], tuple[int, ...]], Supports]:
        """Supports by layers and public values."""
        ...

    @property
    def prepared(self) -> dict[frozenset[tuple[int, ...]], Any]:
        """The tables made from the supports, by the public values of their users."""
        ...


@dataclass(frozen=True, slots=True)
class CountAndSum:
    """A count and a sum with their variances, and the number of reports they rest on."""

    count: float
    total: float
    variance_count: float
    variance_total: float
    covariance: float
    reports: int

    def combine(self, other: CountAndSum) -> CountAndSum:
        """Add the count and sum of other users."""
        mine = (self.count, self.total, self.variance_count, self.variance_total, self.covariance, self.reports)
        theirs = (other.count, other.total, other.variance_count, other.variance_total, other.covariance, other.reports)
        return CountAndSum(*(a + b for a, b in zip(mine, theirs, strict=True)))  # type: ignore[arg-type]


NOTHING = CountAndSum(0.0, 0.0, 0.0, 0.0, 0.0, 0)


@dataclass(slots=True)
class ReportTables:
    """The tables of some users' reports, each built on first use.

    Attributes:
        slots: The number of a user's rows that one report stands for.
        uneven, unknown: Whether an answer so far cut through bins, or needed information that no layer has.
    """

    collection: Collection
    counted: CountedReports
    publics: frozenset[tuple[int, ...]]
    slots: int
    uneven: bool = False
    unknown: bool = False
    _made: dict[Sets, CombinedLayers] = field(default_factory=dict)

    @property
    def users(self) -> int:
        """The number of users of these reports."""
        return sum(count_users(counts) for (_, place), counts in self.counted.supports.items() if place in self.publics)

    def count_reported(self, sets: Sequence[Sets]) -> int:
        """Return the number of users, of any public values, on layers of ``sets``."""
        return sum(
            count_users(counts)
            for (layers, _), counts in self.counted.supports.items()
            if self._find_sets(layers) in sets
        )

    def find_covering(self, columns: Sequence[ServiceColumn]) -> list[Sets]:
        """Return the combinations of sets, one per channel, that hold all of ``columns``."""
        wanted: list[set[int]] = [set() for _ in self.counted.channels]
        for column in columns:
            channel, place = self.locate_column(column)
            wanted[channel].add(place)
        options = [
            [one for one in self.collection.channels[number].sets if need <= set(one)]
            for number, need in zip(self.counted.channels, wanted, strict=True)
        ]
        known = {self._find_sets(layers) for layers, _ in self.counted.supports}
        return [one for one in product(*options) if one in known]

    def locate_column(self, column: ServiceColumn) -> tuple[int, int]:
        """Return the counted channel that reports ``column``, and the column's position there."""
        number = self.collection.find_channel(column.service)
        named = [
            ServiceColumn(service.name, role.attribute.name)
            for service, role in self.collection.list_sensitive_attributes(number)
        ]
        return self.counted.channels.index(number), named.index(column)

    def get_role(self, column: ServiceColumn) -> AttributeRole:
        """Return the declaration of ``column``."""
        return self.collection.spec.get_service(column.service).get_role(column.name)

    def compute_moments(self, boxes: Sequence[Box], measure: ServiceColumn | None, sets: Sequence[Sets]) -> CountAndSum:
        """Return the rows in ``boxes`` and the sum of ``measure`` over them, from the tables of all ``sets``."""
        found = [self._compute_moments(boxes, measure, one) for one in sets]
        if len(found) == 1:
            return found[0]
        by_count = _compute_weights([one.variance_count for one in found])
        by_total = _compute_weights([one.variance_total for one in found]) if measure else by_count
        if measure is not None:  # an average needs both from the same reports
            by_count = by_total
        return CountAndSum(
            sum(w * one.count for w, one in zip(by_count, found, strict=True)),
            sum(w * one.total for w, one in zip(by_total, found, strict=True)),
            sum(w * w * one.variance_count for w, one in zip(by_count, found, strict=True)),
            sum(w * w * one.variance_total for w, one in zip(by_total, found, strict=True)),
            sum(w * v * one.covariance for w, v, one in zip(by_count, by_total, found, strict=True)),
            sum(one.reports for one in found),
        )

    def _compute_moments(self, boxes: Sequence[Box], measure: ServiceColumn | None, sets: Sets) -> CountAndSum:
        table = self._build_table(sets)
        count = self._build_question(table, boxes, None, sets)
        sampled, scale = self.slots > 1, float(self.slots)
        variance = table.estimate_covariance(count, count, sampled=sampled) * scale**2
        if measure is None:
            return CountAndSum(table.estimate_value(count) * scale, 0.0, variance, 0.0, 0.0, table.reports)
        total = self._build_question(table, boxes, measure, sets)
        value = table.estimate_value(count) * scale
        # ``covariance`` includes only which users fell on a layer; rounding is drawn for each user in addition.
        rounding = 0.0 if sampled else max(value, 0.0) * _compute_rounding_variance(self.get_role(measure))
        return CountAndSum(
            value,
            table.estimate_value(total) * scale,
            variance,
            table.estimate_covariance(total, total, sampled=sampled) * scale**2 + rounding,
            table.estimate_covariance(count, total, sampled=sampled) * scale**2,
            table.reports,
        )

    def _build_question(
        self, table: CombinedLayers, boxes: Sequence[Box], measure: ServiceColumn | None, sets: Sets
    ) -> LayerQuestion:
        asked: LayerQuestion | None = None
        missing = table.list_unknown()
        for box in boxes:
            weights = list(self._list_weights(box, measure, sets))
            part = table.build_question(weights)
            asked = (
                LayerQuestion([box.sign * one for one in part.sums], box.sign * part.constant)
                if asked is None
                else (asked.add_scaled(part, box.sign))
            )
            if missing:
                details = [tree.split_details(one) for tree, one in zip(table.trees, weights, strict=True)]
                lost = [np.prod([np.abs(d[k]).max() for d, k in zip(details, one, strict=True)]) for one in missing]
                self.unknown |= max(lost) > ALIGNED
        assert asked is not None
        return asked

    def _list_weights(self, box: Box, measure: ServiceColumn | None, sets: Sets) -> Iterator[Floats]:
        """Return each tree's contribution to the rows in ``box``, or to the sum of ``measure`` over them."""
        for number, own in zip(self.counted.channels, sets, strict=True):
            attributes = self.collection.list_sensitive_attributes(number)
            for at in own:
                service, role = attributes[at]
                column, tree = (
                    ServiceColumn(service.name, role.attribute.name),
                    self.collection.channels[number].trees[at],
                )
                if role.points:
                    yield compute_role_values(role) if column == measure else np.ones(tree.bins)
                    continue
                mask = box.masks.get(column)
                if mask is None and column != measure:
                    yield np.ones(tree.bins)
                    continue
                inside = np.ones(role.attribute.size) if mask is None else mask.astype(float)
                covered = tree.gather_weights(inside)
                self.uneven |= bool(((covered > ALIGNED) & (covered < 1 - ALIGNED)).any())
                spread = tree.smooth_weights if role.is_ordered else tree.gather_weights
                yield spread(inside * compute_role_values(role) if column == measure else inside)

    def _build_table(self, sets: Sets) -> CombinedLayers:
        if sets not in self._made:
            merged: dict[tuple[int, ...], Supports] = {}
            for (layers, public), counts in self.counted.supports.items():
                if public in self.publics and self._find_sets(layers) == sets:
                    merged[layers] = merge_supports(merged[layers], counts) if layers in merged else counts
            self._made[sets] = CombinedLayers(
                [self._build_layer(key, counts) for key, counts in sorted(merged.items())], self.users
            )
        return self._made[sets]

    def _list_plans(self, layers: tuple[int, ...]) -> list[LayerPlan]:
        channels = [self.collection.channels[number] for number in self.counted.channels]
        return [channel.layers[layer] for channel, layer in zip(channels, layers, strict=True)]

    def _find_sets(self, layers: tuple[int, ...]) -> Sets:
        return tuple(plan.attributes for plan in self._list_plans(layers))

    def _build_layer(self, layers: tuple[int, ...], counts: Supports) -> Layer:
        plans = self._list_plans(layers)
        channels = [self.collection.channels[number] for number in self.counted.channels]
        return Layer(
            tuple(channel.get_block(plan) for channel, plan in zip(channels, plans, strict=True)),
            tuple(plan.levels for plan in plans),
            tuple(plan.oracle for plan in plans),
            counts,
        )


def _compute_rounding_variance(role: AttributeRole) -> float:
    """Return the variance of one value's rounding, for values uniform between two points; 0 without rounding."""
    points = compute_role_values(role) if role.points else np.zeros(2)
    return float(points[1] - points[0]) ** 2 / 6


def _compute_weights(variances: Sequence[float]) -> Floats:
    """Return weights with sum 1 that minimize the variance of a sum of independent estimates."""
    inverse = 1 / np.maximum(variances, 1e-300)
    found: Floats = inverse / inverse.sum()
    return found
