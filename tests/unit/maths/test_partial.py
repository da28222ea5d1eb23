"""Scores from moments by key are what a fit to the rows would say; means by key solve the mixed model."""

from __future__ import annotations

import numpy as np
import pytest

from siloquent.maths.models.moments import Moments
from siloquent.maths.models.partial_correlation import (
    MomentsByKey,
    compute_exact_gains,
    compute_gains,
    compute_robust_errors,
)
from siloquent.maths.models.ridge import choose_ridge, clip_eigenvalues, estimate_covariance_matrix, solve_slopes
from siloquent.maths.models.shrinkage import estimate_counts, estimate_key_means, shrink_counts
from siloquent.search.estimate.training import ReleasedSums

N, KEYS = 4_000, 20


def r2(columns: np.ndarray, y: np.ndarray) -> float:
    design = np.column_stack([columns, np.ones(len(y))])
    left = y - design @ np.linalg.lstsq(design, y, rcond=None)[0]
    return 1 - float(left @ left) / float(((y - y.mean()) ** 2).sum())


@pytest.fixture
def table() -> tuple[np.ndarray, np.ndarray, np.ndarray, MomentsByKey, np.ndarray]:
    rng = np.random.default_rng(3)
    key = rng.choice(KEYS, N, p=rng.dirichlet(np.ones(KEYS)))
    x, z = rng.normal(size=(N, 2)) + 1, rng.normal(size=(5, KEYS))
    y = x @ [0.5, -0.2] + z[0, key] * 0.7 + rng.normal(size=N) + 2
    numbers = np.column_stack([x, y])
    sums = np.stack([np.bincount(key, weights=column, minlength=KEYS) for column in numbers.T], axis=1)
    by_key = MomentsByKey(np.bincount(key, minlength=KEYS).astype(float), sums, np.cov(numbers.T, bias=True))
    return x, y, key, by_key, z


def test_the_score_of_a_candidate_is_the_gain_of_a_fit_to_the_rows(table: tuple) -> None:
    x, y, key, by_key, z = table
    base = r2(x, y)
    expected = [r2(np.column_stack([x, one[key]]), y) - base for one in z]
    assert np.allclose(compute_exact_gains(by_key, z).gains, expected, atol=1e-9)
    assert np.allclose(compute_gains(by_key, z.astype(np.float32)).gains, expected, atol=1e-4)
    assert expected[0] == max(expected)


def test_without_features_the_score_is_a_squared_correlation(table: tuple) -> None:
    _, y, key, by_key, z = table
    alone = MomentsByKey(by_key.counts, by_key.sums[:, 2:], by_key.covariance[2:, 2:])
    assert np.allclose(
        compute_exact_gains(alone, z).gains, [np.corrcoef(one[key], y)[0, 1] ** 2 for one in z], atol=1e-9
    )


def test_a_constant_candidate_gains_nothing(table: tuple) -> None:
    by_key = table[3]
    assert compute_exact_gains(by_key, np.ones((1, KEYS))).gains == 0


def test_errors_count_keys_and_not_rows(table: tuple) -> None:
    by_key, z = table[3], table[4]
    twice = MomentsByKey(by_key.counts * 100, by_key.sums * 100, by_key.covariance)
    assert np.allclose(compute_robust_errors(by_key, z), compute_robust_errors(twice, z), rtol=1e-9)


def test_means_by_key_are_the_best_linear_prediction_of_a_mixed_model() -> None:
    rng = np.random.default_rng(5)
    counts = rng.integers(40, 400, 30).astype(float)
    truth = rng.normal(0.1, 0.3, 30)
    sums = counts * truth + rng.normal(0, 25.0, 30)
    found = estimate_key_means(counts, sums[:, None], count_variance=0.0, sum_variance=25.0**2)
    # Direct: z = g + T (T + E)^-1 (raw - g) with T the variance between keys and E that of each raw mean.
    raw, noise = sums / counts, 25.0**2 / counts**2
    g, spread = float(found.centre[0]), float(found.spread[0])
    direct = g + spread * np.linalg.solve(spread * np.eye(30) + np.diag(noise), raw - g)
    assert np.allclose(found.values[:, 0], direct)
    assert np.allclose(found.variances[:, 0], spread - spread**2 / (spread + noise))
    assert spread == pytest.approx(0.09, rel=0.6)


def test_pure_noise_is_drawn_in_to_one_mean() -> None:
    rng = np.random.default_rng(1)
    counts = np.full(500, 50.0)
    sums = 50 * 0.2 + rng.normal(0, 30.0, 500)
    found = estimate_key_means(counts, sums[:, None], count_variance=0.0, sum_variance=900.0)
    assert found.values.std() < 0.25 * (sums / 50).std()
    assert found.values.mean() == pytest.approx(0.2, abs=0.15)


def test_a_key_with_a_parent_is_drawn_in_to_it() -> None:
    parent_of = np.repeat([0, 1], 20)
    parents = estimate_key_means(np.full(2, 400.0), np.array([[-200.0], [200.0]]), count_variance=0.0, sum_variance=1.0)
    found = estimate_key_means(
        np.full(40, 20.0), np.repeat([[-10.0], [10.0]], 20, axis=0), count_variance=0.0, sum_variance=400.0,
        parents=parents, parent_of=parent_of,
    )  # fmt: skip
    assert (found.values[:20, 0] < -0.4).all()
    assert (found.values[20:, 0] > 0.4).all()


def test_counts_that_are_nothing_but_noise_become_one_number() -> None:
    assert shrink_counts(np.array([90.0, 110.0, 100.0]), 1e6).std() == 0
    assert (shrink_counts(np.array([-50.0, 100.0]), 0.0) >= 1).all()


def test_noisy_moments_never_fail() -> None:
    rng = np.random.default_rng(2)
    for _ in range(10_000 // 50):
        drawn = rng.normal(0, 1e3, (50, 4, 4))
        for second in drawn + np.swapaxes(drawn, 1, 2):
            covariance = estimate_covariance_matrix(Moments(float(rng.normal(0, 5)), rng.normal(0, 100, 4), second))
            assert np.isfinite(solve_slopes(covariance, choose_ridge(3, 1e3, 10))).all()
            assert np.linalg.eigvalsh(covariance)[0] >= -1e-6 * np.abs(covariance).max()


def test_a_right_covariance_is_left_alone() -> None:
    matrix = np.array([[2.0, 0.5], [0.5, 1.0]])
    assert np.allclose(clip_eigenvalues(matrix), matrix)


def test_counts_keep_their_sum_and_none_is_below_zero() -> None:
    counts = np.array([900.0, 1100.0, 1000.0, -12.0, 3.0])
    found, left = estimate_counts(counts, 100.0)
    assert found.sum() == pytest.approx(counts.sum())
    assert found.min() == 0
    assert 0 < left < 100
    assert estimate_counts(np.abs(counts), 0.0)[0] == pytest.approx(np.abs(counts))


def test_what_correlates_by_its_own_noise_is_ranked_behind() -> None:
    rng = np.random.default_rng(6)
    truth = rng.normal(size=KEYS)
    key = rng.integers(0, KEYS, N)
    y = truth[key] + rng.normal(size=N)
    table = MomentsByKey(
        np.bincount(key, minlength=KEYS).astype(float), np.bincount(key, weights=y, minlength=KEYS)[:, None],
        np.array([[y.var()]]),
    )  # fmt: skip
    # One candidate tells half of what there is; two hundred are noise, drawn in to almost nothing, of which one fits.
    real = 0.7 * truth + 0.7 * rng.normal(size=KEYS)
    noise = 0.03 * rng.normal(size=(200, KEYS))
    noise[0] = 0.03 * truth
    values, unsure = np.vstack([real, noise]), np.append(0.01, np.full(200, 0.03**2))
    assert np.argmax(compute_exact_gains(table, values).gains) == 1
    for found in (
        compute_exact_gains(table, values, unsure=unsure),
        compute_gains(table, values.astype(np.float32), unsure=unsure),
    ):
        assert np.argmax(found.compute_expected()) == 0


def test_without_noise_the_gains_are_what_is_expected(table: tuple) -> None:
    found = compute_exact_gains(table[3], table[4])
    assert np.allclose(found.compute_expected(), found.gains)
    assert (found.noise == 0).all()


def test_keys_without_rows_do_not_make_a_candidate_look_constant() -> None:
    """A candidate that differs only where the request has no rows: noise in counts must not give it a gain."""
    rng = np.random.default_rng(7)
    counts = np.append(np.full(KEYS - 4, 300.0), np.zeros(4)) + np.append(rng.normal(0, 10, KEYS - 4), [-12, -9, 8, 5])
    sums = (rng.normal(0, 10, KEYS))[:, None]
    release = ReleasedSums((counts,), (sums,), np.array([[500.0]]), (10.0, 10.0, 25.0), True)
    values = np.vstack([np.append(np.zeros(KEYS - 4), [-1.0, 1.0, 1.0, -1.0]), rng.normal(0, 0.2, (30, KEYS))])
    found = compute_exact_gains(release.compute_key_moments(0), values)
    assert found.compute_expected()[0] < 0.01
