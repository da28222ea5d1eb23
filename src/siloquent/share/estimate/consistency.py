"""Counts of a tree's nodes that fit together: none negative, each the sum of its children.

The trees here have p levels: those counted on the way down, then the leaves below the last of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
SWEEPS = 200
STILL = 1e-6


def consistent(counts: Sequence[Floats], weights: Sequence[Floats], parents: Sequence[Integers]) -> list[Floats]:
    """The counts nearest to ``counts`` in weighted squares that add up and are not negative.

    Args:
        counts: Noisy counts of each level, root first.
        weights: Of each count, above 0: the inverse of its variance, or the paper's 1 / nodes of its level.
        parents: Of each level but the first: the parent of each node.
    Source:
        Dykstra's alternating projections between the counts that add up (in closed form, see ``summing``) and those
        that are not negative, in one norm: they converge to the nearest point of both. The program is that of
        "Privacy-Preserving Federated Data Sharing" (AAMAS 2019), algorithm 5, line 3.
    """
    found = [count.astype(np.float64) for count in counts]
    owed = [np.zeros_like(count) for count in found]
    for _ in range(SWEEPS):
        before = found
        summed = summing(found, weights, parents)
        found = [np.maximum(count + debt, 0.0) for count, debt in zip(summed, owed, strict=True)]
        owed = [count + debt - clipped for count, debt, clipped in zip(summed, owed, found, strict=True)]
        if max(float(np.abs(now - then).max()) for now, then in zip(found, before, strict=True)) < STILL:
            break
    return _exactly(found, parents)


def summing(counts: Sequence[Floats], weights: Sequence[Floats], parents: Sequence[Integers]) -> list[Floats]:
    """The nearest counts that add up, whatever their signs: one pass upwards, one downwards.

    Upwards, each node weighs its own count against the sum of its children's; downwards, what a node was given more
    than its children say is dealt out by the inverse of their weights.
    """
    best, weight = [count.copy() for count in counts], [w.copy() for w in weights]
    sums: list[Floats] = [np.zeros(0)] * len(counts)
    shares: list[Floats] = [np.zeros(0)] * len(counts)
    for level in range(len(counts) - 2, -1, -1):
        nodes, parent = len(counts[level]), parents[level]
        sums[level] = _sums(parent, best[level + 1], nodes)
        shares[level] = _sums(parent, 1 / weight[level + 1], nodes)
        below = 1 / shares[level]
        best[level] = (weight[level] * best[level] + below * sums[level]) / (weight[level] + below)
        weight[level] = weight[level] + below
    found = [best[0]]
    for level, parent in enumerate(parents):
        more = (found[level] - sums[level]) / shares[level]
        found.append(best[level + 1] + more[parent] / weight[level + 1])
    return found


def _exactly(found: list[Floats], parents: Sequence[Integers]) -> list[Floats]:
    """Counts that add up to the last digit: leaves as they are, every other level from the one below."""
    made = [found[-1]]
    for parent, count in zip(reversed(parents), reversed(found[:-1]), strict=True):
        made.insert(0, _sums(parent, made[0], len(count)))
    return made


def _sums(parent: Integers, values: Floats, nodes: int) -> Floats:
    """The sums of each parent's children, shape (nodes,)."""
    return np.bincount(parent, weights=values, minlength=nodes).astype(np.float64)


def whole_rows(counts: Floats, rng: np.random.Generator) -> Integers:
    """Counts as whole numbers with the same mean: the fraction is the chance of one more."""
    return np.floor(counts + rng.random(len(counts))).astype(np.int64)
