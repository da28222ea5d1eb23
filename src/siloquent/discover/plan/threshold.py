"""Thresholds of keys, and how far the noise of a histogram can deviate: numbers only."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Literal

from siloquent.maths.tails.distributions import gaussian_tail, normal_quantile
from siloquent.maths.tails.errors import GaussianAbove, find_smallest_error
from siloquent.privacy import ATTO

MISS = Fraction(1, 2_000)
"""The probability with which a key of too few units is released, at most."""
SURE = 0.05
"""A plan says from how many units on a key is missed with at most this probability."""
WRONG = 0.05
"""The probability with which one of the shares beyond proposed bounds is larger than said."""
HIDDEN = 0.5
"""Bounds beyond which so large a share of all values may lie are not proposed."""
_ROWS_EACH = 2.5  # 1/HIDDEN times the root of 1/2, and 1: with so many rows a share beyond stays below HIDDEN
_ROUNDING = Fraction(10**9 + 1, 10**9)  # tail sums are computed to about 1e-12


def compute_threshold(variance: Fraction, *, keys_each: int, delta: Fraction, at_least: int) -> int:
    """Compute the least t = max(1 + j, at_least - 1 + b) of docs/explanation/discover.md.

    j: none of ``keys_each`` independent noises of ``variance`` is j or more, except with probability ``delta``. b: one
    noise is b or more with probability ``MISS`` at most.
    """
    scale = Fraction(math.nextafter(math.sqrt(variance), math.inf))
    alone = find_smallest_error(GaussianAbove(keys_each), scale, float(delta))
    return max(1 + alone, at_least - 1 + find_smallest_error(GaussianAbove(1), scale, float(MISS)))


def compute_passing_probability(variance: Fraction, *, keys_each: int, threshold: int) -> Fraction:
    """Compute the probability that a key of a single unit passes, for a unit of ``keys_each`` such keys; rounded up."""
    scale = math.nextafter(math.sqrt(variance), math.inf)
    one = gaussian_tail(threshold - 1, scale=scale)
    some = -math.expm1(keys_each * math.log1p(-one))
    return Fraction(max(1, math.ceil(Fraction(some) * _ROUNDING * ATTO)), ATTO)


def compute_sure_count(threshold: int, deviation: float) -> int:
    """Compute the number of units from which on a key is found with probability 0.95."""
    return threshold + math.ceil(normal_quantile(SURE) * deviation)


def compute_sum_quantile(bins: int, noise: Literal["gaussian", "laplace"]) -> float:
    """Return z such that no sum of the first or last k noises exceeds z sqrt(k) deviations, but for ``WRONG``."""
    each = WRONG / (2 * bins + 1)
    # Of all sums of Laplace noise, that of one has the heaviest tail in deviations.
    return normal_quantile(each) if noise == "gaussian" else math.log(1 / (2 * each)) / math.sqrt(2)


def compute_needed_rows(bins: int, deviation: float, noise: Literal["gaussian", "laplace"]) -> int:
    """Compute the number of rows from which on the noise of ``bins`` bins hides no bounds."""
    return math.ceil(_ROWS_EACH * deviation * compute_sum_quantile(bins, noise) * math.sqrt(bins))


def compute_hidden_rows(bins: int, deviation: float, noise: Literal["gaussian", "laplace"]) -> float:
    """Compute the number of rows up to which no bounds are proposed, wherever the values lie, but for ``SURE``.

    A share beyond a bound is of the noisy number of rows less the most that the noise of all bins adds to it. Where
    that is not above 0, no share is known.
    """
    root = math.sqrt(bins)
    return deviation * root * (compute_sum_quantile(bins, noise) - normal_quantile(SURE))
