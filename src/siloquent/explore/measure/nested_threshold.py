"""Iceberg queries on nested predicates: selection of the index at which the counts cross the threshold."""

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
from siloquent.explore.plan.cells.compiled import CompiledWorkload
from siloquent.maths.tails import errors as error_tails
from siloquent.maths.workloads import find_chain
from siloquent.privacy import PermuteAndFlip

FAR = 2**61


def price_crossing(compiled: CompiledWorkload, wanted: ErrorRequirement) -> PricedMechanism | None:
    """Price permute-and-flip over the L + 1 indices where a chain of growing counts may cross; None unless nested.

    Privacy:
        Pure epsilon-DP, epsilon = 2 Linf / scale: a utility moves by at most Linf. Proof: docs/explanation/iceberg.md.
    Source:
        "Permute-and-Flip" (NeurIPS 2020); our use for iceberg questions. Its answer contains no counts.
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
    """Compute how badly each index j in 0..L (leaving out the first j) cuts the chain ``counts``, shape (L + 1,).

    u_j = -max(0, c_j - t, t + 1 - c_(j+1)), c_0 = -inf, c_(L+1) = +inf: reported counts should be at least
    t + 1, omitted ones at most t. Measuring both from t would break ``>= c`` and fractions of c by one row.
    """
    left_out = np.concatenate([[-FAR], counts]) - threshold
    reported = threshold + 1 - np.concatenate([counts, [FAR]])
    # Clipped at -2^60, the sampler's range: clipping never increases the distance of two utilities.
    return np.asarray(-np.clip(np.maximum(left_out, reported), 0, LARGEST_VALUE), dtype=np.int64)
