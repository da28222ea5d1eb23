"""Selection of one of many by utility: permute-and-flip, the exponential mechanism, and rounds of it.

Utilities are integers and the rate is a fraction, so every acceptance is an exact coin exp(-rate (best - u)).
"""

from __future__ import annotations

import os
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from siloquent.privacy.checks import build_refusal, require_fraction, require_int64, require_whole
from siloquent.privacy.noise import reference
from siloquent.privacy.noise.bits import RandomBits, Source
from siloquent.privacy.noise.draws import WordBuffer, are_few

Rule = Literal["permute-and-flip", "exponential"]

LIMIT_RATE = 2**50
LIMIT_CANDIDATES = 2**26  # positions come from one random word


def permute_and_flip(utilities: NDArray[np.int64], *, rate: Fraction | int) -> int:
    """Return one candidate's position: in random order, each is accepted with probability exp(-rate (best - utility)).

    Args:
        utilities: Whole, shape (k,), 1 <= k <= 2^26, within +-2^60; larger is better.
        rate: epsilon / (2 Linf), in (0, 2^50], numerator and denominator <= 2^50.
    Raises:
        RequestError: No candidate, a float, or something out of range.
    Privacy:
        Pure (2 rate Linf)-DP, where Linf bounds the change of each utility by one unit; (rate Linf)-DP where all
        utilities change in one direction. Proof: docs/explanation/selection.md.
    Source:
        "Permute-and-Flip: A New Mechanism for Differentially Private Selection" (NeurIPS 2020), algorithm 1.
    """
    return int(draw_selections(utilities, rate=rate, rule="permute-and-flip", times=1)[0])


def select_exponential(utilities: NDArray[np.int64], *, rate: Fraction | int) -> int:
    """Return the position of one candidate, chosen with probability ~ exp(rate utility).

    Args:
        utilities: Whole, shape (k,), 1 <= k <= 2^26, within +-2^60; larger is better.
        rate: epsilon / (2 Linf), in (0, 2^50], numerator and denominator <= 2^50.
    Raises:
        RequestError: No candidate, a float, or something out of range.
    Privacy:
        Bounded range g = 2 rate Linf (rate Linf where all utilities change in one direction): pure g-DP, and
        (g^2 / 8)-zCDP. Proof: docs/explanation/selection.md.
    Source:
        "Mechanism Design via Differential Privacy" (FOCS 2007), drawn by rejection.
    """
    return int(draw_selections(utilities, rate=rate, rule="exponential", times=1)[0])


def select_exponential_top_k(utilities: NDArray[np.int64], *, rate: Fraction | int, k: int) -> NDArray[np.int64]:
    """Return ``k`` distinct positions in order of choice: k exponential selections, each among the remaining ones.

    Args:
        utilities: Whole, shape (n,), 1 <= n <= 2^26, within +-2^60; larger is better.
        rate: The rate of one round, as in ``select_exponential``.
        k: 1 <= k <= n.
    Raises:
        RequestError: Too few candidates, a float, or something out of range.
    Privacy:
        k adaptive rounds of bounded range g as in ``select_exponential``: pure (k g)-DP, and (k g^2 / 8)-zCDP.
    Source:
        "Practical Differentially Private Top-k Selection with Pay-what-you-get Composition" (NeurIPS 2019).
    """
    require_whole("number of rounds", k, least=1, most=_require_candidates(utilities).size)
    left = np.arange(utilities.size, dtype=np.int64)
    chosen = []
    for _ in range(k):
        at = select_exponential(utilities[left], rate=rate)
        chosen.append(left[at])
        left = np.delete(left, at)
    return np.array(chosen, dtype=np.int64)


def draw_selections(
    utilities: NDArray[np.int64], *, rate: Fraction | int, rule: Rule, times: int, source: Source = os.urandom
) -> NDArray[np.int64]:
    """Draw ``times`` independent selections by ``rule`` from the same utilities, shape (times,).

    Privacy:
        ``times`` times the price of one.
    """
    exact = _require_candidates(utilities)
    fraction = require_fraction("rate", rate, above=0, most=LIMIT_RATE)
    require_fraction("rate's denominator", fraction.denominator, above=0, most=LIMIT_RATE)
    require_fraction("rate's numerator", fraction.numerator, above=0, most=LIMIT_RATE)
    gaps = exact.max() - exact  # at most 2^61
    if are_few(times * gaps.size):
        return _select_in_python(gaps, fraction, rule, times, source)
    return _select_compiled(gaps, fraction, rule, times, source)


def _require_candidates(utilities: object) -> NDArray[np.int64]:
    exact = require_int64("utilities", utilities)
    if exact.ndim != 1 or not 1 <= exact.size <= LIMIT_CANDIDATES:
        raise build_refusal(f"A selection needs a vector of 1 to 2^26 utilities, not the shape {exact.shape}.")
    return exact


def _select_in_python(
    gaps: NDArray[np.int64], rate: Fraction, rule: Rule, times: int, source: Source
) -> NDArray[np.int64]:
    bits, gap, order = RandomBits(source), gaps.tolist(), list(range(gaps.size))
    return np.array([_select_one(gap, order, rate, rule, bits) for _ in range(times)], dtype=np.int64)


def _select_one(gap: list[int], order: list[int], rate: Fraction, rule: Rule, bits: RandomBits) -> int:
    """Make one selection. ``order`` holds all candidates in any order and is shuffled in the process."""
    step = 0
    while True:
        at, accepted = _step(gap, order, step, rate, bits)
        if accepted:
            return order[at]
        if rule == "permute-and-flip":
            order[at], order[step] = order[step], order[at]
            step += 1


def _step(gap: list[int], order: list[int], step: int, rate: Fraction, bits: RandomBits) -> tuple[int, bool]:
    """Draw a uniform position in ``order`` from ``step`` on; return it and whether its candidate is accepted."""
    at = step + reference.sample_below(len(order) - step, bits)
    return at, reference.sample_bernoulli_exp(gap[order[at]] * rate.numerator, rate.denominator, bits)


def _select_compiled(
    gaps: NDArray[np.int64], rate: Fraction, rule: Rule, times: int, source: Source
) -> NDArray[np.int64]:
    # Numba takes 0.2 s to import, which is worthwhile only for long or many selections.
    from siloquent.privacy.noise import kernels

    # A gap above ROOM // numerator has rate x gap > (2^62 - 2^50) / 2^50 > RUN: more than RUN coins of e^-1.
    largest = kernels.ROOM // rate.numerator
    law = np.array([rate.numerator, rate.denominator, (rate.denominator - 1).bit_length(), largest], dtype=np.int64)
    order, chosen = np.arange(gaps.size, dtype=np.int64), np.empty(times, dtype=np.int64)
    done, feed, again = 0, WordBuffer(source), rule == "exponential"
    while done < times:
        if feed.place[1] == kernels.BEYOND:
            done += _step_beyond(feed, gaps, order, rate, again, chosen[done : done + 1])
        else:
            feed.refill(min(8 * (times - done) + 64, 2**17))
        done = kernels.select(chosen, done, gaps, order, again, law, feed.words, feed.place)
    return chosen


def _step_beyond(
    feed: WordBuffer,
    gaps: NDArray[np.int64],
    order: NDArray[np.int64],
    rate: Fraction,
    again: bool,
    chosen: NDArray[np.int64],
) -> int:
    """Make the step that the compiled code could not, in Python; return 1 if it made a choice, else 0."""
    step = int(feed.place[2])
    at, accepted = feed.run_in_python(lambda bits: _step(gaps.tolist(), order.tolist(), step, rate, bits))
    if accepted:
        chosen[0] = order[at]
        feed.place[2] = 0
    elif not again:
        order[[at, step]] = order[[step, at]]
        feed.place[2] = step + 1
    return int(accepted)
