"""The group sizes for which averages and variances keep their error, and the sums that wait for a count. No data.

Proofs: docs/explanation/averages.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

from siloquent.errors import RequestError
from siloquent.explore.plan.bounds import (
    Part,
    build_row_count,
    compute_half_range,
    compute_sample_error,
    compute_spread_error,
    list_parts,
)
from siloquent.explore.plan.planner import compute_error_bound
from siloquent.explore.spec.aggregates import Average, Count, Deviation, Moment, Variance
from siloquent.explore.spec.promises import Accuracy
from siloquent.explore.spec.query import EVERY_ROW, Query
from siloquent.schema import TableSchema
from siloquent.schema.table import list_tables_of

ROUGH = 10
"""The factor by which a declared size may be wrong before results contradict it."""
SURE = Fraction(9, 10)
"""The part of a declared size that an average of the whole table relies on: sizes are declared roughly."""


def get_error(query: Query, place: int, schema: TableSchema) -> Fraction:
    """Return the error of one of the query's aggregates, in rows or value units."""
    assert isinstance(query.promise, Accuracy)
    bound = query.promise.bounds[place]
    return compute_error_bound(Accuracy(bound.error, percent=bound.percent), schema)


def find_count(of: Moment | Average, schema: TableSchema) -> Count | Moment:
    """Find the count of the rows whose numbers ``of`` adds up."""
    return replace(build_row_count(schema.domain[of.attribute]), test=of.test)


def find_later(query: Query, schema: TableSchema) -> dict[Moment, Fraction]:
    """Find the sums that wait for a count, and the errors of their averages."""
    promise = query.promise
    if not isinstance(promise, Accuracy) or promise.at_least is not None or query.chooses_by_another:
        return {}
    asked = zip(query.bounded, promise.bounds, strict=True)
    return {
        Moment(schema.domain[one.attribute].name, 1, test=one.test): Fraction(bound.error)
        for one, bound in asked
        if isinstance(one, Average) and list_parts(one, schema)
    }


def find_promised_rows(query: Query, schema: TableSchema) -> Fraction | None:
    """Return the minimum group size for which averages and variances keep their error; None: not known yet.

    Raises:
        RequestError: neither the query nor the declaration gives a size.
    """
    promise = query.promise
    if not isinstance(promise, Accuracy):
        return None
    if promise.at_least is not None:
        if schema.size_hint is not None and promise.at_least > schema.size_hint * ROUGH:
            raise RequestError(
                f"No group has {promise.at_least:,} rows: {schema.name!r} has about {schema.size_hint:,} in total.",
                fix=f"FOR AT LEAST {max(schema.size_hint // 10, 1)} ROWS",
            )
        return Fraction(promise.at_least)
    averages = [one for one in query.aggregates if isinstance(one, Average)]
    if not averages:
        return None
    if query.having is not None and query.chooses_by_another:
        least = Fraction(query.having.threshold) - get_error(query, len(query.bounded) - 1, schema)
        # The rows of a group that pass another test may be fewer than those that HAVING counts.
        others = [one for one in averages if one.test not in (None, getattr(query.having.of, "test", None))]
        if not isinstance(query.having.of, Count) or least < 1 or others:
            raise RequestError(
                "AVG cannot derive a minimum group size from this HAVING.",
                fix="FOR AT LEAST 5000 ROWS, or HAVING COUNT(*) > 1000 with a smaller error",
            )
        return least
    if schema.size_hint is None:
        raise RequestError(
            "AVG needs a minimum group size; the table declares no size_hint.",
            fix="FOR AT LEAST 5000 ROWS, or size_hint = 10000 under [table]",
        )
    return None


def find_sure_rows(query: Query, schema: TableSchema) -> Fraction | None:
    """Return the rows that averages are surely about: most of the declared size, if all rows are averaged at once."""
    is_joined = query.join is not None or bool(query.publics) or len(list_tables_of(query.table)) > 1
    is_whole = query.workload == EVERY_ROW and query.where is None and not is_joined and schema.grouped is None
    if schema.size_hint is None or not is_whole or not find_later(query, schema):
        return None
    if any(isinstance(one, Average) and one.test is not None for one in query.aggregates):
        return None
    return max(schema.size_hint * SURE, Fraction(1))


def predict_error(
    aggregate: Average | Variance | Deviation, schema: TableSchema, errors: Mapping[Part, Fraction], rows: Fraction
) -> Fraction | None:
    """Return the largest error of ``aggregate`` in a group of ``rows`` rows; None if nothing may be known of it.

    Args:
        errors: The error of each part.
    """
    half = compute_half_range(schema.domain[aggregate.attribute])
    count, *others = (errors[part] for part in list_parts(aggregate, schema))
    least = rows - count
    if isinstance(aggregate, Average):
        return (others[0] + half * count) / least if least > 0 else None
    if least <= (1 if aggregate.sample else 0) or (aggregate.sample and least - count <= 1):
        return None
    compute = compute_sample_error if aggregate.sample else compute_spread_error
    variance = compute(half, least, (count, others[0], others[1]))
    return Fraction(float(variance) ** 0.5) if isinstance(aggregate, Deviation) else variance
