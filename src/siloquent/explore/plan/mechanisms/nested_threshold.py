"""Iceberg queries on nested predicates: selection of the index at which the counts cross the threshold."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from siloquent.explore.plan.cells.compiled import CompiledWorkload
from siloquent.explore.plan.mechanisms.base import ErrorRequirement, PricedMechanism, sharpen_noise
from siloquent.explore.plan.mechanisms.draws import CrossingDraw
from siloquent.maths.tails import errors as error_tails
from siloquent.maths.workloads import find_chain
from siloquent.privacy import PermuteAndFlip


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
    event = PermuteAndFlip(epsilon=change / scale)
    draw = CrossingDraw(order, wanted.threshold, 1 / scale)
    return PricedMechanism("permute-and-flip", "chosen", event, draw, reusable=False)
