"""Every noise function keeps its claims, and every planted fault is caught."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from numpy.typing import NDArray

from siloquent.privacy.noise import add_gaussian, add_laplace
from siloquent.privacy.noise.selection import Rule
from tests.audit import noise_cases
from tests.audit.grid import assert_on_grid, check_grid, on_grid
from tests.audit.harness import exact_epsilon
from tests.audit.noise_cases import EPSILONS, GROWING, MOVING, Case, Counts, Pair
from tests.statistical.noise.laws import selection_chances

pytestmark = pytest.mark.statistical

CLAIMS, FAULTS = list(noise_cases.claims()), list(noise_cases.faults())


@pytest.mark.slow
@pytest.mark.parametrize("case", CLAIMS, ids=str)
def test_no_claim_is_refuted(case: Case) -> None:
    found = case.audit()
    assert not found.refuted, found


@pytest.mark.slow
@pytest.mark.parametrize("case", FAULTS, ids=str)
def test_a_planted_fault_is_caught(case: Case) -> None:
    found = case.audit()
    assert found.refuted, f"unnoticed: {found}"


def test_enough_is_audited() -> None:
    assert len({case.name for case in CLAIMS + FAULTS}) == len(CLAIMS + FAULTS)
    assert 2 * len(CLAIMS) >= 280  # in both directions; tests/audit/test_mechanisms.py brings more
    assert len(FAULTS) >= 40


# Finite mechanisms are not sampled: their chances are enumerated.

RULES: list[Rule] = ["permute-and-flip", "exponential"]
PAIRS = [(pair, factor) for pairs, factor in ((GROWING, 1), (MOVING, 2)) for pair in pairs.values()]


@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("pair", "factor"), PAIRS, ids=str)
def test_a_selection_costs_at_most_its_price_exactly(rule: Rule, pair: Pair, factor: int, epsilon: Fraction) -> None:
    channel = np.array([selection_chances(rule, utilities, epsilon / factor) for utilities in pair])
    assert exact_epsilon(channel) <= float(epsilon) * (1 + 1e-9)


@pytest.mark.parametrize("rule", RULES)
def test_a_selection_reaches_its_price_so_that_none_of_it_is_given_away(rule: Rule) -> None:
    pair = (0,) * 7, (-2,) + (2,) * 6  # utilities that move by 2
    channel = np.array([selection_chances(rule, utilities, Fraction(5)) for utilities in pair])
    assert 0.99 * 20 <= exact_epsilon(channel) <= 20 * (1 + 1e-9)
    halved = np.array([selection_chances(rule, utilities, Fraction(10)) for utilities in pair])
    assert exact_epsilon(halved) > 20  # the twin: a rate that forgets its factor two


def two_rounds(utilities: Counts, rate: Fraction) -> list[float]:
    """The chances of all ordered pairs."""
    weight = [np.exp(float(rate * u)) for u in utilities]
    total = sum(weight)
    return [weight[a] / total * weight[b] / (total - weight[a]) for a, b in permutations(range(len(utilities)), 2)]


@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
@pytest.mark.parametrize(("pair", "factor"), PAIRS, ids=str)
def test_two_rounds_cost_at_most_their_price_exactly(pair: Pair, factor: int, epsilon: Fraction) -> None:
    channel = np.array([two_rounds(utilities, epsilon / (2 * factor)) for utilities in pair])
    assert exact_epsilon(channel) <= float(epsilon) * (1 + 1e-9)


@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
@pytest.mark.parametrize("size", [2, 5, 1024])
def test_a_response_costs_exactly_its_price(size: int, epsilon: Fraction) -> None:
    p = noise_cases.truth(epsilon, size)
    channel = np.full((size, size), (1 - float(p)) / (size - 1))
    np.fill_diagonal(channel, float(p))
    claimed = noise_cases.response_epsilon(p, size)
    assert exact_epsilon(channel) == pytest.approx(claimed, rel=1e-9)
    assert exact_epsilon(channel) > claimed * 0.9  # the twin: a price a tenth short


# Released floats: whole noise times a grid, and the fault of adding float noise.

STARTS = [(0, 1), (6, 7), (999_999, 1_000_000)]
Floats = NDArray[np.float64]


@pytest.mark.parametrize("pair", STARTS, ids=str)
@pytest.mark.parametrize("grid", [Fraction(1), Fraction(1, 10), Fraction(1, 1024), Fraction(1000)], ids=str)
def test_whole_noise_times_a_grid_tells_nothing_by_its_last_bits(pair: tuple[int, int], grid: Fraction) -> None:
    def release(exact: int, n: int) -> Floats:
        return on_grid(add_laplace(np.full(n, exact, dtype=np.int64), scale=1).astype(float), grid)

    assert_on_grid(release, pair, grid=grid, epsilon=1.0, n=60_000)


def test_whole_gaussian_noise_times_a_grid_lies_on_it() -> None:
    def release(exact: int, n: int) -> Floats:
        return on_grid(add_gaussian(np.full(n, exact, dtype=np.int64), variance=9).astype(float), Fraction(1, 10))

    found = check_grid(release, (0, 1), grid=Fraction(1, 10), epsilon=2.0, n=60_000)
    assert not found.refuted, found


@pytest.mark.parametrize("pair", [(0.0, 1.0), (0.1, 1.1), (3.0, 2.0)], ids=str)
def test_float_noise_is_caught_by_its_last_bits(pair: tuple[float, float]) -> None:
    random = np.random.default_rng(3)

    def release(exact: float, n: int) -> Floats:
        return exact + random.laplace(size=n)

    found = check_grid(release, pair, grid=Fraction(1, 1024), epsilon=1.0, n=100_000)
    assert found.off_grid > 0
    assert found.attack.eps_low > (4 if pair[0] == 0 else 1), found


def test_whole_noise_on_a_value_off_the_grid_is_caught() -> None:
    def release(exact: Fraction, n: int) -> Floats:
        return float(exact) + add_laplace(np.zeros(n, dtype=np.int64), scale=1)

    found = check_grid(release, (Fraction(0), Fraction(1, 2)), grid=Fraction(1), epsilon=1.0, n=10_000)
    assert found.refuted
    assert found.off_grid > 0


def test_the_declared_grid_is_the_one_that_counts() -> None:
    def release(exact: int, n: int) -> Floats:
        return add_laplace(np.full(n, exact, dtype=np.int64), scale=1) * 0.5

    found = check_grid(release, (0, 1), grid=Fraction(1), epsilon=1.0, n=10_000)
    assert found.off_grid > 0
