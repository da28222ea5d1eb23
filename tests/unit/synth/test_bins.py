"""Bins from noisy counts: every cell in one group, spikes alone, nothing negative."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from siloquent.synth.estimate.bins import (
    PARTS,
    denoise_shares,
    estimate_row_count,
    group_ordered,
    merge_rare,
    project_to_simplex,
)

COUNTS = st.lists(st.integers(-200, 2_000), min_size=1, max_size=60)


@given(counts=COUNTS, total=st.integers(1, 10_000))
@settings(deadline=None)
def test_projected_counts_are_the_nearest_ones_without_negatives(counts: list[int], total: int) -> None:
    values = np.array(counts, dtype=np.float64)
    found = project_to_simplex(values, float(total))
    assert found.min() >= 0
    assert found.sum() == pytest.approx(total)
    inside = found > 0  # all cells that stay are shifted alike, and no cell that is cut would have stayed
    shift = (values - found)[inside]
    assert np.ptp(shift) < 1e-6
    assert (values[~inside] <= shift[0] + 1e-6).all()


@given(counts=COUNTS, cut=st.integers(0, 60), extra=st.integers(0, 2))
@settings(deadline=None)
def test_bins_partition_the_cells_in_order_and_begin_at_cuts(counts: list[int], cut: int, extra: int) -> None:
    shares = project_to_simplex(np.array(counts, dtype=np.float64), 1.0)
    ordered = max(len(shares) - extra, 0)
    groups = group_ordered(shares, deviation=0.01, ordered=ordered, cuts=[cut])
    assert groups[0] == 0
    assert set(np.diff(groups).tolist()) <= {0, 1}
    if 0 < cut < ordered:
        assert groups[cut] == groups[cut - 1] + 1
    for alone in range(ordered, len(shares)):
        assert (groups == groups[alone]).sum() == 1


def test_a_spike_stays_alone_and_the_rest_is_cut_into_parts_of_like_weight() -> None:
    shares = np.full(60, 0.5 / 59)
    shares[20] = 0.5
    groups = group_ordered(shares, deviation=1e-4, ordered=60)
    assert (groups == groups[20]).sum() == 1
    weights = np.bincount(groups, weights=shares)
    others = np.delete(weights, groups[20])
    assert np.sort(others)[1] >= 0.5 / PARTS
    assert others[-1] >= 0.5 / PARTS / 2  # what is left over at the end
    assert others.max() < 3 * 0.5 / PARTS


def test_noise_makes_bins_wide() -> None:
    shares = np.full(60, 1 / 60)
    assert group_ordered(shares, deviation=0.1, ordered=60).max() + 1 <= 3


def test_rare_categories_share_a_group_and_kept_ones_do_not() -> None:
    shares = np.array([0.9, 0.001, 0.002, 0.09, 0.0])
    assert merge_rare(shares, deviation=0.01).tolist() == [0, 2, 2, 1, 2]
    assert merge_rare(shares, deviation=0.01, kept=[2]).tolist() == [0, 3, 1, 2, 3]
    assert merge_rare(np.array([0.9, 0.01, 0.09]), deviation=0.02).tolist() == [0, 1, 2]


def test_exact_totals_count_most() -> None:
    assert estimate_row_count([np.array([50, 50]), np.array([10] * 20)], [1.0, 1.0]) == 109
    assert estimate_row_count([np.array([-5, 2])]) == 1


def test_smooth_counts_lose_noise_and_spikes_stay() -> None:
    random = np.random.default_rng(0)
    smooth = np.full(50, 0.02)
    spiky = np.where(np.arange(50) % 10 == 0, 0.08, 0.005)
    for truth in (smooth, spiky / spiky.sum()):
        noisy = truth + random.normal(0, 0.004, 50)
        groups = np.arange(50) // 5
        raw = project_to_simplex(noisy, 1.0)
        better = denoise_shares(noisy, groups, deviation=0.004, ordered=50)
        assert better.sum() == pytest.approx(1)
        assert np.abs(better - truth).sum() <= np.abs(raw - truth).sum() * 1.02
    flat = denoise_shares(smooth + random.normal(0, 0.004, 50), np.arange(50) // 5, deviation=0.004, ordered=50)
    assert np.abs(flat - smooth).sum() < 0.7 * 50 * 0.004 * 0.8  # half of what raw noise is off by, and some
