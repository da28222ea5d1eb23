"""Logistic and Poisson models from sums of products: the curve of the mean as a polynomial where the scores lie.

The likelihood's equations are E[h(t) x] = E[y x] with the score t = x'beta and the mean's curve h. With h a polynomial
of degree k - 1 in t they hold moments up to order k alone. The polynomial is fitted anew as the scores move.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Curve = Callable[[Floats], Floats]
ROUNDS, MAX_SPREAD, MAX_STEP = 100, 4.0, 1.0
_LEAST = 1e-9


def logistic(score: Floats) -> Floats:
    """The chance of a 1."""
    return np.asarray(1 / (1 + np.exp(-np.clip(score, -500, 500))))


def exponential(score: Floats) -> Floats:
    """The rate."""
    return np.asarray(np.exp(np.clip(score, -500, 50)))


CURVES: dict[str, Curve] = {"logistic": logistic, "poisson": exponential}


@dataclass(frozen=True, slots=True, eq=False)
class Polynomial:
    """h(t) = sum of a_i u^i with u = (t - mean) / spread; ``error``: root mean square for normal scores."""

    powers: Floats
    mean: float
    spread: float
    error: float


@dataclass(frozen=True, slots=True, eq=False)
class GlmSolution:
    """The weights, of the constant first; ``slope`` (p, p): how the equations turn with the weights; the polynomial."""

    weights: Floats
    slope: Floats
    curve: Polynomial
    has_settled: bool

    @property
    def inverse(self) -> Floats:
        """How the weights turn with the equations' right side, (p, p)."""
        return np.asarray(np.linalg.pinv((self.slope + self.slope.T) / 2))


def fit_curve(curve: Curve, degree: int, mean: float, spread: float) -> Polynomial:
    """The polynomial nearest to ``curve`` for normal scores."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(64)
    weights = weights / weights.sum()
    values = curve(mean + spread * nodes)
    powers = np.vander(nodes, degree + 1, increasing=True)
    weighted = powers * weights[:, None]
    found = np.linalg.solve(weighted.T @ powers, weighted.T @ values)
    error = float(np.sqrt(weights @ (powers @ found - values) ** 2))
    return Polynomial(found, mean, spread, error)


def compute_equations(moments: Floats, weights: Floats, curve: Polynomial) -> tuple[Floats, Floats]:
    """E[h(t) x] (p,) and its slope in the weights (p, p), from the tensor of moments of x, whose first number is 1."""
    direction = weights / curve.spread
    direction[0] -= curve.mean / curve.spread  # u = direction'x
    value = curve.powers[0] * _contract_power(moments, direction, 0)[0]
    slope = np.zeros((len(weights), len(weights)))
    for power in range(1, len(curve.powers)):
        left = _contract_power(moments, direction, power - 1)
        value = value + curve.powers[power] * left @ direction
        slope += power * curve.powers[power] * left
    return value, slope / curve.spread


def _contract_power(moments: Floats, direction: Floats, power: int) -> Floats:
    """E[x x' u^power], shape (p, p): axes that are not used are left at the constant."""
    left = moments
    for axis in range(moments.ndim - 2):
        left = left @ direction if axis < power else left[..., 0]
    return left


def solve(moments: Floats, products: Floats, kind: str, *, ridge: float = 0.0) -> GlmSolution:
    """The weights for which E[h(t) x] = ``products`` = E[y x]: damped Newton steps, the polynomial fitted anew at each.

    Args:
        moments: The tensor of moments of x of order k >= 2, shape (p,) * k; x has a 1 as its first number.
        ridge: On all weights but the constant's, where moments have noise.
    """
    curve, degree = CURVES[kind], moments.ndim - 1
    second: Floats = moments.reshape(-1, *moments.shape[-2:])[0]
    means = second[0]
    held = np.append(0.0, np.full(len(means) - 1, ridge))
    weights = np.append(_invert_mean(float(products[0]), kind), np.zeros(len(means) - 1))
    step, found, slope = np.inf, fit_curve(curve, degree, float(weights[0]), 1e-3), second
    for _ in range(ROUNDS):
        mean = float(means @ weights)
        spread = float(np.sqrt(max(weights @ second @ weights - mean**2, 1e-6)))
        found = fit_curve(curve, degree, mean, min(spread, MAX_SPREAD))
        value, slope = compute_equations(moments, weights, found)
        slope = slope + np.diag(held)
        move = _solve_step(slope, products - value - held * weights)
        step = float(np.abs(move).max())
        if step < 1e-8 or spread > MAX_SPREAD:
            break
        weights = weights + move * min(1.0, MAX_STEP / step)
    return GlmSolution(weights, slope, found, step < 1e-4)


def _invert_mean(mean: float, kind: str) -> float:
    """The score of a mean, where nothing else is known."""
    if kind == "poisson":
        return math.log(max(mean, 1e-6))
    inside = min(max(mean, 1e-6), 1 - 1e-6)
    return math.log(inside / (1 - inside))


def _solve_step(slope: Floats, left: Floats) -> Floats:
    """The Newton step; directions that noise has made flat or turned round take no longer ones."""
    values, vectors = np.linalg.eigh((slope + slope.T) / 2)
    floor = max(float(values[-1]) / 1e4, _LEAST)
    return np.asarray(vectors @ ((vectors.T @ left) / np.maximum(values, floor)))


def fit_rows(rows: Floats, target: Floats, kind: str) -> tuple[Floats, Floats]:
    """The weights of greatest likelihood, the constant's first, and their covariance: exactly, by Newton steps.

    Args:
        rows: Features, shape (rows, features); ``target``: 0 or 1, or counts.
    """
    x, curve = np.column_stack([np.ones(len(rows)), rows]), CURVES[kind]
    weights = np.append(_invert_mean(float(target.mean()), kind), np.zeros(rows.shape[1]))
    information = np.eye(len(weights))
    for _ in range(ROUNDS):
        mean = curve(x @ weights)
        weight = mean * (1 - mean) if kind == "logistic" else mean
        # Where the rows can be told apart without a doubt, no weights are best; the ridge ends their growth.
        information = (x * weight[:, None]).T @ x + 1e-6 * len(x) * np.eye(len(weights))
        move = np.linalg.solve(information, x.T @ (target - mean) - 1e-6 * len(x) * weights)
        weights = weights + move * min(1.0, MAX_STEP / max(float(np.abs(move).max()), _LEAST))
        if float(np.abs(move).max()) < 1e-9:
            break
    return weights, np.asarray(np.linalg.inv(information))
