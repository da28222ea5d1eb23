"""Tail probabilities of noise: exact for the whole distributions in use, and bounds where a sum would be too long."""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Whole = TypeVar("Whole", int, NDArray[np.int64])
GAUSSIAN_SUM_LIMIT = 10_000.0
_CUT = 100.0  # terms smaller than e^-100 of the first are below one rounding error of the sum


def laplace_tail(m: int, *, scale: float) -> float:
    """Return P[X >= m] for discrete Laplace X, P[X = x] ~ exp(-abs(x)/scale)."""
    if m <= 0:
        return 1.0 - laplace_tail(1 - m, scale=scale)
    return math.exp(-m / scale) / (1.0 + math.exp(-1.0 / scale))


def compute_laplace_variance(scale: Fraction) -> Fraction:
    """Approximate the variance of discrete Laplace noise of ``scale``; above 0, however small the noise is."""
    ratio = -1 / float(scale)
    return Fraction(2 * max(math.exp(ratio), sys.float_info.min) / math.expm1(ratio) ** 2)


def normal_tail(x: float) -> float:
    """Return Q(x) = P[N(0, 1) > x], accurate in the far tail too."""
    return 0.5 * math.erfc(x / math.sqrt(2.0))


def normal_quantile(miss: float) -> float:
    """Return the x with Q(x) = miss."""
    from scipy.special import ndtri

    return -float(ndtri(miss))


def gaussian_tail(m: int, *, scale: float) -> float:
    """Return P[X >= m] for discrete Gaussian X, P[X = x] ~ exp(-x^2 / (2 scale^2)): exact to scale 10^4, then a bound.

    Source:
        Beyond: Q((m - 1/2)/scale) for m - 1/2 >= scale, since exp(-x^2/2) is convex there (midpoint below average) and
        the normalising sum is at least scale sqrt(2 pi) (Poisson summation); 1/2 for smaller m > 0.
    """
    if m <= 0:
        return 1.0 - gaussian_tail(1 - m, scale=scale) if scale <= GAUSSIAN_SUM_LIMIT else 1.0
    if scale > GAUSSIAN_SUM_LIMIT:
        return normal_tail((m - 0.5) / scale) if m - 0.5 >= scale else 0.5
    # Terms relative to the first: exp(-(2 m j + j^2) / (2 scale^2)).
    last = math.ceil(min(scale * math.sqrt(2 * _CUT), _CUT * scale * scale / m)) + 1
    steps = np.arange(last + 1, dtype=np.float64)
    tail = float(np.exp(-steps * (2 * m + steps) / (2 * scale * scale)).sum())
    return math.exp(-m * m / (2 * scale * scale)) * tail / _sum_gaussian(scale)


def _sum_gaussian(scale: float) -> float:
    """Return the sum over all whole x of exp(-x^2 / (2 scale^2))."""
    if scale >= 2.0:  # Poisson summation: the next term is 2 exp(-2 pi^2 scale^2) < 1e-33 of it
        return scale * math.sqrt(2 * math.pi)
    steps = np.arange(1, 32, dtype=np.float64)
    return 1.0 + 2.0 * float(np.exp(-steps * steps / (2 * scale * scale)).sum())
