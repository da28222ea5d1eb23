"""Computed values from their operands': bounds by interval arithmetic, and the programs over cells."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from fractions import Fraction

from siloquent.errors import RequestError
from siloquent.explore.plan.computed.values import (
    EPOCH,
    LARGEST,
    PlannedValue,
    plan_number,
    plan_text,
    require_fits,
    rescale,
    unify,
)
from siloquent.explore.spec.predicate import Expression, Value
from siloquent.schema.attribute import MAX_FROM_ZERO, MAX_STEPS
from siloquent.schema.computed import NULL, Absolute, CellNode, Choose, Combine, Fixed, Round, Scale, share

DAY_SECONDS = 86_400

_MAX_PLACES = 6
"""The most decimal places of a quotient."""


class MayBeZero(RequestError):
    """A quotient whose divisor may be 0; ``divisor``: the expression, once it is known."""

    divisor: Expression | None = None


def plan_constant(value: Value) -> PlannedValue:
    """Plan a constant of a query."""
    constant = value.value
    if constant is None:
        return PlannedValue(Fixed(0, NULL), "null", is_nullable=True)
    if isinstance(constant, bool):
        return PlannedValue(Fixed(int(constant)), "truth", int(constant), int(constant))
    if isinstance(constant, (int, Decimal)):
        return plan_number(Fraction(constant))
    if isinstance(constant, str):
        return plan_text(constant)
    moment = constant if isinstance(constant, datetime) else datetime(constant.year, constant.month, constant.day)
    seconds = math.floor((moment - EPOCH).total_seconds())
    return PlannedValue(Fixed(seconds), "moment" if isinstance(constant, datetime) else "day", seconds, seconds)


def bound_value(
    op: str, left: PlannedValue, right: PlannedValue, step: Fraction, is_nullable: bool
) -> tuple[int, int, Fraction, bool]:
    """Bound a sum, difference, quotient or remainder of two numbers with the same step."""
    if op == "+":
        return left.low + right.low, left.high + right.high, step, is_nullable
    if op == "-":
        return left.low - right.high, left.high - right.low, step, is_nullable
    largest = max(abs(left.low), abs(left.high))
    may_divide_by_zero = right.low <= 0 <= right.high
    if op == "%":
        largest = min(largest, max(abs(right.low), abs(right.high)))
        low, high = (0 if left.low >= 0 else -largest), (0 if left.high <= 0 else largest)
        return low, high, step, is_nullable or may_divide_by_zero
    if may_divide_by_zero:
        return -largest, largest, Fraction(1), True
    corners = [abs(a) // abs(b) * _sign(a) * _sign(b) for a in (left.low, left.high) for b in (right.low, right.high)]
    return min(0, *corners) if left.low <= 0 <= left.high else min(corners), max(corners), Fraction(1), is_nullable


def subtract_days(left: PlannedValue, right: PlannedValue) -> PlannedValue:
    """Plan the number of days between two dates."""
    node = Round(Combine(left.node, "-", right.node), 1, DAY_SECONDS, "floor")
    low, high = (left.low - right.high) // DAY_SECONDS, (left.high - right.low) // DAY_SECONDS
    return PlannedValue(node, "number", low, high, is_nullable=left.is_nullable or right.is_nullable)


def _sign(value: int) -> int:
    return (value > 0) - (value < 0)


def plan_division(left: PlannedValue, right: PlannedValue, text: str) -> PlannedValue:
    """Plan a quotient by a constant: the same whole numbers, in other steps."""
    divisor = right.constant
    if not isinstance(divisor, Fraction):
        return _divide_rounded(left, right, text)
    if not divisor:
        raise RequestError(f"{text[:200]} divides by 0.", fix="divide by another number")
    if divisor > 0:
        return replace(left, step=left.step / divisor, constant=None)
    node = Scale(left.node, -1)
    return replace(left, node=node, low=-left.high, high=-left.low, step=left.step / -divisor, constant=None)


def _divide_rounded(left: PlannedValue, right: PlannedValue, text: str) -> PlannedValue:
    """Plan a quotient by a number that cannot be 0, rounded to at most six decimal places, halves away from 0.

    Raises:
        MayBeZero: the divisor may be 0. RequestError: no number of places fits.
    """
    if right.low <= 0 <= right.high:
        raise MayBeZero(
            f"{text[:200]} divides by a number that may be 0 by its declaration and the conditions.",
            fix="WHERE with a condition on the divisor that leaves 0 out",
        )
    if right.high < 0:
        left, right = _negate(left), _negate(right)
    for places in range(_MAX_PLACES, -1, -1):
        step = Fraction(1, 10**places)
        ratio = left.step / (right.step * step)
        up, down = 2 * ratio.numerator, 2 * ratio.denominator
        largest = up * max(abs(left.low), abs(left.high)) + down * right.high
        ends = [Fraction(a, b) * ratio for a in (left.low, left.high) for b in (right.low, right.high)]
        low, high = math.floor(min(ends) + Fraction(1, 2)) - 1, math.ceil(max(ends) - Fraction(1, 2)) + 1
        if largest < LARGEST and high - low < MAX_STEPS and max(abs(low), abs(high)) <= MAX_FROM_ZERO:
            above, below = share(left.node), share(right.node)
            half = Combine(Absolute(above, sign=True), "*", Scale(below, down // 2))
            node = Combine(Combine(Scale(above, up), "+", half), "//", Scale(below, down))
            low, high = max(low, math.floor(min(ends))), min(high, math.ceil(max(ends)))
            return PlannedValue(node, "number", low, high, step, is_nullable=left.is_nullable or right.is_nullable)
    require_fits(largest, largest, text)
    raise RequestError(f"{text[:200]} has too many values to be summed.", fix="declare a coarser grid")


def _negate(value: PlannedValue) -> PlannedValue:
    return replace(value, node=Scale(value.node, -1), low=-value.high, high=-value.low)


def choose_value(tests: Sequence[CellNode], values: Sequence[PlannedValue], text: str) -> PlannedValue:
    """Plan the value that belongs to the first test that holds, otherwise the last one."""
    found = unify(values, text)
    tested = tuple(tests)
    chosen = join_values(found, lambda nodes: Choose(tested, nodes))
    return replace(chosen, is_nullable=any(value.is_nullable for value in values))


def join_values(values: Sequence[PlannedValue], build: Callable[[tuple[CellNode, ...]], CellNode]) -> PlannedValue:
    """Join values of one kind by a node that returns one of them in each row."""
    node = build(tuple(value.node for value in values))
    low, high = min(value.low for value in values), max(value.high for value in values)
    is_nullable = all(value.is_nullable for value in values)
    return replace(values[0], node=node, low=low, high=high, is_nullable=is_nullable, constant=None)


def plan_rounded(inner: PlannedValue, text: str, how: str, step: Fraction = Fraction(1)) -> PlannedValue:
    """Plan a number rounded to a multiple of ``step``."""
    ratio = inner.step / step
    if ratio.denominator == 1:
        return rescale(inner, step, text)
    node = Round(inner.node, ratio.numerator, ratio.denominator, how)  # type: ignore[arg-type]
    require_fits(inner.low * ratio.numerator, inner.high * ratio.numerator, text)
    low, high = math.floor(inner.low * ratio), math.ceil(inner.high * ratio)
    return replace(inner, node=node, low=low, high=high, step=step, constant=None)


def plan_absolute(inner: PlannedValue, text: str) -> PlannedValue:
    """Plan the absolute value of a number."""
    low = 0 if inner.low <= 0 <= inner.high else min(abs(inner.low), abs(inner.high))
    high = max(abs(inner.low), abs(inner.high))
    return replace(inner, node=Absolute(inner.node), low=low, high=high, constant=None)


def plan_sign(inner: PlannedValue, text: str) -> PlannedValue:
    """Plan the sign of a number: -1, 0 or 1."""
    node = Absolute(inner.node, sign=True)
    return replace(inner, node=node, low=_sign(inner.low), high=_sign(inner.high), step=Fraction(1), constant=None)
