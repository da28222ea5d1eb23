"""Bounds from a noisy histogram: post-processing of the release, free."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

SHARE = 1_000
"""One in this many values may lie below the proposed lower bound, and one in as many above the upper one."""
CLEAR = 4
"""Bins with fewer rows than this many standard deviations count as empty."""


def find_outer_bins(noisy: NDArray[np.int64], deviation: float) -> tuple[int, int] | None:
    """Find the bins of the 0.1 % and the 99.9 % quantile; None if no bin is clearly above its noise."""
    kept = np.where(noisy >= CLEAR * deviation, noisy, 0)
    total = int(kept.sum())
    if total <= 0:
        return None
    below = np.cumsum(kept)
    low = int(np.searchsorted(below * SHARE, total, side="left"))
    high = int(np.searchsorted(below * SHARE, total * (SHARE - 1), side="left"))
    return low, high
