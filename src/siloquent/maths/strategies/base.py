"""The base of all strategies: a matrix A whose noisy answers A x can be turned into those of a workload.

Strategies are found in floating point and then used as whole matrices, whose sensitivity is exact and whose
reconstruction is computed from the whole matrix itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from siloquent.maths.blas import limit_to_one_thread

Reals = NDArray[np.float64]
Asked = NDArray[np.int64] | NDArray[np.float64]
"""A workload: mostly whole, except for shares of counts."""
Norm = Literal["l1", "l2"]

QUANTUM_BITS = 16
_MIN_PIVOT = 1e-6  # below, a rounded zero cannot be distinguished from a small pivot


@dataclass(frozen=True, slots=True)
class Strategy:
    """A real strategy for one block.

    Attributes:
        name: The name in EXPLAIN.
        matrix: A, shape (measurements, cells); every column's norm is at most 1.
    """

    name: str
    matrix: Reals


@dataclass(frozen=True, slots=True)
class WholeStrategy:
    """A strategy as it is measured: y = A x + noise in whole quanta, answers R y.

    Attributes:
        name: The name in EXPLAIN.
        blocks: One whole matrix A_B a block, shape (measurements, cells).
        reconstructions: One R_B a block, shape (answers, measurements): W_B = R_B A_B.
    """

    name: str
    blocks: tuple[NDArray[np.int64], ...]
    reconstructions: tuple[Reals, ...]

    @property
    def reconstruction(self) -> Reals:
        """[R_1 | R_2 | ...], shape (answers, all measurements)."""
        return self.reconstructions[0] if len(self.reconstructions) == 1 else np.hstack(self.reconstructions)

    @property
    def margin(self) -> float:
        """The most that whole noise moves an answer relative to continuous noise: the largest row sum of R."""
        return float(np.abs(self.reconstruction).sum(axis=1).max())


def quantise(matrix: Reals, *, norm: Norm, weight: float = 1.0, bits: int = QUANTUM_BITS) -> NDArray[np.int64]:
    """Return A in whole quanta of 2^-bits: rounded down for L1, so column sums are at most 2^bits; nearest for L2."""
    scaled = matrix * (weight * 2**bits)
    # Slightly above: 0.1 * 2^16 computed as 6553.599999 must not lose a whole quantum to rounding of A itself.
    whole = np.floor(scaled + 1e-7) if norm == "l1" else np.rint(scaled)
    return np.asarray(whole, dtype=np.int64)


def reconstruct(workload: Asked, matrix: NDArray[np.int64]) -> Reals | None:
    """Return the least-squares reconstruction R = W A+ with W = R A, or None if A does not determine W.

    Normal equations by Cholesky, then one step of refinement; checked to 1e-9 of the largest weight.
    """
    asked = workload.any(axis=1)
    if asked.all():
        return _reconstruct_asked(workload, matrix)
    back = _reconstruct_asked(workload[asked], matrix)  # the other blocks' answers count nothing here
    if back is None:
        return None
    result = np.zeros((len(workload), len(matrix)))
    result[asked] = back
    return result


def _reconstruct_asked(workload: Asked, matrix: NDArray[np.int64]) -> Reals | None:
    with limit_to_one_thread():
        return _refine_reconstruction(workload.astype(np.float64), matrix)


def _refine_reconstruction(target: Reals, matrix: NDArray[np.int64]) -> Reals | None:
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    real = matrix.astype(np.float64)
    unit = np.abs(real).max(initial=1.0)
    real = real / unit
    try:
        factor = cho_factor(real.T @ real)
    except LinAlgError:
        return None
    solved = target
    result = np.zeros((target.shape[0], real.shape[0]))
    for _ in range(2):
        result += cho_solve(factor, solved.T).T @ real.T
        # Residues of true zeros; products with such tiny numbers are up to a hundred times slower.
        limit = 1e-15 * max(float(result.max(initial=0.0)), -float(result.min(initial=0.0)))
        result[(result < limit) & (result > -limit)] = 0.0  # without a copy of the matrix
        solved = target - result @ real
    exact = float(np.abs(solved).max(initial=0.0)) <= 1e-9 * float(np.abs(target).max(initial=1.0))
    return result / unit if exact else None


def solve_least_squares(matrix: NDArray[np.int64], noisy: NDArray[np.int64]) -> Reals | None:
    """Return the cells x that fit ``matrix`` x = ``noisy`` best, shape (cells,); None if that is not well determined.

    It solves one system for one vector, whereas a reconstruction solves one for each answer.
    """
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    real = matrix.astype(np.float64)
    unit = np.abs(real).max(initial=1.0)
    real = real / unit
    try:
        factor = cho_factor(real.T @ real)
    except LinAlgError:
        return None
    pivots = np.abs(np.diag(factor[0]))
    if pivots.min(initial=1.0) < _MIN_PIVOT * pivots.max(initial=1.0):
        return None
    values = noisy / unit
    found = cho_solve(factor, real.T @ values)
    return np.asarray(found + cho_solve(factor, real.T @ (values - real @ found)))
