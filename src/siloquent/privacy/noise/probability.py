"""Binary digits of irrational probabilities: as many as a coin needs, each proved by integer interval arithmetic.

A coin of weight w is "U < w" for a uniform real U. A few bits of U decide, unless they equal those of w; then more
bits of both are compared. The coin is exact, although no number here is.

An enclosure at precision n is a pair of integers (low, high) with low <= 2^n x <= high.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from siloquent.privacy.noise.bits import RandomBits

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


@dataclass(frozen=True, slots=True)
class Weight:
    """A probability given by enclosures at any precision: ``enclose(n)`` contains 2^n w and tightens as n grows."""

    enclose: Callable[[int], Enclosure]

    def compare(self, drawn: int, width: int, bits: RandomBits) -> bool:
        """Return whether U < w, if the first ``width`` binary digits of the uniform real U are ``drawn``."""
        while True:
            low, high = self.enclose(width)
            # U lies in [drawn, drawn + 1) / 2^width.
            if drawn + 1 <= low:
                return True
            if drawn >= high:
                return False
            drawn, width = drawn << 64 | bits.take(64), width + 64


def _enclose_exp_minus_one(n: int) -> Enclosure:
    return _EXP_MINUS_ONE_32 if n == 32 else enclose_exp_minus(Fraction(1), n)


#: The enclosure of nearly every coin, stored so that it is not recomputed each time; a test checks it.
_EXP_MINUS_ONE_32 = (1580030168, 1580030169)
EXP_MINUS_ONE = Weight(_enclose_exp_minus_one)
