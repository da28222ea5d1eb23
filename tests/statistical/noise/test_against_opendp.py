"""OpenDP's draws and ours follow one law, at five scales each."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from siloquent.privacy.noise.distributions import GaussianDistribution, MagnitudeDistribution
from siloquent.privacy.noise.draws import add_draws
from siloquent.privacy.noise.opendp_noise import add_opendp_noise
from statistical.noise import laws

pytestmark = pytest.mark.statistical

SCALES = [Fraction(1, 2), Fraction(2), Fraction(54657, 1024), Fraction(1000), Fraction(2**20)]
THEIRS, OURS = np.zeros(100_000, dtype=np.int64), np.zeros(400_000, dtype=np.int64)


def our_laplace(scale: Fraction) -> NDArray[np.int64]:
    return add_draws(OURS, "laplace", MagnitudeDistribution.from_scale(scale))


def our_gaussian(variance: Fraction) -> NDArray[np.int64]:
    return add_draws(OURS, "gaussian", GaussianDistribution.from_variance(variance))


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_both_draw_the_same_laplace_law(scale: Fraction) -> None:
    theirs = add_opendp_noise(THEIRS, "laplace", float(scale))
    laws.assert_same_law(theirs, our_laplace(scale), laws.laplace(scale))
    laws.assert_law(theirs, laws.laplace(scale))


@pytest.mark.parametrize("scale", [*SCALES[:4], Fraction(2**13)], ids=str)
def test_both_draw_the_same_gaussian_law(scale: Fraction) -> None:
    theirs = add_opendp_noise(THEIRS, "gaussian", float(scale))
    laws.assert_same_law(theirs, our_gaussian(scale**2), laws.gaussian(scale**2))
    laws.assert_law(theirs, laws.gaussian(scale**2))


@pytest.mark.parametrize("scale", [Fraction(2), Fraction(1000)], ids=str)
def test_a_sampler_ten_percent_apart_is_caught(scale: Fraction) -> None:
    with pytest.raises(AssertionError, match="between two samples"):
        laws.assert_same_law(
            add_opendp_noise(THEIRS, "laplace", float(scale)), our_laplace(scale * 11 / 10), laws.laplace(scale)
        )
