"""How many steps engine ``chain`` takes, on samples of what size, with how much noise: what the price allows.

Source: thesis, algorithm 12 (searching DP parameters), with a proven accountant (docs/explanation/synth-chain.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from siloquent.privacy.sampling import epsilon_of_steps, multiplier_for
from siloquent.synth.spec.chain import ChainSpec

SAMPLE, MOST_BATCH = Fraction(7, 100), 2_048
LEAST_BATCH, LEAST_NOISE, MOST_NOISE = 16, Fraction(1), Fraction(3, 2)
FEWEST_STEPS, MOST_PASSES = 50, 5
GRID = 20
"""Moves from one end of a range to the other."""
_WORDS = 2**64


@dataclass(frozen=True, slots=True)
class Parameters:
    """What the steps are taken with.

    Attributes:
        batch: Rows of a sample, on average.
        steps: Of each model.
        rate: A row's chance to be in a sample, in 2^-64.
        multiplier: The noise's deviation per clip.
    """

    batch: int
    steps: int
    rate: Fraction
    multiplier: Fraction

    def epsilon(self, *, models: int, delta: Fraction) -> Fraction:
        """What all steps of all models cost at ``delta``."""
        return epsilon_of_steps(
            rate=float(self.rate), multiplier=float(self.multiplier), steps=self.steps * models, delta=float(delta)
        )


def parameters_for(chain: ChainSpec, left: Fraction, *, hint: int, models: int, delta: Fraction) -> Parameters:
    """The parameters whose steps cost at most epsilon ``left``.

    Raises:
        AccuracyUnreachable: No noise below 500 is enough.
    """
    batch = min(chain.batch or min(MOST_BATCH, math.ceil(SAMPLE * hint)), hint)
    if chain.search:
        return searched(left, most=(batch, chain.steps), hint=hint, models=models, delta=delta)
    return _fitted(batch, chain.steps, left, hint=hint, models=models, delta=delta)


def _fitted(batch: int, steps: int, left: Fraction, *, hint: int, models: int, delta: Fraction) -> Parameters:
    rate = rate_of(batch, hint)
    multiplier = multiplier_for(left, rate=float(rate), steps=steps * models, delta=float(delta))
    return Parameters(batch, steps, rate, multiplier)


def rate_of(batch: int, hint: int) -> Fraction:
    """The chance that makes samples of ``batch`` of ``hint`` rows, on average."""
    return Fraction(_WORDS * batch // hint, _WORDS)


def searched(left: Fraction, *, most: tuple[int, int], hint: int, models: int, delta: Fraction) -> Parameters:
    """The boldest parameters on the thesis's grid that cost at most ``left``; beyond its end, the fewest steps.

    It begins with the least noise, the most steps and the largest batch. While that is too dear, all three move by a
    twentieth of their range. The printed loop never ends where the cheapest corner is too dear (epsilon .5 on Adult):
    there fewer steps are tried, down to 50, and then the noise is fitted.

    Args:
        most: The largest batch and the most steps; five passes over the table are enough for anybody.
    """
    largest, longest = max(most[0], LEAST_BATCH), min(most[1], MOST_PASSES * hint // LEAST_BATCH)
    shortest = min(max(hint // LEAST_BATCH, FEWEST_STEPS), longest)
    for move in range(GRID + 1):
        part = Fraction(move, GRID)
        batch = min(largest - math.floor(part * (largest - LEAST_BATCH)), hint)
        steps = max(longest - math.floor(part * (longest - shortest)), 1)
        noise = LEAST_NOISE + part * (MOST_NOISE - LEAST_NOISE)
        found = Parameters(batch, steps, rate_of(batch, hint), noise)
        if found.epsilon(models=models, delta=delta) <= left:
            return found
    while found.steps > FEWEST_STEPS:
        found = Parameters(found.batch, max(found.steps * 3 // 4, FEWEST_STEPS), found.rate, found.multiplier)
        if found.epsilon(models=models, delta=delta) <= left:
            return found
    return _fitted(found.batch, found.steps, left, hint=hint, models=models, delta=delta)
