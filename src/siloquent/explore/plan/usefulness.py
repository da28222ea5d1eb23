"""The largest values that aggregates can have by the declaration: an error as large says nothing."""

from __future__ import annotations

from fractions import Fraction

from siloquent.explore.plan.unit_rows import extend_schema
from siloquent.explore.spec import parse
from siloquent.explore.spec.aggregates import Aggregate, Average, Count, Deviation, Sum, Variance
from siloquent.explore.spec.name_resolution import resolve_names
from siloquent.explore.spec.query import Accuracy
from siloquent.schema import TableSchema


def is_useful(question: str, schema: TableSchema) -> bool:
    """Return whether each error that ``question`` asks for is smaller than what it measures can be."""
    asked = resolve_names(parse(question), schema)
    schema = extend_schema(asked, schema)
    if not isinstance(asked.promise, Accuracy):
        return True
    for aggregate, bound in zip(asked.bounded, asked.promise.bounds, strict=False):
        most = _find_largest(aggregate, schema)
        if most is not None and not bound.percent and Fraction(bound.error) >= most:
            return False
    return True


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
