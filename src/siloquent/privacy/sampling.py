"""The cost of Gaussian steps on Poisson samples: Rényi divergences of integer orders, converted to (epsilon, delta)."""

from __future__ import annotations

import math
from fractions import Fraction

from siloquent.errors import AccuracyUnreachable
from siloquent.fixes import UseOption, build_fix

ORDERS = (*range(2, 65), 80, 128, 256)
MIN_MULTIPLIER, MAX_MULTIPLIER = 0.3, 500.0
_NANO = 10**9


def compute_renyi_divergence(order: int, *, rate: float, multiplier: float) -> float:
    """Compute the Rényi divergence of one step at integer ``order`` >= 2; noise is ``multiplier`` times the clip.

    ``rate`` is the sampling rate. Also holds for discrete Gaussian noise on integers: the moments of the privacy loss
    of an integer shift are those of the continuous distribution, and the reverse divergence is the smaller one
    (docs/explanation/synth-chain.md).

    >>> round(compute_renyi_divergence(8, rate=0.01, multiplier=1.1) * 1e4, 4)
    5.8407
    >>> round(compute_renyi_divergence(16, rate=0.068, multiplier=4.0) * 1e3, 5)
    2.53596

    Source:
        "Rényi Differential Privacy of the Sampled Gaussian Mechanism" (2019), section 3.3; add-remove neighbours.
    """
    if rate >= 1.0:
        return order / (2 * multiplier**2)
    terms = [
        math.lgamma(order + 1)
        - math.lgamma(j + 1)
        - math.lgamma(order - j + 1)
        + (order - j) * math.log1p(-rate)
        + j * math.log(rate)
        + (j * j - j) / (2 * multiplier**2)
        for j in range(order + 1)
    ]
    top = max(terms)
    return (top + math.log(sum(math.exp(term - top) for term in terms))) / (order - 1)


def compute_steps_epsilon(*, rate: float, multiplier: float, steps: int, delta: float) -> Fraction:
    """Compute an epsilon that ``steps`` steps keep at ``delta``, rounded up to billionths."""
    found = min(
        steps * compute_renyi_divergence(a, rate=rate, multiplier=multiplier)
        + math.log1p(-1 / a)
        - (math.log(delta) + math.log(a)) / (a - 1)
        for a in ORDERS
    )
    # The sum of logarithms is accurate to 1e-12; a margin for rounding is added.
    return Fraction(math.ceil(max(found, 0.0) * (1 + 1e-9) * _NANO) + 1, _NANO)


def find_multiplier(epsilon: Fraction, *, rate: float, steps: int, delta: float) -> Fraction:
    """Find the least noise, in thousandths of a clip, with which ``steps`` steps keep ``epsilon`` at ``delta``.

    Raises:
        AccuracyUnreachable: 500 is not enough.
    """
    low, high = MIN_MULTIPLIER, MAX_MULTIPLIER
    if compute_steps_epsilon(rate=rate, multiplier=high, steps=steps, delta=delta) > epsilon:
        raise AccuracyUnreachable(
            f"{steps:,} steps on samples of {rate:.3g} exceed epsilon {float(epsilon):.4g} at any noise level.",
            fix=build_fix("fewer steps, a larger budget, or ", UseOption("engine", "tree")),
        )
    while high - low > 1e-4:
        middle = (low + high) / 2
        fits = compute_steps_epsilon(rate=rate, multiplier=middle, steps=steps, delta=delta) <= epsilon
        low, high = (low, middle) if fits else (middle, high)
    return Fraction(math.ceil(high * 1_000), 1_000)
