"""The joint change of sums of powers of one number when a row replaces another.

The furthest pair for one power is not the furthest for another: two opposite ends differ most in the sum and not at all
in the square.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

MAX_VALUES = 2**14
_NEAR = 1e-9
"""The relative margin of doubles, which are far more precise: the exact maximum is among the values within it."""


@dataclass(frozen=True, slots=True)
class NumberPower:
    """The sum of the number (``power`` 1) or of its square (2), in units of ``quantum`` steps.

    ``weight``: of a change in units, or of its square: one over the noise's scale, or over its variance.
    """

    power: int
    quantum: int
    weight: Fraction


def find_furthest_replacement(lowest: int, highest: int, powers: Sequence[NumberPower], *, squared: bool) -> Fraction:
    """Return the greatest weighted sum of (squared) changes between two values from ``lowest`` to ``highest``.

    Exact up to 2^14 values; beyond that, the sum of the greatest changes of each power.
    """
    if highest - lowest >= MAX_VALUES:
        largest = max(abs(lowest), abs(highest))
        ends = {1: highest - lowest, 2: largest**2}
        return sum(
            (one.weight * _apply_norm(-(-ends[one.power] // one.quantum), squared) for one in powers), Fraction(0)
        )
    # Of two values, the one further from 0 may be moved to an end: every difference grows.
    values = np.arange(lowest, highest + 1, dtype=np.int64)
    changes = np.concatenate(
        [
            np.stack([-(-abs(end**one.power - values**one.power) // one.quantum) for one in powers], axis=1)
            for end in (lowest, highest)
        ]
    )
    near = (changes.astype(np.float64) ** (2 if squared else 1)) @ np.array([float(one.weight) for one in powers])
    kept = {tuple(row) for row in changes[near >= near.max() - _NEAR * near.max()].tolist()}
    return max(
        sum((one.weight * _apply_norm(change, squared) for one, change in zip(powers, row, strict=True)), Fraction(0))
        for row in kept
    )


def _apply_norm(change: int, squared: bool) -> int:
    return change**2 if squared else change
