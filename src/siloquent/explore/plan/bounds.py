"""The simple numbers from which an aggregate is computed, and their required accuracy. No data, no prices.

Proofs: docs/explanation/averages.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

from siloquent.errors import RequestError
from siloquent.explore.plan.cells.predicates import compute_centre
from siloquent.explore.spec.aggregates import (
    Aggregate,
    Average,
    Count,
    Deviation,
    Distinct,
    Moment,
    Quantile,
    Sum,
    Variance,
)
from siloquent.schema import Attribute, TableSchema

Part = Count | Distinct | Sum | Moment | Quantile
"""A number that the planner prices separately."""
Bounds = Mapping[Part, Fraction | None]
"""The required error of each part, in rows or value units; None if a budget decides."""
SPREAD = (Fraction(1), Fraction(141, 100), Fraction(173, 100))
"""Shares of VAR's error for squares, sum and count: near the cheapest split for both accountants."""
_HALVINGS = 60


def compute_half_range(attribute: Attribute) -> Fraction:
    """Compute H: the maximum distance of a declared value from the centre, in the attribute's unit."""
    centre = compute_centre(attribute)
    return max(centre, attribute.steps - 1 - centre) * Fraction(attribute.grid or 1)


def build_row_count(attribute: Attribute) -> Count | Moment:
    """Build the count of the rows that have a number: all rows if the declaration excludes rows without one."""
    every = attribute.null == "value" and attribute.outside == "clamp"
    return Count() if every else Moment(attribute.name, 0)


def list_parts(aggregate: Aggregate, schema: TableSchema) -> tuple[Part, ...]:
    """List the simple numbers from which ``aggregate`` is computed, the count of rows first.

    Raises:
        RequestError: the attribute is not a number, or has only one value.
    """
    if isinstance(aggregate, Count) and aggregate.counted in schema.domain.names:
        attribute = schema.domain[aggregate.counted]
        if attribute.is_numeric:  # the number that averages need, too
            return (build_row_count(attribute),)
    if aggregate.test is None:
        return _list_parts_of_all(aggregate, schema)
    parts = _list_parts_of_all(replace(aggregate, test=None), schema)
    return tuple(replace(part, test=aggregate.test) for part in parts)


def _list_parts_of_all(aggregate: Aggregate, schema: TableSchema) -> tuple[Part, ...]:
    if isinstance(aggregate, (Count, Distinct, Quantile)):
        return (aggregate,)
    attribute = schema.domain[aggregate.attribute]
    name = attribute.name
    if not attribute.is_numeric:
        word = {Sum: "SUM", Average: "AVG", Variance: "VAR", Deviation: "STDDEV"}.get(type(aggregate), "It")
        subject = repr(name) if aggregate.computed is None else "its expression"
        raise RequestError(
            f"{word} takes a number; {subject} is of type {attribute.kind}.", fix="GROUP BY it and use COUNT(*)"
        )
    if isinstance(aggregate, (Sum, Moment)):
        return (aggregate,)
    if attribute.steps == 1:
        raise RequestError(f"{name!r} has only one declared value, so the answer is already known.", fix="COUNT(*)")
    most = 2 if isinstance(aggregate, Average) else 3
    return (build_row_count(attribute), Moment(name, 1), Moment(name, 2))[:most]


def compute_bounds(aggregate: Aggregate, error: Fraction | None, schema: TableSchema, rows: Fraction | None) -> Bounds:
    """Compute the required error of each part for an error of ``error``, for groups of at least ``rows`` rows."""
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
    return dict(zip(parts, _compute_spread_bounds(half, wanted, rows, sample=aggregate.sample), strict=True))


def _compute_spread_bounds(
    half: Fraction, wanted: Fraction, rows: Fraction, *, sample: bool
) -> tuple[Fraction, Fraction, Fraction]:
    """Compute errors of count, sum and squares that keep a variance within ``wanted``, for at least ``rows`` rows."""

    def errors(size: Fraction) -> tuple[Fraction, Fraction, Fraction]:
        squares, total, count = (size * share for share in SPREAD)
        return count / (3 * half**2), total / (2 * half), squares

    def keeps(size: Fraction) -> bool:
        count, total, squares = errors(size)
        if sample:
            reaches = rows - 2 * count > 1
            return reaches and compute_sample_error(half, rows - count, (count, total, squares)) <= wanted
        return rows > count and compute_spread_error(half, rows - count, (count, total, squares)) <= wanted

    low, high = Fraction(0), wanted * rows
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if keeps(middle) else (low, middle)
    return errors(low)


def compute_sample_error(half: Fraction, count: Fraction, errors: tuple[Fraction, Fraction, Fraction]) -> Fraction:
    """Compute the maximum error of a variance that divides by the rows less 1, if ``count`` rows were released.

    ``count`` less its error is above 1.
    """
    of_count = errors[0]
    larger = count / (count - 1) * compute_spread_error(half, count, errors)
    return larger + half**2 * of_count / ((count - 1) * (count - of_count - 1))


def compute_spread_error(half: Fraction, count: Fraction, errors: tuple[Fraction, Fraction, Fraction]) -> Fraction:
    """Compute a variance's maximum error if ``count`` > 0 rows were released, from the errors of its three parts."""
    of_count, of_sum, of_squares = errors
    mean = (of_sum + half * of_count) / count
    return (of_squares + half**2 * of_count) / count + mean * (2 * half + mean)
