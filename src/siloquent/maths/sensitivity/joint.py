"""The sensitivity of one joint Gaussian release: the change of the sums of all orders together by one unit.

A record is a vector of whole numbers of squared length at most ``longest``. Order 0 counts it, order 1 adds it up,
order i adds up its products of i numbers, where a product counts as often as its numbers can be ordered (an entry off
the diagonal twice: as in the whole matrix, or as one entry with half the variance). Then |order i| = |record|^i and the
scalar product of two records' order i is that of the records to the power i, which is what makes the bounds below
exact. In L1 a product counts once. Proof: docs/explanation/search.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from siloquent.maths.sensitivity.record_pairs import RecordPairs

Variances = tuple[Fraction | None, ...]
_PARTS = 256
"""The number of angles tried between a right angle and opposite records, for the worst angle of orders above 2."""


@dataclass(frozen=True, slots=True)
class JointRelease:
    """The contents of one joint release.

    ``keys``: how often counts and sums are released, once for each key that rows are grouped by. ``replaced``: units
    are replaced, otherwise added or removed. ``records``: of one unit. ``keeps_key``: a replaced record counts in the
    same entries as before, since nothing is grouped and all records count. ``one_place``: nothing is grouped, but a
    record may not count at all. ``numbers``: the most non-zero numbers of a record; the column of ``chosen`` of them
    depends on the record, as with categories. ``cut``: records are shortened, so they need not lie in the box whose
    corner is the longest one. ``by_key``: products are grouped by the key, too. ``pairs``: all possible records, if
    they are few.
    """

    longest: int
    keys: int = 1
    replaced: bool = False
    records: int = 1
    keeps_key: bool = False
    one_place: bool = False
    numbers: int = 1
    chosen: int = 0
    cut: bool = False
    by_key: bool = False
    pairs: RecordPairs | None = None

    def bound_change(self, variances: Variances) -> Fraction:
        """Return the greatest sum over all orders of (squared change / variance), for one unit.

        Args:
            variances: Of orders 0, 1, 2, ... (of a number's own power); None if an order is exact or not released.
        """
        weights = [
            part / v if v else Fraction(0) for v, part in zip(variances, self._compute_parts(variances), strict=True)
        ]
        return Fraction(self.records**2) * self._sum_weighted(self._expand_by_key(weights))

    def split_variances(self, shares: Sequence[Fraction], rho: Fraction) -> Variances:
        """Return the variances that spend exactly ``rho``, order i with weight ``shares[i]``; None if a share is 0."""
        whole = self._sum_weighted(self._expand_by_key(shares)) * Fraction(self.records**2) / (2 * rho)
        return tuple(
            whole * part / share if share else None
            for share, part in zip(shares, self._compute_parts(shares), strict=True)
        )

    def bound_l1_change(self, scales: Variances) -> Fraction:
        """Return the greatest sum over orders 0, 1 and 2 of (L1 change / scale), for one unit."""
        weights = [
            length / scale if scale else Fraction(0)
            for scale, length in zip(scales, self.compute_l1_lengths(), strict=True)
        ]
        return self.records * self._sum_l1(weights)

    def split_scales(self, shares: Sequence[Fraction], epsilon: Fraction) -> Variances:
        """Return the Laplace scales of orders 0, 1 and 2 that spend exactly ``epsilon``; None where a share is 0.

        Args:
            shares: Of a whole order, the counts or sums of all keys together.
        """
        whole = self.records * self._sum_l1(shares) / epsilon
        return tuple(
            whole * length / share if share else None
            for share, length in zip(shares, self.compute_l1_lengths(), strict=True)
        )

    def compute_l1_lengths(self) -> tuple[int, int, int]:
        """Return the L1 length of each order of the longest record, those of all keys together."""
        sums, products = self._bound_lengths()
        return self.keys, self.keys * sums, products

    def _bound_lengths(self) -> tuple[int, int]:
        """Return bounds: |z|_1 <= sqrt(numbers) |z|, and products of two, each once, sum to (|z|_1^2 + |z|^2) / 2."""
        if self.pairs is not None:
            return self.pairs.lengths
        reach = self.numbers * self.longest
        return math.isqrt(reach), (reach + self.longest) // 2

    def _compute_parts(self, orders: Sequence[object]) -> list[Fraction]:
        """Return the squared length of each order of the longest record."""
        return [Fraction(self.longest) ** order for order in range(len(orders))]

    def _expand_by_key(self, weights: Sequence[Fraction]) -> list[Fraction]:
        """Return the weights of all orders, with counts and sums repeated for each key."""
        return [weight * self.keys if order < 2 else weight for order, weight in enumerate(weights)]

    def _sum_weighted(self, weights: Sequence[Fraction]) -> Fraction:
        """Return the weighted sum of changes for records of length 1."""
        whole = sum(weights, Fraction(0))
        if not self.replaced:
            return whole
        same = bound_rotation(weights[1:])
        if self.pairs is not None and self.longest:
            same = self.pairs.bound_replaced_squared([w / self.longest**i for i, w in enumerate(weights[1:], start=1)])
        return same if self.keeps_key else max(same, whole if self.one_place else 2 * whole)

    def _sum_l1(self, weights: Sequence[Fraction]) -> Fraction:
        """Return the same in L1: ``weights`` of whole orders, of the longest record."""
        counts, first, second = weights
        alone, same = counts + first + second, self._bound_l1_rotation(first, second)
        if self.pairs is not None:
            lengths = zip((first, second), self._bound_lengths(), strict=True)
            each = [weight / length if length else Fraction(0) for weight, length in lengths]
            alone, same = counts + self.pairs.bound_added(each), self.pairs.bound_replaced(each)
        if not self.replaced:
            return alone
        if self.keeps_key:
            return same
        # With another key, counts and sums change in two entries; products do if they are grouped.
        elsewhere = 2 * (counts + first) + (2 if self.by_key else self._bound_products_change()) * second
        return max(same, alone if self.one_place else elsewhere)

    def _bound_l1_rotation(self, first: Fraction, second: Fraction) -> Fraction:
        """Return the greatest L1 change by replacing a record by another in the same entries."""
        if not self.chosen and (not self.cut or self.numbers == 1):
            return bound_rotation([first, second]) / 2
        return 2 * first + self._bound_products_change() * second

    def _bound_products_change(self) -> Fraction:
        """Bound the L1 change of products of two, in lengths of the longest record, when a record is replaced."""
        if self.chosen and not self.cut:
            # Products with a category change in two entries then, those of numbers by one length at most.
            fixed = self.numbers - self.chosen
            moved = self.chosen * (self.chosen + 1) + 2 * self.chosen * fixed + Fraction(fixed * (fixed + 1), 2)
            return moved / Fraction(self.numbers * (self.numbers + 1), 2)
        if self.chosen:
            return Fraction(2)
        if not self.cut or self.numbers == 1:
            return Fraction(1)
        # |zz' - ww'| <= sqrt(2) |z|^2, and by Cauchy-Schwarz its triangle is at most sqrt(n (n + 3)) / 2 times that.
        wide = math.isqrt(self.numbers * (self.numbers + 3) * self.longest**2 // 2) + 1
        return min(Fraction(wide, (self.numbers + 1) * self.longest // 2), Fraction(2))


def bound_rotation(weights: Sequence[Fraction]) -> Fraction:
    """Return the maximum of 2 (w_1 (1 - c) + w_2 (1 - c^2) + ...) over cosines c: a record replaced at another angle.

    Exact up to order 2, at c = -w_1 / (2 w_2) or at -1; above that, a slight overestimate. With another key nothing of
    orders 0 and 1 cancels, so c = 0 is worst, which the caller adds. Half of it is the greatest L1 change in a box, by
    replacing a record by -w_1 / (2 w_2) times itself.
    """
    if len(weights) <= 2:
        first, second = weights[0], weights[1] if len(weights) == 2 else Fraction(0)
        if first > 2 * second:
            return 4 * first
        return 2 * (first + second) + (first**2 / (2 * second) if second else 0)
    # Above 0 all terms fall, so the worst cosine is 0 or less. Between two points where the sum is known it rises by
    # at most its steepest slope, sum of i w_i, times half their distance.
    steepest = sum((i * w for i, w in enumerate(weights, start=1)), Fraction(0))
    seen = max(
        sum((w * (1 - Fraction(-place, _PARTS) ** i) for i, w in enumerate(weights, start=1)), Fraction(0))
        for place in range(_PARTS + 1)
    )
    return 2 * (seen + steepest / (2 * _PARTS))
