"""The exact samplers in plain Python integers: for short vectors, single coins and cases beyond 64 bits.

Every function here depends only on the words that it reads. ``kernels`` computes the same functions in compiled code;
the tests compare the two bit by bit.

Source:
    "The Discrete Gaussian for Differential Privacy" (NeurIPS 2020), algorithms 1 to 3. Departures, each with its proof
    in docs/explanation/discrete-laplace.md and discrete-gaussian.md: a coin of weight a/(d k) is a coin of 1/k and one
    of a/d where d k is large, so nothing overflows; a coin of exp(-1) is compared with its binary digits; and the
    Gaussian's proposal has scale variance/c instead of an integer.
"""

from __future__ import annotations

from fractions import Fraction

from siloquent.privacy.noise.bits import RandomBits
from siloquent.privacy.noise.distributions import GaussianDistribution, MagnitudeDistribution
from siloquent.privacy.noise.probability import EXP_MINUS_ONE

#: Uniform numbers below n <= SMALL come from the product of one word and n; if d k <= SMALL, one coin replaces two.
SMALL = 2**26
_WORD = 2**32


def sample_below(n: int, bits: RandomBits) -> int:
    """Draw a uniform integer in [0, n)."""
    if n == 1:
        return 0
    if n <= SMALL:
        while True:
            # The quotient of word n by 2^32 is uniform if the same number of remainders is kept for each quotient:
            # all from (2^32 mod n) on, of which there are floor(2^32 / n) whatever the quotient.
            quotient, remainder = divmod(bits.take_word() * n, _WORD)
            if remainder >= n or remainder >= _WORD % n:
                return quotient
    width = (n - 1).bit_length()
    while True:
        drawn = bits.take(width)
        if drawn < n:
            return drawn


def sample_bernoulli_e(bits: RandomBits) -> bool:
    """Return True with probability exp(-1)."""
    return EXP_MINUS_ONE.compare(bits.take_word(), 32, bits)


def sample_bernoulli_exp_unit(a: int, d: int, bits: RandomBits) -> bool:
    """Return True with probability exp(-a/d), for 0 <= a <= d."""
    k = 1
    # P[the loop passes k = 1..j] = (a/d)^j / j!, so P[k odd at the end] is the alternating series of exp(-a/d).
    while (
        (sample_below(d * k, bits) < a)
        if d * k <= SMALL
        else (sample_below(k, bits) == 0 and sample_below(d, bits) < a)
    ):
        k += 1
    return k % 2 == 1


def sample_bernoulli_exp(a: int, d: int, bits: RandomBits) -> bool:
    """Return True with probability exp(-a/d), for a >= 0, d >= 1."""
    whole, rest = (0, a) if a <= d else divmod(a, d)
    # Stops at the first failure: a huge exponent costs 1.6 coins on average, not a/d.
    return all(sample_bernoulli_e(bits) for _ in range(whole)) and sample_bernoulli_exp_unit(rest, d, bits)


def sample_bernoulli(p: Fraction, bits: RandomBits) -> bool:
    """Return True with probability p."""
    return sample_below(p.denominator, bits) < p.numerator


def sample_magnitude(law: MagnitudeDistribution, bits: RandomBits) -> int:
    """Draw a geometric magnitude: P[Y >= j] = exp(-j s/t), j = 0, 1, ..."""
    while True:
        low = sample_below(law.t, bits)
        if sample_bernoulli_exp_unit(low, law.t, bits):
            break
    high = 0
    while sample_bernoulli_e(bits):
        high += 1
    # low + t high has P ~ exp(-x/t) on all integers x >= 0; each run of s of them has the same quotient.
    return (low + law.t * high) // law.s


def sample_laplace(law: MagnitudeDistribution, bits: RandomBits) -> int:
    """Draw a discrete Laplace value: P[Y = y] ~ exp(-|y| s/t)."""
    while True:
        size = sample_magnitude(law, bits)
        negative = bits.take_word() & 1
        if not (negative and size == 0):  # otherwise zero would have two chances
            return -size if negative else size


def sample_gaussian(law: GaussianDistribution, bits: RandomBits) -> int:
    """Draw a discrete Gaussian value: P[Y = y] ~ exp(-y^2 / (2 variance))."""
    while True:
        value = sample_laplace(law.proposal, bits)
        distance = abs(value) * law.g - law.h
        if sample_bernoulli_exp(distance * distance * law.m, law.f, bits):
            return value
