"""Conversion between zCDP and (epsilon, delta), tight and conservative."""

from __future__ import annotations

import math
from functools import lru_cache

from siloquent.errors import RequestError


def _check(name: str, value: float, *, low: float, high: float = math.inf) -> None:
    if not (math.isfinite(value) and low < value < high):
        raise RequestError(f"{name} must be a finite number in ({low}, {high}), not {value!r}.")


def _find_best_order(rho: float, epsilon: float) -> float:
    """Find the order a > 1 of the least delta: the root of (2a-1) rho - epsilon + ln(1 - 1/a), by bisection."""
    low, high = 1 + 1e-12, 10 + (epsilon + 5) / rho
    for _ in range(120):
        middle = (low + high) / 2
        if (2 * middle - 1) * rho - epsilon + math.log1p(-1 / middle) < 0:
            low = middle
        else:
            high = middle
    return high


def compute_log_delta(rho: float, epsilon: float) -> float:
    """Compute ln of the least delta of proposition 12 for rho-zCDP at ``epsilon``, minimised over the order.

    Every order is sound.

    Source: "The Discrete Gaussian for Differential Privacy" (NeurIPS 2020), proposition 12 and corollary 13.
    """
    a = _find_best_order(rho, epsilon)
    return (a - 1) * (a * rho - epsilon) - math.log(a - 1) + a * math.log1p(-1 / a)


@lru_cache(maxsize=1_024)
def convert_zcdp_to_epsilon(rho: float, delta: float) -> float:
    """Compute the epsilon for which rho-zCDP implies (epsilon, delta)-DP: the upper end of a bisection.

    Args:
        rho: zCDP loss, at least 0.
        delta: In (0, 1).
    Privacy:
        A true upper bound up to float error of about 1e-12.

    >>> round(convert_zcdp_to_epsilon(0.1, 1e-6), 6)
    2.141939
    """
    _check("delta", delta, low=0, high=1)
    if rho == 0:
        return 0.0
    _check("rho", rho, low=0)
    low, high, target = 0.0, rho + 2 * math.sqrt(rho * math.log(1 / delta)) + 1, math.log(delta)
    for _ in range(100):
        middle = (low + high) / 2
        if compute_log_delta(rho, middle) > target:
            low = middle
        else:
            high = middle
    return high


@lru_cache(maxsize=1_024)
def convert_epsilon_to_rho(epsilon: float, delta: float) -> float:
    """Compute the largest rho whose zCDP implies (``epsilon``, ``delta``)-DP: the lower end of a bisection.

    >>> round(convert_epsilon_to_rho(1.0, 1e-6), 6)
    0.024356
    """
    _check("epsilon", epsilon, low=0)
    _check("delta", delta, low=0, high=1)
    low, high, target = 0.0, epsilon + 1.0, math.log(delta)
    for _ in range(100):
        middle = (low + high) / 2
        if compute_log_delta(middle, epsilon) > target:
            high = middle
        else:
            low = middle
    return low


def compute_gaussian_delta(rho: float, epsilon: float) -> float:
    """Compute the exact delta of one continuous Gaussian release of loss ``rho``, as a lower check; never for ledgers.

    Source: "Improving the Gaussian Mechanism" (ICML 2018), theorem 8, with mu = sqrt(2 rho).
    """
    from scipy.special import log_ndtr

    mu = math.sqrt(2 * rho)
    first = float(log_ndtr(mu / 2 - epsilon / mu))
    second = epsilon + float(log_ndtr(-mu / 2 - epsilon / mu))
    return math.exp(first) * -math.expm1(second - first) if second < first else 0.0


def compute_gaussian_epsilon(rho: float, delta: float) -> float:
    """Compute the exact epsilon of one continuous Gaussian release of loss ``rho`` at ``delta``."""
    _check("rho", rho, low=0)
    _check("delta", delta, low=0, high=1)
    low, high = 0.0, convert_zcdp_to_epsilon(rho, delta) + 1
    for _ in range(200):
        middle = (low + high) / 2
        if compute_gaussian_delta(rho, middle) > delta:
            low = middle
        else:
            high = middle
    return high
