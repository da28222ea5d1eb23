"""The expected gain of counting a joint: arithmetic of gaps and noise, for choosing and for reading the choice."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

LOSS, LOSS_BESIDE_TARGETS = 0.3, 1.0
"""The part of its noise that counts as the cost of a cell which the model has right.

A fit removes most of that noise: counts are not negative, and other joints cover the same rows. With the whole of
it, joints of many cells whose rows lie in few of them would never be counted. If targets are named, small joints
with them are worth more than such large ones: there the whole noise counts.
"""


def compute_expected_gain(gaps: NDArray[np.int64], *, deviation: float, loss: float = LOSS) -> int:
    """Return how many rows the model puts into wrong cells, beyond the apparent effect of noise.

    Args:
        gaps: Count less expectation in every cell, whole.
        deviation: The standard deviation of the noise that a count would have.
        loss: The part of its noise that a cell costs at most.
    Privacy:
        None, where ``gaps`` are exact. The sum changes by at most as much as all gaps together: its slope in each
        cell is at most one.
    Source:
        "AIM" (PVLDB 2022) subtracts the mean noise of every cell, which is a ``loss`` of 1.

    >>> compute_expected_gain(np.array([50, -50, 0, 1]), deviation=12.5)  # the mean of its absolute value is 10
    74
    """
    noise = math.sqrt(2 / math.pi) * deviation
    return int(np.maximum(np.abs(gaps) - round(noise), -round(loss * noise)).sum())
