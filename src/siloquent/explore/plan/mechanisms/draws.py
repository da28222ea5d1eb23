"""Values that say what a mechanism draws: the plan fixes them, and the measure stage runs them on exact numbers.

They hold everything that a run needs beside the rows, so a plan can be priced, compared and rehearsed without them.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class AdditiveDraw:
    """Noise on the answers W x, or on A x of a mechanism with a strategy A.

    ``size``: the scale of Laplace noise, or the variance of Gaussian noise.
    """

    noise: Literal["laplace", "gaussian"]
    size: Fraction


@dataclass(frozen=True, slots=True)
class NoisyTopDraw:
    """The ids of the ``k`` largest of answers plus geometric noise; ``sign`` is -1 for the k smallest."""

    k: int
    sign: int
    scale: Fraction


@dataclass(frozen=True, slots=True)
class RoundsDraw:
    """The ids from ``k`` rounds of exponential selection without replacement; ``sign`` is -1 for the k smallest."""

    k: int
    sign: int
    rate: Fraction


@dataclass(frozen=True, slots=True, eq=False)
class CrossingDraw:
    """The index at which the answers, in ``order`` from the least, cross ``threshold``; shape (answers,)."""

    order: NDArray[np.int64]
    threshold: int
    rate: Fraction


@dataclass(frozen=True, slots=True, eq=False)
class LooksDraw:
    """Answers seen through ever less noise until a look decides which of them lie above ``threshold``.

    ``margins`` (looks,): the margin that a look's noise hardly exceeds. ``m``: the error that breaks the promise.
    """

    scales: tuple[Fraction, ...]
    margins: NDArray[np.int64]
    threshold: int
    m: int


@dataclass(frozen=True, slots=True)
class RankDraw:
    """One of ``candidates`` declared values per group, by its rank error for the quantile of ``share``."""

    rule: Literal["permute-and-flip", "exponential"]
    share: Fraction
    candidates: int
    rate: Fraction


Draw = AdditiveDraw | NoisyTopDraw | RoundsDraw | CrossingDraw | LooksDraw | RankDraw
