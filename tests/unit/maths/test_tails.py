"""The variance of discrete Laplace noise: that of its own sum, and never 0, however small the scale is."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from siloquent.maths.tails.distributions import compute_laplace_variance


@pytest.mark.parametrize("scale", [Fraction(1, 40), Fraction(1, 4), Fraction(1), Fraction(7, 2), Fraction(50)])
def test_it_is_the_mean_square_of_the_noise(scale: Fraction) -> None:
    weights = [math.exp(-x / float(scale)) for x in range(5_000)]
    whole = 2 * sum(weights) - 1
    mean_square = 2 * sum(x * x * weight for x, weight in enumerate(weights)) / whole
    assert float(compute_laplace_variance(scale)) == pytest.approx(mean_square, rel=1e-12)


@pytest.mark.parametrize("scale", [Fraction(1, 1_024), Fraction(1, 700), Fraction(1, 50), Fraction(2**50)])
def test_noise_that_is_hardly_ever_there_has_a_variance_above_0(scale: Fraction) -> None:
    assert 0 < compute_laplace_variance(scale) <= 2 * scale**2 * (1 + Fraction(1, 10**9)) + Fraction(1, 10**9)
