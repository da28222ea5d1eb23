"""Values computed from several aggregates, with the interval in which the true value lies if theirs hold."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from operator import eq, ge, gt, le, lt, ne

from siloquent.explore.estimate.functions import RISING, apply_rising
from siloquent.explore.spec.aggregates import Aggregate, Count, Sum
from siloquent.explore.spec.derived import AnyOf, Derived, Function, Kept, Measured, Number, Operation, OverGroups
from siloquent.schema import TableSchema

_COMPARISONS: dict[str, Callable[[Fraction, Fraction], bool]] = {
    "=": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Range:
    """A value and the ends of its interval; without a value it is NULL, without ends nothing bounds it."""

    value: Fraction | None
    low: Fraction | None = None
    high: Fraction | None = None

    @property
    def ends(self) -> tuple[Fraction, Fraction] | None:
        """The ends of the interval, if there is one."""
        return None if self.low is None or self.high is None else (self.low, self.high)


NULL = Range(None)


@dataclass(frozen=True, slots=True)
class Evaluator:
    """The evaluation of expressions over the ``aggregates`` of a query."""

    aggregates: Sequence[Aggregate]
    schema: TableSchema

    def evaluate(self, value: Derived, row: Sequence[Range]) -> Range:
        """Evaluate ``value`` for one row, whose aggregates are given in order."""
        if isinstance(value, Measured):
            return row[value.place]
        if isinstance(value, Number):
            number = Fraction(value.number)
            return Range(number, number, number)
        if isinstance(value, Operation):
            mean = self._evaluate_mean(value, row)
            if mean is not None:
                return mean
            return operate(value.op, self.evaluate(value.left, row), self.evaluate(value.right, row))
        assert not isinstance(value, OverGroups), "computed before"
        return _apply(value, [self.evaluate(argument, row) for argument in value.arguments])

    def compute_window(
        self, window: OverGroups, rows: Sequence[Sequence[Range]], passing: Sequence[int]
    ) -> list[Range]:
        """Compute a window over the ``passing`` rows for each row; NULL for the others. A rank has no interval."""
        values = {row: self.evaluate(window.value, rows[row]) for row in passing}
        known = [one for one in values.values() if one.value is not None]
        if window.name == "sum":
            ends = [one.ends for one in known]
            total = sum((one.value for one in known if one.value is not None), Fraction(0))
            low, high = (
                sum((one[side] for one in ends if one is not None), Fraction(0)) if None not in ends else None
                for side in (0, 1)
            )
            return [Range(total, low, high) if known else NULL for _ in rows]
        sign = -1 if window.descending else 1
        # NULL comes last; equal rows keep their order.
        order = sorted(values, key=lambda row: (values[row].value is None, sign * (values[row].value or Fraction(0))))
        found = [NULL] * len(rows)
        for place, row in enumerate(order):
            before = order[place - 1] if place else None
            is_equal = before is not None and values[before].value == values[row].value
            last = found[before].value if before is not None else Fraction(0)
            assert last is not None
            if window.name == "row_number" or not is_equal:
                step = last + 1 if window.name == "dense_rank" else Fraction(place + 1)
            else:
                step = last
            found[row] = Range(step)
        return found

    def passes(self, condition: Kept, row: Sequence[Range]) -> bool:
        """Return whether the values of one row pass ``condition``; NULL never does."""
        if isinstance(condition, AnyOf):
            return any(all(self.passes(one, row) for one in part) for part in condition.parts)
        left, right = (self.evaluate(side, row).value for side in (condition.left, condition.right))
        return left is not None and right is not None and _COMPARISONS[condition.op](left, right)

    def _evaluate_mean(self, value: Operation, row: Sequence[Range]) -> Range | None:
        """Evaluate SUM(a) / COUNT(a) of the same rows within the bounds of ``a``; None for other expressions.

        As for AVG, the declared bounds hold whatever the noise, even if the count may be 0.
        """
        if value.op != "/":
            return None
        factor, total = _split_factor(value.left)
        count = value.right
        if isinstance(count, Function) and count.name == "nullif" and count.arguments[1] == _ZERO:
            count = count.arguments[0]
        if not (isinstance(total, Measured) and isinstance(count, Measured)):
            return None
        if max(total.place, count.place) >= len(self.aggregates):  # of windows
            return None
        bounds = self._find_bounds(self.aggregates[total.place], self.aggregates[count.place])
        if bounds is None:
            return None
        lowest, highest = bounds
        rows, found = row[count.place], operate("/", row[total.place], row[count.place])
        if found.value is None or rows.value is None or rows.value <= 0:
            return NULL
        low, high = found.ends or (lowest, highest)
        # Both intervals hold the mean, so they meet, unless a released number exceeds its error bound.
        low, high = max(low, lowest), min(high, highest)
        if low > high:
            return operate("*", factor, Range(found.value, lowest, highest))
        return operate("*", factor, Range(min(max(found.value, low), high), low, high))

    def _find_bounds(self, total: Aggregate, count: Aggregate) -> tuple[Fraction, Fraction] | None:
        if not isinstance(total, Sum) or not isinstance(count, Count):
            return None
        attribute = self.schema.domain[total.attribute]
        lowest = Fraction(attribute.lo)  # type: ignore[arg-type]
        highest = lowest + (attribute.steps - 1) * Fraction(attribute.grid or 1)
        if total.test is None and count.counted == total.attribute:
            return lowest, highest
        if total.test != count.test:
            return None
        every = attribute.null == "value" and attribute.outside == "clamp"
        # Rows without a number count, and add nothing.
        return (lowest, highest) if every else (min(lowest, Fraction(0)), max(highest, Fraction(0)))


_ZERO = Number(Decimal(0))
_UNIT = Range(Fraction(1), Fraction(1), Fraction(1))


def _split_factor(value: Derived) -> tuple[Range, Derived]:
    """Split a constant factor off a product."""
    if isinstance(value, Operation) and value.op == "*":
        for one, other in ((value.left, value.right), (value.right, value.left)):
            if isinstance(one, Number):
                number = Fraction(one.number)
                return Range(number, number, number), other
    return _UNIT, value


def operate(op: str, left: Range, right: Range) -> Range:
    """Compute ``left op right``: the interval by its corners; for a quotient, if 0 is outside the divisor's.

    >>> quotient = operate("/", Range(Fraction(100), Fraction(90), Fraction(110)),
    ...                    Range(Fraction(10), Fraction(8), Fraction(12)))
    >>> [float(number) for number in (quotient.value, quotient.low, quotient.high)]
    [10.0, 7.5, 13.75]
    """
    if left.value is None or right.value is None or (op == "/" and not right.value):
        return NULL
    value = _calculate(op, left.value, right.value)
    ends, others = left.ends, right.ends
    if ends is None or others is None or (op == "/" and others[0] <= 0 <= others[1]):
        return Range(value)
    corners = [_calculate(op, one, other) for one in ends for other in others]
    return Range(value, min(corners), max(corners))


def _calculate(op: str, left: Fraction, right: Fraction) -> Fraction:
    if op == "+":
        return left + right
    if op == "-":
        return left - right
    return left * right if op == "*" else left / right


def _apply(function: Function, arguments: Sequence[Range]) -> Range:
    if function.name == "coalesce":
        return next((one for one in arguments if one.value is not None), NULL)
    first = arguments[0]
    if function.name == "nullif":
        return NULL if first.value is not None and first.value == arguments[1].value else first
    if function.name in ("greatest", "least"):
        return _choose(max if function.name == "greatest" else min, arguments)
    if first.value is None:
        return NULL
    if function.name == "abs":
        return _take_absolute(first)
    if function.name == "power":
        return _raise(first, int(arguments[1].value or 0))
    if function.name in RISING:
        found = RISING[function.name](first.value)
        ends = None if first.ends is None or found is None else apply_rising(function.name, *first.ends)
        return NULL if found is None else Range(found, *(ends or ()))
    rounding = _ROUNDINGS[function.name]

    def rounded(number: Fraction) -> Fraction:
        return rounding(number, function.decimals)

    # Rounding keeps the order of numbers, so the rounded ends hold the rounded true value.
    return Range(rounded(first.value), *(rounded(end) for end in first.ends or ()))


def _choose(choose: Callable[[Iterable[Fraction]], Fraction], arguments: Sequence[Range]) -> Range:
    """Return the largest or smallest value, as SQL does without those that are NULL."""
    known = [(one.value, one.ends) for one in arguments if one.value is not None]
    if not known:
        return NULL
    ends = [found for _, found in known if found is not None]
    value = choose(one for one, _ in known)
    if len(ends) < len(arguments):  # the true value of what is NULL here may be the one that SQL takes
        return Range(value)
    return Range(value, choose(low for low, _ in ends), choose(high for _, high in ends))


def _raise(one: Range, power: int) -> Range:
    assert one.value is not None
    base = _take_absolute(one) if power % 2 == 0 else one
    return Range(one.value**power, *(end**power for end in base.ends or ()))


def _take_absolute(one: Range) -> Range:
    assert one.value is not None
    if one.ends is None:
        return Range(abs(one.value))
    low, high = one.ends
    least = Fraction(0) if low <= 0 <= high else min(abs(low), abs(high))
    return Range(abs(one.value), least, max(abs(low), abs(high)))


def round_half_away(number: Fraction, decimals: int) -> Fraction:
    """Round to ``decimals`` places, halves away from zero, as SQL does."""
    scale = Fraction(10) ** decimals
    whole = math.floor(abs(number) * scale + Fraction(1, 2))
    return (whole if number >= 0 else -whole) / scale


_ROUNDINGS: Mapping[str, Callable[[Fraction, int], Fraction]] = {
    "round": round_half_away,
    "floor": lambda number, _: Fraction(math.floor(number)),
    "ceil": lambda number, _: Fraction(math.ceil(number)),
}
