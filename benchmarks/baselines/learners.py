"""Private learners from their papers: logistic regression by objective perturbation, linear regression by SSP."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Random = np.random.Generator


def objective_perturbation(
    X: Floats, y: Floats, *, epsilon: float, random: Random, penalty: float = 1e-3, huber: float | None = None
) -> Floats:
    """Logistic regression, or a ``huber``-smooth SVM, with noise in the objective. Weights (d,).

    Args:
        X: Rows of length at most 1. y: -1 or 1.
        huber: The half width in which the hinge is a parabola; None: logistic loss.
    Source: "Differentially Private Empirical Risk Minimization" (JMLR 2011), algorithm 2, c = 1/4, or 1/(2 huber).
    """
    from scipy.optimize import minimize

    n, d = X.shape
    c = 0.25 if huber is None else 1 / (2 * huber)
    left = epsilon - 2 * math.log1p(c / (n * penalty))
    if left <= 0:
        penalty = c / (n * math.expm1(epsilon / 4))
        left = epsilon / 2
    direction = random.standard_normal(d)
    b = direction / np.linalg.norm(direction) * random.gamma(d, 2 / left)
    of_margin = logistic_loss if huber is None else huber_loss

    def loss(w: Floats) -> tuple[float, Floats]:
        values, slopes = of_margin(y * (X @ w), huber or 0.0)
        value = values.mean() + b @ w / n + penalty / 2 * w @ w
        return float(value), np.asarray((y * slopes) @ X / n + b / n + penalty * w)

    found = minimize(loss, np.zeros(d), jac=True, method="L-BFGS-B")
    return np.asarray(found.x)


def logistic_loss(margin: Floats, _: float = 0.0) -> tuple[Floats, Floats]:
    """The logistic loss of each margin, and its slope."""
    return np.logaddexp(0, -margin), -1 / (1 + np.exp(np.clip(margin, -500, 500)))


def huber_loss(margin: Floats, width: float) -> tuple[Floats, Floats]:
    """The hinge of each margin, a parabola within ``width`` of 1, and its slope; never curved more than 1/(2 width)."""
    near = np.clip(1 + width - margin, 0, 2 * width)
    return near**2 / (4 * width) + np.maximum(1 - width - margin, 0), -near / (2 * width)


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
