"""Noise on other, better queries: measure A x, answer W A+ y (the strategy mechanism and its Gaussian variant)."""

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
from siloquent.explore.plan.mechanisms.large import find_layered_choice
from siloquent.explore.plan.mechanisms.strategy_choice import StrategyChoice, find_gaussian_choice, find_laplace_choice
from siloquent.maths.tails.errors import LARGEST_SCALE
from siloquent.privacy import DiscreteGaussian, DiscreteLaplace

MIN_DEVIATION = 3  # below, integer Gaussian noise is not within 1 of the normal distribution used for calibration
MIN_BITS, MAX_BITS = 4, 16
_ROUNDING = 1 - 1e-12


def price_strategy(compiled: CompiledWorkload, wanted: ErrorRequirement) -> PricedMechanism | None:
    """Price the best strategy with discrete Laplace noise; None if none can beat W itself, and for top-k.

    Privacy:
        Pure (D1 / scale)-DP, D1 the exact L1 sensitivity of the integer matrix A. Proof:
        docs/explanation/strategy-mechanism.md.
    Source:
        APEx, section 3.4.2 (SM), calibrated to W A+ instead of A+; strategies: docs/explanation/strategies.md.
    """
    if wanted.kind == "tcq":
        return None
    offer = _choose_cheaper(
        find_laplace_choice(compiled, wanted.beta, two_sided=wanted.two_sided),
        find_layered_choice(compiled, wanted.beta, norm="l1", two_sided=wanted.two_sided, bits=MAX_BITS),
    )
    return calibrate_laplace(offer, wanted)


def calibrate_laplace(offer: StrategyChoice | None, wanted: ErrorRequirement) -> PricedMechanism | None:
    """Return ``offer`` with the largest discrete Laplace noise that keeps the promise, or None.

    Privacy:
        Pure (D1 / scale)-DP, D1 the exact L1 sensitivity of the integer matrix A.
    """
    scale = min(LARGEST_SCALE, Fraction(math.floor(_compute_room(offer, wanted) * 1_024), 1_024))
    if offer is None or scale <= 0:
        return None
    l1 = offer.sensitivity.l1
    scale = sharpen_noise(scale, lambda scale: DiscreteLaplace(scale=scale, l1=l1), wanted.affords)
    event = DiscreteLaplace(scale=scale, l1=l1)
    draw = AdditiveDraw("laplace", scale)
    return PricedMechanism(offer.name, "strategy", event, draw, True, offer.factor.method, offer.matrices)


def price_factorisation(compiled: CompiledWorkload, wanted: ErrorRequirement) -> PricedMechanism | None:
    """Price the best strategy with discrete Gaussian noise; None if none can beat W itself, and for top-k.

    Privacy:
        rho-zCDP with rho = D2^2 / (2 variance), D2^2 the exact squared L2 sensitivity of the integer matrix A.
    Source:
        explore's design, section 5; the factorisation is tuned to the largest row of R.
    """
    if wanted.kind == "tcq":
        return None
    beta, bits = wanted.together, choose_gaussian_bits(wanted)
    offer = _choose_cheaper(
        find_gaussian_choice(compiled, beta, two_sided=wanted.two_sided, bits=bits),
        find_layered_choice(compiled, beta, norm="l2", two_sided=wanted.two_sided, bits=bits),
    )
    return calibrate_gaussian(offer, wanted)


def calibrate_gaussian(offer: StrategyChoice | None, wanted: ErrorRequirement) -> PricedMechanism | None:
    """Return ``offer`` with the largest discrete Gaussian noise that keeps the promise, or None.

    Privacy:
        rho-zCDP with rho = D2^2 / (2 variance), D2^2 the exact squared L2 sensitivity of the integer matrix A.
    """
    deviation = min(_compute_room(offer, wanted), float(LARGEST_DEVIATION))
    if offer is None or deviation < MIN_DEVIATION:
        return None
    l2, least = offer.sensitivity.l2_squared, Fraction(MIN_DEVIATION**2)
    largest = Fraction(math.floor(deviation**2))
    variance = sharpen_noise(
        largest, lambda one: DiscreteGaussian(one, l2), wanted.affords, bits=VARIANCE_BITS, least=least
    )
    event = DiscreteGaussian(variance=variance, l2_squared=l2)
    draw = AdditiveDraw("gaussian", variance)
    return PricedMechanism(f"gaussian {offer.name}", "strategy", event, draw, True, offer.factor.method, offer.matrices)


def _choose_cheaper(one: StrategyChoice | None, other: StrategyChoice | None) -> StrategyChoice | None:
    """Return the one with less noise at the same price: their norms are nearly equal, so by factor times norm."""
    if one is None or other is None:
        return one or other
    return min(one, other, key=lambda offer: offer.factor.value * math.sqrt(offer.sensitivity.l2_squared))


def _compute_room(offer: StrategyChoice | None, wanted: ErrorRequirement) -> float:
    """Compute the largest noise scale that keeps the promise; below 0 if alpha is finer than the strategy's quanta."""
    if offer is None:
        return 0.0
    return (float(wanted.alpha) - offer.margin) / offer.factor.value * _ROUNDING


def choose_gaussian_bits(wanted: ErrorRequirement) -> int:
    """Choose quanta fine enough that rounding hardly matters and coarse enough for the sampler's variance range."""
    rough = float(wanted.alpha) / 3
    return max(MIN_BITS, min(MAX_BITS, math.floor(math.log2(LARGEST_DEVIATION / max(rough, 1.0))) - 1))
