"""The largest noise that keeps an error bound, for mechanisms with an exact failure distribution.

Every answer is whole, so a bound alpha in rows is broken by the errors from ``compute_breaking_error(alpha)`` = m on.
A law gives that probability at a scale; ``find_largest_scale`` and ``find_smallest_error`` invert it in either
direction, on the safe side: a scale is a rational with denominator 1,024, rounded down, and the law is evaluated at
exactly that rational.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Protocol

from siloquent.errors import AccuracyUnreachable, RequestError
from siloquent.maths.roots import last_negative
from siloquent.maths.tails import distributions as tails
from siloquent.maths.tails import order_statistics

DENOMINATOR = 1_024
LARGEST_SCALE = Fraction(2**50)  # larger noise could not be drawn in 64-bit whole numbers
_ROUNDING = 1.0 - 1e-10  # the laws below are computed to about 1e-12
_ROUGH = 1_000
_DIGITS = 40  # of a scale: the laws cannot distinguish closer scales


class ErrorTail(Protocol):
    """The probability that whole noise of some scale breaks the promise, that is, makes an error of m or more."""

    def __call__(self, scale: float, m: int) -> float:
        """Return the probability: increasing in ``scale``, decreasing in ``m`` >= 1."""

    def __hash__(self) -> int:
        """Return a hash by value, since laws are cache keys."""


@dataclass(frozen=True, slots=True)
class LaplaceValues:
    """WCQ by independent discrete Laplace noise: any of the answers is m or more off, to either side."""

    answers: int

    def __call__(self, scale: float, m: int) -> float:
        return _combine_misses(2 * tails.laplace_tail(m, scale=scale), self.answers)


@dataclass(frozen=True, slots=True)
class LaplaceAbove:
    """ICQ by independent discrete Laplace noise: any of the answers is m or more off to the bad side."""

    answers: int

    def __call__(self, scale: float, m: int) -> float:
        return _combine_misses(tails.laplace_tail(m, scale=scale), self.answers)


@dataclass(frozen=True, slots=True)
class GaussianValues:
    """WCQ by independent discrete Gaussian noise."""

    answers: int

    def __call__(self, scale: float, m: int) -> float:
        return _combine_misses(2 * tails.gaussian_tail(m, scale=scale), self.answers)


@dataclass(frozen=True, slots=True)
class GaussianAbove:
    """ICQ by independent discrete Gaussian noise."""

    answers: int

    def __call__(self, scale: float, m: int) -> float:
        return _combine_misses(tails.gaussian_tail(m, scale=scale), self.answers)


@dataclass(frozen=True, slots=True)
class LaplaceTop:
    """TCQ from independent discrete Laplace noise: a low answer overtakes one of the k highest."""

    answers: int
    k: int

    def __call__(self, scale: float, m: int) -> float:
        return _bound_top_misses(order_statistics.compute_laplace_overtake, self.answers, self.k, scale, m)


@dataclass(frozen=True, slots=True)
class GeometricTop:
    """TCQ from independent geometric noise (one-shot, explore.md 4.5)."""

    answers: int
    k: int

    def __call__(self, scale: float, m: int) -> float:
        return _bound_top_misses(order_statistics.compute_geometric_overtake, self.answers, self.k, scale, m)


@dataclass(frozen=True, slots=True)
class GaussianTop:
    """TCQ from independent discrete Gaussian noise."""

    answers: int
    k: int

    def __call__(self, scale: float, m: int) -> float:
        return _bound_top_misses(order_statistics.compute_gaussian_overtake, self.answers, self.k, scale, m)


@dataclass(frozen=True, slots=True)
class PermuteAndFlipTail:
    """Selection among whole utilities by permute-and-flip: the selected one is m or more below the best.

    The scale is 2 Du / epsilon: a candidate ``gap`` below the best is accepted with probability exp(-gap / scale).

    Source:
        Equal to the noisy maximum with exponential noise ("The Permute-and-Flip Mechanism Is Identical to
        Report-Noisy-Max with Exponential Noise", 2021). One best and ``candidates - 1`` others at distance m is the
        worst case; its probability is 1 - (1 - (1-q)^c)/(c q), q = exp(-m/scale), c candidates: at most (c-1) q/2.
    """

    candidates: int

    def __call__(self, scale: float, m: int) -> float:
        q, count = math.exp(-m / scale), self.candidates
        if q * count < 1e-3:  # the two ones above would cancel, so use the series, whose error is its next term
            pairs = (count - 1) * q / 2
            return pairs * (1 - (count - 2) * q / 3 * (1 - (count - 3) * q / 4))
        return 1 + math.expm1(count * math.log1p(-q)) / (count * q) if q < 1 else 1 - 1 / count


@dataclass(frozen=True, slots=True)
class ExponentialRounds:
    """TCQ by k rounds of exponential selection without replacement, P[i] ~ exp(c_i / scale).

    Source:
        In some round a low answer is preferred to one that is m higher: union over k rounds and L - k + 1 answers.
        These events include both answers reported too low and answers that hide one too high.
    """

    answers: int
    k: int

    def __call__(self, scale: float, m: int) -> float:
        low = self.answers - self.k + 1 if self.k > 1 else self.answers - 1
        return min(1.0, self.k * low * math.exp(-m / scale)) if self.k < self.answers else 0.0


@dataclass(frozen=True, slots=True)
class ExponentialSelectTail:
    """One exponential selection among whole utilities, P[i] ~ exp(u_i / scale): m or more below the best."""

    candidates: int

    def __call__(self, scale: float, m: int) -> float:
        return min(1.0, (self.candidates - 1) * math.exp(-m / scale))


def compute_breaking_error(alpha: Fraction | float, grid: Fraction | int = 1) -> int:
    """Return m = floor(alpha / grid) + 1: the smallest whole error, in steps of ``grid``, above alpha."""
    if not math.isfinite(alpha) or alpha <= 0:
        raise RequestError(f"An error bound must be a positive number, not {alpha}.", fix="ask for ERROR above zero")
    return math.floor(Fraction(alpha) / Fraction(grid)) + 1


@lru_cache(maxsize=4_096)
def find_largest_scale(law: ErrorTail, m: int, beta: float) -> Fraction:
    """Return the largest scale k/1024 at which an error of m or more happens with probability at most ``beta``.

    Scales beyond 2^30 are cut to their first 40 binary digits.

    Raises:
        AccuracyUnreachable: Not even the scale 1/1024 keeps the promise.
    """
    _check(beta)
    limit = int(LARGEST_SCALE) * DENOMINATOR
    hint = _hint(law, beta)
    if hint.learned_at < _ROUGH < m // 16:  # calls are cheap there
        with suppress(AccuracyUnreachable):
            find_largest_scale(law, _ROUGH, beta)
    guess = min(limit, max(1, int(m * DENOMINATOR * hint.share)))
    unit = 1 << max(0, guess.bit_length() - _DIGITS)

    def excess(units: int) -> float:
        return _excess(law(units * unit / DENOMINATOR, m), beta)

    if unit == 1 and excess(1) > 0:
        raise AccuracyUnreachable(f"No noise keeps an error of {m} steps with miss rate {beta:g}.", best_alpha=None)
    found = unit * _find_last(
        excess, 1, limit // unit, guess=guess // unit, step=max(1, int(guess // unit * hint.doubt))
    )
    found &= -1 << max(0, found.bit_length() - _DIGITS)
    hint.learn(found / (m * DENOMINATOR), m)
    return Fraction(found, DENOMINATOR)


class _Hint:
    """The position of a law's largest scale, as a share of m: about the same for all large m. It only saves calls."""

    def __init__(self) -> None:
        self.share, self.doubt, self.learned_at = 1 / 16, 1 / 4, 0

    def learn(self, share: float, m: int) -> None:
        """Store the result for ``m``, if that is the largest m so far."""
        if m > self.learned_at:
            self.share, self.doubt, self.learned_at = share, min(max(4 / m, 1 / 4_096), 1 / 4), m


@lru_cache(maxsize=4_096)
def _hint(law: ErrorTail, beta: float) -> _Hint:
    return _Hint()


@lru_cache(maxsize=4_096)
def find_smallest_error(law: ErrorTail, scale: Fraction, beta: float) -> int:
    """Return the smallest m such that an error of m or more happens with probability at most ``beta`` at this scale.

    The promise that then holds is "no error above m - 1".
    """
    _check(beta)
    size = float(scale)
    guess = max(1, math.ceil(size * math.log(1 / beta)))

    def shortfall(m: int) -> float:
        return -math.inf if m == 0 else -_excess(law(size, m), beta)

    return 1 + _find_last(shortfall, 0, 2**62, guess=guess, step=max(1, guess // 4), strict=True)


def _excess(miss: float, beta: float) -> float:
    """Return ln(miss / beta): at most 0 if the promise is kept."""
    limit = beta * _ROUNDING
    if miss <= 0:
        return -math.inf
    # The sign comes from the comparison: the logarithm may not distinguish numbers that differ in the last digit.
    distance = math.log(miss / limit)
    return min(distance, 0.0) if miss <= limit else max(distance, sys.float_info.min)


def _find_last(
    value: Callable[[int], float], low: int, high: int, *, guess: int, step: int, strict: bool = False
) -> int:
    """Return the last whole number in [low, high] where a growing ``value`` is at most 0, as it is at ``low``.

    Args:
        step: The distance from the guess of the first trials.
        strict: Whether the value must be below 0.
    """

    def over(place: int) -> float:
        found = value(place)
        return sys.float_info.min if strict and found == 0 else found

    probe = min(max(guess, low), high)
    found = over(probe)
    if found <= 0:
        below, at_below = probe, found
        while True:
            if below == high:
                return high
            above = min(high, below + step)
            at_above = over(above)
            if at_above > 0:
                break
            below, at_below, step = above, at_above, step * 2
    else:
        above, at_above = probe, found
        while True:
            below = max(low, above - step)
            at_below = over(below) if below > low else -math.inf
            if at_below <= 0:
                break
            above, at_above, step = below, at_below, step * 2
    return last_negative(over, below, above, at_low=at_below, at_high=at_above)


def _combine_misses(miss: float, answers: int) -> float:
    """Return the probability that at least one of independent answers misses."""
    return -math.expm1(answers * math.log1p(-miss)) if miss < 1 else 1.0


def _bound_top_misses(overtakes: Callable[..., float], answers: int, k: int, scale: float, m: int) -> float:
    """Return the worse of the two top-k promises: a reported low answer, and a missing high one."""
    if k >= answers:
        return 0.0
    reported = overtakes(m, scale=scale, low=answers - k, high=k)
    missing = overtakes(m, scale=scale, low=answers - k + 1, high=k - 1) if k > 1 else 0.0
    return max(reported, missing)


def _check(beta: float) -> None:
    if not 0 < beta < 1:
        raise RequestError(f"A miss rate lies between 0 and 1, not {beta}.", fix="ask for CONFIDENCE between 0 and 1")
