"""Quantiles: selection of one declared value per group by its rank error."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from siloquent.explore.measure.base import (
    LARGEST_VALUE,
    SAFE,
    Affords,
    Integers,
    Outcome,
    PricedMechanism,
    Run,
    sharpen_noise,
)
from siloquent.explore.plan.cells.compiled import CompiledWorkload
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
    return PricedMechanism("permute-and-flip", "chosen", event, _run(event, ranked, 1 / scale), reusable=False)


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
    return PricedMechanism("exponential selection", "chosen", event, _run(event, ranked, 1 / scale), reusable=False)


def _run(event: PermuteAndFlip | ExponentialSelect, ranked: RankRequirement, rate: Fraction) -> Run:
    def run(workload: CompiledWorkload, columns: list[Integers]) -> Outcome:
        from siloquent.privacy.noise import permute_and_flip, select_exponential

        (counts,) = columns
        choose = permute_and_flip if isinstance(event, PermuteAndFlip) else select_exponential
        groups = counts.reshape(workload.answers, ranked.candidates)
        chosen = [choose(compute_rank_utilities(group, ranked.share), rate=rate) for group in groups]
        return Outcome(np.array(chosen, dtype=np.int64), event)

    return run


def compute_rank_utilities(counts: Integers, share: Fraction) -> Integers:
    """Compute by how much each value's rank misses the share a/b of the rows, times b, shape (k,); the best has 0.

    u(v) = -max(0, (b-a) n(< v) - a n(>= v), a n(> v) - (b-a) n(<= v)).
    """
    a, b = share.numerator, share.denominator
    if float(counts.astype(np.float64).sum()) * b >= SAFE:  # an overflow would break the guarantee
        counts = counts.astype(object)
    upto = np.cumsum(counts)
    below, rows = upto - counts, upto[-1]
    too_high = (b - a) * below - a * (rows - below)
    too_low = a * (rows - upto) - (b - a) * upto
    off = np.maximum(np.maximum(too_high, too_low), 0)
    # Clipped to the sampler's range: clipping never increases the distance of two utilities.
    return np.asarray(-np.minimum(off, LARGEST_VALUE), dtype=np.int64)
