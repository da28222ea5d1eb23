"""Integer intervals around irrational numbers, by integer arithmetic alone.

An enclosure at precision n is a pair of integers (low, high) with low <= 2^n x <= high.
"""

from __future__ import annotations

from fractions import Fraction

Enclosure = tuple[int, int]


def enclose_exp_minus(x: Fraction, n: int) -> Enclosure:
    """Enclose 2^n exp(-x) for x >= 0.

    With y = x / 2^h <= 1/2 the Taylor series alternates with decreasing terms, so the first omitted term bounds the
    rest; squaring h times gives exp(-x). Additional working bits cover the precision lost to squaring and rounding.
    """
    if x > n + 1:  # exp(-x) < 2^-n: the enclosure [0, 1] is as good as any at this precision
        return 0, 1
    halvings = max(0, (2 * x.numerator // x.denominator).bit_length())
    work = n + 2 * halvings + 16
    one = 1 << work
    a, d = x.numerator, x.denominator << halvings
    low_sum = high_sum = low_term = high_term = one
    k = 0
    while high_term > 1:
        k += 1
        low_term = low_term * a // (d * k)
        high_term = -(-high_term * a // (d * k))
        if k % 2:
            low_sum, high_sum = low_sum - high_term, high_sum - low_term
        else:
            low_sum, high_sum = low_sum + low_term, high_sum + high_term
    low_sum, high_sum = max(low_sum - high_term, 0), min(high_sum + high_term, one)
    for _ in range(halvings):
        low_sum, high_sum = low_sum * low_sum >> work, -(-high_sum * high_sum >> work)
    return low_sum >> (work - n), -(-high_sum >> (work - n))
