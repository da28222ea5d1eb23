"""The whole numbers that make a device's draws private: what the planner asks the noise for."""

from __future__ import annotations

import math
from fractions import Fraction

from siloquent.maths.frequency_oracles import Kind
from siloquent.privacy.noise.local import compute_threshold
from siloquent.privacy.noise.probability import enclose_exp_minus

_DIGITS = 192


def compute_truth_threshold(kind: Kind, nodes: int, size: int, *, epsilon: Fraction) -> int:
    """Of 2^64 words, how many may say the truth: ``size`` of ``nodes`` nodes, or one of ``size`` buckets.

    Privacy:
        Local, pure epsilon-DP in the node; rounded down, so never more.
    """
    if kind == "hash":
        return compute_threshold(epsilon=epsilon, weight=1, others=size - 1)
    return compute_threshold(epsilon=epsilon, weight=size, others=nodes - size)


def is_at_most_exp(ratio: Fraction, *, epsilon: Fraction) -> bool:
    """Whether ``ratio`` <= e^epsilon, decided by whole numbers."""
    low, high = enclose_exp_minus(epsilon, _DIGITS)
    if ratio * high <= 1 << _DIGITS:
        return True
    assert ratio * low > 1 << _DIGITS, "a ratio within 2^-190 of e^epsilon is no threshold's"
    return False


def round_log_up(ratio: Fraction) -> float:
    """The logarithm of ``ratio`` as a float, the next one up."""
    return math.nextafter(math.log(ratio.numerator) - math.log(ratio.denominator), math.inf)
