"""Every mechanism keeps its promise on the data that is worst for it; one planned at twice beta is caught.

With beta = 0.05 and 6,000 runs, a right program fails a test once in 10^9 runs, and twice the misses
go unseen about as rarely.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from benchmarks.datasets.published import TWELVE
from benchmarks.explore.failures import BY_MECHANISM, planned
from benchmarks.trials.worst_case import misses
from siloquent.maths.tails.calibration import compute_laplace_factor

pytestmark = pytest.mark.statistical
FALSE_ALARM = 1e-9
RUNS, BETA = 6_000, 0.05
ASKED = {asked.name: asked for asked in TWELVE}


def assert_rate_at_most(hits: int, trials: int, rate: float) -> None:
    limit = binom.isf(FALSE_ALARM, trials, rate)
    assert hits <= limit, f"{hits} hits in {trials}; a true rate of {rate} gives at most {limit:.0f}"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "accountant"), BY_MECHANISM)
def test_a_promise_is_kept_on_the_worst_data(name: str, accountant: str) -> None:
    plan = planned(ASKED[name], accountant, "0.95")
    assert_rate_at_most(misses(plan, RUNS), RUNS, BETA)


# Strategies, factorisation and rounds are calibrated by upper bounds: only far more than twice beta breaks through.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "accountant", "confidence"),
    [
        ("QW1", "pure", "0.9"),
        ("QW2", "pure", "0.8"),
        ("QI1", "pure", "0.9"),
        ("QI2", "pure", "0.9"),
        ("QT1", "pure", "0.9"),
        ("QT2", "pure", "0.9"),
        ("QW1", "zcdp", "0.9"),
        ("QW2", "zcdp", "0.8"),
        ("QI1", "zcdp", "0.8"),
        ("QI2", "zcdp", "0.9"),
        ("QT1", "zcdp", "0.9"),
        ("QT2", "zcdp", "0.5"),
    ],
)
def test_a_mechanism_with_too_much_noise_is_caught(name: str, accountant: str, confidence: str) -> None:
    too_noisy = planned(ASKED[name], accountant, confidence)
    with pytest.raises(AssertionError, match="hits in"):
        assert_rate_at_most(misses(too_noisy, RUNS), RUNS, BETA)


BOTH_SIDES = np.array([[1.0], [-1.0]])  # whenever one answer is too low, the other one is too high


def misses_beyond(kappa: float) -> int:
    noise = np.random.default_rng(20_261_128).laplace(size=(RUNS, 1))
    return int(((noise @ BOTH_SIDES.T).max(axis=1) > kappa).sum())


def test_a_one_sided_promise_is_kept_where_both_sides_fail_together() -> None:
    factor = compute_laplace_factor(BOTH_SIDES, BETA, two_sided=False)
    assert_rate_at_most(misses_beyond(factor.value), RUNS, BETA)


def test_half_of_the_two_sided_misses_are_caught_where_both_sides_fail_together() -> None:
    """The thesis' rule for icebergs: a two-sided failure of 2 beta counted as a one-sided one of beta."""
    exact = -math.log(2 * BETA)  # where P[|noise| > kappa] = 2 beta
    with pytest.raises(AssertionError, match="hits in"):
        assert_rate_at_most(misses_beyond(exact), RUNS, BETA)
