"""The probability that noise makes a low answer overtake a high one: distributions of a largest and a smallest draw.

A top-k list is wrong by m when the largest noise on B low answers is m or more above the smallest noise on G high ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]
Tail = Callable[[NDArray[np.int64]], Reals]

BLOCKS = 2**16
_REACH = 60.0  # exp(-60): draws further out count as failures


def compute_laplace_overtake(m: int, *, scale: float, low: int, high: int) -> float:
    """Return P[max of ``low`` - min of ``high`` >= m] for independent discrete Laplace draws.

    Exact up to rounding if the distribution fits ``BLOCKS`` whole numbers; for larger scales an upper bound that is at
    most about 0.2 % too high: whole blocks of the smallest draw are moved to their low end.
    """
    reach = math.ceil(scale * (_REACH + math.log(high)))
    block = -(-2 * reach // BLOCKS)
    places = np.arange(-(-reach // block), dtype=np.int64) * block
    left, right = -places[::-1] - block, places  # the blocks [n, n + block), none of them across zero
    stop = math.exp(-block / scale)
    gone = -math.expm1(-block / scale) / (1 + math.exp(-1 / scale))  # mass of [0, block)
    mass = gone * np.concatenate([np.exp((left + block - 1) / scale), np.exp(-right / scale)])
    starts = np.concatenate([left, right])
    smallest = _compute_smallest(mass, _compute_laplace_tails(starts, scale), high)
    outside = high * _compute_laplace_tails(np.array([left[0] * -1]), scale)[0] + stop ** len(right)
    return float(smallest @ _compute_largest_tails(_compute_laplace_tails(starts + m, scale), low) + outside)


def compute_geometric_overtake(m: int, *, scale: float, low: int, high: int) -> float:
    """Return P[max of ``low`` - min of ``high`` >= m] for independent geometric draws (0, 1, ...), as for Laplace."""
    reach = math.ceil(scale * _REACH)
    block = -(-reach // BLOCKS)
    starts = np.arange(-(-reach // block), dtype=np.int64) * block
    tails = np.exp(-starts / scale)
    smallest = _compute_smallest(-math.expm1(-block / scale) * tails, tails, high)
    return float(smallest @ _compute_largest_tails(np.exp(-np.maximum(starts + m, 0) / scale), low) + math.exp(-_REACH))


def compute_gaussian_overtake(m: int, *, scale: float, low: int, high: int) -> float:
    """Return P[max of ``low`` - min of ``high`` >= m] for independent discrete Gaussian draws.

    Exact up to scale 1,000. Beyond, each draw lies within 1 of a normal one (quantile coupling), which bounds the
    probability by that of normal draws at m - 2, computed on blocks as for Laplace.
    """
    from scipy.special import ndtr

    if scale <= 1_000:
        whole = np.arange(-math.ceil(14 * scale) - 1, math.ceil(14 * scale) + 2, dtype=np.int64)
        weights = np.exp(-((whole / scale) ** 2) / 2)
        mass = weights / weights.sum()
        tails = np.cumsum(mass[::-1])[::-1]
        shifted = np.where(whole + m < whole[0], 1.0, np.interp(whole + m, whole, tails, right=0.0))
        return float(
            _compute_smallest(mass, np.minimum(tails, 1.0), high)
            @ _compute_largest_tails(np.minimum(shifted, 1.0), low)
        )
    edges, smallest = _smallest_normal(high)
    return float(smallest @ _compute_largest_tails(ndtr(-(edges[:-1] + (m - 2) / scale)), low) + 1e-40 * high)


@lru_cache(maxsize=8)
def _smallest_normal(draws: int) -> tuple[Reals, Reals]:
    """Return the ends of blocks of a normal draw, and the mass function of the smallest of ``draws`` on them."""
    from scipy.special import ndtr

    edges = np.linspace(-14.0, 14.0, BLOCKS + 1)
    mass = np.where(edges[:-1] < 0, np.diff(ndtr(edges)), -np.diff(ndtr(-edges)))
    return edges, _compute_smallest(mass, ndtr(-edges[:-1]), draws)


def _compute_laplace_tails(starts: NDArray[np.int64], scale: float) -> Reals:
    """Return P[X >= start] for discrete Laplace X."""
    far = np.exp(-np.where(starts > 0, starts, 1 - starts) / scale) / (1 + math.exp(-1 / scale))
    return np.where(starts > 0, far, 1 - far)


def _compute_smallest(mass: Reals, tails: Reals, draws: int) -> Reals:
    """Return the mass function of the smallest of ``draws``, from one's mass and tails P[X >= x]; accurate far out."""
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.minimum(np.where(tails > 0, mass / tails, 1.0), 1.0)
        law: Reals = np.exp(draws * np.log(tails)) * -np.expm1(draws * np.log1p(-share))
    return law


def _compute_largest_tails(tails: Reals, draws: int) -> Reals:
    """Return P[largest of ``draws`` >= x] from the tails of one."""
    with np.errstate(divide="ignore"):
        law: Reals = -np.expm1(draws * np.log1p(-tails))
    return law
