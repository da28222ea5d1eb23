"""Releases that are ids alone: top lists, the crossing of a threshold, and quantiles, each by its utilities."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from siloquent.explore.measure.base import LARGEST_VALUE, SAFE
from siloquent.explore.plan.cells.compiled import Integers
from siloquent.explore.plan.mechanisms.draws import CrossingDraw, NoisyTopDraw, RankDraw, RoundsDraw

FAR = 2**61


def select_noisy_top(draw: NoisyTopDraw, exact: Integers) -> Integers:
    """Return the ids of the k largest of ``exact`` answers plus geometric noise, which is not released.

    Privacy:
        Pure (k spread / scale)-DP. Proof: docs/explanation/geometric-top-k.md.
    """
    from siloquent.privacy.noise import add_geometric

    return select_largest(add_geometric(draw.sign * exact, scale=draw.scale), draw.k)


def select_by_rounds(draw: RoundsDraw, exact: Integers) -> Integers:
    """Return the ids chosen from ``exact`` answers by k rounds of exponential selection without replacement.

    Privacy:
        Each round has bounded range g = spread rate: k g pure, k g^2 / 8 zCDP. Proof: docs/explanation/selection.md.
    """
    from siloquent.privacy.noise import select_exponential_top_k

    return select_exponential_top_k(draw.sign * exact, rate=draw.rate, k=draw.k)


def select_largest(values: Integers, k: int) -> Integers:
    """Return the positions of the k largest, largest first, ties in declared order."""
    return np.argsort(-values, kind="stable")[:k]


def select_crossing(draw: CrossingDraw, exact: Integers) -> Integers:
    """Return the ids of ``exact`` answers from the selected crossing on, in declared order.

    Privacy:
        Pure epsilon-DP, epsilon = 2 Linf rate: a utility moves by at most Linf. Proof: docs/explanation/iceberg.md.
    """
    from siloquent.privacy.noise import permute_and_flip

    place = permute_and_flip(compute_crossing_utilities(exact[draw.order], draw.threshold), rate=draw.rate)
    return np.sort(draw.order[place:])


def compute_crossing_utilities(counts: Integers, threshold: int) -> Integers:
    """Compute how badly each index j in 0..L (leaving out the first j) cuts the chain ``counts``, shape (L + 1,).

    u_j = -max(0, c_j - t, t + 1 - c_(j+1)), c_0 = -inf, c_(L+1) = +inf: reported counts should be at least
    t + 1, omitted ones at most t. Measuring both from t would break ``>= c`` and fractions of c by one row.
    """
    left_out = np.concatenate([[-FAR], counts]) - threshold
    reported = threshold + 1 - np.concatenate([counts, [FAR]])
    # Clipped at -2^60, the sampler's range: clipping never increases the distance of two utilities.
    return np.asarray(-np.clip(np.maximum(left_out, reported), 0, LARGEST_VALUE), dtype=np.int64)


def select_values(draw: RankDraw, counts: Integers) -> Integers:
    """Return the index of the value selected in each group; ``counts`` of a group's values are contiguous.

    Privacy:
        Pure (2 Du rate)-DP for permute-and-flip, (2 Du rate)^2 / 8 zCDP for exponential selection, Du the change of all
        groups' utilities by one unit. Proof: docs/explanation/quantiles.md.
    """
    from siloquent.privacy.noise import permute_and_flip, select_exponential

    choose = permute_and_flip if draw.rule == "permute-and-flip" else select_exponential
    groups = counts.reshape(-1, draw.candidates)
    chosen = [choose(compute_rank_utilities(group, draw.share), rate=draw.rate) for group in groups]
    return np.array(chosen, dtype=np.int64)


def compute_rank_utilities(counts: Integers, share: Fraction) -> Integers:
    """Compute by how much each value's rank misses the share a/b of the rows, times b, shape (k,); the best has 0.

    u(v) = -max(0, (b-a) n(< v) - a n(>= v), a n(> v) - (b-a) n(<= v)).
    """
    a, b = share.numerator, share.denominator
    if float(counts.astype(np.float64).sum()) * b >= SAFE:  # an overflow would break the guarantee
        counts = counts.astype(object)
    upto = np.cumsum(counts)
    below, rows = upto - counts, upto[-1]
    too_high = (b - a) * below - a * (rows - below)
    too_low = a * (rows - upto) - (b - a) * upto
    off = np.maximum(np.maximum(too_high, too_low), 0)
    # Clipped to the sampler's range: clipping never increases the distance of two utilities.
    return np.asarray(-np.minimum(off, LARGEST_VALUE), dtype=np.int64)
