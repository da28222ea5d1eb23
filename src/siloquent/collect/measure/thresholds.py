"""The whole-number thresholds that make a device's draws private, for the planner."""

from __future__ import annotations

import math
from fractions import Fraction

from siloquent.maths.local.frequency_oracles import Kind
from siloquent.privacy.noise.local import compute_threshold
from siloquent.privacy.noise.probability import enclose_exp_minus

_DIGITS = 192


def compute_truth_threshold(kind: Kind, nodes: int, size: int, *, epsilon: Fraction) -> int:
    """Return how many of 2^64 words may draw the truth: ``size`` of ``nodes`` nodes, or one of ``size`` buckets.

    Privacy:
        Local, pure epsilon-DP in the node; rounded down, so never more.
    """
    if kind == "hash":
        return compute_threshold(epsilon=epsilon, weight=1, others=size - 1)
    return compute_threshold(epsilon=epsilon, weight=size, others=nodes - size)


def is_at_most_exp(ratio: Fraction, *, epsilon: Fraction) -> bool:
    """Return whether ``ratio`` <= e^epsilon, decided in whole numbers."""
    low, high = enclose_exp_minus(epsilon, _DIGITS)
    if ratio * high <= 1 << _DIGITS:
        return True
    assert ratio * low > 1 << _DIGITS, "a ratio within 2^-190 of e^epsilon cannot come from a threshold"
    return False


def round_log_up(ratio: Fraction) -> float:
    """Return the logarithm of ``ratio`` as a float, rounded up."""
    return math.nextafter(math.log(ratio.numerator) - math.log(ratio.denominator), math.inf)
