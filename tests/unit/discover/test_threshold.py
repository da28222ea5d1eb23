"""The threshold of released keys, against plain sums over the noise's probabilities."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from siloquent.discover.plan.threshold import MISS, compute_passing_probability, compute_threshold

DELTA = Fraction(1, 10**7)


def tail(m: int, variance: float) -> float:
    """P[N >= m], summed term by term over all whole numbers that matter."""
    reach = m + 60 * math.ceil(math.sqrt(variance)) + 60
    weights = [math.exp(-x * x / (2 * variance)) for x in range(-reach, reach + 1)]
    return math.fsum(weights[m + reach :]) / math.fsum(weights)


def brute_threshold(variance: float, keys: int, delta: float, at_least: int) -> int:
    def least(bound: float, together: int) -> int:
        return next(j for j in range(1, 10**6) if 1 - (1 - tail(j, variance)) ** together <= bound)

    return max(1 + least(delta, keys), at_least - 1 + least(float(MISS), 1))


@pytest.mark.parametrize(
    ("rho", "keys", "threshold"),
    [(Fraction(1, 100), 1, 39), (Fraction(1, 100), 5, 89), (Fraction(1, 1_000), 1, 118)],
)
def test_thresholds_of_the_proof_page(rho: Fraction, keys: int, threshold: int) -> None:
    assert compute_threshold(keys / (2 * rho), keys_each=keys, delta=DELTA, at_least=1) == threshold


@pytest.mark.parametrize("variance", [Fraction(1, 4), Fraction(1), Fraction(9, 2), Fraction(50), Fraction(400)])
@pytest.mark.parametrize("keys", [1, 3, 20])
@pytest.mark.parametrize("at_least", [1, 20, 500])
def test_thresholds_equal_those_of_plain_sums(variance: Fraction, keys: int, at_least: int) -> None:
    for delta in (Fraction(1, 100), Fraction(1, 10**6)):
        found = compute_threshold(variance, keys_each=keys, delta=delta, at_least=at_least)
        assert found == brute_threshold(float(variance), keys, float(delta), at_least)


@pytest.mark.parametrize("keys", [1, 4, 100])
def test_the_charged_delta_is_that_of_the_threshold_rounded_up(keys: int) -> None:
    variance = Fraction(50)
    threshold = compute_threshold(variance, keys_each=keys, delta=DELTA, at_least=1)
    charged = compute_passing_probability(variance, keys_each=keys, threshold=threshold)
    exact = -math.expm1(keys * math.log1p(-tail(threshold - 1, 50.0)))
    assert exact <= float(charged) <= exact * (1 + 1e-6)
    assert charged <= DELTA < compute_passing_probability(variance, keys_each=keys, threshold=threshold - 1)


def test_a_higher_minimum_costs_less_delta() -> None:
    variance = Fraction(50)
    high = compute_threshold(variance, keys_each=1, delta=DELTA, at_least=100)
    assert high > compute_threshold(variance, keys_each=1, delta=DELTA, at_least=1)
    assert compute_passing_probability(variance, keys_each=1, threshold=high) < DELTA / 1_000
