"""Questions that differ only in their text: equal sets of declared values, other names, free choices. No data."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import Decimal, localcontext
from fractions import Fraction

from siloquent.errors import UnknownName
from siloquent.explore.spec.language.render_conditions import render_predicate
from siloquent.explore.spec.numbers import MAX_DIGITS
from siloquent.explore.spec.predicate import And, Column, Compare, CompareOp, Not, Or, Predicate, Value
from siloquent.explore.spec.query import Query
from siloquent.schema import Attribute, TableSchema

_DAY = 86_400
_OPPOSITE: dict[CompareOp, CompareOp] = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "=": "!=", "!=": "="}


def unify_question(query: Query, schema: TableSchema) -> Query:
    """Return the one of all questions with the same measurement as ``query`` that stands for them.

    ``age > 30`` and ``age >= 31`` are one question over whole numbers; names, order and free choices do not matter.
    """
    where = None if query.where is None else _unify(query.where, schema)
    bare = replace(query, where=where, presentation=None, default_share=None)
    return replace(bare, alias="", having=None, top=None) if query.shows_values else bare


def _unify(predicate: Predicate, schema: TableSchema) -> Predicate:
    if isinstance(predicate, Not):
        part = _unify(predicate.part, schema)
        if isinstance(part, Not):
            return part.part
        # A comparison with NULL is UNKNOWN, and so is its opposite.
        return _unify(replace(part, op=_OPPOSITE[part.op]), schema) if isinstance(part, Compare) else Not(part)
    if isinstance(predicate, (And, Or)):
        kind = type(predicate)
        parts = [_unify(part, schema) for part in predicate.parts]
        flat = [one for part in parts for one in (part.parts if isinstance(part, kind) else (part,))]
        return kind(tuple(sorted(dict.fromkeys(flat), key=render_predicate)))
    return _unify_comparison(predicate, schema) if isinstance(predicate, Compare) else predicate


def _unify_comparison(test: Compare, schema: TableSchema) -> Compare:
    """Return ``test`` with >= or < and a declared value, if it separates two declared values."""
    if not isinstance(test.left, Column) or not isinstance(test.right, Value) or test.op not in ("<", "<=", ">", ">="):
        return test
    with suppress(UnknownName):
        edge = _find_edge(schema.domain[test.left.name], test.right.value, includes=test.op in (">=", "<"))
        if edge is not None:
            return Compare(test.left, ">=" if test.op in (">", ">=") else "<", Value(edge))
    return test


def _find_edge(attribute: Attribute, constant: object, *, includes: bool) -> Decimal | date | None:
    """Find the first declared value from ``constant`` on, or after it; None if that is not between two values."""
    if attribute.kind == "date" and type(constant) is date and isinstance(attribute.lo, datetime):
        first, last = attribute.lo.date(), attribute.lo.date() + timedelta(attribute.steps - 1)
        if attribute.grid != _DAY or not first <= constant < last:
            return None
        return constant if includes else constant + timedelta(1)
    if not isinstance(constant, (int, Decimal)) or isinstance(constant, bool) or not attribute.is_numeric:
        return None
    lowest, grid = attribute.lo, attribute.grid
    if not isinstance(lowest, (int, Decimal)) or grid is None:
        return None
    place = (Fraction(constant) - Fraction(lowest)) / Fraction(grid)
    index = math.ceil(place) if includes else math.floor(place) + 1
    if not 0 < index < attribute.steps:
        return None
    with localcontext(prec=4 * MAX_DIGITS):  # exact: declared numbers and constants have at most 60 digits
        return Decimal(lowest) + index * Decimal(grid)
