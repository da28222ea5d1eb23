"""Which simple numbers an aggregate is computed from, and how exact each must be. No data, no prices.

Proofs: docs/explanation/averages.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from siloquent.errors import RequestError
from siloquent.explore.plan.predicates import compute_centre
from siloquent.explore.spec.aggregates import Aggregate, Average, Count, Deviation, Moment, Quantile, Sum, Variance
from siloquent.schema import Attribute, TableSchema

Part = Count | Sum | Moment | Quantile
"""What the planner prices by itself."""
Bounds = Mapping[Part, Fraction | None]
"""How exact each part must be, in rows or value units; None where a budget decides."""
SPREAD = (Fraction(1), Fraction(141, 100), Fraction(173, 100))
"""Shares of VAR's error for squares, sum and count: near the cheapest split for both accountants."""
_HALVINGS = 60


def compute_half_range(attribute: Attribute) -> Fraction:
    """H: how far a declared value lies from the centre at most, in the attribute's unit."""
    centre = compute_centre(attribute)
    return max(centre, attribute.steps - 1 - centre) * Fraction(attribute.grid or 1)


def build_row_count(attribute: Attribute) -> Count | Moment:
    """What counts the rows that have a number: all of them where the declaration leaves none without."""
    every = attribute.null == "value" and attribute.outside == "clamp"
    return Count() if every else Moment(attribute.name, 0)


def list_parts(aggregate: Aggregate, schema: TableSchema) -> tuple[Part, ...]:
    """The simple numbers that ``aggregate`` is computed from, the count of rows first.

    Raises:
        RequestError: the attribute is no number, or has one value only.
    """
    if isinstance(aggregate, (Count, Quantile)):
        return (aggregate,)
    attribute = schema.domain[aggregate.attribute]
    name = attribute.name
    if not attribute.is_numeric:
        word = {Sum: "SUM", Average: "AVG", Variance: "VAR", Deviation: "STDDEV"}.get(type(aggregate), "It")
        raise RequestError(f"{word} takes a number; {name!r} is {attribute.kind}.", fix="GROUP BY it, and ask COUNT(*)")
    if isinstance(aggregate, (Sum, Moment)):
        return (aggregate,)
    if attribute.steps == 1:
        raise RequestError(f"{name!r} has one declared value, so there is nothing to ask.", fix="COUNT(*)")
    most = 2 if isinstance(aggregate, Average) else 3
    return (build_row_count(attribute), Moment(name, 1), Moment(name, 2))[:most]


def compute_bounds(aggregate: Aggregate, error: Fraction | None, schema: TableSchema, rows: Fraction | None) -> Bounds:
    """How exact each part of ``aggregate`` must be for an error of ``error``, for groups of ``rows`` rows or more."""
    parts = list_parts(aggregate, schema)
    if error is None:
        return dict.fromkeys(parts)
    if len(parts) == 1:
        return {parts[0]: error}
    assert rows is not None
    assert isinstance(aggregate, (Average, Variance, Deviation))
    half = compute_half_range(schema.domain[aggregate.attribute])
    if isinstance(aggregate, Average):
        total = error * rows / (1 + error / (2 * half))
        return dict(zip(parts, (total / (2 * half), total / 2), strict=True))
    # abs(sqrt(x) - sqrt(y)) <= sqrt(abs(x - y))
    wanted = error if isinstance(aggregate, Variance) else error**2
    return dict(zip(parts, _compute_spread_bounds(half, wanted, rows), strict=True))


def _compute_spread_bounds(half: Fraction, wanted: Fraction, rows: Fraction) -> tuple[Fraction, Fraction, Fraction]:
    """Errors of count, sum and squares with which a variance is ``wanted`` off at most, for ``rows`` rows or more."""

    def errors(size: Fraction) -> tuple[Fraction, Fraction, Fraction]:
        squares, total, count = (size * share for share in SPREAD)
        return count / (3 * half**2), total / (2 * half), squares

    def keeps(size: Fraction) -> bool:
        count, total, squares = errors(size)
        return rows > count and compute_spread_error(half, rows - count, (count, total, squares)) <= wanted

    low, high = Fraction(0), wanted * rows
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if keeps(middle) else (low, middle)
    return errors(low)


def compute_spread_error(half: Fraction, count: Fraction, errors: tuple[Fraction, Fraction, Fraction]) -> Fraction:
    """How far a variance may be off where ``count`` > 0 rows were released, from the errors of its three parts."""
    of_count, of_sum, of_squares = errors
    mean = (of_sum + half * of_count) / count
    return (of_squares + half**2 * of_count) / count + mean * (2 * half + mean)
