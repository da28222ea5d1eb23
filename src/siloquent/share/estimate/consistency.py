"""Consistent counts of a tree's nodes: none negative, each the sum of its children.

The trees here have p levels: those counted on the way down, then the leaves below the last of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class _Rises:
    """Functions of a multiplier, one per node: 0 at first, then rising by ``rate`` more from each ``start`` on.

    Terms are sorted by ``node``, then by ``start``; every rate is positive, so the functions are convex.
    """

    node: Integers
    start: Floats
    rate: Floats

    def evaluate(self, multiplier: Floats) -> Floats:
        """Evaluate each node's function at its multiplier (nodes,)."""
        terms = self.rate * np.maximum(multiplier[self.node] - self.start, 0.0)
        return np.bincount(self.node, weights=terms, minlength=len(multiplier)).astype(np.float64)

    def sum_children(self, parent: Integers) -> _Rises:
        """Return the sum of each parent's children."""
        above = parent[self.node]
        order = np.lexsort((self.start, above))
        return _Rises(above[order], self.start[order], self.rate[order])

    def add_weight(self, weight: Floats, count: Floats) -> _Rises:
        """Add the penalty weight (size - count)^2, both (nodes,), to each node's size as a function of its multiplier.

        With size x = S(l) below, the multiplier above is l + 2 weight (x - count): the same points, shifted.
        """
        first = np.flatnonzero(np.diff(self.node, prepend=-1))
        begun = np.repeat(first, np.diff(first, append=len(self.node)))
        w, c = weight[self.node], count[self.node]
        total = np.cumsum(self.rate)
        slope = total - (total - self.rate)[begun]
        gained = np.concatenate([[0.0], slope[:-1] * np.diff(self.start)])
        gained[first] = 0.0
        size = np.cumsum(gained)
        size = size - size[begun]
        moved = slope / (1 + 2 * w * slope)
        rate = np.diff(moved, prepend=0.0)
        rate[first] = moved[first]
        return _Rises(self.node, 2 * w * (size - c) + self.start, np.maximum(rate, 0.0))


def make_consistent(counts: Sequence[Floats], weights: Sequence[Floats], parents: Sequence[Integers]) -> list[Floats]:
    """Compute the consistent nonnegative counts nearest to ``counts`` in weighted squares: exactly, in one pass.

    Args:
        counts: Noisy counts of each level, root first.
        weights: Of each count, above 0: the paper's are 1 / nodes of its level.
        parents: Of each level except the first: the parent of each node, in order; every node has children.
    Source:
        The program of "Privacy-Preserving Federated Data Sharing" (AAMAS 2019), algorithm 5, line 3. A node's size at
        the optimum is a convex, piecewise linear function of the multiplier of its sum, computed from its children's
        (upwards); then multipliers are computed downwards from the root's, which is 0.
    """
    last = len(counts) - 1
    answers = _Rises(np.arange(len(counts[last])), -2 * weights[last] * counts[last], 1 / (2 * weights[last]))
    kept: list[_Rises] = []
    for level in range(last - 1, -1, -1):
        answers = answers.sum_children(parents[level]).add_weight(weights[level], counts[level])
        kept.insert(0, answers)
    multiplier = np.zeros(len(counts[0]))
    for level in range(last):
        size = kept[level].evaluate(multiplier)
        multiplier = (multiplier - 2 * weights[level] * (size - counts[level]))[parents[level]]
    leaves = np.maximum(counts[last] + multiplier / (2 * weights[last]), 0.0)
    return _make_exact(leaves, [len(count) for count in counts], parents)


def _make_exact(leaves: Floats, nodes: Sequence[int], parents: Sequence[Integers]) -> list[Floats]:
    """Make counts add up exactly: leaves are unchanged, every other level is summed from the one below."""
    made = [leaves]
    for parent, count in zip(reversed(parents), reversed(nodes[:-1]), strict=True):
        made.insert(0, np.bincount(parent, weights=made[0], minlength=count).astype(np.float64))
    return made


def round_rows(counts: Floats, rng: np.random.Generator) -> Integers:
    """Round counts to integers with the same mean: the fraction is the probability of rounding up."""
    return np.floor(counts + rng.random(len(counts))).astype(np.int64)
