"""Baselines do their papers' work: with hardly any privacy they are near the truth, so that comparisons are fair."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.baselines import functions, learners
from siloquent.maths.lsh import Laplacian, PStable
from siloquent.maths.lsh.families import compute_similarity

DATA = np.random.default_rng(0).beta(2, 5, (500, 1))
QUERIES = np.linspace(0.05, 0.95, 30)[:, None]


def kernel(x: np.ndarray, q: np.ndarray) -> np.ndarray:
    return compute_similarity(Laplacian(0.3), x, q)


TRUTH = kernel(DATA, QUERIES).sum(axis=0)
RELEASES = {
    "Bernstein": lambda r, e: functions.bernstein(DATA, QUERIES, kernel, epsilon=e, degree=40, random=r),
    "spectral": lambda r, e: functions.spectral(DATA, QUERIES, kernel, epsilon=e, terms=20, random=r),
    "Gaussian process": lambda r, e: functions.gaussian_process(DATA, QUERIES, kernel, epsilon=e, delta=1e-6, random=r),
    "mean embedding": lambda r, e: functions.mean_embedding(
        DATA, QUERIES, kernel, epsilon=e, delta=1e-6, points=np.linspace(0, 1, 64)[:, None], random=r
    ),
    "grid": lambda r, e: functions.noisy_grid(
        DATA, QUERIES, kernel, deviation=lambda shape: r.normal(0, 1 / e, shape), cells=128, threshold=-1e9
    ),
}


@pytest.mark.parametrize("release", RELEASES.values(), ids=RELEASES)
def test_without_noise_a_release_is_the_function_and_with_it_is_not(release: object) -> None:
    exact = release(np.random.default_rng(1), 1e9)  # type: ignore[operator]
    noisy = release(np.random.default_rng(1), 0.05)  # type: ignore[operator]
    assert np.abs(exact - TRUTH).max() < 0.05 * TRUTH.max()
    assert np.abs(noisy - TRUTH).mean() > 5 * np.abs(exact - TRUTH).mean()


def test_fourier_features_of_the_gaussian_kernel() -> None:
    truth = np.exp(-((DATA - QUERIES.T) ** 2) / (2 * 0.2**2)).sum(axis=0)
    random = np.random.default_rng(1)
    frequencies = random.normal(0, 1 / 0.2, (20_000, 1))
    found = functions.fourier_features(DATA, QUERIES, frequencies, epsilon=1e12, random=random)
    assert found == pytest.approx(truth, abs=0.05 * truth.max())


def test_fourier_features_of_the_sketches_own_kernel() -> None:
    random = np.random.default_rng(4)
    points = random.random((400, 2))
    truth = compute_similarity(PStable(2, 0.5), points, points[:20]).sum(axis=0)
    frequencies = functions.p_stable_frequencies(0.5, (20_000, 2), random)
    found = functions.fourier_features(points, points[:20], frequencies, epsilon=1e12, random=random)
    assert found == pytest.approx(truth, abs=0.05 * truth.max())


def test_linear_and_logistic_learners_find_what_is_there() -> None:
    random = np.random.default_rng(2)
    X = random.normal(0, 1, (4_000, 3))
    X /= np.linalg.norm(X, axis=1).max()
    weights = np.array([0.5, -0.3, 0.2])
    found = learners.ada_ssp(X, X @ weights, epsilon=1e6, delta=1e-6, random=random)
    assert found == pytest.approx(weights, abs=0.02)
    ridged = learners.ada_ssp(X, X @ weights, epsilon=0.1, delta=1e-6, random=random)
    assert np.linalg.norm(ridged) < 1
    y = np.where(X @ weights > 0, 1.0, -1.0)
    w = learners.objective_perturbation(X, y, epsilon=1e6, random=random, penalty=1e-5)
    assert ((X @ w > 0) == (y > 0)).mean() > 0.97
