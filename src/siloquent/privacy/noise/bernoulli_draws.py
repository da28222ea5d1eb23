"""Exact Bernoulli draws, single and in vectors, and randomised response built on them."""

from __future__ import annotations

import os
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from siloquent.privacy.checks import build_refusal, require_fraction, require_int64, require_whole
from siloquent.privacy.noise import reference
from siloquent.privacy.noise.bits import RandomBits, Source, draw_words
from siloquent.privacy.noise.probability import Weight

LIMIT_SIZE = 2**26


def draw_bernoulli(*, p: Fraction | int) -> bool:
    """Return True with probability exactly ``p`` in [0, 1].

    Raises:
        RequestError: A float, or out of range.
    """
    return reference.sample_bernoulli(require_fraction("probability", p, least=0, most=1), RandomBits())


def draw_bernoulli_exp(*, gamma: Fraction | int) -> bool:
    """Return True with probability exactly exp(-``gamma``), gamma >= 0.

    Raises:
        RequestError: A float, or below 0.
    """
    exact = require_fraction("exponent", gamma, least=0)
    return reference.sample_bernoulli_exp(exact.numerator, exact.denominator, RandomBits())


def draw_coins(weight: Weight, *, size: int, source: Source = os.urandom) -> NDArray[np.bool_]:
    """Draw ``size`` independent coins of ``weight``: shape (size,)."""
    drawn = draw_words(size, source=source)
    low, high = weight.enclose(64)
    # drawn + 1 <= low is True, drawn >= high is False; with 64 bits, only a few in 2^64 remain undecided.
    result = drawn < np.uint64(low) if low < 2**64 else np.ones(size, dtype=np.bool_)
    if high - low > 0 and low < 2**64:
        bits = RandomBits(source)
        for i in np.flatnonzero((drawn >= np.uint64(low)) & (drawn <= np.uint64(high - 1))):
            result[i] = weight.compare(int(drawn[i]), 64, bits)
    return result


def randomise_values(values: NDArray[np.int64], *, size: int, p: Fraction) -> NDArray[np.int64]:
    """Keep each value with probability ``p``, otherwise replace it by one of the ``size - 1`` others, uniformly.

    Args:
        values: Whole numbers in [0, size), any shape.
        size: Number of possible values, 2 to 2^26.
        p: In [1/size, 1): below 1/size the true value would be the least likely report.
    Returns:
        Reports in [0, size), of the same shape.
    Raises:
        RequestError: A float, or something out of range.
    Privacy:
        Local: pure epsilon-DP in each value, with e^epsilon = p (size - 1) / (1 - p).
    Source:
        "Extremal Mechanisms for Local Differential Privacy" (NIPS 2014), k-ary randomised response.
    """
    require_whole("number of possible values", size, least=2, most=LIMIT_SIZE)
    truth = require_fraction("probability of truth", p, least=Fraction(1, size), most=1)
    if truth == 1:
        raise build_refusal("The probability of truth must be below 1: at 1 the values themselves would be reported.")
    exact = require_int64("values", values)
    if exact.size and not (exact.min() >= 0 and exact.max() < size):
        raise build_refusal("The values of a randomised response must lie in [0, size).")
    kept = draw_coins(build_rational_weight(truth), size=exact.size).reshape(exact.shape)
    other = draw_uniform_below(size - 1, size=exact.size).reshape(exact.shape)
    other += other >= exact  # the others in order, without the true value
    return np.where(kept, exact, other)


def build_rational_weight(p: Fraction) -> Weight:
    """Build the coin weight ``p`` in [0, 1]."""
    return Weight(lambda n: ((p.numerator << n) // p.denominator, -(-(p.numerator << n) // p.denominator)))


def draw_uniform_below(n: int, *, size: int, source: Source = os.urandom) -> NDArray[np.int64]:
    """Draw ``size`` independent uniform numbers in [0, n), n <= 2^26: shape (size,)."""
    limit = 2**64 // n * n  # words from here on would favour small quotients
    drawn = draw_words(size, source=source)
    while limit < 2**64:
        late = drawn >= np.uint64(limit)
        if not late.any():
            break
        drawn[late] = draw_words(int(late.sum()), source=source)
    return (drawn % np.uint64(n)).astype(np.int64)
