"""From what a strategy measures back to the answers: R with W = R A."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from siloquent.explore.plan.compiled import Compiled, Integers
from siloquent.maths.strategies.base import reconstruct

PARTS_OF_A_STEP = 1_024
"""Reconstructed answers are rounded to this part of a step: the digits of a float beyond it would mean nothing."""


def reconstructions(compiled: Compiled, matrices: tuple[Integers, ...]) -> tuple[NDArray[np.float64], ...] | None:
    """One R_B a part with W_B = R_B A_B, shape (answers, measurements), or None if some A_B does not determine W_B."""
    backs = []
    for part, matrix in zip(compiled.parts, matrices, strict=True):
        back = reconstruct(part.matrix, matrix) if part.columns else np.zeros((compiled.answers, len(matrix)))
        if back is None:
            return None
        backs.append(back)
    return tuple(backs)
