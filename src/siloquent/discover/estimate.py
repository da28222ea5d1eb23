"""Bounds from a noisy histogram: post-processing of the release, free."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

SHARE = 1_000
"""One in this many values is meant to lie below the proposed lower bound, and one in as many above the upper one."""
CLEAR = 4
"""Bins with fewer rows than this many standard deviations count as empty."""
MISS = 0.05
"""The probability with which one of the shares beyond the bounds is larger than said."""


@dataclass(frozen=True, slots=True)
class OuterBins:
    """The bins of the outer quantiles, and the largest shares of all values that may lie ``below`` and ``above``."""

    low: int
    high: int
    below: float
    above: float


def find_outer_bins(
    noisy: NDArray[np.int64], deviation: float, noise: Literal["gaussian", "laplace"]
) -> OuterBins | None:
    """Find the bins of the 0.1 % and the 99.9 % quantile; None if no bin is clearly above its noise.

    A tail of few rows in each bin is lost in the noise, so the shares may be much larger than 0.1 %. They hold together
    with probability 0.95, whichever bins the noise makes the outer ones.
    """
    kept = np.where(noisy >= CLEAR * deviation, noisy, 0)
    total = int(kept.sum())
    if total <= 0:
        return None
    sums = np.cumsum(kept)
    low = int(np.searchsorted(sums * SHARE, total, side="left"))
    high = int(np.searchsorted(sums * SHARE, total * (SHARE - 1), side="left"))
    unit = deviation * _compute_quantile(len(noisy), noise)
    everything = int(noisy.sum()) - unit * math.sqrt(len(noisy))
    beyond = [
        (int(part.sum()) + unit * math.sqrt(len(part))) / everything if everything > 0 else 1.0
        for part in (noisy[:low], noisy[high + 1 :])
    ]
    below, above = (min(max(share, 0.0), 1.0) for share in beyond)
    return OuterBins(low, high, below, above)


def _compute_quantile(bins: int, noise: Literal["gaussian", "laplace"]) -> float:
    """Return z such that no sum of the first or last k noises exceeds z sqrt(k) deviations, but for ``MISS``."""
    from siloquent.maths.tails.distributions import normal_quantile

    each = MISS / (2 * bins + 1)
    # Of all sums of Laplace noise, that of one has the heaviest tail in deviations.
    return normal_quantile(each) if noise == "gaussian" else math.log(1 / (2 * each)) / math.sqrt(2)
