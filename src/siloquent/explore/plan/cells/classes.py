"""Classes of an attribute's cells that a query treats alike, refined test by test over runs of equal result.

A test of an ordered attribute against a constant has two or three runs, found from the declaration without evaluating
each value: thousands of ranges over a million values take no more memory than the ranges.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from siloquent.errors import RequestError
from siloquent.explore.plan.cells.cuts import HALVING, find_truth_starts
from siloquent.explore.plan.cells.predicate_evaluation import FALSE, TRUE, UNKNOWN, evaluate_atom
from siloquent.explore.plan.limits import passes
from siloquent.explore.spec.predicate import Call, Column, Compare, Constant, Expression, InList, IsNull, Like, Value
from siloquent.explore.spec.rewriting.normal_form import FLIPPED, find_attribute
from siloquent.schema import Attribute, Classes, ClassRuns
from siloquent.schema.attribute import MAX_POINTS

Integers = NDArray[np.int64]
Test = Compare | InList | Like | IsNull
Cuts = tuple[list[tuple[int, int]], bool]
"""Ranges of cells, and whether a test is true outside of them."""

MAX_VALUES = 3 * 10**7
"""The maximum number of values at which tests are evaluated individually, over all tests of a query."""
MAX_RUNS = 10**7
MAX_REFINED = 2 * 10**9
"""The maximum number of runs times the tests that separate them."""
MAX_ID = 2**62
_TEXT = 20  # the time of a text test, in tests of a number
_ACROSS = 7  # and that of a test that compares two attributes, whose values are sorted and ranked among one another


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """A vector over cells and OUTSIDE: ``values[i]`` from cell ``starts[i]`` on; the first start is 0."""

    starts: NDArray[np.signedinteger[Any]]
    values: NDArray[Any]

    @classmethod
    def from_vector(cls, vector: NDArray[Any]) -> Runs:
        """Return the runs of a vector, shape (size + 1,)."""
        starts = np.append(0, np.flatnonzero(vector[1:] != vector[:-1]) + 1).astype(np.int32)
        return cls(starts, np.ascontiguousarray(vector[starts]))

    def refine_to(self, starts: NDArray[np.signedinteger[Any]]) -> NDArray[Any]:
        """Return the values of finer runs that begin at ``starts``, or of some cells in ascending order."""
        places = np.append(np.searchsorted(starts, self.starts), len(starts))
        return np.repeat(self.values, np.diff(places))

    def get_values(self, cells: Integers) -> NDArray[Any]:
        """Return the values of some cells."""
        return self.values[np.searchsorted(self.starts, cells, side="right") - 1]


def build_runs(test: Test, attribute: Attribute) -> Runs:
    """Build the result of a test of only ``attribute``, for each cell.

    Raises:
        RequestError, UnknownName: as for ``evaluate_atom``.
    """
    return build_runs_from(_find_cuts(test, attribute), test, attribute)


def build_runs_from(cuts: Cuts | None, test: Test, attribute: Attribute) -> Runs:
    """Build as ``build_runs``, from what ``check_work`` found for the test."""
    if cuts is not None:
        return _build_between(cuts, attribute)
    if not attribute.is_wide:
        return Runs.from_vector(evaluate_atom(test, attribute))
    starts = np.append(find_truth_starts(test, attribute), np.arange(attribute.steps, attribute.size + 1))
    return Runs(starts, evaluate_atom(test, attribute, starts))


def count_work(test: Test, attribute: Attribute) -> int:
    """Return at how many values ``test`` must be evaluated individually."""
    return _count_evaluated(_find_cuts(test, attribute), test, attribute)


def _count_evaluated(cuts: Cuts | None, test: Test, attribute: Attribute) -> int:
    if not attribute.is_countable or cuts is not None:
        return 0
    names = {find_attribute(side) for side in _list_sides(test) if not isinstance(side, Value)}
    if isinstance(test, Compare) and len(names - {None}) > 1:
        return _ACROSS * attribute.size
    slow = isinstance(test, Like) or any(isinstance(side, Call) for side in _list_sides(test))
    tests = len(test.values) if isinstance(test, InList) else 1
    if attribute.is_wide:
        return tests * HALVING
    return tests * attribute.size * (_TEXT if slow and attribute.kind == "category" else 1)


def check_work(tests: Sequence[tuple[Test, Attribute]]) -> list[Cuts | None]:
    """Refuse tests that would take too long, before any is evaluated.

    Returns:
        Of each test the ranges of cells where it is true; None if it must be evaluated.
    Raises:
        RequestError: there are too many tests for attributes of this size.
    """
    found = [_find_cuts(test, attribute) for test, attribute in tests]
    work = sum(_count_evaluated(cuts, *test) for cuts, test in zip(found, tests, strict=True))
    if not passes(work, MAX_VALUES):
        return found
    widest = max((attribute for _, attribute in tests), key=lambda attribute: attribute.size)
    raise RequestError(
        f"The query has {len(tests):,} conditions, on attributes of up to {widest.size:,} values, which is too "
        "many to plan.",
        fix=f"compare {widest.name} directly with constants, use fewer conditions, or declare a coarser grid",
    )


def build_classes(parts: Sequence[Runs], size: int) -> tuple[Classes, Integers]:
    """Return the class of each cell, numbered by first appearance, shape (size + 1,), and each class's first cell.

    As runs if there are more cells than an attribute of 10^6 values has.

    Raises:
        RequestError: too many runs to refine.
    """
    total = sum(len(part.starts) for part in parts)
    starts: NDArray[np.signedinteger[Any]] = np.zeros(1, dtype=np.int32)
    if not passes(total, MAX_RUNS):
        starts = np.unique(np.concatenate([starts, *(part.starts for part in parts)]))
    if passes(total, MAX_RUNS) or passes(len(starts) * len(parts), MAX_REFINED):
        raise RequestError(
            f"{len(parts):,} conditions on one attribute split its {size:,} values in too many ways to plan.",
            fix="use fewer conditions, or declare a coarser grid",
        )
    _, first, found = np.unique(_refine(parts, starts), return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first, kind="stable")] = np.arange(len(first))
    classes, firsts = rank[found.reshape(-1)], np.sort(starts[first]).astype(np.int64)
    if size > MAX_POINTS + 2:  # with the cells for other values and NULL
        return ClassRuns(starts.astype(np.int64), classes, size + 1), firsts
    return np.repeat(classes, np.diff(np.append(starts, size + 1))), firsts


def _refine(parts: Sequence[Runs], starts: NDArray[np.signedinteger[Any]]) -> Integers:
    """Return a number for each run from ``starts``: the same where all parts have the same values."""
    ids, most = np.zeros(len(starts), dtype=np.int64), 1
    for part in parts:
        low = int(part.values.min())
        span = int(part.values.max()) - low + 1
        if span == 1:
            continue
        if most * span > MAX_ID:  # numbered without gaps once they would not fit, some 39 tests at a time
            ids = np.asarray(np.unique(ids, return_inverse=True)[1], dtype=np.int64).reshape(-1)
            most = int(ids.max()) + 1
        ids *= span
        ids += part.refine_to(starts) - low
        most *= span
    return ids


def _list_sides(test: Test) -> tuple[Expression, ...]:
    return (test.left, test.right) if isinstance(test, Compare) else (test.expression,)


def _build_between(cuts: Cuts, attribute: Attribute) -> Runs:
    """Build TRUE in the given ranges of cells, FALSE elsewhere (swapped if negated), UNKNOWN beyond the values."""
    ranges, negated = cuts
    outside, inside = (TRUE, FALSE) if negated else (FALSE, TRUE)
    starts, values = [0], [outside]

    def begin(cell: int, value: np.int8) -> None:
        if starts[-1] == cell:
            values[-1] = value
        elif values[-1] != value:
            starts.append(cell)
            values.append(value)

    for low, high in ranges:
        if low < high:
            begin(low, inside)
            begin(high, outside)
    listed = attribute.kind == "category" and attribute.other == "cell"
    if listed:
        begin(attribute.steps, outside)
    begin(attribute.steps + listed, UNKNOWN)
    return Runs(np.array(starts, dtype=np.int64 if attribute.is_wide else np.int32), np.array(values, dtype=np.int8))


def _find_cuts(test: Test, attribute: Attribute) -> Cuts | None:
    """Find the ranges of cells where a comparison with constants is true, and whether to negate them.

    None if each value must be evaluated, or if the test is to be refused.
    """
    if isinstance(test, InList) and isinstance(test.expression, Column):
        found = [_cut(value, "=", attribute) for value in test.values]
        ranges = [one for one in found if one is not None]
        return (sorted(set(ranges)), False) if len(ranges) == len(found) else None
    if not isinstance(test, Compare):
        return None
    left, right, op = test.left, test.right, test.op
    if isinstance(left, Value):
        left, right, op = right, left, FLIPPED[op]
    if not isinstance(left, Column) or not isinstance(right, Value):
        return None
    cut = _cut(right.value, "=" if op == "!=" else op, attribute)
    return None if cut is None else ([cut], op == "!=")


def _cut(value: Constant, op: str, attribute: Attribute) -> tuple[int, int] | None:
    if attribute.kind == "category":
        if op != "=" or not isinstance(value, str):
            return None
        cell = _find_index(value, attribute)
        return None if cell is None else (cell, cell + 1)
    place = _find_exact_index(value, attribute)
    if place is None:
        return None
    steps = attribute.steps
    below = min(max(math.ceil(place), 0), steps)
    upto = min(max(math.floor(place) + 1, 0), steps)
    return {
        "<": (0, below),
        "<=": (0, upto),
        ">": (upto, steps),
        ">=": (below, steps),
        "=": (below, upto),
    }[op]


def _find_index(value: str, attribute: Attribute) -> int | None:
    place = attribute.index(value)
    return place if 0 <= place < attribute.steps and attribute.values[place] == value else None


def _find_exact_index(value: Constant, attribute: Attribute) -> Fraction | None:
    """Find a constant's index among the declared values, in grid steps from the first; None for another kind."""
    grid = Fraction(attribute.grid or 1)
    if attribute.is_numeric and isinstance(value, (int, Decimal)) and not isinstance(value, bool):
        return (Fraction(value) - Fraction(attribute.lo)) / grid  # type: ignore[arg-type]
    if not attribute.is_temporal or not isinstance(value, date):
        return None
    moment = value if isinstance(value, datetime) else datetime.combine(value, time())
    if moment.tzinfo is not None or moment.microsecond:
        return None
    assert isinstance(attribute.lo, datetime)
    since = moment - attribute.lo
    return Fraction(since.days * 86_400 + since.seconds) / grid
