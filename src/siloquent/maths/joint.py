"""How far one unit moves the sums of all orders together: the sensitivity of one joint Gaussian release.

A record is a vector of whole numbers of squared length at most ``longest``. Order 0 counts it, order 1 adds it up,
order i adds up its products of i numbers, where a product counts as often as its numbers can be ordered (an entry off
the diagonal twice: as in the whole matrix, or as one entry with half the variance). Then |order i| = |record|^i and the
scalar product of two records' order i is that of the records to the power i, which is what makes the bounds below
exact. Proof: docs/explanation/search.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

Variances = tuple[Fraction | None, ...]
_PARTS = 256
"""Of the way from a right angle to opposite records, where the worst angle of orders above 2 is looked for."""


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

    def moved(self, variances: Variances) -> Fraction:
        """The greatest sum over all orders of (squared change / variance), for one unit.

        Args:
            variances: Of orders 0, 1, 2, .. (of a number's own power); None where an order is exact or not released.
        """
        weights = [part / v if v else Fraction(0) for v, part in zip(variances, self._parts(variances), strict=True)]
        return Fraction(self.records**2) * self._sum(self._by_key(weights))

    def variances(self, shares: Sequence[Fraction], rho: Fraction) -> Variances:
        """The variances that spend exactly ``rho``, order i with weight ``shares[i]``; None where a share is 0."""
        whole = self._sum(self._by_key(shares)) * Fraction(self.records**2) / (2 * rho)
        return tuple(
            whole * part / share if share else None for share, part in zip(shares, self._parts(shares), strict=True)
        )

    def _parts(self, orders: Sequence[object]) -> list[Fraction]:
        """The squared length of each order of the longest record."""
        return [Fraction(self.longest) ** order for order in range(len(orders))]

    def _by_key(self, weights: Sequence[Fraction]) -> list[Fraction]:
        """Weights of all orders: counts and sums as often as there are keys."""
        return [weight * self.keys if order < 2 else weight for order, weight in enumerate(weights)]

    def _sum(self, weights: Sequence[Fraction]) -> Fraction:
        """For records of length 1 with these weights of the orders."""
        if not self.replaced:
            return sum(weights, Fraction(0))
        same = turned(weights[1:])
        return same if self.keeps_key else max(same, 2 * sum(weights, Fraction(0)))


def turned(weights: Sequence[Fraction]) -> Fraction:
    """The greatest 2 (w_1 (1 - c) + w_2 (1 - c^2) + ..) over cosines c: a record replaced by one at another angle.

    Exact up to order 2, at c = -w_1 / (2 w_2) or at -1; above that hardly more than it. With another key nothing of
    orders 0 and 1 cancels, so c = 0 is worst, which the caller adds.
    """
    if len(weights) <= 2:
        first, second = weights[0], weights[1] if len(weights) == 2 else Fraction(0)
        if first > 2 * second:
            return 4 * first
        return 2 * (first + second) + (first**2 / (2 * second) if second else 0)
    # Above 0 all terms fall, so the worst cosine is 0 or less. Between two places where the sum is known it rises by no
    # more than its steepest slope, sum of i w_i, times half their distance.
    steepest = sum((i * w for i, w in enumerate(weights, start=1)), Fraction(0))
    seen = max(
        sum((w * (1 - Fraction(-place, _PARTS) ** i) for i, w in enumerate(weights, start=1)), Fraction(0))
        for place in range(_PARTS + 1)
    )
    return 2 * (seen + steepest / (2 * _PARTS))


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
