"""Proposals of bounds from noisy histograms."""

from __future__ import annotations

import numpy as np
import pytest

from siloquent.discover.estimate import find_outer_bins
from siloquent.discover.plan.threshold import WRONG as MISS


def test_without_noise_the_bins_are_those_of_the_quantiles() -> None:
    counts = np.array([0, 1, 5, 9_988, 5, 1, 0], dtype=np.int64)
    found = find_outer_bins(counts, 0.0, "gaussian")
    assert found is not None
    assert (found.low, found.high) == (3, 3)
    assert found.below == found.above == 6 / 10_000
    wide = find_outer_bins(np.array([0, 20, 9_960, 20], dtype=np.int64), 0.0, "gaussian")
    assert wide is not None
    assert (wide.low, wide.high) == (1, 3)
    assert wide.below == wide.above == 0


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_the_shares_beyond_hold_also_where_a_thin_tail_is_lost(noise: str) -> None:
    rng = np.random.default_rng(3)
    exact = np.array([0] * 50 + [20, 80, 150, 4_000, 9_000, 4_000, 150, 120, 90, 60, 30, 10] + [0] * 60)
    runs, missed, deviation = 2_000, 0, 40.0
    for _ in range(runs):
        size = len(exact)
        drawn = rng.normal(0, deviation, size) if noise == "gaussian" else rng.laplace(0, deviation / 2**0.5, size)
        found = find_outer_bins(np.rint(exact + drawn).astype(np.int64), deviation, noise)  # type: ignore[arg-type]
        assert found is not None
        below, above = exact[: found.low].sum() / exact.sum(), exact[found.high + 1 :].sum() / exact.sum()
        missed += bool(below > found.below or above > found.above)
    assert missed / runs <= MISS


def test_noise_alone_proposes_nothing() -> None:
    assert find_outer_bins(np.array([3, -5, 2], dtype=np.int64), 4.0, "laplace") is None
