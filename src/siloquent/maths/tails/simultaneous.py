"""Simultaneous error bounds of estimates for any query: each possible query has a share of the failure probability.

Shares are fixed before noise is drawn, and their total is at most 1. Then, except with probability beta, no estimate is
beyond its radius, however the queries are chosen. Proof:
docs/explanation/reuse.md.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]
Booleans = NDArray[np.bool_]

_HAIR = 1 + 1e-9
_FEW = 3
_ALL, _ONE, _END, _RUN, _RUNS = (math.log(share) for share in (1 / 8, 1 / 8, 1 / 8, 1 / 2, 1 / 8))
_RATES = np.linspace(0.02, 0.98, 49)


def compute_number_log_share(number: int) -> float:
    """Return ln of the share of the ``number``-th of infinitely many queries, from 1; all shares add up to 1.

    1/log2(n + 1) - 1/log2(n + 2): a telescoping sum whose terms fall hardly faster than 1/n.
    """
    low, high = math.log2(number + 1), math.log2(number + 2)
    return math.log(math.log1p(1 / (number + 1)) / math.log(2) / (low * high))


def compute_set_log_share(chosen: Booleans) -> float:
    """Return ln of the share of a set of ordered values that is not empty; those of all such sets sum to at most 1.

    Ranges are most frequent and have the largest shares: all values, one, prefixes and suffixes, any run, several runs.
    """
    size = len(chosen)
    if size <= _FEW:
        return -math.log(2**size - 1)
    steps = np.flatnonzero(np.diff(chosen.astype(np.int8), prepend=0, append=0))
    runs, low, high = len(steps) // 2, int(steps[0]), int(steps[-1])
    if runs > 1:
        return _RUNS - (runs - 1) * math.log(2) - _compute_log_choose(size + 1, 2 * runs)
    if high - low == size:
        return _ALL
    found = _RUN - _compute_log_choose(size + 1, 2)
    if low == 0 or high == size:
        found = max(found, _END - math.log(2 * (size - 1)))
    return max(found, _ONE - math.log(size)) if high - low == 1 else found


def compute_product_log_share(chosen: Booleans) -> float:
    """Return the same for cells of a grid, (values, values, ...): the product of a set a side; -inf if it is none."""
    axes = range(chosen.ndim)
    sides = [np.asarray(chosen.any(axis=tuple(other for other in axes if other != axis))) for axis in axes]
    if not chosen.any() or math.prod(int(side.sum()) for side in sides) != int(chosen.sum()):
        return -math.inf
    return float(sum(compute_set_log_share(side) for side in sides))


def compute_normal_radius(deviations: Reals, log_shares: Reals) -> Reals:
    """Return the error that a normal estimate exceeds, to either side, with probability exp(log_share)."""
    from scipy.special import ndtri_exp

    return np.asarray(deviations * -ndtri_exp(np.minimum(log_shares, 0.0) - math.log(2)) * _HAIR)


def compute_chi_square_radius(deviations: Reals, noises: int, log_share: float) -> Reals:
    """Return the error that any estimate from one measurement's ``noises`` normal noises exceeds with that probability.

    Source:
        Cauchy and Schwarz: g z <= |g| |z|, where |z|^2 is chi-square with ``noises`` degrees.
    """
    from scipy.special import chdtri

    return np.asarray(deviations * math.sqrt(float(chdtri(noises, math.exp(log_share)))) * _HAIR)


def compute_laplace_radius(scales: Reals, log_shares: Reals) -> Reals:
    """Return the error that sums of Laplace noises exceed, to either side, with probability exp(log_share) at most.

    Args:
        scales: Of each noise in each sum, shape (sums, noises).
    Source:
        Chernoff: P[sum_i s_i X_i > x] <= exp(-t x) prod_i 1/(1 - t^2 s_i^2) at every t below 1/max s_i; the best of 49.
    """
    largest = np.abs(scales).max(axis=1, initial=0.0)
    ratio = np.abs(scales) / np.where(largest > 0, largest, 1.0)[:, None]
    wanted = math.log(2) - np.minimum(log_shares, 0.0)
    best = np.full(len(scales), np.inf)
    for rate in _RATES:
        best = np.minimum(best, (wanted - np.log1p(-((rate * ratio) ** 2)).sum(axis=1)) / rate)
    return np.asarray(best * largest * _HAIR)


def _compute_log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
