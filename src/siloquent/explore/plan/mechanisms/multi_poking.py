"""Iceberg queries that stop paying as soon as the answer is clear: counts whose noise is reduced in steps."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from siloquent.errors import AccuracyUnreachable
from siloquent.explore.plan.cells.compiled import CompiledWorkload, Integers
from siloquent.explore.plan.mechanisms.base import ErrorRequirement, PricedMechanism, sharpen_noise
from siloquent.explore.plan.mechanisms.draws import LooksDraw
from siloquent.maths.tails import errors as error_tails
from siloquent.privacy import NoiseReduction

POKES = 12
GROWTH = Fraction(6, 5)
_FINEST = Fraction(2**46)  # the coarsest scale, 7.4 times as large, must stay within the sampler's range


def price_pokes(compiled: CompiledWorkload, wanted: ErrorRequirement) -> PricedMechanism | None:
    """Price ever less noisy looks at the answers; the first look that decides every answer is the last one paid for.

    Privacy:
        (L1 / b_i)-DP ex post, where i is the published stop and b_i its scale; the worst is the last scale. Only pure
        accounts without a delta limit may settle below the worst. Proof: docs/explanation/multi-poking.md.
    Source:
        APEx, section 3.5.2 (multi-poking), with the discrete backward chain of ``draw_noise_chain`` instead of its
        published program's forward one, and exact discrete tails.
    """
    if wanted.kind != "icq" or compiled.sensitivity.l1 == 0:
        return None
    try:
        finest = error_tails.find_largest_scale(error_tails.LaplaceAbove(1), wanted.m, _compute_share(compiled, wanted))
    except AccuracyUnreachable:
        return None
    l1 = compiled.sensitivity.l1
    finest = min(finest, _FINEST)
    scales = list_scales(sharpen_noise(finest, lambda one: NoiseReduction(scales=(one,), l1=l1), wanted.affords))
    margins = compute_margins(scales, compiled, wanted)
    event = NoiseReduction(scales=scales, l1=l1)
    draw = LooksDraw(scales, margins, wanted.threshold, wanted.m)
    return PricedMechanism("multi-poking", "chosen", event, draw, reusable=False, least=replace(event, stop=0))


def _compute_share(compiled: CompiledWorkload, wanted: ErrorRequirement) -> float:
    """Compute the failure probability of one look at one answer, which can fail in only one direction."""
    return wanted.together / (POKES * compiled.answers)


def list_scales(finest: Fraction) -> tuple[Fraction, ...]:
    """List decreasing scales that end at ``finest``, each 1.2 times the next, in 1/1024; fewer if they would be equal.

    If ``finest`` itself has more digits, all have as many.
    """
    parts = max(error_tails.DENOMINATOR, finest.denominator)
    wanted = (Fraction(int(finest * GROWTH**i * parts), parts) for i in range(POKES))
    return tuple(sorted(set(wanted), reverse=True))


def compute_margins(scales: tuple[Fraction, ...], compiled: CompiledWorkload, wanted: ErrorRequirement) -> Integers:
    """Compute, per look, the margin that its noise exceeds with a share of beta at most, shape (looks,).

    At the last look it is m - 1, which leaves no answer undecided.
    """
    law, share = error_tails.LaplaceAbove(1), _compute_share(compiled, wanted)
    return np.array([*(error_tails.find_smallest_error(law, scale, share) - 1 for scale in scales[:-1]), wanted.m - 1])
