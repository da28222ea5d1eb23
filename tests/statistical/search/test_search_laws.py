"""The noise of offers is what they say, and intervals hold what they promise, within stated chances."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, chi2

from benchmarks.baselines.search_tables import planned, released
from siloquent.maths.models.moments import Moments
from siloquent.search.estimate.unions import NoisyMoments, compute_totals, fit_noisy_moments
from siloquent.search.offers import Offer

pytestmark = pytest.mark.statistical
FALSE_ALARM = 1e-9
SLOPES = np.array([0.4, -0.3])


def assert_variance(drawn: np.ndarray, variance: float) -> None:
    """Of normal draws with mean 0, within what chance allows."""
    total, n = float((drawn**2).sum()) / variance, drawn.size
    low, high = chi2.ppf(FALSE_ALARM, n), chi2.isf(FALSE_ALARM, n)
    assert low <= total <= high, f"{total / n:.3f} times the variance"


def empty(**given: object) -> Offer:
    made = planned(("a", "b"), epsilon="1", **given)  # type: ignore[arg-type]
    return released(made, np.zeros((0, 2)), np.zeros(0, dtype=np.int64) if made.keys else None)


def test_every_order_has_the_noise_that_its_offer_states() -> None:
    offer = empty(keys=20_000, second_moments="none")
    zero, first, _ = offer.deviations
    counts, sums = offer.get_key_sums(0)
    assert_variance(counts, zero**2)
    assert_variance(sums, first**2)
    with pytest.raises(AssertionError, match="times the variance"):
        assert_variance(sums, 0.8 * first**2)


def test_off_the_diagonal_is_half_the_variance() -> None:
    offers = [empty(second_moments="total") for _ in range(2_000)]
    matrices = np.stack([offer.compute_second_moments() for offer in offers])  # type: ignore[misc]
    deviation = offers[0].deviations[2]
    assert_variance(matrices[:, 0, 0], deviation**2)
    assert_variance(matrices[:, 0, 1], deviation**2 / 2)
    with pytest.raises(AssertionError, match="times the variance"):
        assert_variance(matrices[:, 0, 1], deviation**2)


def hits(n: int, worlds: int, *, widen: float = 1.0) -> int:
    """How many of 2 slopes in so many worlds lie in their 95 % intervals."""
    made, found = planned(("x1", "x2", "y"), epsilon="1"), 0
    for seed in range(worlds):
        rng = np.random.default_rng(seed)
        x = np.clip(rng.normal(0, 0.4, (n, 2)), -1, 1)
        y = np.clip(x @ SLOPES + rng.normal(0, 0.2, n), -1, 1)
        offer = released(made, np.column_stack([x, y]))
        model = fit_noisy_moments(compute_totals(offer), rng)
        half = (model.high - model.low) / 2 * widen
        found += int((np.abs(model.values - SLOPES) <= half).sum())
    return found


@pytest.mark.parametrize("n", [1_000, 10_000])
def test_intervals_of_slopes_hold_nine_times_in_ten(n: int) -> None:
    worlds = 250
    assert hits(n, worlds) >= binom.ppf(FALSE_ALARM, 2 * worlds, 0.9)


def test_intervals_a_third_as_wide_are_caught() -> None:
    worlds = 250
    assert hits(1_000, worlds, widen=1 / 3) < binom.ppf(FALSE_ALARM, 2 * worlds, 0.9)


def test_exact_moments_give_the_intervals_of_least_squares() -> None:
    rng = np.random.default_rng(4)
    x = rng.normal(0, 0.3, (500, 2))
    y = x @ SLOPES + rng.normal(0, 0.1, 500)
    rows = np.column_stack([x, y])
    found = fit_noisy_moments(NoisyMoments(Moments(500.0, rows.sum(axis=0), rows.T @ rows), (0.0, 0.0, 0.0)), rng)
    design = np.column_stack([x, np.ones(500)])
    beta, left = np.linalg.lstsq(design, y, rcond=None)[:2]
    errors = np.sqrt(np.diag(np.linalg.inv(design.T @ design))[:2] * left / 500)
    assert np.allclose(found.values, beta[:2], atol=1e-6)
    assert np.allclose((found.high - found.low) / 2, 1.96 * errors, rtol=1e-3)
