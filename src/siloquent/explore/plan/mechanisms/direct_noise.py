"""Noise on the answers themselves: the Laplace mechanism, and the Gaussian mechanism for zCDP accounts."""

from __future__ import annotations

import math
from fractions import Fraction

from siloquent.explore.plan.cells.compiled import CompiledWorkload
from siloquent.explore.plan.mechanisms.base import (
    LARGEST_DEVIATION,
    VARIANCE_BITS,
    ErrorRequirement,
    PricedMechanism,
    sharpen_noise,
)
from siloquent.explore.plan.mechanisms.draws import AdditiveDraw
from siloquent.maths.tails import errors as error_tails
from siloquent.privacy import DiscreteGaussian, DiscreteLaplace

LARGEST_EXACT = 2**15


def price_laplace(compiled: CompiledWorkload, wanted: ErrorRequirement) -> PricedMechanism | None:
    """Price the largest discrete Laplace noise on W x that keeps the promise, exactly.

    Privacy:
        Pure (l1 / scale)-DP for the account's unit; l1 includes unit and adjacency. Proof: docs/explanation/laplace.md.
    Source:
        APEx, section 3.4 (LM), with the exact discrete tail; top-k by the exact distribution of order statistics.
    """
    if compiled.sensitivity.l1 == 0:
        return None
    laws = {
        "wcq": error_tails.LaplaceValues(compiled.answers),
        "icq": error_tails.LaplaceAbove(compiled.answers),
        "tcq": error_tails.LaplaceTop(compiled.answers, wanted.k),
    }
    l1 = compiled.sensitivity.l1
    largest = error_tails.find_largest_scale(laws[wanted.kind], wanted.m, _compute_rate(wanted))
    scale = sharpen_noise(largest, lambda scale: DiscreteLaplace(scale=scale, l1=l1), wanted.affords)
    event = DiscreteLaplace(scale=scale, l1=l1)
    return PricedMechanism("laplace", "answers", event, AdditiveDraw("laplace", scale), compiled.distinct is None)


def price_gaussian(compiled: CompiledWorkload, wanted: ErrorRequirement) -> PricedMechanism | None:
    """Price the largest discrete Gaussian noise on W x that keeps the promise.

    Privacy:
        rho-zCDP with rho = l2_squared / (2 variance). Proof: docs/explanation/discrete-gaussian.md.
    """
    if compiled.sensitivity.l2_squared == 0:
        return None
    laws = {
        "wcq": error_tails.GaussianValues(compiled.answers),
        "icq": error_tails.GaussianAbove(compiled.answers),
        "tcq": error_tails.GaussianTop(compiled.answers, wanted.k),
    }
    largest = error_tails.find_largest_scale(laws[wanted.kind], wanted.m, _compute_rate(wanted))
    deviation = min(largest, Fraction(LARGEST_DEVIATION))
    # Squares of large deviations would exceed the sampler's range; a smaller variance is less noise and still valid.
    variance = deviation**2 if deviation <= LARGEST_EXACT else Fraction(math.floor(deviation**2))
    l2 = compiled.sensitivity.l2_squared
    variance = sharpen_noise(variance, lambda one: DiscreteGaussian(one, l2), wanted.affords, bits=VARIANCE_BITS)
    event = DiscreteGaussian(variance=variance, l2_squared=l2)
    return PricedMechanism("gaussian", "answers", event, AdditiveDraw("gaussian", variance), compiled.distinct is None)


def _compute_rate(wanted: ErrorRequirement) -> float:
    """Compute the miss rate; an iceberg answer can fail in only one direction, and the distribution covers both."""
    return wanted.beta if wanted.kind == "tcq" else wanted.together
