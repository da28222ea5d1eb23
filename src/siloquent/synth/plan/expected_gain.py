"""What counting a joint would teach: arithmetic of gaps and noise, for who chooses and for who reads the choice."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

LOSS, LOSS_BESIDE_TARGETS = 0.3, 1.0
"""The part of its noise that a cell which the model has right costs.

A fit takes most of that noise away again: counts are not negative, and other joints speak of the same rows. With the
whole of it, joints of many cells whose rows lie in few of them would never be counted. Where targets are named, small
joints with them are worth more than such large ones: there the whole noise counts.
"""


def compute_expected_gain(gaps: NDArray[np.int64], *, deviation: float, loss: float = LOSS) -> int:
    """How many rows the model puts into wrong cells, beyond what noise alone would seem to do.

    Args:
        gaps: Count less expectation in every cell, whole.
        deviation: Of the noise that a count would have.
        loss: The part of its noise that a cell costs at most.
    Privacy:
        None, where ``gaps`` are exact. The sum moves by at most as much as all gaps together: in each cell it has a
        slope of at most one.
    Source:
        "AIM" (PVLDB 2022) subtracts the mean noise of every cell, which is a ``loss`` of 1.

    >>> compute_expected_gain(np.array([50, -50, 0, 1]), deviation=12.5)  # the mean of its absolute value is 10
    74
    """
    noise = math.sqrt(2 / math.pi) * deviation
    return int(np.maximum(np.abs(gaps) - round(noise), -round(loss * noise)).sum())
