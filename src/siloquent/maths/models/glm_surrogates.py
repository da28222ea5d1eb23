"""Logistic and Poisson models from moments: their losses as polynomials of order 2, which moments determine.

A linear fit is rescaled, not refitted: the polynomial's minimum lies in the same direction.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class LossSurrogate:
    """log(1 + e^-t) = -t/2 + constant + square t^2 for |t| <= reach, off by at most ``error``."""

    reach: float
    constant: float
    square: float
    error: float

    @property
    def factor(self) -> float:
        """The factor of the slopes for a target of -1 and 1: 1 / (4 square)."""
        return 1 / (4 * self.square)


LOGISTIC = (
    LossSurrogate(3, 0.7228, 0.09442, 0.030),
    LossSurrogate(4, 0.7619, 0.08167, 0.069),
    LossSurrogate(6, 0.8823, 0.06214, 0.19),
)
"""The surrogates with the least maximal error, by reach."""
EXPONENTIAL = (0.9963, 1.1037, 0.5367)
"""e^t = a + b t + c t^2 for |t| <= 1, of least mean square; off by at most .09."""
EXPONENTIAL_ERROR = 0.09


def convert_to_logistic(
    slopes: Floats, intercept: float, surrogate: LossSurrogate = LOGISTIC[0]
) -> tuple[Floats, float]:
    """Return the logistic model's slopes and constant, from those of a linear fit to a target of -1 and 1.

    Source:
        Saibot, section 6 (generalised linear models by polynomials); coefficients of least largest error.
    """
    return slopes * surrogate.factor, intercept * surrogate.factor


def convert_to_poisson(slopes: Floats, means: Floats, mean: float) -> tuple[Floats, float]:
    """Return the slopes and constant of log E[y], from those of a linear fit to a target y of mean ``mean`` above 0.

    Args:
        slopes: Of the linear fit, (features,); ``means``: of the features.
    """
    a, b, c = EXPONENTIAL
    # With y / mean = e^t and features centred, the polynomial's minimum is 2 c Cov beta = Cov(x, y) / mean.
    found = slopes / max(mean, 1e-9) / (2 * c)
    # The constant makes the polynomial's mean 1 at the features' means: a + b t + c t^2 = 1 there.
    level = (-b + math.sqrt(max(b * b - 4 * c * (a - 1), 0.0))) / (2 * c)
    return found, math.log(max(mean, 1e-9)) + level - float(found @ means)
