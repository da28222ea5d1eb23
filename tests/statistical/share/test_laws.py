"""The noise of releases is what is claimed: counts, leaves, choices of cuts, and sums of shares."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2

from siloquent.share import Budget, plan
from siloquent.share.measure.counting import add_count_noise, add_noise_shares
from siloquent.share.measure.tree import add_leaf_noise, select_candidates
from siloquent.share.plan import SharePlan, compute_noise_variance
from unit.share.tables import PURE, ZCDP, schema, spec

pytestmark = pytest.mark.statistical
FALSE_ALARM = 1e-9


def assert_variance(draws: np.ndarray, claimed: float, kurtosis: float) -> None:
    """The mean square of whole noise around 0, within its own normal limits at FALSE_ALARM; the twin must fail."""
    spread = claimed * np.sqrt((kurtosis - 1) / len(draws))
    assert abs((draws.astype(float) ** 2).mean() - claimed) < 6.2 * spread


def planned(account: str, trust: str = "local") -> SharePlan:
    given = {"trust": trust, "agents": 6, "honest": 5} if trust == "sum" else {}
    return plan(spec(method="gram", budget=Budget(epsilon="0.8"), **given), schema(budget=account))


@pytest.mark.parametrize("account", [PURE, ZCDP], ids=["laplace", "gaussian"])
def test_counts_have_the_noise_of_their_event(account: str) -> None:
    found = planned(account)
    exact = np.zeros(found.runs[0].length, dtype=np.int64)
    draws = np.concatenate([add_count_noise(found, exact) for _ in range(200)])
    claimed = float(compute_noise_variance(found.noise, found.runs[0].parameter))
    assert_variance(draws, claimed, 6 if account == PURE else 3)
    with pytest.raises(AssertionError):
        assert_variance(draws, claimed * 1.25, 6 if account == PURE else 3)


@pytest.mark.parametrize("account", [PURE, ZCDP], ids=["laplace", "gaussian"])
def test_shares_of_the_honest_add_up_to_the_central_noise(account: str) -> None:
    found = planned(account, "sum")
    exact = np.zeros(found.runs[0].length, dtype=np.int64)
    draws = np.concatenate([sum(add_noise_shares(found, exact) for _ in range(5)) for _ in range(16)])
    assert_variance(
        draws, float(compute_noise_variance(found.noise, found.runs[0].parameter)), 6 if account == PURE else 3
    )


def test_leaves_have_their_scale() -> None:
    draws = add_leaf_noise(np.zeros(20_000, dtype=np.int64), Fraction(7))
    assert_variance(draws, float(compute_noise_variance("laplace", Fraction(7))), 6)


def test_cuts_are_chosen_with_probability_exp_of_rate_times_utility() -> None:
    utilities, rate, times = np.array([3, 5, 0, 5]), Fraction(1, 2), 12_000
    chosen = select_candidates(np.tile(utilities, (times, 1)), rate)
    expected = np.exp(utilities / 2)
    expected = expected / expected.sum() * times
    found = np.bincount(chosen, minlength=4)
    assert ((found - expected) ** 2 / expected).sum() < chi2.isf(FALSE_ALARM, 3)
    half = np.exp(utilities / 4)
    half = half / half.sum() * times
    assert ((found - half) ** 2 / half).sum() > chi2.isf(FALSE_ALARM, 3)
