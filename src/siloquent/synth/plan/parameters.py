"""The training parameters of engine ``chain`` that fit the price: number of steps, sample size, noise.

Source: thesis, algorithm 12 (searching DP parameters), with a proven accountant (docs/explanation/synth-chain.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from siloquent.privacy.sampling import compute_steps_epsilon, find_multiplier
from siloquent.synth.spec.chain import ChainSpec

SAMPLE, MAX_BATCH = Fraction(7, 100), 2_048
MIN_BATCH, MIN_NOISE, MAX_NOISE = 16, Fraction(1), Fraction(3, 2)
FEWEST_STEPS, MAX_PASSES = 50, 5
GRID = 20
"""The number of moves from one end of a range to the other."""
_WORDS = 2**64


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters of the steps.

    Attributes:
        batch: The mean number of rows of a sample.
        steps: The number of steps of each model.
        rate: The probability of a row being in a sample, a multiple of 2^-64.
        multiplier: The noise's deviation per clip.
    """

    batch: int
    steps: int
    rate: Fraction
    multiplier: Fraction

    def compute_epsilon(self, *, models: int, delta: Fraction) -> Fraction:
        """Return the price of all steps of all models at ``delta``."""
        return compute_steps_epsilon(
            rate=float(self.rate), multiplier=float(self.multiplier), steps=self.steps * models, delta=float(delta)
        )


def choose_parameters(chain: ChainSpec, left: Fraction, *, hint: int, models: int, delta: Fraction) -> Parameters:
    """Return the parameters whose steps cost at most epsilon ``left``.

    Raises:
        AccuracyUnreachable: No noise below 500 is enough.
    """
    batch = min(chain.batch or min(MAX_BATCH, math.ceil(SAMPLE * hint)), hint)
    if chain.search:
        return search_parameters(left, most=(batch, chain.steps), hint=hint, models=models, delta=delta)
    return _fit_multiplier(batch, chain.steps, left, hint=hint, models=models, delta=delta)


def _fit_multiplier(batch: int, steps: int, left: Fraction, *, hint: int, models: int, delta: Fraction) -> Parameters:
    rate = compute_sampling_rate(batch, hint)
    multiplier = find_multiplier(left, rate=float(rate), steps=steps * models, delta=float(delta))
    return Parameters(batch, steps, rate, multiplier)


def compute_sampling_rate(batch: int, hint: int) -> Fraction:
    """Return the probability that makes samples of ``batch`` of ``hint`` rows, on average."""
    return Fraction(_WORDS * batch // hint, _WORDS)


def search_parameters(left: Fraction, *, most: tuple[int, int], hint: int, models: int, delta: Fraction) -> Parameters:
    """Return the boldest parameters on the thesis's grid that cost at most ``left``; beyond its end, the fewest steps.

    The search begins with the least noise, the most steps and the largest batch. While that is too expensive, all three
    move by a twentieth of their range. The printed loop never ends if the cheapest corner is too expensive (epsilon .5
    on Adult): there fewer steps are tried, down to 50, and then the noise is fitted.

    Args:
        most: The largest batch and the most steps; five passes over the table are always enough.
    """
    largest, longest = max(most[0], MIN_BATCH), min(most[1], MAX_PASSES * hint // MIN_BATCH)
    shortest = min(max(hint // MIN_BATCH, FEWEST_STEPS), longest)
    for move in range(GRID + 1):
        part = Fraction(move, GRID)
        batch = min(largest - math.floor(part * (largest - MIN_BATCH)), hint)
        steps = max(longest - math.floor(part * (longest - shortest)), 1)
        noise = MIN_NOISE + part * (MAX_NOISE - MIN_NOISE)
        found = Parameters(batch, steps, compute_sampling_rate(batch, hint), noise)
        if found.compute_epsilon(models=models, delta=delta) <= left:
            return found
    while found.steps > FEWEST_STEPS:
        found = Parameters(found.batch, max(found.steps * 3 // 4, FEWEST_STEPS), found.rate, found.multiplier)
        if found.compute_epsilon(models=models, delta=delta) <= left:
            return found
    return _fit_multiplier(found.batch, found.steps, left, hint=hint, models=models, delta=delta)
