"""Top-k queries that release only ids: one-shot geometric noise, and rounds of exponential selection."""

from __future__ import annotations

from fractions import Fraction

from siloquent.explore.plan.cells.compiled import CompiledWorkload
from siloquent.explore.plan.mechanisms.base import ErrorRequirement, PricedMechanism, sharpen_noise
from siloquent.explore.plan.mechanisms.draws import NoisyTopDraw, RoundsDraw
from siloquent.explore.plan.mechanisms.strategy import calibrate_gaussian, choose_gaussian_bits
from siloquent.explore.plan.mechanisms.strategy_choice import find_top_choice
from siloquent.maths.tails import errors as error_tails
from siloquent.privacy import ExponentialSelect, GeometricTopK


def price_geometric_top(compiled: CompiledWorkload, wanted: ErrorRequirement) -> PricedMechanism | None:
    """Price the ordered ids of the k largest of answers plus geometric noise.

    Privacy:
        Pure (k spread / scale)-DP: ids depend only on differences, so all answers' changes may be shifted until none
        decreases. The noisy values are never shown. Proof: docs/explanation/geometric-top-k.md.
    Source:
        explore's design, section 4.5; APEx's LTM releases an unordered set at a higher price.
    """
    if wanted.kind != "tcq" or compiled.sensitivity.linf == 0:
        return None
    # If changes can be shifted until none decreases, the spread is the price; else it is twice its half.
    k, shifted = min(wanted.k, compiled.answers), not compiled.replace_one
    linf = compiled.spread if shifted else -(-compiled.spread // 2)

    def event_of(scale: Fraction) -> GeometricTopK:
        return GeometricTopK(k=k, scale=scale, linf=linf, monotone=shifted)

    largest = error_tails.find_largest_scale(
        error_tails.GeometricTop(compiled.answers, wanted.k), wanted.m, wanted.beta
    )
    scale = sharpen_noise(largest, event_of, wanted.affords)
    event = event_of(scale)
    draw = NoisyTopDraw(wanted.k, wanted.sign, scale)
    return PricedMechanism("one-shot geometric", "chosen", event, draw, reusable=False)


def price_rounds(compiled: CompiledWorkload, wanted: ErrorRequirement) -> PricedMechanism | None:
    """Price k rounds of exponential selection without replacement.

    Privacy:
        Each round has bounded range g = spread / scale: k g pure, k g^2 / 8 zCDP. Proof:
        docs/explanation/selection.md.
    """
    if wanted.kind != "tcq" or compiled.sensitivity.linf == 0:
        return None
    k = min(wanted.k, compiled.answers)
    change = Fraction(compiled.spread)
    largest = error_tails.find_largest_scale(
        error_tails.ExponentialRounds(compiled.answers, wanted.k), wanted.m, wanted.together
    )
    scale = sharpen_noise(largest, lambda scale: ExponentialSelect(rounds=k, range=change / scale), wanted.affords)
    event = ExponentialSelect(rounds=k, range=change / scale)
    draw = RoundsDraw(k, wanted.sign, 1 / scale)
    return PricedMechanism("exponential rounds", "chosen", event, draw, reusable=False)


def price_top_factorisation(compiled: CompiledWorkload, wanted: ErrorRequirement) -> PricedMechanism | None:
    """Price the k largest of answers reconstructed from a discrete Gaussian strategy; None for disjoint ones.

    Privacy:
        rho-zCDP with rho = D2^2 / (2 variance), D2^2 the exact squared L2 sensitivity of the integer matrix A. The list
        is derived from the noisy numbers, which later answers may use. Proof: docs/explanation/selection.md.
    """
    if wanted.kind != "tcq":
        return None
    return calibrate_gaussian(
        find_top_choice(compiled, wanted.beta, wanted.k, bits=choose_gaussian_bits(wanted)), wanted
    )
