"""The interval of a ratio of two noisy sums."""

from __future__ import annotations

import math


def compute_fieller_interval(
    top: float, bottom: float, *, variance_top: float, variance_bottom: float, covariance: float, z: float
) -> tuple[float, float] | None:
    """Return the interval of top / bottom; None if the data do not exclude a bottom of 0, and with it any ratio.

    Source:
        "Some problems in interval estimation" (1954).
    """
    a = bottom**2 - z**2 * variance_bottom
    b = top * bottom - z**2 * covariance
    c = top**2 - z**2 * variance_top
    if a <= 0:
        return None
    root = math.sqrt(max(b**2 - a * c, 0.0))
    return (b - root) / a, (b + root) / a
