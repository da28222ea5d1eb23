"""Draws follow their exact laws: chi-square against the mass function, two-sample against OpenDP.

False alarms: once in 10^9 a test. A sampler whose scale is 1 % off is caught.
"""

from __future__ import annotations

import math
import os
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2, chi2_contingency

from siloquent.privacy.noise import add_gaussian, add_geometric, add_laplace, exponential, permute_and_flip
from siloquent.privacy.noise.selection import selections

pytestmark = pytest.mark.statistical
FALSE_ALARM = 1e-9
N = 1_000_000
ZEROS = np.zeros(N, dtype=np.int64)


def edges(scale: float, count: int = 61) -> NDArray[np.int64]:
    """Whole cut points that give bins of similar weight for any of the laws."""
    return np.unique(np.round(scale * np.linspace(-6, 6, count)).astype(np.int64))


def assert_law(draws: NDArray[np.int64], cuts: NDArray[np.int64], upto: NDArray[np.float64]) -> None:
    """``upto``: P[Y <= cut] for each cut. Bins with fewer than 20 expected draws are joined with their neighbour."""
    observed = np.diff(np.searchsorted(np.sort(draws), cuts, side="right"), prepend=0, append=len(draws))
    expected = np.diff(upto, prepend=0, append=1) * len(draws)
    joined: list[list[float]] = [[0.0, 0.0]]
    for o, e in zip(observed, expected, strict=True):
        joined[-1][0] += o
        joined[-1][1] += e
        if joined[-1][1] >= 20:
            joined.append([0.0, 0.0])
    if joined[-1][1] < 20 and len(joined) > 1:
        last = joined.pop()
        joined[-1] = [joined[-1][0] + last[0], joined[-1][1] + last[1]]
    table = np.array(joined)
    statistic = ((table[:, 0] - table[:, 1]) ** 2 / table[:, 1]).sum()
    limit = chi2.isf(FALSE_ALARM, len(table) - 1)
    assert statistic <= limit, f"chi-square {statistic:.0f} above {limit:.0f} with {len(table)} bins"


def laplace_upto(cuts: NDArray[np.int64], scale: Fraction) -> NDArray[np.float64]:
    p = math.exp(-float(1 / scale))
    y = cuts.astype(float)
    rate = float(1 / scale)
    return np.where(y >= 0, 1 - np.exp(-rate * (y + 1)) / (1 + p), np.exp(rate * y) / (1 + p))


def gaussian_upto(cuts: NDArray[np.int64], variance: float) -> NDArray[np.float64]:
    reach = math.ceil(12 * math.sqrt(variance)) + 2
    y = np.arange(-reach, reach + 1)
    mass = np.exp(-(y.astype(float) ** 2) / (2 * variance))
    total = np.cumsum(mass) / mass.sum()
    return total[np.clip(cuts + reach, 0, len(total) - 1)]


@pytest.mark.parametrize("scale", [Fraction(10), Fraction(1000), Fraction(7, 3), Fraction(2**40)], ids=str)
def test_laplace_draws_follow_the_law(scale: Fraction) -> None:
    cuts = edges(float(scale))
    assert_law(add_laplace(ZEROS, scale=scale), cuts, laplace_upto(cuts, scale))


@pytest.mark.parametrize("variance", [1, 10**2, 10**4, 10**6, 10**8])
def test_gaussian_draws_follow_the_law(variance: int) -> None:
    cuts = edges(math.sqrt(variance))
    assert_law(add_gaussian(ZEROS, variance=variance), cuts, gaussian_upto(cuts, variance))


def test_gaussian_draws_of_fractional_variance_follow_the_law() -> None:
    cuts = edges(2)
    assert_law(add_gaussian(ZEROS, variance=Fraction(7, 3)), cuts, gaussian_upto(cuts, 7 / 3))


def test_geometric_draws_follow_the_law() -> None:
    cuts = np.arange(0, 60, 2)
    draws = add_geometric(ZEROS, scale=Fraction(9))
    assert draws.min() == 0
    assert_law(draws, cuts, 1 - np.exp(-(cuts + 1) / 9))


def test_a_scale_one_percent_off_is_caught() -> None:
    cuts = edges(1000)
    with pytest.raises(AssertionError, match="chi-square"):
        assert_law(add_laplace(ZEROS, scale=990), cuts, laplace_upto(cuts, Fraction(1000)))
    cuts = edges(100)
    with pytest.raises(AssertionError, match="chi-square"):
        assert_law(add_gaussian(ZEROS, variance=9_800), cuts, gaussian_upto(cuts, 10_000))


@pytest.mark.parametrize("scale", [0.5, 1.0, 3.0, 40.0, 1024.0])
def test_own_and_vetted_samplers_agree(scale: float) -> None:
    """OpenDP draws short vectors, our own sampler long ones: the same law at five scales."""
    exact = Fraction(scale)
    own = add_laplace(np.zeros(200_000, dtype=np.int64), scale=exact)
    vetted = np.concatenate([add_laplace(np.zeros(10_000, dtype=np.int64), scale=exact) for _ in range(20)])
    assert_same(own, vetted, edges(scale, 21))
    own = add_gaussian(np.zeros(200_000, dtype=np.int64), variance=exact**2)
    vetted = np.concatenate([add_gaussian(np.zeros(10_000, dtype=np.int64), variance=exact**2) for _ in range(20)])
    assert_same(own, vetted, edges(scale, 21))


def assert_same(one: NDArray[np.int64], other: NDArray[np.int64], cuts: NDArray[np.int64]) -> None:
    counts = np.array([np.bincount(np.searchsorted(cuts, part), minlength=len(cuts) + 1) for part in (one, other)])
    counts = counts[:, counts.sum(axis=0) >= 20]
    assert chi2_contingency(counts).pvalue > FALSE_ALARM


UTILITIES = np.array([0, -1, -3, -3], dtype=np.int64)


def test_permute_and_flip_chooses_with_its_exact_probabilities() -> None:
    """Enumerated over all orders: a candidate is taken if all before it were refused."""
    from itertools import permutations

    accept = np.exp(0.7 * UTILITIES)
    exact = np.zeros(4)
    for order in permutations(range(4)):
        left = 1 / 24
        for i in order:
            exact[i] += left * accept[i]
            left *= 1 - accept[i]
    drawn = np.bincount(
        selections(UTILITIES, rate=Fraction(7, 10), rule="permute-and-flip", times=200_000), minlength=4
    )
    assert ((drawn - exact * 200_000) ** 2 / (exact * 200_000)).sum() <= chi2.isf(FALSE_ALARM, 3)
    assert permute_and_flip(UTILITIES, rate=Fraction(2**40)) == 0


def test_the_exponential_mechanism_chooses_with_its_exact_probabilities() -> None:
    exact = np.exp(0.7 * UTILITIES)
    exact /= exact.sum()
    drawn = np.bincount(selections(UTILITIES, rate=Fraction(7, 10), rule="exponential", times=200_000), minlength=4)
    assert ((drawn - exact * 200_000) ** 2 / (exact * 200_000)).sum() <= chi2.isf(FALSE_ALARM, 3)
    assert exponential(UTILITIES, rate=Fraction(2**40)) == 0


def test_two_children_of_a_fork_draw_different_noise() -> None:
    add_laplace(np.zeros(20_000, dtype=np.int64), scale=1000)  # everything is loaded and warm before the fork
    seen = []
    for _ in range(2):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(writing, add_laplace(np.zeros(64, dtype=np.int64), scale=10**9).tobytes())
            os._exit(0)
        os.waitpid(child, 0)
        seen.append(os.read(reading, 512))
    assert len(seen[0]) == len(seen[1]) == 512
    assert seen[0] != seen[1]
