"""Reconstruction of answers from a strategy's measurements: R with W = R A."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from siloquent.explore.plan.cells.compiled import CompiledWorkload, Integers
from siloquent.maths.strategies.base import reconstruct, solve_least_squares
from siloquent.maths.strategies.sparse import Sparse

Matrix = Integers | Sparse
"""An integer strategy of one part, shape (measurements, columns)."""

PARTS_OF_A_STEP = 1_024
"""The part of a step to which reconstructed answers are rounded; further digits of a float are meaningless."""


def compute_reconstructions(
    compiled: CompiledWorkload, matrices: tuple[Integers, ...]
) -> tuple[NDArray[np.float64], ...] | None:
    """Compute one R_B per part with W_B = R_B A_B, shape (answers, measurements); None if some A_B is insufficient."""
    backs = []
    for part, matrix in zip(compiled.parts, matrices, strict=True):
        back = reconstruct(part.matrix, matrix) if part.columns else np.zeros((compiled.answers, len(matrix)))
        if back is None:
            return None
        backs.append(back)
    return tuple(backs)


def apply_reconstruction(
    compiled: CompiledWorkload, matrices: tuple[Matrix, ...], values: NDArray[np.int64]
) -> NDArray[np.float64] | None:
    """Compute the answers from noisy ``values`` of all matrices, shape (answers,); None if they are not determined."""
    if len(values) != sum(len(matrix) for matrix in matrices):
        return None
    total, done = np.zeros(compiled.answers), 0
    for part, matrix in zip(compiled.parts, matrices, strict=True):
        noisy = values[done : done + len(matrix)]
        done += len(matrix)
        if not part.columns:
            continue
        if isinstance(matrix, Sparse):
            total += part.add_up(matrix.solve_least_squares(noisy))
            continue
        columns = solve_least_squares(matrix, noisy)
        if columns is not None:
            total += part.add_up(columns)
            continue
        back = reconstruct(part.matrix, matrix)
        if back is None:
            return None
        total += back @ noisy.astype(np.float64)
    return total
