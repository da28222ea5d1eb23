"""Bisection of where an expression of a very wide attribute changes, without evaluating each value.

Expressions are split into stretches of cells in which they rise, fall or stay constant: if the two ends of a stretch
agree, all cells between them do. Time and memory are proportional to the number of changes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from siloquent.errors import RequestError
from siloquent.explore.plan.cells.predicate_evaluation import evaluate_atom, evaluate_expression
from siloquent.explore.plan.limits import passes
from siloquent.explore.spec.language.render_conditions import render_expression, render_name
from siloquent.explore.spec.predicate import (
    Arithmetic,
    Call,
    Column,
    Compare,
    Expression,
    InList,
    IsNull,
    Like,
    Value,
)
from siloquent.explore.spec.rewriting.normal_form import find_attribute
from siloquent.schema import Attribute

Integers = NDArray[np.int64]
Test = Compare | InList | Like | IsNull
Coded = Callable[[Integers], NDArray[Any]]

MAX_CUTS = 200_000
"""The maximum number of changes of one expression, and of stretches in which it rises or falls."""
HALVING = 100_000
"""The cost of bisection for one test, relative to evaluating one value."""
_RISING = ("round", "floor", "ceil", "sign", "year", "date_trunc", "date_add")
_WITHIN = {"quarter": "Y", "month": "Y", "day": "M", "hour": "D", "minute": "h", "dayofweek": "W"}
"""The period within which each part of a date rises."""


@dataclass(frozen=True, slots=True, eq=False)
class _Stretches:
    """Stretches of cells, by first cell, and the expression's direction in each: 1 up, -1 down, 0 constant."""

    starts: Integers
    directions: Integers

    def split_at(self, starts: Integers) -> _Stretches:
        """Return the same stretches, also split at ``starts``."""
        every = np.unique(np.concatenate([self.starts, starts]))
        return _Stretches(every, self.directions[np.searchsorted(self.starts, every, side="right") - 1])


def find_run_starts(expression: Expression, attribute: Attribute) -> Integers:
    """Find the first cell of every run of equal values of ``expression`` among the values of ``attribute``.

    Raises:
        RequestError: it changes too often, or at unknown cells.
    """

    def values(places: Integers) -> NDArray[Any]:
        found = evaluate_expression(expression, attribute, places)
        return np.where(found.known, np.unique(found.data, return_inverse=True)[1].reshape(-1), -1)

    return _find_changes(
        values, _require_starts(_find_stretches(expression, attribute), expression, attribute), expression, attribute
    )


def find_truth_starts(test: Test, attribute: Attribute) -> Integers:
    """Find the first cells of runs with constant results of ``test``, among the declared values of ``attribute``.

    Raises:
        RequestError: as for ``find_run_starts``.
    """
    if isinstance(test, InList):
        each = [find_truth_starts(Compare(test.expression, "=", Value(value)), attribute) for value in test.values]
        return np.unique(np.concatenate(each))
    if not isinstance(test, Compare):
        stretches = _require_starts(_find_stretches(test.expression, attribute), test.expression, attribute)
        return _find_changes(
            lambda places: evaluate_atom(test, attribute, places), stretches, test.expression, attribute
        )
    below, above = replace(test, op="<"), replace(test, op=">")

    def side(places: Integers) -> NDArray[Any]:
        return evaluate_atom(below, attribute, places) - evaluate_atom(above, attribute, places)

    left, right = _find_stretches(test.left, attribute), _find_stretches(test.right, attribute)
    own = test.right if find_attribute(test.left) is None else test.left
    stretches = _require_starts(_join_stretches(left, right, flip=True), own, attribute)
    return _find_changes(side, stretches, own, attribute)


def _require_starts(stretches: _Stretches | None, expression: Expression, attribute: Attribute) -> Integers:
    if stretches is None:
        raise _build_refusal(expression, attribute, "cannot be distinguished without checking each one")
    return stretches.starts


def _build_refusal(expression: Expression, attribute: Attribute, why: str) -> RequestError:
    name = render_name(attribute.name)
    middle = attribute.label(attribute.steps // 2)
    constant = f"{middle:.15g}" if isinstance(middle, (int, float)) else f"'{middle}'"
    shown = render_expression(expression)
    return RequestError(
        f"Attribute {attribute.name!r} has {attribute.steps:,} values, and those of {shown} {why}.",
        fix=f"compare {attribute.name} directly, as in {name} > {constant}, or declare a coarser grid",
    )


def _find_changes(coded: Coded, stretches: Integers, expression: Expression, attribute: Attribute) -> Integers:
    """Find the cells at which ``coded`` changes, and cell 0; within each stretch it is monotone.

    Codes are compared only within one call, so that they may have another meaning in the next.
    """
    points = np.unique(np.concatenate([stretches, np.append(stretches[1:], attribute.steps) - 1]))
    while True:
        codes = coded(points)
        changed = codes[1:] != codes[:-1]
        if passes(int(np.count_nonzero(changed)), MAX_CUTS):
            raise _build_refusal(expression, attribute, f"change at more than {MAX_CUTS:,} places")
        gaps = np.flatnonzero(changed & (np.diff(points) > 1))
        if not len(gaps):
            return np.append(0, points[1:][changed])
        needed = np.ones(len(points), dtype=bool)
        needed[1:-1] = changed[1:] | changed[:-1]
        points = np.unique(np.concatenate([points[needed], (points[gaps] + points[gaps + 1]) // 2]))


def _find_stretches(expression: Expression, attribute: Attribute) -> _Stretches | None:
    """Find where ``expression`` rises and falls; None if unknown."""
    if isinstance(expression, Column):
        return _Stretches(np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.int64))
    if isinstance(expression, Value):
        return _Stretches(np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64))
    if isinstance(expression, Call):
        return _find_call_stretches(expression, attribute)
    return _find_arithmetic_stretches(expression, attribute) if isinstance(expression, Arithmetic) else None


def _find_call_stretches(call: Call, attribute: Attribute) -> _Stretches | None:
    inner = _find_stretches(call.argument, attribute)
    if inner is None or call.function in _RISING:
        return inner
    evaluate_expression(call, attribute, inner.starts)  # refused if the types do not fit
    if call.function == "abs":
        return _fold_stretches(call.argument, inner, attribute)
    if call.function not in _WITHIN:
        return None
    unit = f"datetime64[{_WITHIN[call.function]}]"
    if call.function == "dayofweek":  # numpy's weeks begin on Thursdays, ours on Sundays

        def within(places: Integers) -> NDArray[Any]:
            days = evaluate_expression(call.argument, attribute, places).data.astype("datetime64[D]").astype(np.int64)
            return (days + 4) // 7
    else:

        def within(places: Integers) -> NDArray[Any]:
            return evaluate_expression(call.argument, attribute, places).data.astype(unit).astype(np.int64)

    return inner.split_at(_find_changes(within, inner.starts, call.argument, attribute))


def _fold_stretches(argument: Expression, inner: _Stretches, attribute: Attribute) -> _Stretches:
    """Return the stretches of the absolute value of ``argument``, whose direction reverses at a change of sign."""

    def negative(places: Integers) -> NDArray[Any]:
        return evaluate_expression(argument, attribute, places).data < 0

    parted = inner.split_at(_find_changes(negative, inner.starts, argument, attribute))
    return _Stretches(parted.starts, parted.directions * np.where(negative(parted.starts), -1, 1))


def _find_arithmetic_stretches(expression: Arithmetic, attribute: Attribute) -> _Stretches | None:
    left, right = (_find_stretches(side, attribute) for side in (expression.left, expression.right))
    if expression.op in ("+", "-"):
        return _join_stretches(left, right, flip=expression.op == "-")
    if expression.op == "*" and find_attribute(expression.left) is None:
        return _scale_stretches(right, expression.left, attribute)
    if left is None or find_attribute(expression.right) is not None:
        return None
    scaled = _scale_stretches(left, expression.right, attribute)
    if expression.op != "%" or scaled is None or not scaled.directions.any():
        return scaled
    # The remainder has the direction of the left side while the quotient stays the same.
    times = replace(expression, op="//")
    return left.split_at(
        _find_changes(lambda places: evaluate_expression(times, attribute, places).data, left.starts, times, attribute)
    )


def _scale_stretches(stretches: _Stretches | None, factor: Expression, attribute: Attribute) -> _Stretches | None:
    """Return the stretches of an expression multiplied or divided by a constant."""
    fixed = evaluate_expression(factor, attribute, np.zeros(1, dtype=np.int64)).fixed
    if stretches is None or fixed is None:
        return None
    return _Stretches(stretches.starts, stretches.directions * ((fixed > 0) - (fixed < 0)))


def _join_stretches(left: _Stretches | None, right: _Stretches | None, *, flip: bool) -> _Stretches | None:
    """Return the stretches of a sum or difference; None if one side rises while the other falls."""
    if left is None or right is None:
        return None
    one, two = left.split_at(right.starts), right.split_at(left.starts)
    other = -two.directions if flip else two.directions
    if (one.directions * other < 0).any():
        return None
    return _Stretches(one.starts, np.sign(one.directions + other))
