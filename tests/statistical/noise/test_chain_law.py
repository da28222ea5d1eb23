"""Every row of a noise chain has its own exact law, and neighbouring rows have the joint law that the proof needs."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from siloquent.privacy.noise import add_laplace, draw_noise_chain
from siloquent.privacy.noise.bernoulli_draws import build_rational_weight, draw_coins
from statistical.noise import laws

pytestmark = pytest.mark.statistical

DRAWS = 1_000_000
REACH = 6


def pokes(last: Fraction, steps: int) -> tuple[Fraction, ...]:
    """The scales of explore's multi-poking: 1.2-fold steps, denominators 1024."""
    return tuple(Fraction(int(last * Fraction(6, 5) ** (steps - 1 - i) * 1024), 1024) for i in range(steps))


CHAINS = [
    pokes(Fraction(20), 12),
    pokes(Fraction(1), 4),
    (Fraction(3), Fraction(2), Fraction(1, 2)),
    (Fraction(7, 3), Fraction(1, 8)),
]


def mass(scale: Fraction, values: NDArray[np.int64]) -> NDArray[np.float64]:
    law = laws.laplace(scale)
    return law.below(values + 1) - law.below(values)


def assert_joint(coarse: NDArray[np.int64], fine: NDArray[np.int64], b: Fraction, b_next: Fraction) -> None:
    """Chi-square of the pairs (fine, coarse - fine), tails put into the outermost cells."""
    span = np.arange(-REACH, REACH + 1)
    width = len(span)
    p, q = np.exp(-1 / float(b)), np.exp(-1 / float(b_next))
    stay = q * (1 - p) ** 2 / (p * (1 - q) ** 2)

    def folded(scale: Fraction) -> NDArray[np.float64]:
        chances = mass(scale, span)
        chances[[0, -1]] += (1 - chances.sum()) / 2
        return chances

    jump = (1 - stay) * folded(b)
    jump[REACH] += stay
    cells = (fine.clip(-REACH, REACH) + REACH) * width + (coarse - fine).clip(-REACH, REACH) + REACH
    laws.assert_chances(np.bincount(cells, minlength=width**2), np.outer(folded(b_next), jump).ravel())


@pytest.mark.slow
@pytest.mark.parametrize("scales", CHAINS, ids=lambda s: f"{len(s)} steps to {s[-1]}")
def test_every_row_and_every_pair_of_neighbours_follows_its_law(scales: tuple[Fraction, ...]) -> None:
    chain = draw_noise_chain(DRAWS, scales=scales)
    for row, scale in zip(chain, scales, strict=True):
        laws.assert_law(row, laws.laplace(scale))
    for i in range(len(scales) - 1):
        assert_joint(chain[i], chain[i + 1], scales[i], scales[i + 1])


def test_the_mass_function_of_a_step_is_exact() -> None:
    for b, b_next in ((Fraction(3), Fraction(2)), (Fraction(1), Fraction(1, 2)), (Fraction(24), Fraction(20))):
        span = np.arange(-4_000, 4_001)
        p, q = np.exp(-1 / float(b)), np.exp(-1 / float(b_next))
        stay = q * (1 - p) ** 2 / (p * (1 - q) ** 2)
        after = stay * mass(b_next, span) + (1 - stay) * np.convolve(mass(b_next, span), mass(b, span), "same")
        assert abs(after - mass(b, span))[2_000:6_001].max() < 1e-15


@pytest.mark.parametrize("b_next", [Fraction(1), Fraction(1, 2)], ids=str)
def test_the_rule_for_continuous_noise_is_caught(b_next: Fraction) -> None:
    b, draws = b_next * Fraction(6, 5), 4 * DRAWS  # so many that a wrong chain passes once in 10^9 runs
    fine = add_laplace(np.zeros(draws, dtype=np.int64), scale=b_next)
    stay = draw_coins(build_rational_weight((b_next / b) ** 2), size=draws)
    coarse = np.where(stay, fine, add_laplace(fine, scale=b))
    with pytest.raises(AssertionError, match="chi-square"):
        laws.assert_law(coarse, laws.laplace(b))


def test_independent_rows_are_caught() -> None:
    b, b_next = Fraction(3), Fraction(2)
    zeros = np.zeros(DRAWS, dtype=np.int64)
    coarse, fine = add_laplace(zeros, scale=b), add_laplace(zeros, scale=b_next)
    laws.assert_law(coarse, laws.laplace(b))
    with pytest.raises(AssertionError, match="chi-square"):
        assert_joint(coarse, fine, b, b_next)
