"""How far one unit moves the sums of all orders together: the sensitivity of one joint Gaussian release.

A record is a vector of whole numbers of squared length at most ``longest``. Order 0 counts it, order 1 adds it up,
order 2 adds up its products, where an entry off the diagonal counts twice (as in the whole matrix, or as one entry with
half the variance). Then |order i| = |record|^i and the scalar product of two records' order i is that of the records to
the power i, which is what makes the bounds below exact. Proof: docs/explanation/search.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

Shares = tuple[Fraction, Fraction, Fraction]


@dataclass(frozen=True, slots=True)
class Release:
    """What is released together.

    ``keys``: how often counts and sums are released, once for each key that rows are grouped by. ``replaced``: units
    are replaced, else added or removed. ``records``: of one unit. ``keeps_key``: a replaced record counts in the same
    places as before, since nothing is grouped.
    """

    longest: int
    keys: int = 1
    replaced: bool = False
    records: int = 1
    keeps_key: bool = False

    def moved(self, variances: tuple[Fraction | None, Fraction | None, Fraction | None]) -> Fraction:
        """The greatest sum over all orders of (squared change / variance), for one unit.

        Args:
            variances: Of orders 0, 1, 2 (on the diagonal); None where an order is exact or not released.
        """
        weights = [part / v if v else Fraction(0) for v, part in zip(variances, self._parts(), strict=True)]
        return Fraction(self.records**2) * self._sum(weights[0] * self.keys, weights[1] * self.keys, weights[2])

    def variances(self, shares: Shares, rho: Fraction) -> tuple[Fraction | None, Fraction | None, Fraction | None]:
        """The variances that spend exactly ``rho``, order i with weight ``shares[i]``; None where a share is 0."""
        counted = (shares[0] * self.keys, shares[1] * self.keys, shares[2])
        whole = self._sum(*counted) * Fraction(self.records**2) / (2 * rho)
        found = [whole * part / share if share else None for share, part in zip(shares, self._parts(), strict=True)]
        return found[0], found[1], found[2]

    def _parts(self) -> tuple[Fraction, Fraction, Fraction]:
        """The squared length of orders 0, 1, 2 of the longest record."""
        size = Fraction(self.longest)
        return Fraction(1), size, size * size

    def _sum(self, zero: Fraction, first: Fraction, second: Fraction) -> Fraction:
        """For records of length 1 with these weights of the orders."""
        if not self.replaced:
            return zero + first + second
        # The same key, records at an angle with cosine c: 2 first (1 - c) + 2 second (1 - c^2), greatest at
        # c = -first / (2 second) or at -1. Another key: nothing of orders 0 and 1 cancels, so c = 0 is worst.
        turned = 2 * (first + second) + (first**2 / (2 * second) if second else 0)
        same = turned if first <= 2 * second else 4 * first
        return same if self.keeps_key else max(same, 2 * (zero + first + second))


def l1_moved(
    longest: int, numbers: int, *, keys: int = 1, replaced: bool = False, records: int = 1
) -> tuple[int, int, int]:
    """The L1 change of counts, sums and second moments (upper triangle) by one unit.

    |record|_1 <= sqrt(numbers) |record|, and the triangle adds up to (|record|_1^2 + |record|^2) / 2.
    """
    times = records * (2 if replaced else 1)
    return (
        times * keys,
        times * keys * (math.isqrt(numbers * longest) + 1),
        times * ((numbers * longest + longest) // 2 + 1),
    )
