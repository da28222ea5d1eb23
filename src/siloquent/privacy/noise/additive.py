"""Integer noise on integers: discrete Laplace, discrete Gaussian and one-sided geometric noise."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from siloquent.privacy.checks import require_int64
from siloquent.privacy.noise.distributions import GaussianDistribution, MagnitudeDistribution
from siloquent.privacy.noise.draws import add_draws
from siloquent.privacy.noise.opendp_noise import SMALL, add_opendp_noise, find_float_scale


def add_laplace(values: NDArray[np.int64], *, scale: Fraction | int) -> NDArray[np.int64]:
    """Return ``values`` plus independent discrete Laplace noise: P[noise = y] ~ exp(-|y| / scale).

    Args:
        values: Exact whole numbers within +-2^60, any shape, may be empty.
        scale: In (0, 2^50], with a numerator <= 2^60 and a denominator <= 2^50.
    Returns:
        Noisy numbers of the same shape. They may be negative.
    Raises:
        RequestError: A float scale, values that are not int64, or something out of range.
    Privacy:
        Pure (L1 / scale)-DP, exactly, for the unit in which the caller bounds the L1 change of ``values``. Draw times
        depend on the noise, so answers are sent in fixed time slots.
    Source:
        "The Discrete Gaussian for Differential Privacy" (NeurIPS 2020), algorithm 2. Short vectors are drawn by OpenDP,
        the others by our own samplers; proof: docs/explanation/discrete-laplace.md.
    """
    law = MagnitudeDistribution.from_scale(scale)
    exact = require_int64("values", values)
    vetted = find_float_scale("laplace", Fraction(scale)) if 0 < exact.size <= SMALL else None
    return add_draws(exact, "laplace", law) if vetted is None else add_opendp_noise(exact, "laplace", vetted)


def add_gaussian(values: NDArray[np.int64], *, variance: Fraction | int) -> NDArray[np.int64]:
    """Return ``values`` plus independent discrete Gaussian noise: P[noise = y] ~ exp(-y^2 / (2 variance)).

    Args:
        values: Exact whole numbers within +-2^60, any shape, may be empty.
        variance: The parameter, in (0, 2^50], with a numerator <= 2^50 and a denominator <= 2^20. It is drawn exactly,
            integer or not. (The actual variance is slightly smaller if the parameter is below 1.)
    Returns:
        Noisy numbers of the same shape. They may be negative.
    Raises:
        RequestError: A float variance, values that are not int64, or something out of range.
    Privacy:
        rho-zCDP with rho = L2^2 / (2 variance), exactly, for the unit in which the caller bounds the squared L2 change
        of ``values``. Not pure DP at any epsilon.
    Source:
        "The Discrete Gaussian for Differential Privacy" (NeurIPS 2020), algorithm 3 with another proposal scale. Short
        vectors are drawn by OpenDP where a float is the root of the variance, the others by our own samplers; proof:
        docs/explanation/discrete-gaussian.md.
    """
    law = GaussianDistribution.from_variance(variance)
    exact = require_int64("values", values)
    vetted = find_float_scale("gaussian", Fraction(variance)) if 0 < exact.size <= SMALL else None
    return add_draws(exact, "gaussian", law) if vetted is None else add_opendp_noise(exact, "gaussian", vetted)


def add_geometric(values: NDArray[np.int64], *, scale: Fraction | int) -> NDArray[np.int64]:
    """Return ``values`` plus independent one-sided geometric noise: P[noise >= j] = exp(-j / scale), j = 0, 1, ...

    Args:
        values: Exact whole numbers within +-2^60, any shape, may be empty.
        scale: In (0, 2^50], with a numerator <= 2^60 and a denominator <= 2^50.
    Returns:
        Noisy numbers of the same shape, each at least its value.
    Raises:
        RequestError: A float scale, values that are not int64, or something out of range.
    Privacy:
        None by itself: a noisy number below a value rules that value out. The ordered ids of the k largest noisy
        numbers are (k Linf / scale)-DP where all values change in one direction, (2 k Linf / scale)-DP otherwise; the
        noisy numbers must not be shown. Proof: docs/explanation/geometric-top-k.md.
    Source:
        As ``add_laplace``, without the sign.
    """
    law = MagnitudeDistribution.from_scale(scale)
    return add_draws(require_int64("values", values), "geometric", law)
