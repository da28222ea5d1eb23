"""Strategies determine their workload, stay within their norm, and cost what was published."""

from __future__ import annotations

import numpy as np
import pytest

from siloquent.maths.sensitivity.linear import compute_sensitivity
from siloquent.maths.strategies import factorisation, identity
from siloquent.maths.strategies.base import Norm, Strategy, quantise, reconstruct
from siloquent.maths.strategies.trees import build_range_tree, find_best_trees
from siloquent.maths.tails.calibration import compute_gaussian_factor, compute_laplace_factor
from siloquent.maths.workloads import build_histogram, build_prefix, build_product

BETA, ALPHA = 5e-4, 651.22
W = build_prefix(100)


def cost(strategy: Strategy, *, seed: int | None = 3) -> float:
    """Pure epsilon at 2 % of Adult."""
    whole = quantise(strategy.matrix, norm="l1")
    back = reconstruct(W, whole)
    assert back is not None
    factor = compute_laplace_factor(back, BETA, two_sided=True, seed=seed).value
    margin = np.abs(back).sum(axis=1).max()
    return compute_sensitivity([whole], replace_one=False, rows=1).l1 * factor / (ALPHA - margin)


def test_trees_cost_what_was_published_up_to_how_uneven_splits_fall() -> None:
    for branching, levels, published in ((2, 7, 0.0959), (10, 2, 0.0583)):
        assert cost(build_range_tree(100, branching, np.ones(levels), norm="l1", name="t")) == pytest.approx(
            published, rel=0.04
        )


def test_p_identity_beats_the_published_bound() -> None:
    strategy = identity.find_best_identity(W, p=4, starts=4, steps=400, seed=1)
    assert cost(strategy) <= 0.0500


def test_the_factorisation_reaches_the_published_norm() -> None:
    def longest_row(A: np.ndarray) -> float:
        back = reconstruct(W, quantise(A, norm="l2"))
        assert back is not None
        return float(np.sqrt((back**2).sum(axis=1)).max() * 2**16)

    root = factorisation.build_toeplitz_root(100)
    assert longest_row(root / np.sqrt((root**2).sum(axis=0)).max()) == pytest.approx(2.5314, rel=1e-3)
    assert longest_row(factorisation.find_best_factorisation(W, steps=60).matrix) <= 2.2659 * 1.005


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize(
    "workload", [build_prefix(37), build_product(build_prefix(5), build_histogram(3)), np.array([[1, 1, 0], [0, 1, 1]])]
)
def test_every_strategy_is_within_its_norm_and_gives_the_workload_back(workload: np.ndarray, norm: Norm) -> None:
    found = find_best_trees(workload, norm=norm)
    if norm == "l1":
        found.append(identity.find_best_identity(workload, p=2, starts=1, steps=50, seed=0))
    else:
        found.append(factorisation.find_best_factorisation(workload, steps=20))
    for strategy in found:
        lengths = np.abs(strategy.matrix).sum(axis=0) if norm == "l1" else np.sqrt((strategy.matrix**2).sum(axis=0))
        assert lengths.max() <= 1 + 1e-9
        whole = quantise(strategy.matrix, norm=norm)
        if norm == "l1":
            assert np.abs(whole).sum(axis=0).max() <= 2**16 + 1
        back = reconstruct(workload, whole)
        assert back is not None
        assert np.abs(back @ whole - workload).max() <= 1e-8


def test_a_strategy_that_does_not_determine_the_workload_is_refused() -> None:
    assert reconstruct(build_prefix(3), np.ones((1, 3), dtype=np.int64)) is None


@pytest.mark.parametrize("module", [identity, factorisation])
def test_gradients_agree_with_finite_differences(module: object) -> None:
    random = np.random.default_rng(0)
    target = build_prefix(9).astype(float)
    at = random.random((2, 9)) if module is identity else np.eye(9) + 0.3 * random.random((9, 9))
    _, slope = module.compute_noise_norm(at, target)  # type: ignore[attr-defined]
    for _ in range(20):
        i, j = random.integers(at.shape[0]), random.integers(9)
        step = np.zeros_like(at)
        step[i, j] = 1e-5
        up, down = (module.compute_noise_norm(at + sign * step, target)[0] for sign in (1, -1))  # type: ignore[attr-defined]
        assert slope[i, j] == pytest.approx((up - down) / 2e-5, rel=1e-5, abs=1e-6)


def test_factors_of_independent_answers_are_the_exact_quantiles() -> None:
    one = compute_laplace_factor(np.eye(1), 0.01, two_sided=True).value
    assert one == pytest.approx(np.log(100), rel=1e-6)
    assert compute_gaussian_factor(np.eye(1), 0.05, two_sided=True).value == pytest.approx(1.959964, rel=1e-5)
    assert compute_gaussian_factor(np.eye(1), 0.05, two_sided=False).value == pytest.approx(1.644854, rel=1e-5)


def test_calibration_is_the_same_in_explain_and_in_the_run() -> None:
    back = reconstruct(build_prefix(20), quantise(find_best_trees(build_prefix(20), norm="l1")[0].matrix, norm="l1"))
    assert back is not None
    first, second = (compute_laplace_factor(back, BETA, two_sided=True, seed=9) for _ in range(2))
    assert first == second
