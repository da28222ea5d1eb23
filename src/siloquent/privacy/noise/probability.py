"""Binary digits of irrational probabilities: as many as a coin needs, each proved by integer interval arithmetic.

A coin of weight w is "U < w" for a uniform real U. A few bits of U decide, unless they equal those of w; then more
bits of both are compared. The coin is exact, although no number here is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from siloquent.privacy.enclosures import Enclosure, enclose_exp_minus

if TYPE_CHECKING:
    from siloquent.privacy.noise.bits import RandomBits


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
