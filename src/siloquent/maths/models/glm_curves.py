"""Logistic and Poisson models from sums of products: the mean curve as a polynomial over the range of the scores.

The likelihood's equations are E[h(t) x] = E[y x] with the score t = x'beta and the mean's curve h. With h a polynomial
of degree k - 1 in t they need only moments up to order k. The polynomial is refitted as the scores move.
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
    """Return the probability of a 1."""
    return np.asarray(1 / (1 + np.exp(-np.clip(score, -500, 500))))


def exponential(score: Floats) -> Floats:
    """Return the rate."""
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
    """The weights, the constant's first; ``slope`` (p, p): the equations' derivative in the weights; the polynomial."""

    weights: Floats
    slope: Floats
    curve: Polynomial
    has_settled: bool

    @property
    def inverse(self) -> Floats:
        """The derivative of the weights in the equations' right side, (p, p)."""
        return np.asarray(np.linalg.pinv((self.slope + self.slope.T) / 2))


def fit_curve(curve: Curve, degree: int, mean: float, spread: float) -> Polynomial:
    """Return the polynomial nearest to ``curve`` for normal scores."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(64)
    weights = weights / weights.sum()
    values = curve(mean + spread * nodes)
    powers = np.vander(nodes, degree + 1, increasing=True)
    weighted = powers * weights[:, None]
    found = np.linalg.solve(weighted.T @ powers, weighted.T @ values)
    error = float(np.sqrt(weights @ (powers @ found - values) ** 2))
    return Polynomial(found, mean, spread, error)


def compute_equations(moments: Floats, weights: Floats, curve: Polynomial) -> tuple[Floats, Floats]:
    """Return E[h(t) x] (p,) and its derivative (p, p) from the tensor of moments of x, whose first number is 1."""
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
    """Return E[x x' u^power], shape (p, p): unused axes are fixed at the constant."""
    left = moments
    for axis in range(moments.ndim - 2):
        left = left @ direction if axis < power else left[..., 0]
    return left


def solve(moments: Floats, products: Floats, kind: str, *, ridge: float = 0.0) -> GlmSolution:
    """Return the weights with E[h(t) x] = ``products`` = E[y x]: damped Newton steps, each with a refitted polynomial.

    Args:
        moments: The tensor of moments of x of order k >= 2, shape (p,) * k; x has a 1 as its first number.
        ridge: On all weights but the constant's, if the moments are noisy.
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
    """Return the score of a mean, used as the start."""
    if kind == "poisson":
        return math.log(max(mean, 1e-6))
    inside = min(max(mean, 1e-6), 1 - 1e-6)
    return math.log(inside / (1 - inside))


def _solve_step(slope: Floats, left: Floats) -> Floats:
    """Return the Newton step; directions made flat or negative by noise take no longer ones."""
    values, vectors = np.linalg.eigh((slope + slope.T) / 2)
    floor = max(float(values[-1]) / 1e4, _LEAST)
    return np.asarray(vectors @ ((vectors.T @ left) / np.maximum(values, floor)))


def fit_rows(rows: Floats, target: Floats, kind: str) -> tuple[Floats, Floats]:
    """Return the weights of greatest likelihood, the constant's first, and their covariance: exactly, by Newton steps.

    Args:
        rows: Features, shape (rows, features); ``target``: 0 or 1, or counts.
    """
    x, curve = np.column_stack([np.ones(len(rows)), rows]), CURVES[kind]
    weights = np.append(_invert_mean(float(target.mean()), kind), np.zeros(rows.shape[1]))
    information = np.eye(len(weights))
    for _ in range(ROUNDS):
        mean = curve(x @ weights)
        weight = mean * (1 - mean) if kind == "logistic" else mean
        # If the rows are separable, no finite weights are optimal; the ridge bounds them.
        information = (x * weight[:, None]).T @ x + 1e-6 * len(x) * np.eye(len(weights))
        move = np.linalg.solve(information, x.T @ (target - mean) - 1e-6 * len(x) * weights)
        weights = weights + move * min(1.0, MAX_STEP / max(float(np.abs(move).max()), _LEAST))
        if float(np.abs(move).max()) < 1e-9:
            break
    return weights, np.asarray(np.linalg.inv(information))
