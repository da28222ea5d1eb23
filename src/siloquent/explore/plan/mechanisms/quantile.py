"""Quantiles: selection of one declared value per group by its rank error."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from siloquent.explore.plan.cells.compiled import CompiledWorkload
from siloquent.explore.plan.mechanisms.base import Affords, PricedMechanism, sharpen_noise
from siloquent.explore.plan.mechanisms.draws import RankDraw
from siloquent.maths.tails import errors as error_tails
from siloquent.privacy import ExponentialSelect, PermuteAndFlip


@dataclass(frozen=True, slots=True)
class RankRequirement:
    """The requirement of a quantile of share a/b: all ranks are within ``alpha`` rows with probability 1 - ``beta``.

    ``candidates``: the number of declared values; a group's counts of them are contiguous. ``affords``: as in
    ``ErrorRequirement``.
    """

    share: Fraction
    candidates: int
    alpha: Fraction
    beta: float
    affords: Affords | None = None

    @property
    def m(self) -> int:
        """The smallest utility gap that breaks the promise: utilities are b times rank errors, and integers."""
        return math.floor(self.share.denominator * self.alpha) + 1


def bound_total_change(compiled: CompiledWorkload, share: Fraction) -> int:
    """Bound the total change of all groups' utilities by one unit, each group's at its largest.

    A row changes only the utilities of its own group, by at most a or b - a; a unit has ``rows`` rows, and replacing
    one removes a unit and adds another.
    """
    each = max(share.numerator, share.denominator - share.numerator)
    return each * compiled.rows * (2 if compiled.replace_one else 1)


def split_beta(beta: float, groups: int) -> float:
    """Return the miss rate of one of ``groups`` independent choices that all hold with probability 1 - ``beta``."""
    return -math.expm1(math.log1p(-beta) / groups)


def price_flip(compiled: CompiledWorkload, ranked: RankRequirement) -> PricedMechanism:
    """Price permute-and-flip over the declared values, in each group.

    Privacy:
        Pure (2 Du / scale)-DP, Du the change of all groups' utilities by one unit. Proof:
        docs/explanation/quantiles.md.
    Source:
        "Permute-and-Flip" (NeurIPS 2020); the utility is explore's design, section 6.
    """
    law = error_tails.PermuteAndFlipTail(ranked.candidates)
    change = Fraction(2 * bound_total_change(compiled, ranked.share))
    largest = error_tails.find_largest_scale(law, ranked.m, split_beta(ranked.beta, compiled.answers))
    scale = sharpen_noise(largest, lambda scale: PermuteAndFlip(epsilon=change / scale), ranked.affords)
    event = PermuteAndFlip(epsilon=change / scale)
    draw = RankDraw("permute-and-flip", ranked.share, ranked.candidates, 1 / scale)
    return PricedMechanism("permute-and-flip", "chosen", event, draw, reusable=False)


def price_exponential(compiled: CompiledWorkload, ranked: RankRequirement) -> PricedMechanism:
    """Price one exponential selection among the declared values, in each group.

    Privacy:
        Bounded range g = 2 Du / scale over all groups together, so g^2/8-zCDP. Proof: docs/explanation/quantiles.md.
    Source:
        "Bounding, Concentrating, and Truncating" (ALT 2021).
    """
    law = error_tails.ExponentialSelectTail(ranked.candidates)
    change = Fraction(2 * bound_total_change(compiled, ranked.share))
    largest = error_tails.find_largest_scale(law, ranked.m, split_beta(ranked.beta, compiled.answers))
    scale = sharpen_noise(largest, lambda scale: ExponentialSelect(rounds=1, range=change / scale), ranked.affords)
    event = ExponentialSelect(rounds=1, range=change / scale)
    draw = RankDraw("exponential", ranked.share, ranked.candidates, 1 / scale)
    return PricedMechanism("exponential selection", "chosen", event, draw, reusable=False)
