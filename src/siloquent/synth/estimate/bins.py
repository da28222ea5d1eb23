"""Bins and the number of rows, from noisy 1-way counts only: post-processing at no cost."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

PARTS = 12
"""A value with 1/12 of the rows keeps its own group; the others are joined to groups of 1/12 of the remaining rows."""
_WINDOW, _FEWEST = 5, 2
CLEAR = 3.0
"""The number of standard deviations by which a group's count should exceed the noise."""


def estimate_row_count(counts: Sequence[NDArray[np.integer]], variances: Sequence[float] | None = None) -> int:
    """Return the number of rows from noisy 1-way counts: totals weighted by their precision, at least 1.

    Args:
        variances: Of the noise on each count of each vector; None: equal ones.

    >>> estimate_row_count([np.array([10, 20]), np.array([31])])
    31
    """
    spread = [1.0] * len(counts) if variances is None else variances
    weights = [1 / (len(each) * variance) for each, variance in zip(counts, spread, strict=True)]
    total = sum(weight * float(each.sum()) for weight, each in zip(weights, counts, strict=True))
    return max(1, round(total / sum(weights)))


def project_to_simplex(values: Floats, total: float) -> Floats:
    """Return the closest point to ``values`` that has no negative entry and sums to ``total``.

    >>> project_to_simplex(np.array([3.0, 1.0, -2.0]), 3.0).tolist()
    [2.5, 0.5, 0.0]
    """
    falling = np.sort(values)[::-1]
    surplus = (np.cumsum(falling) - total) / np.arange(1, len(values) + 1)
    return np.asarray(np.maximum(values - surplus[np.flatnonzero(falling > surplus)[-1]], 0.0))


def group_ordered(shares: Floats, *, deviation: float, ordered: int, cuts: Sequence[int] = ()) -> Integers:
    """Return the group of each cell of an ordered attribute, groups counted from 0 in the order of cells.

    Args:
        shares: Share of the rows in each cell.
        deviation: The noise of one cell, as a share of the rows.
        ordered: Cells from this one on (``other``, NULL) keep their own groups.
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
    for first, last in pairwise(edges):
        for low, high in _join_neighbours(shares[first:last], enough):
            group += 1
            groups[first + low : first + high] = group
    groups[ordered:] = group + 1 + np.arange(len(shares) - ordered)
    return groups


def _join_neighbours(shares: Floats, enough: float) -> list[tuple[int, int]]:
    """Join neighbours until each group has ``enough``; the last group needs half of it, or joins the one before."""
    found: list[tuple[int, int]] = []
    start, mass = 0, 0.0
    for place, share in enumerate(shares.tolist()):
        mass += share
        if mass >= enough:
            found.append((start, place + 1))
            start, mass = place + 1, 0.0
    if start < len(shares):
        if found and mass < enough / 2:
            found[-1] = (found[-1][0], len(shares))
        else:
            found.append((start, len(shares)))
    return found


def merge_rare(shares: Floats, *, deviation: float, kept: Sequence[int] = ()) -> Integers:
    """Return the group of each category: categories lost in the noise share one group, if there are two or more.

    Args:
        kept: Categories that keep their own group even if rare, since a constraint names them.
    """
    rare = shares < CLEAR * deviation
    rare[list(kept)] = False
    if rare.sum() < 2:
        return np.arange(len(shares))
    groups = np.cumsum(~rare) - 1
    groups[rare] = int((~rare).sum())
    return groups


def denoise_shares(shares: Floats, groups: Integers, *, deviation: float, ordered: int) -> Floats:
    """Denoise shares: the result has no negative entry, sums to one, and is as smooth as the noise justifies.

    Ordered values are shrunk towards the mean of their five neighbours, merged categories towards the mean of their
    group, each by the part of the spread that noise accounts for (James-Stein), so that clear spikes stay.
    """
    made = shares.copy()
    if ordered:
        in_group = np.bincount(groups)[groups] > 1
        in_group[ordered:] = False
        if in_group.sum() > _WINDOW:
            weights, kernel = in_group.astype(np.float64), np.ones(_WINDOW)
            near = np.convolve(shares * weights, kernel, "same") / np.maximum(np.convolve(weights, kernel, "same"), 1)
            noise = deviation**2 * (1 - 1 / _WINDOW)
            made[in_group] = _shrink(shares[in_group], near[in_group], noise=noise)
    else:
        for group in np.flatnonzero(np.bincount(groups) > _FEWEST):
            members = groups == group
            made[members] = _shrink(shares[members], shares[members].mean(), noise=deviation**2)
    return project_to_simplex(made, 1.0)


def _shrink(values: Floats, centre: Floats | np.floating[Any], *, noise: float) -> Floats:
    apart = values - centre
    spread = float((apart**2).mean())
    return np.asarray(centre + apart * (max(0.0, 1 - noise / spread) if spread > 0 else 0.0))
