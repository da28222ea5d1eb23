"""Scales and errors are the published figures, hold at the very rational that is used, and the next step would not."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from siloquent.errors import AccuracyUnreachable, RequestError
from siloquent.maths.tails import distributions as tails
from siloquent.maths.tails import order_statistics
from siloquent.maths.tails.errors import (
    DENOMINATOR,
    ExponentialRounds,
    GaussianAbove,
    GaussianTop,
    GaussianValues,
    GeometricTop,
    LaplaceAbove,
    LaplaceTop,
    LaplaceValues,
    PermuteAndFlipTail,
    compute_breaking_error,
    find_largest_scale,
    find_smallest_error,
)

BETA = 5e-4
ADULT = compute_breaking_error(Fraction("651.22"))


@pytest.mark.parametrize(
    ("law", "factor", "epsilon"),
    [
        (LaplaceValues(100), 1, 0.018743),  # QW1
        (LaplaceAbove(100), 1, 0.017679),  # QI2, printed .01768
        (LaplaceTop(100, 10), 1, 0.0236),  # QT1, target
        (GeometricTop(100, 10), 10, 0.1845),  # QT2, target, D = 1
        (PermuteAndFlipTail(101), 2, 0.0354),  # QI1, target
    ],
)
def test_pure_prices_at_two_percent_of_adult(law: object, factor: int, epsilon: float) -> None:
    price = factor / float(find_largest_scale(law, ADULT, BETA))  # type: ignore[arg-type]
    assert price == pytest.approx(epsilon, rel=6e-3)
    assert price <= epsilon * (1 + 1e-3)


@pytest.mark.parametrize(
    ("law", "mu_alpha"), [(GaussianValues(100), 4.565), (GaussianAbove(100), 4.417), (GaussianTop(100, 10), 6.855)]
)
def test_gaussian_deviations_are_the_published_multiples(law: object, mu_alpha: float) -> None:
    m = 10**6
    assert m / float(find_largest_scale(law, m, BETA)) == pytest.approx(mu_alpha, rel=1e-3)  # type: ignore[arg-type]


LAWS = [
    LaplaceValues(7),
    LaplaceAbove(7),
    LaplaceTop(9, 3),
    GeometricTop(9, 3),
    GaussianValues(7),
    GaussianAbove(7),
    GaussianTop(9, 3),
    PermuteAndFlipTail(8),
    ExponentialRounds(9, 3),
]


@pytest.mark.parametrize("law", LAWS, ids=repr)
@pytest.mark.parametrize("m", [1, 2, 17, 4_000])
@pytest.mark.parametrize("beta", [0.3, 0.05, 1e-6])
def test_the_largest_scale_keeps_the_promise_and_the_next_breaks_it(law: object, m: int, beta: float) -> None:
    scale = find_largest_scale(law, m, beta)  # type: ignore[arg-type]
    assert scale.denominator <= DENOMINATOR
    assert law(float(scale), m) <= beta  # type: ignore[operator]
    assert law(float(scale) + 1 / DENOMINATOR, m) > beta * (1 - 1e-9)  # type: ignore[operator]
    assert find_smallest_error(law, scale, beta) <= m  # type: ignore[arg-type]


@pytest.mark.parametrize("scale", [0.5, 1.0, 7.0, 300.0])
def test_laplace_tails_agree_with_fifty_digits(scale: float) -> None:
    with mpmath.workdps(50):
        p = mpmath.exp(-1 / mpmath.mpf(scale))
        for j in (0, 1, 5, 40):
            assert tails.laplace_tail(j, scale=scale) == pytest.approx(float(p**j / (1 + p)), rel=1e-12)


@pytest.mark.parametrize("scale", [0.4, 1.0, 3.0, 25.0])
def test_gaussian_tails_agree_with_the_exact_sum(scale: float) -> None:
    with mpmath.workdps(50):
        s2 = mpmath.mpf(scale) ** 2
        reach = int(40 * scale) + 40
        mass = {y: mpmath.exp(-(mpmath.mpf(y) ** 2) / (2 * s2)) for y in range(reach)}
        total = mass[0] + 2 * sum(mass[y] for y in range(1, reach))
        for m in (1, 2, int(3 * scale) + 1):
            exact = float(sum(mass[y] for y in range(m, reach)) / total)
            assert tails.gaussian_tail(m, scale=scale) == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("scale", [2e4, 1e6])
def test_wide_gaussian_tails_are_bounded_from_above(scale: float) -> None:
    m = int(4 * scale)
    y = np.arange(m, m + int(12 * scale), dtype=float)
    exact = np.exp(-(y**2) / (2 * scale**2)).sum() / (scale * math.sqrt(2 * math.pi))
    assert exact * (1 - 1e-9) <= tails.gaussian_tail(m, scale=scale) <= exact * (1 + 1e-3)


def test_order_statistics_agree_with_enumeration() -> None:
    """P[max of 2 - min of 2 >= m] for Laplace noise cut at +-60, by brute force over all four."""
    scale, m, cut = 2.0, 3, 60
    y = np.arange(-cut, cut + 1)
    mass = np.exp(-np.abs(y) / scale)
    mass /= mass.sum()
    upto = np.cumsum(mass)
    high = upto**2 - np.concatenate([[0], upto[:-1]]) ** 2  # largest of two
    above = 1 - np.concatenate([[0], upto[:-1]])
    least = above**2 - np.concatenate([above[1:], [0]]) ** 2  # smallest of two
    exact = sum(high[i] * least[: max(0, i - m + 1)].sum() for i in range(len(y)))
    assert order_statistics.compute_laplace_overtake(m, scale=scale, low=2, high=2) == pytest.approx(exact, rel=1e-6)


def test_the_smallest_breaking_error_is_strictly_above_alpha() -> None:
    assert [compute_breaking_error(Fraction(a)) for a in ("0.5", "1", "1.5", "651.22")] == [1, 2, 2, 652]
    assert compute_breaking_error(Fraction(1), Fraction(1, 10)) == 11
    for bad in (0, -1, math.inf, math.nan):
        with pytest.raises(RequestError):
            compute_breaking_error(bad)


def test_a_promise_that_no_noise_keeps_is_refused() -> None:
    def never(scale: float, m: int) -> float:
        return 1.0

    with pytest.raises(AccuracyUnreachable):
        find_largest_scale(never, 5, 0.5)
    for beta in (0.0, 1.0, math.nan):
        with pytest.raises(RequestError):
            find_largest_scale(LaplaceValues(2), 5, beta)
