"""Bins and the number of rows, from noisy 1-way counts alone: post-processing, so it costs nothing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

PARTS = 12
"""A value with a twelfth of the rows stays alone, and the others are joined to twelfths of what is left."""
CLEAR = 3.0
"""A group's count should stand out of the noise by so many standard deviations."""


def number_of_rows(counts: Sequence[NDArray[np.integer]]) -> int:
    """The number of rows from noisy 1-way counts of one variance: totals weighted by their precision, at least 1.

    >>> number_of_rows([np.array([10, 20]), np.array([31])])
    31
    """
    weights = [1 / len(each) for each in counts]
    total = sum(weight * float(each.sum()) for weight, each in zip(weights, counts, strict=True))
    return max(1, round(total / sum(weights)))


def projected(values: Floats, total: float) -> Floats:
    """The closest point to ``values`` that is nowhere negative and sums to ``total``.

    >>> projected(np.array([3.0, 1.0, -2.0]), 3.0).tolist()
    [2.5, 0.5, 0.0]
    """
    falling = np.sort(values)[::-1]
    surplus = (np.cumsum(falling) - total) / np.arange(1, len(values) + 1)
    return np.maximum(values - surplus[np.flatnonzero(falling > surplus)[-1]], 0.0)


def bin_ordered(shares: Floats, *, deviation: float, ordered: int, cuts: Sequence[int] = ()) -> Integers:
    """The group of each cell of an ordered attribute, groups counted from 0 in the order of cells.

    Args:
        shares: Share of the rows in each cell.
        deviation: The noise of one cell, as a share of the rows.
        ordered: Cells from here on (``other``, NULL) stay alone.
        cuts: Cells at which a group must begin.
    """
    alone = shares[:ordered] >= 1 / PARTS
    rest = float(shares[:ordered][~alone].sum())
    enough = max(rest / PARTS, CLEAR * deviation)
    starts = {0, ordered, *(c for c in cuts if 0 < c < ordered)}
    starts |= set(np.flatnonzero(alone).tolist()) | set((np.flatnonzero(alone) + 1).tolist())
    edges = sorted(start for start in starts if start <= ordered)
    groups = np.arange(len(shares)) * 0
    group = -1
    for first, last in zip(edges, edges[1:], strict=False):
        for low, high in _joined(shares[first:last], enough):
            group += 1
            groups[first + low : first + high] = group
    groups[ordered:] = group + 1 + np.arange(len(shares) - ordered)
    return groups


def _joined(shares: Floats, enough: float) -> list[tuple[int, int]]:
    """Neighbours joined until each group has ``enough``; what is left over at the end joins the last group."""
    found: list[tuple[int, int]] = []
    start, mass = 0, 0.0
    for place, share in enumerate(shares.tolist()):
        mass += share
        if mass >= enough:
            found.append((start, place + 1))
            start, mass = place + 1, 0.0
    if start < len(shares):
        if found:
            found[-1] = (found[-1][0], len(shares))
        else:
            found.append((start, len(shares)))
    return found


def merge_rare(shares: Floats, *, deviation: float, kept: Sequence[int] = ()) -> Integers:
    """The group of each category: those that do not stand out of the noise share one, if they are two or more.

    Args:
        kept: Categories that stay alone however rare, since a constraint names them.
    """
    rare = shares < CLEAR * deviation
    rare[list(kept)] = False
    if rare.sum() < 2:
        return np.arange(len(shares))
    groups = np.cumsum(~rare) - 1
    groups[rare] = int((~rare).sum())
    return groups
