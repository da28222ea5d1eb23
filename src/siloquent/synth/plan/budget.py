"""The split of a run's budget in exact fractions: the price of each step, and the resulting noise."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from siloquent.errors import AccuracyUnreachable
from siloquent.privacy import DiscreteGaussian, DiscreteLaplace, Event, ExponentialSelect, PermuteAndFlip
from siloquent.privacy.budget import round_up_to_drawable

Law = Literal["gaussian", "laplace"]

ONE_WAY = Fraction(1, 5)
TABLES_LEAST, TABLES_MOST, TABLES_TOGETHER = Fraction(1, 50), Fraction(1, 20), Fraction(3, 20)
SELECTION = Fraction(1, 20)
_FINE = 2**20
MAX_NOISE = 2**50
"""The largest variance (or scale) of noise that can be drawn."""


@dataclass(frozen=True, slots=True)
class VectorNoise:
    """Noise of one vector of counts: its distribution and parameter (variance, or scale), and what one unit changes."""

    law: Law
    parameter: Fraction
    sensitivity: int

    @property
    def variance(self) -> Fraction:
        """The variance of each count; the discrete distributions' own variances are at most this."""
        return self.parameter if self.law == "gaussian" else 2 * self.parameter**2

    @property
    def deviation(self) -> float:
        """The standard deviation of each count."""
        return math.sqrt(self.variance)

    @property
    def event(self) -> Event:
        """The event that is charged for it."""
        if self.law == "gaussian":
            return DiscreteGaussian(variance=self.parameter, l2_squared=self.sensitivity)
        return DiscreteLaplace(scale=self.parameter, l1=self.sensitivity)

    @property
    def price(self) -> Fraction:
        """The price in rho, or epsilon, exactly."""
        if self.law == "gaussian":
            return Fraction(self.sensitivity) / (2 * self.parameter)
        return Fraction(self.sensitivity) / self.parameter


def calibrate_noise(law: Law, amount: Fraction, sensitivity: int) -> VectorNoise:
    """Return the least noise that costs no more than ``amount`` of rho (gaussian) or epsilon (laplace).

    Args:
        sensitivity: Squared L2 (gaussian) or L1 (laplace) change of the vector by one unit.
    Raises:
        AccuracyUnreachable: The noise is too large to be drawn.
    """
    wanted = Fraction(sensitivity) / (2 * amount if law == "gaussian" else amount)
    if wanted > MAX_NOISE:
        raise _build_too_small_error()
    return VectorNoise(law, round_up_to_drawable(wanted), sensitivity)


@dataclass(frozen=True, slots=True)
class Selection:
    """Rounds of choice: ``range`` is the bounded range of a round (gaussian), or its epsilon (laplace)."""

    law: Law
    rounds: int
    range: Fraction
    sensitivity: int

    @property
    def rate(self) -> Fraction:
        """The rate parameter of a round's coin flips."""
        return self.range / (2 * self.sensitivity)

    @property
    def events(self) -> tuple[Event, ...]:
        """The events that are charged for all rounds."""
        if not self.rounds:
            return ()
        if self.law == "gaussian":
            return (ExponentialSelect(rounds=self.rounds, range=self.range),)
        return (PermuteAndFlip(epsilon=self.range),) * self.rounds


def calibrate_selection(law: Law, amount: Fraction, *, rounds: int, sensitivity: int) -> Selection:
    """Return the most decisive choice that costs no more than ``amount`` in all rounds together.

    Raises:
        AccuracyUnreachable: The choice would be random.
    """
    if law == "laplace":
        reach = Fraction(math.floor(amount / max(rounds, 1) * _FINE**2), _FINE**2)
    else:
        squared = 8 * amount / max(rounds, 1)  # rho of r rounds of range g is r g^2 / 8
        reach = Fraction(math.isqrt(math.floor(squared * _FINE**2)), _FINE)
    if rounds and not reach:
        raise _build_too_small_error()
    return Selection(law, rounds, reach, sensitivity)


def _build_too_small_error() -> AccuracyUnreachable:
    return AccuracyUnreachable(
        "The budget is too small: noise would be far larger than any table.", fix="a budget of epsilon 0.1 or more"
    )


def allocate_shares(cells: Sequence[int], *, even: Collection[int] = ()) -> list[Fraction]:
    """Return shares of a budget that minimise the summed error of all cells: proportional to cells^(2/3), within 4 x.

    Args:
        even: Indices whose least weight is the mean, not a quarter of it.
    Source:
        Lagrange: sum_a K_a sd_a is least, for a fixed sum of 1/sd_a^2, where 1/sd_a^2 ~ K_a^(2/3); as in "PrivSyn:
        Differentially Private Data Synthesis" (USENIX Security 2021).
    """
    raw = [max(each, 1) ** (2 / 3) for each in cells]
    mean = sum(raw) / len(raw)
    least = [1.0 if place in even else 0.25 for place in range(len(raw))]
    bounded = [Fraction(round(min(max(w / mean, low), 4.0) * _FINE), _FINE) for w, low in zip(raw, least, strict=True)]
    return [each / sum(bounded) for each in bounded]
