"""Averages and quantiles keep their promise on the data that is worst for it; wrong plans are caught.

With beta = 0.05 and 6,000 runs, a right program fails a test once in 10^9 runs, and twice the misses
go unseen about as rarely.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from siloquent.explore.measure.selection import compute_rank_utilities
from siloquent.explore.plan.mechanisms.ranks import compute_rank_errors
from siloquent.explore.plan.planner import Plan
from siloquent.explore.plan.steps import plan_query
from siloquent.explore.spec import parse
from siloquent.explore.spec.aggregates import Moment
from siloquent.maths.strategies import reconstruct
from siloquent.privacy import DiscreteLaplace
from siloquent.privacy.noise import add_gaussian, add_laplace
from siloquent.privacy.noise.selection import Rule, draw_selections
from unit.explore.plan.tables import PLENTY, table

pytestmark = pytest.mark.statistical
FALSE_ALARM = 1e-9
RUNS, BETA = 6_000, 0.05
AVERAGE = "SELECT AVG(age) FROM visits ERROR 2 FOR AT LEAST 400 ROWS CONFIDENCE {}"
MEDIAN = "SELECT MEDIAN(age) FROM visits ERROR 20 CONFIDENCE {}"
QUARTILES = "SELECT QUANTILE(age, 0.25), MEDIAN(age), QUANTILE(age, 0.75) FROM visits ERROR 99, 99, 99 CONFIDENCE {}"
ACCOUNTANTS = ["pure", "zcdp"]


def assert_rate_at_most(hits: int, trials: int, rate: float) -> None:
    limit = binom.isf(FALSE_ALARM, trials, rate)
    assert hits <= limit, f"{hits} hits in {trials}; a true rate of {rate} gives at most {limit:.0f}"


def plans(text: str, accountant: str) -> tuple[Plan, ...]:
    return plan_query(parse(text), table(accountant), left=PLENTY).first.plans


def off(plan: Plan) -> np.ndarray:
    """Whether the noise of a part passes its bound, in each of many runs."""
    event, nothing = plan.event, np.zeros(RUNS, dtype=np.int64)
    laplace = plan.chosen.name == "laplace"
    noise = add_laplace(nothing, scale=event.scale) if laplace else add_gaussian(nothing, variance=event.variance)  # type: ignore[union-attr]
    return np.array(np.abs(noise) > float(plan.alpha / plan.compiled.grid))


def misses_of_average(parts: tuple[Plan, ...]) -> int:
    """How often a count or a sum is further off than the interval of the average allows."""
    return int(np.logical_or.reduce([off(plan) for plan in parts]).sum())


def misses_of_median(plan: Plan, values: int = 100) -> int:
    """How often the rank is further off than promised, where all other values are just too far off."""
    found = np.zeros(values, dtype=np.int64)
    found[values // 2] = 2 * int(plan.alpha) + 1
    exact = compute_rank_utilities(found, Fraction(1, 2))
    flips = plan.chosen.name == "permute-and-flip"
    rule: Rule = "permute-and-flip" if flips else "exponential"
    event = plan.event
    scale = 2 / event.epsilon if flips else 2 / event.range  # type: ignore[union-attr]
    chosen = draw_selections(exact, rate=1 / scale, rule=rule, times=RUNS)
    return int((-exact[chosen] > 2 * plan.alpha).sum())


def misses_of_quartiles(plan: Plan) -> int:
    """How often some number of rows up to a value, less a share of all, is further off: then a rank may be."""
    (matrix,) = plan.chosen.strategy
    assert isinstance(matrix, np.ndarray)
    event, nothing = plan.event, np.zeros(RUNS * len(matrix), dtype=np.int64)
    laplace = isinstance(event, DiscreteLaplace)
    noise = add_laplace(nothing, scale=event.scale) if laplace else add_gaussian(nothing, variance=event.variance)  # type: ignore[union-attr]
    back = reconstruct(compute_rank_errors(100, [Fraction(1, 4), Fraction(1, 2), Fraction(3, 4)]), matrix)
    assert back is not None
    errors = noise.reshape(RUNS, -1) @ back.T
    return int((np.abs(errors).max(axis=1) > float(plan.alpha)).sum())


@pytest.mark.slow
@pytest.mark.parametrize("accountant", ACCOUNTANTS)
def test_quartiles_read_off_one_measurement_keep_their_promise(accountant: str) -> None:
    (plan,) = plans(QUARTILES.format("0.95"), accountant)
    assert_rate_at_most(misses_of_quartiles(plan), RUNS, BETA)


@pytest.mark.slow
@pytest.mark.parametrize("accountant", ACCOUNTANTS)
def test_quartiles_with_too_much_noise_are_caught(accountant: str) -> None:
    """Ranks go up and down together, so their bound is kept with room: four times the misses are planned for."""
    (plan,) = plans(QUARTILES.format("0.8"), accountant)
    with pytest.raises(AssertionError, match="hits in"):
        assert_rate_at_most(misses_of_quartiles(plan), RUNS, BETA)


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
def test_an_average_keeps_its_promise(accountant: str) -> None:
    assert_rate_at_most(misses_of_average(plans(AVERAGE.format("0.95"), accountant)), RUNS, BETA)


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
def test_an_average_whose_parts_share_no_beta_is_caught(accountant: str) -> None:
    """Each part planned at beta instead of beta/2: the count fails that often, and so does the sum."""
    count, total = plans(AVERAGE.format("0.9"), accountant)
    assert total.query.aggregate == Moment("age", 1)
    with pytest.raises(AssertionError, match="hits in"):
        assert_rate_at_most(misses_of_average((count, total)), RUNS, BETA)


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
def test_a_median_keeps_its_promise(accountant: str) -> None:
    (plan,) = plans(MEDIAN.format("0.95"), accountant)
    assert_rate_at_most(misses_of_median(plan), RUNS, BETA)


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
def test_a_median_with_too_much_noise_is_caught(accountant: str) -> None:
    """A choice spends less than its beta: six times the misses are planned for."""
    (plan,) = plans(MEDIAN.format("0.7"), accountant)
    with pytest.raises(AssertionError, match="hits in"):
        assert_rate_at_most(misses_of_median(plan), RUNS, BETA)
