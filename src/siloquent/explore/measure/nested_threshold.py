"""Iceberg questions on nested predicates: choose the place where the counts cross the threshold."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from siloquent.explore.measure.base import (
    LARGEST_VALUE,
    ErrorRequirement,
    Integers,
    Outcome,
    PricedMechanism,
    compute_answers,
    sharpen_noise,
)
from siloquent.explore.plan.compiled import CompiledWorkload
from siloquent.maths import error_tails
from siloquent.maths.workloads import find_chain
from siloquent.privacy import PermuteAndFlip

FAR = 2**61


def price_crossing(compiled: CompiledWorkload, wanted: ErrorRequirement) -> PricedMechanism | None:
    """Permute-and-flip over the L + 1 places where a chain of growing counts may cross; None unless nested.

    Privacy:
        Pure epsilon-DP, epsilon = 2 Linf / scale: a utility moves by at most Linf. Proof: docs/explanation/iceberg.md.
    Source:
        "Permute-and-Flip" (NeurIPS 2020); our use for iceberg questions. Its answer holds no counts.
    """
    if wanted.kind != "icq" or not compiled.nested or compiled.summed or compiled.sensitivity.linf == 0:
        return None
    part = compiled.parts[0]
    order = np.arange(compiled.answers) if part.running else find_chain(part.matrix)
    assert order is not None
    change = Fraction(2 * compiled.sensitivity.linf)
    largest = error_tails.find_largest_scale(
        error_tails.PermuteAndFlipTail(compiled.answers + 1), wanted.m, wanted.together
    )
    scale = sharpen_noise(largest, lambda scale: PermuteAndFlip(epsilon=change / scale), wanted.affords)
    rate = 1 / scale
    event = PermuteAndFlip(epsilon=change / scale)

    def run(workload: CompiledWorkload, columns: list[Integers]) -> Outcome:
        from siloquent.privacy.noise import permute_and_flip

        place = permute_and_flip(
            compute_crossing_utilities(compute_answers(workload, columns)[order], wanted.threshold), rate=rate
        )
        return Outcome(np.sort(order[place:]), event)

    return PricedMechanism("permute-and-flip", "chosen", event, run, reusable=False)


def compute_crossing_utilities(counts: Integers, threshold: int) -> Integers:
    """How badly each place j in 0..L cuts the chain ``counts``, where j leaves out the first j, shape (L + 1,).

    u_j = -max(0, c_j - t, t + 1 - c_(j+1)), c_0 = -inf, c_(L+1) = +inf: what is reported should be t + 1 at least, what
    is left out t at most. Measuring both from t would break ``>= c`` and fractions of c by one row.
    """
    left_out = np.concatenate([[-FAR], counts]) - threshold
    reported = threshold + 1 - np.concatenate([counts, [FAR]])
    # Cut at -2^60, the sampler's range: cutting brings no two utilities further apart.
    return np.asarray(-np.clip(np.maximum(left_out, reported), 0, LARGEST_VALUE), dtype=np.int64)
