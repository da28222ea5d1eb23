"""Whether an answer would be of use, and how exact its averages will be, from the plan and the declaration. No data."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction

from siloquent.explore.plan.averages import find_count, find_promised_rows, find_sure_rows, predict_error
from siloquent.explore.plan.bounds import Part, compute_half_range, list_parts
from siloquent.explore.plan.planner import Plan
from siloquent.explore.plan.promise import name_rows
from siloquent.explore.plan.steps import QueryPlan
from siloquent.explore.spec.aggregates import Aggregate, Average, Count, Deviation, Ranks, Sum, Variance
from siloquent.explore.spec.numbers import format_number
from siloquent.explore.spec.promises import Accuracy
from siloquent.explore.spec.query import Query
from siloquent.privacy import format_digits
from siloquent.schema import TableSchema

USEFUL = 4
"""An error of use is at most this part of what an aggregate can be."""
_TENTH = 10
_NOTHING = 2
"""An error from this part on leaves the value as unknown as the declaration does."""
Spread = Average | Variance | Deviation


def is_useful(course: QueryPlan, *, part: int = USEFUL) -> bool:
    """Return whether each error of ``course`` is at most a ``part``-th of what it measures can be."""
    rows = _find_share(course)
    for aggregate in course.query.aggregates:
        most, error = _find_largest(aggregate, course.schema), _predict(aggregate, course, rows)
        if most is not None and (error is None or error * part > most):
            return False
    return True


def tells_something(course: QueryPlan) -> bool:
    """Return whether the intervals of ``course`` are narrower than what the declaration says without any data."""
    return is_useful(course, part=_NOTHING)


def _predict(aggregate: Aggregate, course: QueryPlan, rows: Fraction | None) -> Fraction | None:
    """Return the error of ``aggregate``, in a group of ``rows`` rows if it depends on that; None if it is unbounded."""
    promise, query = course.query.promise, course.query
    if isinstance(promise, Accuracy):
        bound = promise.bounds[query.bounded.index(aggregate)]
        size = course.schema.size_hint
        return Fraction(bound.error) * (Fraction(size or 0, 100) if bound.percent else 1)
    errors = _index_errors(course)
    parts = list_parts(aggregate, course.schema)
    if any(part not in errors for part in parts):
        return Fraction(0)
    if isinstance(aggregate, (Average, Variance, Deviation)):
        return Fraction(0) if rows is None else predict_error(aggregate, course.schema, errors, rows)
    return errors[parts[0]]


def _find_largest(aggregate: Aggregate, schema: TableSchema) -> Fraction | None:
    """Return the largest amount by which two values of ``aggregate`` can differ; None if the declaration bounds none.

    The number of rows is bounded by ``size_hint``, where it is declared.
    """
    rows = None if schema.size_hint is None else Fraction(schema.size_hint)
    if isinstance(aggregate, Count):
        return rows
    if not isinstance(aggregate, (Sum, Average, Variance, Deviation)):
        return None
    attribute = schema.domain[aggregate.attribute]
    if not attribute.is_numeric:
        return None
    lo, hi = Fraction(attribute.lo), Fraction(attribute.hi)  # type: ignore[arg-type]
    if isinstance(aggregate, Sum):
        return None if rows is None else rows * max(abs(lo), abs(hi))
    if isinstance(aggregate, Average):
        return hi - lo
    return ((hi - lo) / 2) ** 2 if isinstance(aggregate, Variance) else (hi - lo) / 2


def _find_share(course: QueryPlan) -> Fraction | None:
    """Return the rows of a group of average size, if the table declares its size."""
    size = course.schema.size_hint
    return None if size is None else Fraction(size, max(plan.compiled.answers for plan in course.first.plans))


def _index_errors(course: QueryPlan) -> Mapping[Part, Fraction]:
    found: dict[Part, Fraction] = {}
    for step in course.steps:
        for one in step.plans:
            for part in _list_asked(one):
                found.setdefault(part, one.alpha)
    return found


def _list_asked(plan: Plan) -> tuple[Part, ...]:
    return plan.asked.quantiles if isinstance(plan.asked, Ranks) else (plan.asked,)  # type: ignore[return-value]


def describe_sizes(course: QueryPlan) -> tuple[str, ...]:
    """Describe how exact averages, variances and deviations will be in groups of which size."""
    promise = course.query.promise
    if isinstance(promise, Accuracy):
        return () if promise.at_least is not None else tuple(_describe_kept(course, promise))
    return tuple(_describe_bought(course))


def _iter_spreads(query: Query) -> Iterator[tuple[str, Spread]]:
    for item in query.items:
        if isinstance(item.aggregate, (Average, Variance, Deviation)):
            yield item.column, item.aggregate


def _describe_kept(course: QueryPlan, promise: Accuracy) -> Iterator[str]:
    """Describe from which group size on averages keep their ERROR, where the query leaves that to the plan."""
    query, schema = course.query, course.schema
    rows = find_promised_rows(query, schema) if query.chooses_by_another else None
    sure = find_sure_rows(query, schema) if course.second is None else None
    counted, word = {one.asked: one for one in course.first.plans}, name_rows(query, schema)
    for name, aggregate in _iter_spreads(query):
        if not isinstance(aggregate, Average):
            continue
        error = promise.bounds[query.aggregates.index(aggregate)].error
        kept = f"{name}: ERROR {format_number(error)} holds"
        if sure is not None:
            yield (
                f"{kept} if {math.ceil(sure):,} {word} or more have a number (about {schema.size_hint:,} rows are "
                "declared); if fewer have one, the interval is wider"
            )
            continue
        least = rows
        if least is None:
            alpha = counted[find_count(aggregate, schema)].alpha
            least = 2 * compute_half_range(schema.domain[aggregate.attribute]) * alpha / Fraction(error) + alpha
        yield f"{kept} in groups of {math.ceil(least):,} {word} or more; smaller ones have wider intervals"


def _describe_bought(course: QueryPlan) -> Iterator[str]:
    """Describe the width that a BUDGET buys, for a group of average size; without a size, where it becomes useful."""
    query, schema = course.query, course.schema
    errors, rows, word = _index_errors(course), _find_share(course), name_rows(query, schema)
    for name, aggregate in _iter_spreads(query):
        most = _find_largest(aggregate, schema)
        if most is None or any(part not in errors for part in list_parts(aggregate, schema)):
            continue
        if rows is not None:
            off = predict_error(aggregate, schema, errors, rows)
            size = f"a group of {math.floor(rows):,} {word}"
            if off is not None and off * _NOTHING < most:
                yield f"{name}: at most {format_digits(off, 3)} off in {size}; smaller groups have wider intervals"
                continue
            yield f"{name}: too small a BUDGET for {size}: the interval would be all that the declaration allows"
        if (enough := _find_rows(aggregate, schema, errors, most / _TENTH)) is not None:
            yield f"{name}: at most {format_digits(most / _TENTH, 3)} off in groups of {enough:,} {word} or more"


def _find_rows(aggregate: Spread, schema: TableSchema, errors: Mapping[Part, Fraction], wanted: Fraction) -> int | None:
    """Return the power of two of rows, or three halves of one, from which on the error is at most ``wanted``."""
    for power in range(1, 41):
        for rows in (1 << power, 3 << (power - 1)):
            off = predict_error(aggregate, schema, errors, Fraction(rows))
            if off is not None and off <= wanted:
                return rows
    return None
