"""Trees of intervals over an ordered domain: bins of values, and coarser and coarser nodes of equally many bins."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Tree:
    """``values`` places in ``bins`` bins below a root; ``fanouts`` from the root down.

    Level 0 is the root, level i has the product of the first i fan-outs as nodes, the last level is the bins. Every
    node of a level holds equally many bins. Where values do not fill the bins, the last bins are empty for ever.
    """

    values: int
    fanouts: tuple[int, ...]

    @property
    def height(self) -> int:
        """The number of the finest level."""
        return len(self.fanouts)

    @property
    def bins(self) -> int:
        """How many bins the finest level has."""
        return math.prod(self.fanouts)

    def nodes(self, level: int) -> int:
        """How many nodes ``level`` has."""
        return math.prod(self.fanouts[:level])

    def bin_of(self) -> NDArray[np.int64]:
        """The bin of each place, shape (values,): contiguous, of widths that differ by one at most."""
        return bin_of(self.values, self.bins)

    def gathered(self, weights: Floats) -> Floats:
        """Weights of places as weights of bins, shape (bins,): the mean within each bin, 0 in empty ones."""
        places = self.bin_of()
        sums = np.bincount(places, weights=weights, minlength=self.bins)
        return sums / np.maximum(np.bincount(places, minlength=self.bins), 1)

    def smoothed(self, weights: Floats) -> Floats:
        """As ``gathered``, for values that rise or fall evenly through a bin and its neighbours, not in steps.

        Where weights differ within a bin, their slope there meets the slope of what lies in the bins beside it.
        """
        found = self.gathered(weights)
        if self.bins >= self.values or self.bins < 3:
            return found
        places = self.bin_of()
        widths = np.bincount(places, minlength=self.bins)
        middle = np.bincount(places, weights=np.arange(self.values)) / widths
        offset = (np.arange(self.values) - middle[places]) / widths[places]
        slope = np.bincount(places, weights=weights * offset) / widths / 2
        found[2:] += slope[1:-1]
        found[:-2] -= slope[1:-1]
        return found

    def averaged(self, weights: Floats, level: int) -> Floats:
        """The mean of ``weights`` (bins,) over each node of ``level``, shape (nodes,)."""
        found: Floats = weights.reshape(self.nodes(level), -1).mean(axis=1)
        return found

    def details(self, weights: Floats) -> tuple[Floats, ...]:
        """``weights`` as a sum of parts, one a level: part i is constant on nodes of level i and given per node.

        Part 0 is the mean; part i is what the nodes of level i add to those of level i - 1.
        """
        means = [self.averaged(weights, level) for level in range(self.height + 1)]
        finer = [means[i] - np.repeat(means[i - 1], self.fanouts[i - 1]) for i in range(1, self.height + 1)]
        return (means[0], *finer)

    def energies(self, weights: Floats) -> Floats:
        """The squared length of each part of ``details``, over bins: shape (height + 1,)."""
        parts = self.details(weights)
        return np.array([np.square(part).sum() * (self.bins // part.size) for part in parts])


def bin_of(values: int, bins: int) -> NDArray[np.int64]:
    """The bin of each of ``values`` places: p is in bin p if there are as many bins, else in floor(p bins / n)."""
    places = np.arange(values, dtype=np.int64)
    return places if bins >= values else places * bins // values


def tree(values: int, *, resolution: int | None = None, fanout: int = 5) -> Tree:
    """The tree over ``values`` ordered places with at least ``resolution`` bins (default: one a place).

    As many levels as ``fanout`` suggests, and the fewest bins that equal fan-outs allow: 125 places are 5 x 5 x 5, 100
    are 4 x 5 x 5, 120 are 4 x 5 x 6.
    """
    bins = min(values, resolution or values)
    if bins == 1:
        return Tree(values, ())
    height = max(1, round(math.log(bins, fanout)))
    return Tree(values, _fanouts(bins, height, fanout))


@lru_cache(maxsize=256)
def _fanouts(bins: int, height: int, fanout: int) -> tuple[int, ...]:
    """The ``height`` fan-outs whose product is the least one from ``bins`` on, then the most alike."""
    if height == 1:
        return (bins,)
    largest = max(2 * fanout, math.ceil(bins ** (1 / height)) + 1)
    best = min(
        (combo for combo in combinations_with_replacement(range(2, largest + 1), height) if math.prod(combo) >= bins),
        key=lambda combo: (math.prod(combo), max(combo) - min(combo)),
    )
    return tuple(best)


def flat(values: int) -> Tree:
    """The tree of a category: a root and its values."""
    return Tree(values, (values,) if values > 1 else ())


def canonical_nodes(tree: Tree, low: int, high: int) -> list[tuple[int, int]]:
    """The fewest nodes (level, number) whose bins are exactly low..high."""
    found: list[tuple[int, int]] = []

    def visit(level: int, node: int) -> None:
        width = tree.bins // tree.nodes(level)
        first, last = node * width, (node + 1) * width - 1
        if last < low or high < first:
            return
        if low <= first and last <= high:
            found.append((level, node))
            return
        for child in range(tree.fanouts[level]):
            visit(level + 1, node * tree.fanouts[level] + child)

    visit(0, 0)
    return found
