"""Answers drawn from earlier ones keep their bound where their label says so, and break it where it does not.

With beta = 0.05 and 40,000 runs a right program fails a test once in 10^9 runs.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from siloquent.explore.plan.planner import Plan
from siloquent.explore.plan.reuse.linear_measurements import LinearMeasurement
from siloquent.explore.plan.reuse.releases import Blend
from siloquent.maths.tails.distributions import normal_quantile
from siloquent.maths.tails.simultaneous import compute_normal_radius, compute_number_log_share
from siloquent.privacy import DiscreteGaussian, DiscreteLaplace, Event
from siloquent.privacy.noise import add_gaussian, add_laplace
from unit.explore.plan.pasts import drawn, kept
from unit.explore.plan.tables import planned

pytestmark = pytest.mark.statistical
FALSE_ALARM = 1e-9
RUNS, BETA = 40_000, 0.05
BY_AGE = "BIN visits ON COUNT(*) WHERE W = HISTOGRAM(age, 0, 100, {}) ERROR {} CONFIDENCE {}"
PREFIX = "BIN visits ON COUNT(*) WHERE W = PREFIX(age, 0, 100, {}) ERROR {} CONFIDENCE {}"


def assert_rate_at_most(hits: int, trials: int, rate: float) -> None:
    limit = binom.isf(FALSE_ALARM, trials, rate)
    assert hits <= limit, f"{hits} hits in {trials}; a true rate of {rate} gives at most {limit:.0f}"


def noise(event: Event, number: int) -> NDArray[np.float64]:
    zeros = np.zeros(RUNS * number, dtype=np.int64)
    if isinstance(event, DiscreteGaussian):
        return add_gaussian(zeros, variance=event.variance).reshape(RUNS, number).astype(float)
    assert isinstance(event, DiscreteLaplace)
    return add_laplace(zeros, scale=event.scale).reshape(RUNS, number).astype(float)


def misses(plan: Plan, found: Blend, before: Plan, past: LinearMeasurement) -> int:
    """How often an answer is beyond the bound; one earlier measurement, all of whose noises are drawn from."""
    (piece,) = past.pieces
    assert found.weights.shape[1] == len(piece.values) + (sum(map(len, found.added.matrices)) if found.added else 0)
    rows = noise(before.event, len(piece.values)) / piece.deviation
    if found.added is not None:
        rows = np.hstack([rows, noise(found.event, sum(map(len, found.added.matrices))) / found.deviation])
    return int((np.abs(rows @ found.weights.T) > float(plan.alpha)).any(axis=1).sum())


@pytest.mark.parametrize("name", ["zcdp", "pure"])
@pytest.mark.parametrize(
    ("before", "now"),
    [
        (BY_AGE.format(10, 100, 0.95), BY_AGE.format(20, 140, 0.95)),
        (BY_AGE.format(10, 100, 0.95), BY_AGE.format(10, 70, 0.95)),
        (BY_AGE.format(10, 100, 0.95), PREFIX.format(10, 120, 0.95)),
    ],
)
def test_an_answer_drawn_from_earlier_ones_keeps_its_bound(before: str, now: str, name: str) -> None:
    first, plan = planned(before, name), planned(now, name)
    past = kept(first, 1)
    found = drawn(plan, [past])
    assert found is not None
    assert_rate_at_most(misses(plan, found, first, past), RUNS, BETA)


@pytest.mark.parametrize("name", ["zcdp", "pure"])
def test_earlier_noise_forgotten_in_the_bound_is_caught(name: str) -> None:
    """The twin: a top-up as small as if the earlier answer were as good as one asked for at half its error."""
    first, plan = planned(BY_AGE.format(10, 100, 0.95), name), planned(BY_AGE.format(10, 70, 0.95), name)
    better = planned(BY_AGE.format(10, 75, 0.95), name)
    found = drawn(plan, [kept(better, 1)])
    assert found is not None
    with pytest.raises(AssertionError, match="hits in"):
        assert_rate_at_most(misses(plan, found, first, kept(better, 1)), RUNS, BETA)


def along_the_noise(error: int, *, simultaneous: bool) -> tuple[int, int]:
    """Who knows the rows asks for the ages whose noise is positive: how often the bound of that sum is broken.

    Returns:
        Broken bounds, and questions that were answered for nothing.
    """
    broken = asked = 0
    first = planned(BY_AGE.format(1, 60, 0.95), "zcdp")
    for _ in range(20):
        drawn_noise = add_gaussian(np.zeros(100, dtype=np.int64), variance=first.event.variance)  # type: ignore[union-attr]
        ages = np.flatnonzero(drawn_noise > 0)
        where = f"age IN ({', '.join(map(str, ages))})"
        plan = planned(f"SELECT COUNT(*) FROM visits WHERE {where} ERROR {error} CONFIDENCE 0.95", "zcdp")
        found = drawn(plan, [kept(first, 1, noise=drawn_noise)], simultaneous=simultaneous)
        if found is not None and found.is_free:
            asked += 1
            broken += int(drawn_noise[ages].sum() > error)
    return broken, asked


def test_who_asks_along_the_noise_breaks_independent_answers_and_no_simultaneous_one() -> None:
    broken, asked = along_the_noise(400, simultaneous=False)
    assert asked >= 18
    with pytest.raises(AssertionError, match="hits in"):  # the label swapped would be caught
        assert_rate_at_most(broken, asked, BETA)
    broken, asked = along_the_noise(1_800, simultaneous=True)
    assert asked >= 18
    assert broken == 0


def shown_the_worst(radius: NDArray[np.float64]) -> int:
    """One cell measured 128 times; the adversary shows the measurement that is furthest beyond its radius."""
    noises = np.random.default_rng(1).standard_normal((RUNS, 128))
    return int((np.abs(noises) > radius).any(axis=1).sum())


def shares(measurements: int) -> NDArray[np.float64]:
    """ln of what each measurement's one number may take of beta."""
    return np.array([compute_number_log_share(number) for number in range(1, measurements + 1)]) + np.log(BETA)


def test_a_simultaneous_bound_holds_for_the_worst_of_many_measurements() -> None:
    assert_rate_at_most(shown_the_worst(compute_normal_radius(np.ones(128), shares(128))), RUNS, BETA)


def test_a_bound_without_shares_is_caught() -> None:
    with pytest.raises(AssertionError, match="hits in"):
        assert_rate_at_most(shown_the_worst(np.full(128, normal_quantile(BETA / 2))), RUNS, BETA)


def test_a_mean_that_stops_where_it_is_worst_with_the_bound_of_one_measurement_is_caught() -> None:
    """The reason why each simultaneous answer is read off one measurement."""
    sums = np.cumsum(np.random.default_rng(1).standard_normal((RUNS, 128)), axis=1)
    worst = (np.abs(sums) / np.sqrt(np.arange(1, 129))).max(axis=1)
    with pytest.raises(AssertionError, match="hits in"):
        assert_rate_at_most(int((worst > compute_normal_radius(np.ones(1), shares(1))[0]).sum()), RUNS, BETA)
