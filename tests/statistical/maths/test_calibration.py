"""Calibrated factors keep the miss rate; one calibrated for twice beta is caught. False alarms: once in 10^9."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from siloquent.maths.strategies.base import quantise, reconstruct
from siloquent.maths.strategies.trees import find_best_trees
from siloquent.maths.tails.calibration import compute_gaussian_factor, compute_laplace_factor
from siloquent.maths.workloads import build_prefix

pytestmark = pytest.mark.statistical
BETA, RUNS = 0.05, 20_000


def rows() -> np.ndarray:
    workload = build_prefix(30)
    back = reconstruct(workload, quantise(find_best_trees(workload, norm="l1")[0].matrix, norm="l1"))
    assert back is not None
    return back


def missed(back: np.ndarray, factor: float, *, two_sided: bool, gaussian: bool = False) -> int:
    random = np.random.default_rng(11)
    shape = (RUNS, back.shape[1])
    noise = (random.standard_normal(shape) if gaussian else random.laplace(size=shape)) @ back.T
    return int(((np.abs(noise) if two_sided else noise).max(axis=1) > factor).sum())


def assert_rate_at_most(hits: int, rate: float) -> None:
    limit = binom.isf(1e-9, RUNS, rate)
    assert hits <= limit, f"{hits} hits in {RUNS}; a true rate of {rate} gives at most {limit:.0f}"


@pytest.mark.parametrize("two_sided", [True, False])
def test_laplace_factors_keep_the_miss_rate(two_sided: bool) -> None:
    back = rows()
    for seed in (None, 1, 2):
        factor = compute_laplace_factor(back, BETA, two_sided=two_sided, seed=seed).value
        assert_rate_at_most(missed(back, factor, two_sided=two_sided), BETA)


@pytest.mark.parametrize("two_sided", [True, False])
def test_gaussian_factors_keep_the_miss_rate(two_sided: bool) -> None:
    back = rows()
    factor = compute_gaussian_factor(back, BETA, two_sided=two_sided).value
    assert_rate_at_most(missed(back, factor, two_sided=two_sided, gaussian=True), BETA)


def test_the_certified_factor_is_sharper_than_the_union_and_nearly_exact() -> None:
    back = rows()
    union = compute_laplace_factor(back, BETA, two_sided=True).value
    drawn = compute_laplace_factor(back, BETA, two_sided=True, seed=1)
    assert drawn.method.startswith("certified")
    assert drawn.value < union
    assert missed(back, drawn.value, two_sided=True) >= 0.8 * BETA * RUNS


def test_a_factor_for_twice_the_miss_rate_is_caught() -> None:
    back = rows()
    factor = compute_laplace_factor(back, 2 * BETA, two_sided=True, seed=1).value
    with pytest.raises(AssertionError, match="hits in"):
        assert_rate_at_most(missed(back, factor, two_sided=True), BETA)
