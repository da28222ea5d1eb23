"""Means by key from noisy counts and sums: shrunk in proportion to the noise, with their own error."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_MIN_SPREAD = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class KeyMeans:
    """One mean a key and number, ``values`` and error ``variances`` (keys, numbers); ``centre`` (numbers,) for others.

    ``spread``: the variance between keys that was found, (numbers,).
    """

    values: Floats
    variances: Floats
    centre: Floats
    spread: Floats


def shrink_counts(counts: Floats, variance: float) -> Floats:
    """Return counts (keys,) shrunk towards their mean by the effect of noise of ``variance``; at least 1."""
    mean, weight = float(counts.mean()), _compute_kept_share(counts, variance)
    return np.maximum(mean + weight * (counts - mean), max(1.0, mean / 20))


def estimate_counts(counts: Floats, variance: float) -> tuple[Floats, float]:
    """Return counts (keys,) shrunk likewise, none below 0, with the same sum; and the variance of noise left in one."""
    mean, weight = float(counts.mean()), _compute_kept_share(counts, variance)
    likely = np.maximum(mean + weight * (counts - mean), 0.0)
    return likely * (max(float(counts.sum()), 1.0) / max(float(likely.sum()), 1e-9)), weight * variance


def _compute_kept_share(counts: Floats, variance: float) -> float:
    """Return the share of the spread between counts that is not due to noise."""
    spread = max(0.0, float(counts.var(ddof=1)) - variance) if len(counts) > 1 else 0.0
    return spread / (spread + variance) if variance else 1.0


def estimate_key_means(
    counts: Floats, sums: Floats, *, count_variance: float, sum_variance: float, parents: KeyMeans | None = None,
    parent_of: NDArray[np.int64] | None = None,
) -> KeyMeans:  # fmt: skip
    """Return the best linear prediction of each key's mean.

    Args:
        counts, sums: Noisy, shape (keys,) and (keys, numbers).
        count_variance, sum_variance: Of the noise on one entry.
        parents, parent_of: Means of coarser keys and the parent (keys,) of each key, towards which it is shrunk.
    Source:
        Best linear unbiased prediction with the between-key variance by moments; errors as of a mean of known count.
    """
    size = shrink_counts(counts, count_variance)
    raw = sums / size[:, None]
    noise = np.broadcast_to((sum_variance / size**2)[:, None], raw.shape)
    if parents is None or parent_of is None:
        centre = sums.sum(axis=0) / size.sum()
        towards = np.broadcast_to(centre, raw.shape)
    else:
        centre, towards = parents.centre, parents.values[parent_of]
    weights = 1 / np.maximum(noise, 1e-300)
    spread = np.maximum((weights * ((raw - towards) ** 2 - noise)).sum(axis=0) / weights.sum(axis=0), _MIN_SPREAD)
    keep = spread / (spread + noise)
    return KeyMeans(towards + keep * (raw - towards), keep * noise, centre, spread)
