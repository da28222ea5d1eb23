"""Trees of intervals over an ordered domain: bins of values, and coarser nodes of equally many bins each."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations_with_replacement, pairwise

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Tree:
    """A tree over ``values`` values in ``bins`` bins below a root; ``fanouts`` from the root down.

    Level 0 is the root, level i has the product of the first i fan-outs as nodes, the last level is the bins. Every
    node of a level holds equally many bins. If the values do not fill the bins, the last bins stay empty.

    Attributes:
        alone: Values with a bin of their own, ascending: frequent values, without a slope towards their neighbours.
    """

    values: int
    fanouts: tuple[int, ...]
    alone: tuple[int, ...] = ()

    @property
    def height(self) -> int:
        """The number of the finest level."""
        return len(self.fanouts)

    @property
    def bins(self) -> int:
        """The number of bins of the finest level."""
        return math.prod(self.fanouts)

    def count_nodes(self, level: int) -> int:
        """Return the number of nodes of ``level``."""
        return math.prod(self.fanouts[:level])

    def map_to_bins(self) -> NDArray[np.int64]:
        """Return the bin of each value, shape (values,): contiguous, of nearly equal width except for values alone."""
        return np.searchsorted(self.starts, np.arange(self.values), side="right") - 1

    @property
    def starts(self) -> tuple[int, ...]:
        """The first value of each bin that is not empty."""
        return compute_bin_starts(self.values, self.bins, self.alone)

    def gather_weights(self, weights: Floats) -> Floats:
        """Return weights of values as weights of bins, shape (bins,): the mean within each bin, 0 in empty ones."""
        places = self.map_to_bins()
        sums = np.bincount(places, weights=weights, minlength=self.bins)
        return sums / np.maximum(np.bincount(places, minlength=self.bins), 1)

    def smooth_weights(self, weights: Floats) -> Floats:
        """As ``gather_weights``, for values that rise or fall evenly through a bin and its neighbours, not in steps.

        If weights differ within a bin, their slope there is combined with the slope of the values in adjacent bins.
        """
        found = self.gather_weights(weights)
        if self.bins >= self.values or self.bins < 3:
            return found
        places = self.map_to_bins()
        widths = np.bincount(places, minlength=self.bins)
        middle = np.bincount(places, weights=np.arange(self.values)) / widths
        turn = np.bincount(places, weights=weights * (np.arange(self.values) - middle[places]))
        spread = np.ones(self.bins, dtype=np.bool_)
        spread[places[list(self.alone)]] = False
        # The slope of a bin is that between its neighbours; beside a value alone, that to the other neighbour.
        inner = np.arange(1, self.bins - 1)
        below, above = inner - spread[:-2], inner + spread[2:]
        known = spread[1:-1] & (below < above)
        inner, below, above = inner[known], below[known], above[known]
        slope = turn[inner] / (middle[above] - middle[below])
        np.add.at(found, above, slope / widths[above])
        np.add.at(found, below, -slope / widths[below])
        return found

    def average_weights(self, weights: Floats, level: int) -> Floats:
        """Return the mean of ``weights`` (bins,) over each node of ``level``, shape (nodes,)."""
        found: Floats = weights.reshape(self.count_nodes(level), -1).mean(axis=1)
        return found

    def split_details(self, weights: Floats) -> tuple[Floats, ...]:
        """Return ``weights`` as a sum of parts, one a level: part i is constant on nodes of level i and given per node.

        Part 0 is the mean; part i is the difference of the nodes of level i from those of level i - 1.
        """
        means = [self.average_weights(weights, level) for level in range(self.height + 1)]
        finer = [means[i] - np.repeat(means[i - 1], self.fanouts[i - 1]) for i in range(1, self.height + 1)]
        return (means[0], *finer)

    def compute_energies(self, weights: Floats) -> Floats:
        """Return the squared length of each part of ``split_details``, over bins: shape (height + 1,)."""
        parts = self.split_details(weights)
        return np.array([np.square(part).sum() * (self.bins // part.size) for part in parts])


@lru_cache(maxsize=256)
def compute_bin_starts(values: int, bins: int, alone: tuple[int, ...] = ()) -> tuple[int, ...]:
    """Return the first value of each bin: every value if there are as many bins, else evenly, except values ``alone``.

    Without these, p is in bin floor(p bins / values). With them, the runs of values between share the other bins by
    their lengths, at least one each.
    """
    if bins >= values:
        return tuple(range(values))
    ends = (-1, *alone, values)
    runs = [(low + 1, high) for low, high in pairwise(ends) if low + 1 < high]
    shared = _share_bins([high - low for low, high in runs], bins - len(alone))
    found = list(alone)
    for (low, high), count in zip(runs, shared, strict=True):
        found += [low + -(-at * (high - low) // count) for at in range(count)]
    return tuple(sorted(found))


def _share_bins(lengths: list[int], bins: int) -> list[int]:
    """Return the number of bins of each run of values: one each, the others always to the run with the widest bins."""
    assert bins >= len(lengths), "fewer bins than runs of places"
    found = [1] * len(lengths)
    for _ in range(bins - len(lengths)):
        at = max(range(len(lengths)), key=lambda run: lengths[run] / found[run])
        found[at] += 1
    return found


def build_tree(values: int, *, resolution: int | None = None, fanout: int = 5, alone: tuple[int, ...] = ()) -> Tree:
    """Return the tree over ``values`` ordered values with at least ``resolution`` bins (default: one a value).

    It has as many levels as ``fanout`` suggests, and the fewest bins that equal fan-outs allow: 125 values are
    5 x 5 x 5, 100 are 4 x 5 x 5, 120 are 4 x 5 x 6.
    """
    bins = min(values, resolution or values)
    if bins == 1:
        return Tree(values, ())
    height = max(1, round(math.log(bins, fanout)))
    fanouts = _choose_fanouts(bins, height, fanout)
    return Tree(values, fanouts, alone if math.prod(fanouts) < values else ())


@lru_cache(maxsize=256)
def _choose_fanouts(bins: int, height: int, fanout: int) -> tuple[int, ...]:
    """Return the ``height`` fan-outs with the least product of at least ``bins``, and of these the most equal ones."""
    if height == 1:
        return (bins,)
    largest = max(2 * fanout, math.ceil(bins ** (1 / height)) + 1)
    best = min(
        (combo for combo in combinations_with_replacement(range(2, largest + 1), height) if math.prod(combo) >= bins),
        key=lambda combo: (math.prod(combo), max(combo) - min(combo)),
    )
    return tuple(best)


def build_flat_tree(values: int) -> Tree:
    """Return the tree of a category: a root and its values."""
    return Tree(values, (values,) if values > 1 else ())
