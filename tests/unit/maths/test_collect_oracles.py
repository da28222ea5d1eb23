"""What a report says about nodes: the formulas against every report that there is."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest

from siloquent.collect.plan.thresholds import compute_threshold
from siloquent.maths.local.frequency_oracles import Oracle, choose_kind, choose_size, compute_ideal_truth


def channel_of_sets(k: int, w: int, p: float) -> tuple[np.ndarray, np.ndarray]:
    """Every set as a row of bits, and its probability given each node: shapes (sets, k) and (sets, k)."""
    sets = np.array([[i in chosen for i in range(k)] for chosen in combinations(range(k), w)], dtype=float)
    with_node = sets.sum(axis=0)[0]
    without = len(sets) - with_node
    return sets, np.where(sets == 1, p / with_node, (1 - p) / max(without, 1))


@pytest.mark.parametrize(("k", "w"), [(2, 1), (3, 1), (3, 2), (5, 1), (6, 2), (7, 3), (8, 4)])
def test_the_probabilities_of_sets_are_those_of_every_set(k: int, w: int) -> None:
    oracle = Oracle("subset", k, w, compute_ideal_truth("subset", k, w, 1.3))
    sets, chances = channel_of_sets(k, w, oracle.p)
    assert np.allclose(chances.sum(axis=0), 1)
    supported = sets.T @ chances  # [node, holder]
    assert np.allclose(np.diag(supported), oracle.p)
    assert np.allclose(supported[~np.eye(k, dtype=bool)], oracle.q)
    shares = np.random.default_rng(0).dirichlet(np.ones(k))
    phi = (sets - oracle.q) / (oracle.p - oracle.q)
    moments = (phi.T * (chances @ shares)) @ phi
    assert np.allclose(oracle.apply_second_moments(shares, np.eye(k)), moments)
    assert np.allclose(phi.sum(axis=1), 1)  # what makes the number of users exact
    assert np.isclose(oracle.variance, moments_of_other(phi, chances))


def moments_of_other(phi: np.ndarray, chances: np.ndarray) -> float:
    """The variance of Phi_0 where node 1 is held."""
    return float((phi[:, 0] ** 2 * chances[:, 1]).sum() - (phi[:, 0] * chances[:, 1]).sum() ** 2)


@pytest.mark.parametrize("epsilon", ["1/20", "1/2", "1", "2", "5", "8"])
@pytest.mark.parametrize("k", [2, 3, 5, 25, 125, 128])
def test_a_threshold_is_the_largest_that_epsilon_allows(epsilon: str, k: int) -> None:
    w = choose_size("subset", k, float(Fraction(epsilon)))
    found = compute_threshold(epsilon=Fraction(epsilon), weight=w, others=k - w)
    # Against 60 digits of e^epsilon by another road: the power series of fractions.
    x = Fraction(epsilon)
    term, total = Fraction(1), Fraction(1)
    for i in range(1, 200):
        term = term * x / i
        total += term
    assert Fraction(found, 2**64) <= w * total / (w * total + k - w) < Fraction(found + 1, 2**64)


@pytest.mark.parametrize(("k", "variance"), [(5, 0.255), (25, 0.589), (125, 0.697)])
def test_the_published_variances_at_epsilon_2(k: int, variance: float) -> None:
    w = choose_size("subset", k, 2)
    assert Oracle("subset", k, w, compute_ideal_truth("subset", k, w, 2)).variance == pytest.approx(variance, abs=6e-4)


def test_hashing_reaches_its_own_formula_and_not_the_small_epsilon_one() -> None:
    g = choose_size("hash", 625, 2)
    found = Oracle("hash", 625, g, compute_ideal_truth("hash", 625, g, 2)).variance
    assert g == 8
    assert found == pytest.approx(4 * np.exp(2) / (np.exp(2) - 1) ** 2, rel=1e-3)
    assert found < 0.75 < 4 / 2**2


def test_hashes_support_others_pairwise_independently() -> None:
    prime, g, holder = 31, 5, 3
    oracle = Oracle("hash", 4, g, 0.6)
    first = second = both = 0.0
    functions = list(product(range(1, prime), range(prime)))
    for a, b in functions:
        own, x, y = ((a * v + b) % prime % g for v in (holder, 0, 1))
        for bucket in range(g):
            chance = (0.6 if bucket == own else 0.4 / (g - 1)) / len(functions)
            first += chance * (x == bucket)
            second += chance * (own == bucket)
            both += chance * (x == bucket and y == bucket)
    assert second == pytest.approx(oracle.p)
    assert first == pytest.approx(oracle.q, rel=0.15)  # 31 is a small prime: 2^31 - 1 is not
    assert both == pytest.approx(oracle.both[1], rel=0.3)


def test_sets_while_they_fit_hashes_above() -> None:
    assert (choose_kind(128), choose_kind(129)) == ("subset", "hash")
