"""Bounds from a noisy histogram: post-processing of the release, free."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from siloquent.discover.plan.threshold import HIDDEN, compute_needed_rows, compute_sum_quantile

SHARE = 1_000
"""One in this many values is meant to lie below the proposed lower bound, and one in as many above the upper one."""
CLEAR = 4
"""Bins with fewer rows than this many standard deviations count as empty."""


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
    unit = deviation * compute_sum_quantile(len(noisy), noise)
    everything = int(noisy.sum()) - unit * math.sqrt(len(noisy))
    beyond = [
        (int(part.sum()) + unit * math.sqrt(len(part))) / everything if everything > 0 else 1.0
        for part in (noisy[:low], noisy[high + 1 :])
    ]
    below, above = (min(max(share, 0.0), 1.0) for share in beyond)
    return OuterBins(low, high, below, above)


def compute_shortfall(noisy: NDArray[np.int64], deviation: float, noise: Literal["gaussian", "laplace"]) -> float:
    """Compute how many times smaller the noise must be to show bounds, by the noisy histogram; 1 if it shows them.

    Bounds beyond which half of all values may lie say nothing.
    """
    found = find_outer_bins(noisy, deviation, noise)
    if found is not None and max(found.below, found.above) < HIDDEN:
        return 1.0
    if found is None:
        return 2 * CLEAR * deviation / max(float(noisy.max(initial=0)), deviation)
    needed = compute_needed_rows(len(noisy), deviation, noise)
    return max(1.5, needed / max(float(noisy.sum()), deviation))
