"""Selections, coins and reports have the chances that enumeration gives."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest

from siloquent.privacy import noise
from siloquent.privacy.noise.selection import Rule, draw_selections
from statistical.noise import laws
from statistical.noise.laws import selection_chances as chances

pytestmark = pytest.mark.statistical

TIMES = 1_000_000
UTILITIES = [(0, 3, 5, 4), (0, 0, 0), (7,), (-3, -1, -1, -4, 0, -2), (2**60, 2**60 - 2, 2**60 - 1)]
RATES = [Fraction(1, 10), Fraction(1, 2), Fraction(3)]


@pytest.mark.parametrize("rate", RATES, ids=str)
@pytest.mark.parametrize("utilities", UTILITIES, ids=str)
@pytest.mark.parametrize("rule", ["permute-and-flip", "exponential"])
def test_selections_have_their_chances(rule: Rule, utilities: tuple[int, ...], rate: Fraction) -> None:
    chosen = draw_selections(np.array(utilities, dtype=np.int64), rate=rate, rule=rule, times=TIMES)
    laws.assert_chances(np.bincount(chosen, minlength=len(utilities)), chances(rule, utilities, rate))


def test_single_selections_in_plain_python_have_the_same_chances() -> None:
    utilities = np.array([0, 3, 5, 4], dtype=np.int64)
    for rule, select in (("permute-and-flip", noise.permute_and_flip), ("exponential", noise.select_exponential)):
        found = np.bincount([select(utilities, rate=Fraction(1, 2)) for _ in range(40_000)], minlength=4)
        laws.assert_chances(found, chances(rule, (0, 3, 5, 4), Fraction(1, 2)))  # type: ignore[arg-type]


def test_rounds_of_selection_have_the_chances_of_ordered_lists() -> None:
    utilities, rate = (0, 3, 5, 4), Fraction(1, 2)
    weight = [math.exp(rate * u) for u in utilities]
    lists = list(permutations(range(4), 2))
    exact = [weight[a] / sum(weight) * weight[b] / (sum(weight) - weight[a]) for a, b in lists]
    drawn = [
        tuple(noise.select_exponential_top_k(np.array(utilities, dtype=np.int64), rate=rate, k=2))
        for _ in range(30_000)
    ]
    laws.assert_chances([drawn.count(one) for one in lists], exact)


def test_each_rule_is_caught_posing_as_the_other() -> None:
    utilities, rate = (0, 3, 5, 4), Fraction(1, 2)
    for rule, other in (("permute-and-flip", "exponential"), ("exponential", "permute-and-flip")):
        chosen = draw_selections(np.array(utilities, dtype=np.int64), rate=rate, rule=rule, times=TIMES)  # type: ignore[arg-type]
        with pytest.raises(AssertionError, match="chi-square"):
            laws.assert_chances(np.bincount(chosen, minlength=4), chances(other, utilities, rate))  # type: ignore[arg-type]


@pytest.mark.parametrize("rule", ["permute-and-flip", "exponential"])
def test_a_rate_four_percent_off_is_caught(rule: Rule) -> None:
    utilities, rate = (0, 3, 5, 4), Fraction(1, 2)
    chosen = draw_selections(np.array(utilities, dtype=np.int64), rate=rate * 26 / 25, rule=rule, times=TIMES)
    with pytest.raises(AssertionError, match="chi-square"):
        laws.assert_chances(np.bincount(chosen, minlength=4), chances(rule, utilities, rate))


@pytest.mark.parametrize(
    "gamma", [Fraction(1, 10), Fraction(1), Fraction(20, 7), Fraction(1, 2**70), Fraction(6)], ids=str
)
def test_exponential_coins_have_their_weight(gamma: Fraction) -> None:
    hits = sum(noise.draw_bernoulli_exp(gamma=gamma) for _ in range(50_000))
    laws.assert_rate(hits, 50_000, math.exp(-gamma))


@pytest.mark.parametrize(
    "p", [Fraction(1, 3), Fraction(1, 2), Fraction(999, 1000), Fraction(2**90, 2**91 + 1)], ids=str
)
def test_coins_have_their_weight(p: Fraction) -> None:
    laws.assert_rate(sum(noise.draw_bernoulli(p=p) for _ in range(50_000)), 50_000, float(p))


@pytest.mark.parametrize(("size", "p"), [(2, Fraction(3, 4)), (5, Fraction(1, 2)), (7, Fraction(1, 7))], ids=str)
def test_reports_keep_the_truth_with_its_chance_and_spread_the_rest_evenly(size: int, p: Fraction) -> None:
    for value in (0, size // 2, size - 1):
        reports = noise.randomise_values(np.full(300_000, value, dtype=np.int64), size=size, p=p)
        exact = np.full(size, (1 - float(p)) / (size - 1))
        exact[value] = float(p)
        laws.assert_chances(np.bincount(reports, minlength=size), exact)


def test_a_report_that_may_redraw_the_truth_is_caught() -> None:
    kept = np.random.default_rng(1).random(300_000) < 0.5
    other = np.random.default_rng(2).integers(0, 5, 300_000)
    with pytest.raises(AssertionError, match="chi-square"):
        laws.assert_chances(np.bincount(np.where(kept, 0, other), minlength=5), [0.5, 0.125, 0.125, 0.125, 0.125])
