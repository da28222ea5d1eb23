"""The compiled samplers are the plain ones: one stream of words, one result, bit by bit."""

from __future__ import annotations

from fractions import Fraction
from typing import cast

import numpy as np
import pytest

from siloquent.privacy.noise import draws, kernels, selection
from siloquent.privacy.noise.bits import RandomBits
from siloquent.privacy.noise.distributions import GaussianDistribution, MagnitudeDistribution
from unit.privacy.noise.streams import recorded

SCALES = [Fraction(10), Fraction(1), Fraction(7, 3), Fraction(1, 1000), Fraction(2**40), Fraction(2**60 - 1, 1025)]
SCALES += [Fraction(2**50), Fraction(2**27 + 1, 2**50 - 1), Fraction(2**60 - 1, 2**50 - 1)]
VARIANCES = [Fraction(1), Fraction(99, 100), Fraction(1, 2**20), Fraction(10**4), Fraction(10**8), Fraction(2**50)]
VARIANCES += [Fraction(2**50 - 1, 1024), Fraction(2**50 - 1, 2**20), Fraction(7, 3)]
LAWS: list[tuple[draws.Kind, MagnitudeDistribution | GaussianDistribution]] = [
    *(("laplace", MagnitudeDistribution.from_scale(scale)) for scale in SCALES),
    *(("geometric", MagnitudeDistribution.from_scale(scale)) for scale in SCALES),
    *(("gaussian", GaussianDistribution.from_variance(variance)) for variance in VARIANCES),
]
#: Words that lead where random ones never do: with ones every coin of exp(-1) comes up heads, E32 decides nothing.
HEADS, TIE = 1, kernels.E32


def plain(
    kind: draws.Kind, law: MagnitudeDistribution | GaussianDistribution, size: int, words: list[int]
) -> list[int]:
    bits = RandomBits(recorded(f"{kind} {law}", words))
    return [draws._clip(draws.draw_one(kind, law, bits)) for _ in range(size)]


def compiled(
    kind: draws.Kind, law: MagnitudeDistribution | GaussianDistribution, size: int, words: list[int]
) -> list[int]:
    noisy = np.zeros(size, dtype=np.int64)
    draws._add_compiled(noisy, kind, law, recorded(f"{kind} {law}", words))
    return cast(list[int], noisy.tolist())


@pytest.mark.parametrize(("kind", "law"), LAWS, ids=str)
def test_a_thousand_draws_are_equal(kind: draws.Kind, law: MagnitudeDistribution | GaussianDistribution) -> None:
    assert compiled(kind, law, 1_000, []) == plain(kind, law, 1_000, [])


@pytest.mark.parametrize("words", [[HEADS] * 5_000, [TIE] * 50, [5, TIE, 5, 5, TIE], [0xFFFFFFFF] * 50], ids=len)
@pytest.mark.parametrize(("kind", "law"), LAWS, ids=str)
def test_draws_that_leave_64_bits_go_on_in_python(
    kind: draws.Kind, law: MagnitudeDistribution | GaussianDistribution, words: list[int]
) -> None:
    assert compiled(kind, law, 50, words) == plain(kind, law, 50, words)


def test_the_long_run_of_heads_was_really_one() -> None:
    (first, *_) = plain("laplace", MagnitudeDistribution.from_scale(Fraction(10)), 1, [HEADS] * 5_000)
    assert abs(first) > 10 * kernels.RUN


def test_a_sum_beyond_int64_is_clipped_not_wrapped() -> None:
    law = MagnitudeDistribution.from_scale(Fraction(2**50))
    for make in (plain, compiled):
        (first,) = make("laplace", law, 1, [HEADS] * 20_000 + [0xFFFFFFFF] + [0] * 2 + [0xFFFFFFFF] * 2)
        assert first in (-(2**63), 2**63 - 1)


GAPS = [np.arange(40), np.array([0, 0, 0]), np.array([0]), np.array([0, 2**60, 2**61, 3]), np.arange(300) ** 2]
RATES = [Fraction(1, 10), Fraction(3), Fraction(2**50), Fraction(1, 2**50), Fraction(2**50 - 1, 2**50), Fraction(7, 9)]


@pytest.mark.parametrize("rule", ["permute-and-flip", "exponential"])
@pytest.mark.parametrize("rate", RATES, ids=str)
@pytest.mark.parametrize("words", [[], [HEADS] * 9_000, [TIE] * 50, [1 << 31, TIE, 5, 1 << 30, TIE]], ids=len)
def test_selections_are_equal(rule: selection.Rule, rate: Fraction, words: list[int]) -> None:
    for gaps in GAPS:
        arguments = (gaps.astype(np.int64), rate, rule, 60)
        one = selection._select_in_python(*arguments, recorded("s", words))
        other = selection._select_compiled(*arguments, recorded("s", words))
        assert one.tolist() == other.tolist()
