"""Sampler parameters of a distribution: integers, checked once, small enough for 64-bit arithmetic."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from siloquent.privacy.checks import require_fraction

LIMIT_SCALE = 2**50
LIMIT_SCALE_NUMERATOR = 2**60
LIMIT_SCALE_DENOMINATOR = 2**50
LIMIT_VARIANCE_NUMERATOR = 2**50
LIMIT_VARIANCE_DENOMINATOR = 2**20


@dataclass(frozen=True, slots=True)
class MagnitudeDistribution:
    """Geometric magnitudes of scale t/s: P[Y >= j] = exp(-j s/t)."""

    t: int
    s: int

    @classmethod
    def from_scale(cls, scale: Fraction | int) -> MagnitudeDistribution:
        """Build the distribution of one scale in (0, 2^50], with a numerator <= 2^60 and a denominator <= 2^50."""
        exact = require_fraction("scale", scale, above=0, most=LIMIT_SCALE)
        return cls(
            *_require_bounded("scale", exact, numerator=LIMIT_SCALE_NUMERATOR, denominator=LIMIT_SCALE_DENOMINATOR)
        )


@dataclass(frozen=True, slots=True)
class GaussianDistribution:
    """A discrete Gaussian: keep a Laplace ``proposal`` Y with probability exp(-(|Y| g - h)^2 m / f).

    With c = h/g and proposal scale variance/c, exp(-|y| c/variance) exp(-(|y| - c)^2 / (2 variance)) is proportional to
    exp(-y^2 / (2 variance)) for every c > 0. From variance 1, c = isqrt(variance) is an integer, which keeps all four
    numbers small; below 1, c = variance (the paper's choice with t = 1) keeps the acceptance rate away from zero.
    """

    proposal: MagnitudeDistribution
    g: int
    h: int
    m: int
    f: int

    @classmethod
    def from_variance(cls, variance: Fraction | int) -> GaussianDistribution:
        """Build the distribution of one variance in (0, 2^50], with a numerator <= 2^50 and a denominator <= 2^20."""
        exact = require_fraction("variance", variance, above=0, most=LIMIT_VARIANCE_NUMERATOR)
        n, d = _require_bounded(
            "variance", exact, numerator=LIMIT_VARIANCE_NUMERATOR, denominator=LIMIT_VARIANCE_DENOMINATOR
        )
        if n < d:
            # (|Y| - n/d)^2 / (2 n/d) = (|Y| d - n)^2 / (2 n d), and n d < 2^40.
            return cls(MagnitudeDistribution(1, 1), g=d, h=n, m=1, f=2 * n * d)
        c = math.isqrt(n // d)
        scale = Fraction(n, d * c)  # numerator <= n <= 2^50, denominator <= d c <= sqrt(n d) <= 2^35
        return cls(MagnitudeDistribution(scale.numerator, scale.denominator), g=1, h=c, m=d, f=2 * n)


def _require_bounded(name: str, value: Fraction, *, numerator: int, denominator: int) -> tuple[int, int]:
    """Return ``value`` in lowest terms; refuse it if the samplers' 64-bit bounds would not hold."""
    require_fraction(f"{name}'s numerator", value.numerator, above=0, most=numerator)
    require_fraction(f"{name}'s denominator", value.denominator, above=0, most=denominator)
    return value.numerator, value.denominator
