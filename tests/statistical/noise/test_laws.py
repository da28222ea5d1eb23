"""A million draws of each law against its exact mass function, and wrong samplers that the test catches."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from siloquent.privacy import noise
from statistical.noise import laws

pytestmark = pytest.mark.statistical

DRAWS = 1_000_000
SCALES = [Fraction(10), Fraction(1000), Fraction(7, 3), Fraction(2**40), Fraction(1, 2), Fraction(54657, 1024)]
VARIANCES = [Fraction(1), Fraction(10**2), Fraction(10**4), Fraction(10**6), Fraction(10**8)]
VARIANCES += [Fraction(1, 3), Fraction(7, 2), Fraction(146_000, 1024)]


def zeros(count: int = DRAWS) -> NDArray[np.int64]:
    return np.zeros(count, dtype=np.int64)


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_laplace_draws_follow_their_law(scale: Fraction) -> None:
    laws.assert_law(noise.add_laplace(zeros(), scale=scale), laws.laplace(scale))


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_geometric_draws_follow_their_law(scale: Fraction) -> None:
    laws.assert_law(noise.add_geometric(zeros(), scale=scale), laws.geometric(scale))


@pytest.mark.parametrize("variance", VARIANCES, ids=str)
def test_gaussian_draws_follow_their_law(variance: Fraction) -> None:
    laws.assert_law(noise.add_gaussian(zeros(), variance=variance), laws.gaussian(variance))


@pytest.mark.parametrize("variance", [Fraction(2**50), Fraction(2**50 - 1, 1024)], ids=str)
def test_the_widest_gaussian_is_a_normal_law_and_its_last_bits_are_uniform(variance: Fraction) -> None:
    from scipy import stats

    drawn = noise.add_gaussian(zeros(), variance=variance)
    sigma = float(variance) ** 0.5
    edges = np.rint(sigma * stats.norm.ppf(np.arange(1, 200) / 200)).astype(np.int64)
    # Above sigma = 3 the chance of Y < y is the normal one of y - 1/2 to within far less than a draw in 10^9.
    chances = np.diff(np.concatenate([[0.0], stats.norm.cdf((edges - 0.5) / sigma), [1.0]]))
    laws.assert_chances(np.bincount(np.searchsorted(edges, drawn, side="right"), minlength=200), chances)
    laws.assert_chances(np.bincount(drawn & 255, minlength=256), np.full(256, 1 / 256))


def test_the_last_bits_of_a_wide_laplace_are_uniform() -> None:
    drawn = noise.add_laplace(zeros(), scale=Fraction(2**40))
    laws.assert_chances(np.bincount(drawn & 255, minlength=256), np.full(256, 1 / 256))


def test_neighbouring_draws_of_one_vector_are_independent() -> None:
    drawn = noise.add_laplace(zeros(), scale=Fraction(1)).clip(-3, 3) + 3
    p = np.exp(-1.0)
    one = np.array([p**3, p**2 * (1 - p), p * (1 - p), (1 - p), p * (1 - p), p**2 * (1 - p), p**3]) / (1 + p)
    laws.assert_chances(np.bincount(drawn[::2] * 7 + drawn[1::2], minlength=49), np.outer(one, one).ravel())


def test_words_are_uniform_in_every_byte() -> None:
    table = noise.draw_words(200_000).view(np.uint8).reshape(-1, 8)
    for place in range(8):
        laws.assert_chances(np.bincount(table[:, place], minlength=256), np.full(256, 1 / 256))


@pytest.mark.slow
def test_ten_million_draws_of_every_kind_raise_nothing() -> None:
    for scale in (
        Fraction(1, 1024),
        Fraction(3),
        Fraction(2**50),
        Fraction(2**60 - 1, 2**50 - 1),
        Fraction(54657, 1024),
    ):
        assert noise.add_laplace(zeros(700_000), scale=scale).size == 700_000
        assert noise.add_geometric(zeros(700_000), scale=scale).size == 700_000
    for variance in (Fraction(1, 2**20), Fraction(3), Fraction(2**50), Fraction(2**50 - 1, 2**20), Fraction(10**9)):
        assert noise.add_gaussian(zeros(700_000), variance=variance).size == 700_000


def wrong_laplace(kind: str) -> NDArray[np.int64]:
    """A million draws from a sampler of scale 10 with one fault."""
    rng = np.random.default_rng(1)  # public noise for a public fault
    size = rng.geometric(-np.expm1(-1 / 10), DRAWS) - 1
    negative = rng.random(DRAWS) < 0.5
    if kind == "zero has two chances":
        return np.where(negative, -size, size)
    keep = ~(negative & (size == 0))
    size, negative = size[keep], negative[keep]
    if kind == "one sign is likelier":
        negative &= rng.random(size.size) < 0.97
    if kind == "no noise above 60":
        size = size[size <= 60]
        negative = negative[: size.size]
    return np.where(negative, -size, size)


def test_the_right_sampler_passes_the_test_of_the_wrong_ones() -> None:
    laws.assert_law(wrong_laplace("no fault"), laws.laplace(Fraction(10)))


@pytest.mark.parametrize("kind", ["zero has two chances", "one sign is likelier", "no noise above 60"])
def test_a_wrong_laplace_sampler_is_caught(kind: str) -> None:
    with pytest.raises(AssertionError, match="chi-square"):
        laws.assert_law(wrong_laplace(kind), laws.laplace(Fraction(10)))


@pytest.mark.parametrize("wrong", [Fraction(98, 10), Fraction(102, 10)], ids=str)
def test_a_laplace_scale_two_percent_off_is_caught(wrong: Fraction) -> None:
    with pytest.raises(AssertionError, match="chi-square"):
        laws.assert_law(noise.add_laplace(zeros(), scale=wrong), laws.laplace(Fraction(10)))


@pytest.mark.parametrize("variance", VARIANCES[:5], ids=str)
def test_a_gaussian_variance_four_percent_off_is_caught(variance: Fraction) -> None:
    with pytest.raises(AssertionError, match="chi-square"):
        laws.assert_law(noise.add_gaussian(zeros(), variance=variance * 26 / 25), laws.gaussian(variance))


def test_rounded_real_noise_is_no_discrete_noise() -> None:
    rng = np.random.default_rng(1)
    with pytest.raises(AssertionError, match="chi-square"):
        laws.assert_law(np.rint(rng.laplace(0, 1, DRAWS)).astype(np.int64), laws.laplace(Fraction(1)))
    with pytest.raises(AssertionError, match="chi-square"):
        laws.assert_law(np.rint(rng.normal(0, 1, DRAWS)).astype(np.int64), laws.gaussian(Fraction(1)))
