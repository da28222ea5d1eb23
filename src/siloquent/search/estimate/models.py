"""The final model of a request, in the attributes' own units, with intervals for noise and sampling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from siloquent.maths.models.glm_curves import fit_rows
from siloquent.maths.models.glm_surrogates import (
    EXPONENTIAL,
    EXPONENTIAL_ERROR,
    LOGISTIC,
    convert_to_logistic,
    convert_to_poisson,
)
from siloquent.maths.models.ridge import solve_slopes
from siloquent.search.estimate.training import LocalRows, ReleasedSums
from siloquent.search.results import Coefficient, FittedModel

Floats = NDArray[np.float64]
Z95 = 1.959964
Scales = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True, eq=False)
class LinearFit:
    """A linear model of numbers in -1 to 1."""

    values: Floats
    intercept: float


def fit_line(training: LocalRows | ReleasedSums) -> LinearFit:
    """Fit the linear model of rows, or of sums with their noise."""
    if isinstance(training, LocalRows):
        return LinearFit(*training.fit_slopes())
    table = training.compute_key_moments(training.first_key)
    slopes, means = solve_slopes(table.covariance, 0.0), table.means
    return LinearFit(slopes, float(means[-1] - means[:-1] @ slopes))


def compute_r2(learnt: LocalRows | ReleasedSums, tested: LocalRows | None) -> float:
    """Compute the R2 of the linear model: on held-out rows, otherwise on the data it was fitted to."""
    if tested is not None:
        line = fit_line(learnt)
        return tested.compute_r2(line.values, line.intercept)
    covariance = learnt.compute_key_moments(0 if isinstance(learnt, LocalRows) else learnt.first_key).covariance
    whole = max(float(covariance[-1, -1]), 1e-12)
    return float(covariance[:-1, -1] @ solve_slopes(covariance, 0.0)) / whole if len(covariance) > 1 else 0.0


def fit_model(
    training: LocalRows | ReleasedSums,
    names: Sequence[str],
    scales: Scales,
    kind: str,
    rng: np.random.Generator,
    *,
    key: int,
) -> FittedModel:
    """Fit slopes of the last name on the others; the intervals of a release include its noise, drawn anew 200 times."""
    if kind != "linear" and isinstance(training, LocalRows):
        return _fit_exactly(training, names, scales, kind)
    table = training.compute_key_moments(key)
    slopes, means = solve_slopes(table.covariance, 0.0), table.means
    solved = np.linalg.inv(table.covariance[:-1, :-1]) if len(slopes) else np.zeros((0, 0))
    w = np.append(-slopes, 1.0)
    left = max(float(w @ table.covariance @ w), 0.0)
    variance = left * np.diag(solved) / table.rows
    drawn = training.draw_moments(key, rng)
    if drawn:
        variance = variance + np.stack([solve_slopes(one.covariance, 0.0) for one in drawn]).var(axis=0, ddof=1)
    half = Z95 * np.sqrt(variance)
    intercept = float(means[-1] - means[:-1] @ slopes)
    whole = max(float(table.covariance[-1, -1]), 1e-12)
    r2 = 1 - left / whole
    if kind == "linear":
        return convert_units(names, scales, slopes, slopes - half, slopes + half, intercept, r2)
    return turn_model(slopes, half, means, intercept, names, scales, kind, r2)


def _fit_exactly(training: LocalRows, names: Sequence[str], scales: Scales, kind: str) -> FittedModel:
    """Fit the maximum-likelihood model, where own rows are available; ``r2`` is the linear model's."""
    middle, half = (0.5, 0.5) if kind == "logistic" else scales[-1]
    rows, target = training.numbers[:, :-1], middle + half * training.numbers[:, -1]
    weights, covariance = fit_rows(rows, np.maximum(target, 0.0), kind)
    slopes, width = weights[1:], Z95 * np.sqrt(np.diag(covariance))[1:]
    scales = (*scales[:-1], (0.0, 1.0))
    r2 = training.compute_r2(*training.fit_slopes())
    return convert_units(names, scales, slopes, slopes - width, slopes + width, float(weights[0]), r2, kind)


def turn_model(
    slopes: Floats,
    half: Floats,
    means: Floats,
    intercept: float,
    names: Sequence[str],
    scales: Scales,
    kind: str,
    r2: float,
) -> FittedModel:
    """Convert a linear model's direction to another kind of model; ``means`` of all numbers, the target's last."""
    turned, constant, factor = _turn_line(kind, slopes, means, intercept, scales[-1])
    scales = (*scales[:-1], (0.0, 1.0))  # the prediction is a score, which has no unit
    return convert_units(names, scales, turned, turned - factor * half, turned + factor * half, constant, r2, kind)


def _turn_line(
    kind: str, slopes: Floats, means: Floats, intercept: float, scale: tuple[float, float]
) -> tuple[Floats, float, float]:
    """Return the model of another kind in the linear one's direction: slopes, constant, the slopes' factor."""
    if kind == "logistic":
        turned, constant = convert_to_logistic(slopes, intercept)
        return turned, constant, LOGISTIC[0].factor
    middle, half = scale
    mean = middle + half * float(means[-1])
    turned, constant = convert_to_poisson(half * slopes, means[:-1], mean)
    return turned, constant, half / max(mean, 1e-9) / (2 * EXPONENTIAL[2])


def describe_kind(kind: str) -> list[str]:
    """Describe the limitations of a model of this kind, for its reader."""
    if kind == "logistic":
        one = LOGISTIC[0]
        return [
            f"the logistic loss is a polynomial of order 2, off by at most {one.error} for scores up to {one.reach}; "
            "its intervals are derived from the linear model's"
        ]
    if kind == "poisson":
        return [f"e^t is a polynomial of order 2, off by at most {EXPONENTIAL_ERROR} within a factor of e of the mean"]
    return []


def convert_units(
    names: Sequence[str],
    scales: Scales,
    slopes: Floats,
    low: Floats,
    high: Floats,
    intercept: float,
    r2: float,
    kind: str = "linear",
) -> FittedModel:
    """Convert a model of numbers in -1 to 1 to the attributes' own units."""
    middle, half = scales[-1]
    found, constant = [], middle + half * intercept
    for name, (mid, reach), *values in zip(names, scales, slopes, low, high, strict=False):
        value, least, most = (float(one) * half / reach for one in values)
        found.append(Coefficient(name, value, least, most))
        constant -= value * mid
    return FittedModel(names[-1], constant, tuple(found), r2, kind)
