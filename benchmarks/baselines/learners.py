"""Private learners from their papers: logistic regression by objective perturbation, linear regression by SSP."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Random = np.random.Generator


def objective_perturbation(X: Floats, y: Floats, *, epsilon: float, random: Random, penalty: float = 1e-3) -> Floats:
    """Logistic regression with noise in the objective; rows of X have length at most 1, y is -1 or 1. Weights (d,).

    Source: "Differentially Private Empirical Risk Minimization" (JMLR 2011), algorithm 2, c = 1/4.
    """
    from scipy.optimize import minimize

    n, d = X.shape
    left = epsilon - 2 * math.log1p(0.25 / (n * penalty))
    if left <= 0:
        penalty = 0.25 / (n * math.expm1(epsilon / 4))
        left = epsilon / 2
    direction = random.standard_normal(d)
    b = direction / np.linalg.norm(direction) * random.gamma(d, 2 / left)

    def loss(w: Floats) -> tuple[float, Floats]:
        margin = y * (X @ w)
        value = np.logaddexp(0, -margin).mean() + b @ w / n + penalty / 2 * w @ w
        slope = -(y / (1 + np.exp(np.clip(margin, -500, 500)))) @ X / n + b / n + penalty * w
        return float(value), np.asarray(slope)

    found = minimize(loss, np.zeros(d), jac=True, method="L-BFGS-B")
    return np.asarray(found.x)


def in_unit_ball(X: Floats) -> Floats:
    """Features in 0..1 with a constant, each row divided by the public sqrt(d + 1)."""
    return np.hstack([X, np.ones((len(X), 1))]) / math.sqrt(X.shape[1] + 1)


def balanced(truth: NDArray[np.int64], found: NDArray[np.int64]) -> float:
    """The mean over classes of the share that is found."""
    return float(np.mean([(found[truth == label] == label).mean() for label in np.unique(truth)]))


def ada_ssp(X: Floats, y: Floats, *, epsilon: float, delta: float, random: Random, adaptive: bool = True) -> Floats:
    """Linear weights (d,) from noisy X'X, X'y and, if ``adaptive``, a noisy least eigenvalue; |x| and |y| at most 1.

    Source: "Revisiting Differentially Private Linear Regression" (UAI 2018), algorithm 2 (AdaSSP) and SSP.
    """
    d = X.shape[1]
    parts = 3 if adaptive else 2
    root = math.sqrt(math.log(2 * parts / delta)) / (epsilon / parts)
    noise = random.standard_normal((d, d))
    gram = X.T @ X + root * (np.triu(noise) + np.triu(noise, 1).T)
    cross = X.T @ y + root * random.standard_normal(d)
    ridge = 0.0
    if adaptive:
        least = float(np.linalg.eigvalsh(X.T @ X)[0])
        least = max(least + root * random.standard_normal() - math.log(6 / delta) / (epsilon / 3), 0.0)
        ridge = max(0.0, math.sqrt(d * math.log(6 / delta) * math.log(2 * d**2 / 0.05)) / (epsilon / 3) - least)
    return np.asarray(np.linalg.lstsq(gram + ridge * np.eye(d), cross, rcond=None)[0])
