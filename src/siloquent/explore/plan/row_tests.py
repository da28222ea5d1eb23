"""Conditions on single rows, compiled for an engine: the cells of attributes that pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction

import numpy as np

from siloquent.errors import RequestError
from siloquent.explore.plan.cells.distinct import list_groups
from siloquent.explore.plan.cells.predicates import compile_workload
from siloquent.explore.spec.predicate import And, Column, Compare, Predicate
from siloquent.explore.spec.promises import Accuracy
from siloquent.explore.spec.query import EVERY_ROW, Query
from siloquent.schema import Attribute, Classes, ClassRuns, TableSchema
from siloquent.schema.domain import MAX_CELLS
from siloquent.schema.unit_rows import ComparedColumns, RowTest

ANY_ACCURACY = Accuracy(Decimal(1))
MAX_PIECES = 4_096
"""The most runs of cells of all conditions that an engine evaluates row by row."""


def compile_test(test: Predicate | None, schema: TableSchema, within: str) -> RowTest | None:
    """Compile a condition on single rows, which an engine evaluates.

    Args:
        within: The subquery that it stands in, for messages.
    Raises:
        UnknownName, RequestError: it does not fit the declaration, or is neither one of cells nor compares columns.
    """
    if test is None:
        return None
    parts = test.parts if isinstance(test, And) else (test,)
    pairs = [_compare_columns(part, schema) for part in parts]
    rest = tuple(part for part, pair in zip(parts, pairs, strict=True) if pair is None)
    asked = Query(schema.name, EVERY_ROW, ANY_ACCURACY, where=And(rest) if rest else None)
    compiled = compile_workload(asked, replace(schema, public=())).parts
    if any(part.block.computed for part in compiled):
        raise RequestError(
            f"Conditions within {within} compare attributes with constants, and joined by AND with one another.",
            fix="declare the expression as a derived attribute",
        )
    (part,) = compiled
    return RowTest(part.block, list_groups(part), tuple(filter(None, pairs)))


def _compare_columns(test: Predicate, schema: TableSchema) -> ComparedColumns | None:
    """Return a comparison of two attributes of very many values, if ``test`` is one."""
    if not (isinstance(test, Compare) and isinstance(test.left, Column) and isinstance(test.right, Column)):
        return None
    left, right = schema.domain[test.left.name], schema.domain[test.right.name]
    offset = count_steps_between(left, right)
    if left is right or offset is None or left.size * right.size <= MAX_CELLS:
        return None
    return ComparedColumns(left.name, test.op, right.name, offset)


def count_steps_between(left: Attribute, right: Attribute) -> int | None:
    """Count the steps from the first value of ``right`` to that of ``left``; None if these are on other grids."""
    if not (left.grid == right.grid and left.is_countable and right.is_countable):
        return None
    if isinstance(left.lo, datetime) and isinstance(right.lo, datetime) and left.kind == right.kind:
        steps = Fraction((left.lo - right.lo) // timedelta(seconds=1)) / int(left.grid or 1)
    elif left.is_numeric and right.is_numeric:
        steps = (Fraction(left.lo) - Fraction(right.lo)) / Fraction(left.grid or 1)  # type: ignore[arg-type]
    else:
        return None
    return int(steps) if steps.denominator == 1 else None


def require_few_pieces(tests: Sequence[RowTest | None]) -> None:
    """Refuse conditions that would make the query too long, all of the subquery's together."""
    maps = [one for test in tests if test is not None for one in (*test.block.classes, test.groups)]
    if sum(map(_count_pieces, maps)) > MAX_PIECES:
        raise RequestError(
            "The conditions within the query's subqueries select too many separate ranges of values.",
            fix="compare with fewer values",
        )


def _count_pieces(classes: Classes) -> int:
    if isinstance(classes, ClassRuns):
        return len(classes.starts)
    return int(np.count_nonzero(np.diff(classes))) + 1
