"""Averages, variances and deviations with intervals, from noisy counts, sums and squares around the centre.

All of it is exact arithmetic on released values. Proofs: docs/explanation/averages.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from siloquent.explore.plan.bounds import compute_half_range, compute_sample_error, compute_spread_error
from siloquent.explore.plan.cells.predicates import compute_centre
from siloquent.schema import Attribute

_ROOT_DIGITS = 10**15


@dataclass(frozen=True, slots=True)
class NoisyValue:
    """A released number with an error of at most ``error``."""

    value: Fraction
    error: Fraction

    @property
    def low(self) -> Fraction:
        return self.value - self.error

    @property
    def high(self) -> Fraction:
        return self.value + self.error


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate, and an interval that holds the true value if no released number exceeds its error bound.

    ``is_known``: whether there is an estimate at all; without one ``value`` is the middle of the interval.
    """

    value: Fraction
    low: Fraction
    high: Fraction
    is_known: bool = True

    @property
    def error(self) -> Fraction:
        """The maximum distance of the true value from the estimate."""
        return max(self.high - self.value, self.value - self.low)


def estimate_average(attribute: Attribute, count: NoisyValue, total: NoisyValue) -> Interval:
    """Estimate the mean of the rows with a number: abs(S/C - mean) <= (s + H c)/C, clipped to the declared bounds.

    ``total`` is the sum of distances from the centre. If the noisy count is 0 or less, nothing is estimated, and
    the interval is the whole domain.
    """
    lowest = Fraction(attribute.lo)  # type: ignore[arg-type]
    grid = Fraction(attribute.grid or 1)
    highest = lowest + (attribute.steps - 1) * grid
    if count.value <= 0:
        return Interval((lowest + highest) / 2, lowest, highest, is_known=False)
    middle = lowest + compute_centre(attribute) * grid + total.value / count.value
    off = (total.error + compute_half_range(attribute) * count.error) / count.value
    return _cut(middle, middle - off, middle + off, lowest, highest)


def estimate_variance(attribute: Attribute, count: NoisyValue, total: NoisyValue, squares: NoisyValue) -> Interval:
    """Estimate the variance: extremes over the box of the three errors, clipped to possible values.

    The planned bound holds as well; on each side, the smaller of the two applies.
    """
    grid = Fraction(attribute.grid or 1)
    most = ((attribute.steps - 1) * grid / 2) ** 2
    if count.value <= 0 or count.high < 1:
        return Interval(most / 2, Fraction(0), most, is_known=False)
    found = squares.value / count.value - (total.value / count.value) ** 2
    low, high = _bound_box(count, total, squares)
    off = compute_spread_error(compute_half_range(attribute), count.value, (count.error, total.error, squares.error))
    return _cut(found, max(low, found - off), min(high, found + off), Fraction(0), most)


def estimate_sample_variance(
    attribute: Attribute, count: NoisyValue, total: NoisyValue, squares: NoisyValue
) -> Interval:
    """Estimate the variance that divides by the rows less 1, as it is in groups of two rows or more."""
    most = ((attribute.steps - 1) * Fraction(attribute.grid or 1)) ** 2 / 2
    if count.value <= 0 or count.high < 2:
        return Interval(most / 2, Fraction(0), most, is_known=False)
    spread = estimate_variance(attribute, count, total, squares)
    value, low, high = (
        part * rows / (rows - 1)
        for part, number in ((spread.value, count.value), (spread.low, count.high), (spread.high, count.low))
        for rows in (max(number, Fraction(2)),)
    )
    if count.low > 1:
        errors = (count.error, total.error, squares.error)
        off = compute_sample_error(compute_half_range(attribute), count.value, errors)
        low, high = max(low, value - off), min(high, value + off)
    return _cut(value, low, high, Fraction(0), most)


def _bound_box(count: NoisyValue, total: NoisyValue, squares: NoisyValue) -> tuple[Fraction, Fraction]:
    """Return the least and the largest q/c - (t/c)^2 over the box, c >= 1 and q >= 0.

    In c it rises up to 2 t^2/q and falls beyond, so the least is at an end and the largest there or at an end.
    """
    counts = (max(count.low, Fraction(1)), max(count.high, Fraction(1)))
    least_square, most_square = max(squares.low, Fraction(0)), max(squares.high, Fraction(0))
    far = max(abs(total.low), abs(total.high))
    near = Fraction(0) if total.low <= 0 <= total.high else min(abs(total.low), abs(total.high))
    low = min(least_square / c - (far / c) ** 2 for c in counts)
    tops = list(counts)
    if most_square > 0:
        tops.append(min(max(2 * near**2 / most_square, counts[0]), counts[1]))
    return low, max(most_square / c - (near / c) ** 2 for c in tops)


def estimate_deviation(spread: Interval) -> Interval:
    """Return the square root of a variance and of its interval, with the ends rounded outwards."""
    value = _round_root_down(spread.value)
    low, high = min(_round_root_down(spread.low), value), max(_round_root_up(spread.high), value)
    return Interval(value, low, high, spread.is_known)


def _cut(value: Fraction, low: Fraction, high: Fraction, lowest: Fraction, highest: Fraction) -> Interval:
    """Clip an interval to bounds, and move the value into it."""
    low, high = (min(max(end, lowest), highest) for end in (low, high))
    high = max(low, high)  # noise beyond its bound may leave nothing between the ends
    return Interval(min(max(value, low), high), low, high)


def _round_root_down(value: Fraction) -> Fraction:
    """Return the root of ``value`` >= 0, rounded down to 15 places."""
    return Fraction(math.isqrt(math.floor(value * _ROOT_DIGITS**2)), _ROOT_DIGITS)


def _round_root_up(value: Fraction) -> Fraction:
    return Fraction(math.isqrt(math.ceil(value * _ROOT_DIGITS**2) - 1) + 1, _ROOT_DIGITS) if value else Fraction(0)
