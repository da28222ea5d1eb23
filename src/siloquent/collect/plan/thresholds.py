"""The whole-number thresholds that make a device's draws private: how often a report tells the truth."""

from __future__ import annotations

import math
from fractions import Fraction

from siloquent.maths.local.frequency_oracles import Kind
from siloquent.privacy.checks import require_fraction, require_whole
from siloquent.privacy.enclosures import enclose_exp_minus

_DIGITS = 192


def compute_truth_threshold(kind: Kind, nodes: int, size: int, *, epsilon: Fraction) -> int:
    """Return how many of 2^64 words may draw the truth: ``size`` of ``nodes`` nodes, or one of ``size`` buckets.

    Privacy:
        Local, pure epsilon-DP in the node; rounded down, so never more.
    """
    if kind == "hash":
        return compute_threshold(epsilon=epsilon, weight=1, others=size - 1)
    return compute_threshold(epsilon=epsilon, weight=size, others=nodes - size)


def compute_threshold(*, epsilon: Fraction, weight: int, others: int) -> int:
    """Compute how many of 2^64 words report the true value: the largest valid T.

    T satisfies T / 2^64 / weight <= e^epsilon (1 - T / 2^64) / others.

    Args:
        weight, others: w and k - w for sets of w nodes out of k; 1 and g - 1 for hashes onto g buckets.
    Privacy:
        Reporting the true value with probability T / 2^64 is pure epsilon-DP, rounding included: T is rounded down, on
        intervals of integers.
    """
    require_fraction("epsilon", epsilon, above=0, most=64)
    require_whole("weight", weight, least=1, most=2**20)
    require_whole("others", others, least=1, most=2**20)
    # p = w / (w + others e^-epsilon), which falls as e^-epsilon grows: its upper end gives the lower p.
    _, high = enclose_exp_minus(epsilon, _DIGITS)
    return (weight << (64 + _DIGITS)) // ((weight << _DIGITS) + others * high)


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
