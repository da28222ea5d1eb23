"""Irrational weights: every enclosure holds the number, and every coin decides by as many digits as it needs."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from siloquent.privacy.enclosures import enclose_exp_minus
from siloquent.privacy.noise import kernels
from siloquent.privacy.noise.bernoulli_draws import build_rational_weight, draw_coins
from siloquent.privacy.noise.bits import RandomBits
from siloquent.privacy.noise.noise_reduction import build_unchanged_weight
from siloquent.privacy.noise.probability import EXP_MINUS_ONE
from unit.privacy.noise.streams import recorded

mpmath.mp.prec = 800


def real(x: Fraction) -> mpmath.mpf:
    return mpmath.mpf(x.numerator) / x.denominator


@given(
    x=st.fractions(min_value=0, max_value=200) | st.sampled_from([Fraction(1, 2**50), Fraction(2**50)]),
    n=st.integers(1, 300),
)
def test_an_enclosure_of_exp_holds_it_and_is_tight(x: Fraction, n: int) -> None:
    low, high = enclose_exp_minus(x, n)
    exact = mpmath.exp(-real(x)) * mpmath.mpf(2) ** n
    assert low <= exact <= high
    assert high - low <= 2


def test_the_stored_digits_of_exp_minus_one_are_right() -> None:
    assert EXP_MINUS_ONE.enclose(32) == enclose_exp_minus(Fraction(1), 32)
    assert EXP_MINUS_ONE.enclose(32)[0] == kernels.E32


SCALES = st.fractions(min_value=Fraction(1, 1024), max_value=10**6, max_denominator=1024)


@given(
    pair=st.tuples(SCALES, SCALES).filter(lambda p: p[0] > p[1])
    | st.sampled_from([(Fraction(2**50), Fraction(2**50 - 1)), (Fraction(1), Fraction(1, 2**50))]),
    n=st.sampled_from([64, 128, 192]),
)
def test_an_enclosure_of_the_stay_weight_holds_it_and_is_tight(pair: tuple[Fraction, Fraction], n: int) -> None:
    coarse, fine = pair
    low, high = build_unchanged_weight(coarse, fine).enclose(n)
    p, q = mpmath.exp(-1 / real(coarse)), mpmath.exp(-1 / real(fine))
    exact = q * (1 - p) ** 2 / (p * (1 - q) ** 2) * mpmath.mpf(2) ** n
    assert 0 <= low <= exact <= high <= 2**n
    assert high - low <= 2


def test_a_word_below_or_above_the_digits_decides_at_once() -> None:
    low = EXP_MINUS_ONE.enclose(32)[0]
    nothing_left = RandomBits(source=lambda count: pytest.fail("no further bits were needed"))
    assert EXP_MINUS_ONE.compare(low - 1, 32, nothing_left)
    assert not EXP_MINUS_ONE.compare(low + 1, 32, nothing_left)


@pytest.mark.parametrize("equal_bits", [64, 128, 640])
def test_equal_digits_are_decided_by_later_ones(equal_bits: int) -> None:
    width = 32 + equal_bits
    digits = enclose_exp_minus(Fraction(1), width)[0]
    for difference, smaller in ((-1, True), (1, False)):
        other = digits + difference
        words = [(other >> shift) & 0xFFFFFFFF for shift in range(width - 32, -1, -32)]
        assert EXP_MINUS_ONE.compare(words[0], 32, RandomBits(recorded("unused"), words[1:])) is smaller


@pytest.mark.parametrize("p", [Fraction(0), Fraction(1, 3), Fraction(1, 2), Fraction(1)])
def test_a_vector_of_coins_compares_the_words_with_the_weight(p: Fraction) -> None:
    drawn = [int.from_bytes(recorded(f"w{i}")(8), "little") for i in range(200)]
    source = recorded("later", [half for word in drawn for half in (word & 0xFFFFFFFF, word >> 32)])
    assert draw_coins(build_rational_weight(p), size=200, source=source).tolist() == [
        word < p * 2**64 for word in drawn
    ]


def test_a_coin_of_a_vector_whose_word_equals_the_digits_looks_further() -> None:
    third = 2**64 // 3  # 1/3 = 0.0101..: the next digits are 01.. again
    halves = [third & 0xFFFFFFFF, third >> 32]
    below, above = [*halves, 0, 0], [*halves, 0xFFFFFFFF, 0]
    assert draw_coins(build_rational_weight(Fraction(1, 3)), size=1, source=recorded("x", below)).tolist() == [True]
    assert draw_coins(build_rational_weight(Fraction(1, 3)), size=1, source=recorded("x", above)).tolist() == [False]
