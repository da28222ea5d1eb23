"""Linear regression by the functional mechanism, for committees of agents; written from its paper."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def functional_mechanism(X: Floats, y: Floats, *, epsilon: float, random: np.random.Generator) -> Floats:
    """Weights (d,) of the objective sum (y - x w)^2 with noise on its coefficients; rows of X at most 1 long, |y| <= 1.

    Source: "Functional Mechanism: Regression Analysis under Differential Privacy" (PVLDB 2012), algorithm 1 with
    sensitivity 2 (1 + 2d + d^2), regularised by 4 deviations of the noise, eigenvalues at or below 0 cut.
    """
    d = X.shape[1]
    scale = 2 * (1 + 2 * d + d * d) / epsilon
    noise = random.laplace(0, scale, (d, d))
    second = X.T @ X + np.triu(noise) + np.triu(noise, 1).T
    cross = X.T @ y + random.laplace(0, scale, d)
    values, vectors = np.linalg.eigh(second + 4 * math.sqrt(2) * scale * np.eye(d))
    kept = values > 0
    return np.asarray(vectors[:, kept] @ ((vectors[:, kept].T @ cross) / values[kept]))
