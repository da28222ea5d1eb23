"""Linear models from noisy moments that always succeed: eigenvalues clipped at zero, and a ridge to match the noise."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from siloquent.maths.models.moments import Moments

Floats = NDArray[np.float64]
_LEAST = 1e-9


def estimate_covariance_matrix(moments: Moments) -> Floats:
    """Return the nearest covariance matrix to noisy moments: symmetric and positive semi-definite."""
    count = max(moments.count, 1.0)
    mean = moments.sums / count
    return clip_eigenvalues(moments.second / count - np.outer(mean, mean))


def clip_eigenvalues(matrix: Floats) -> Floats:
    """Return ``matrix`` with its negative eigenvalues clipped at 0."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return np.asarray((vectors * np.maximum(values, 0)) @ vectors.T)


def choose_ridge(features: int, deviation: float, count: float) -> float:
    """Return the ridge for noise of ``deviation`` on a diagonal sum of products: its rms effect on an eigenvalue."""
    return deviation * math.sqrt(features / 2) / max(count, 1.0) + _LEAST


def solve_slopes(covariance: Floats, ridge: float) -> Floats:
    """Return the slopes that predict the last number from the others, (p - 1,)."""
    own = covariance[:-1, :-1] + ridge * np.eye(len(covariance) - 1)
    return np.asarray(np.linalg.solve(own, covariance[:-1, -1]))
