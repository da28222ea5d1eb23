"""The factor kappa of a reconstruction R: the smallest x with P[some answer's noise is beyond x] <= beta.

Noise of scale b then keeps an error of kappa b. Two upper bounds on kappa are computed and the smaller one is used: the
union of exact tails, and an importance-sampled one that accounts for correlated failures and is certified to fail with
probability 1e-9 at most. Both depend only on R, beta and a given seed. Proofs: docs/explanation/calibration.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from siloquent.maths.tails.distributions import normal_quantile
from siloquent.maths.tails.laplace_sums import UnionTails, build_union_tails, choose_tilts

Reals = NDArray[np.float64]

DOUBT = 1e-9  # the total failure probability of the sampled bounds of one calibration, taken off beta
_TRIES = 8
_SLACK = 0.01  # each further try asks for one hundredth fewer failures
_SAMPLES, _PILOT = 10_000, 2_000
_NUMBERS = 4_000_000  # in the samples of one certificate
_BATCH = 100_000  # numbers drawn at once, so that they stay in the processor's cache


@dataclass(frozen=True, slots=True)
class Factor:
    """An upper bound on kappa, and its method: ``union``, ``sidak`` or ``certified N`` (N samples)."""

    value: float
    method: str


def compute_laplace_factor(reconstruction: Reals, beta: float, *, two_sided: bool, seed: int | None = None) -> Factor:
    """Compute kappa for independent Laplace(1) noise.

    Args:
        reconstruction: R, shape (answers, noises); zero rows are answers without noise.
        beta: The miss rate of all answers together.
        two_sided: An error counts to either side (WCQ), not only to one (ICQ).
        seed: The seed of the sampled bound, a function of the workload's shape; without one, only the union bound.
    """
    rows = reconstruction[np.any(reconstruction != 0, axis=1)]
    if not len(rows):
        return Factor(0.0, "union")
    tails = build_union_tails(rows, beta, two_sided=two_sided)
    if seed is None or len(rows) == 1 or beta <= 2 * DOUBT:
        return Factor(tails.quantile, "union")
    drawn = _certify_level(rows, tails, beta - DOUBT, np.random.default_rng(seed))
    return (
        Factor(drawn, f"certified {_choose_samples(rows)}")
        if drawn < tails.quantile
        else Factor(tails.quantile, "union")
    )


def compute_gaussian_factor(reconstruction: Reals, beta: float, *, two_sided: bool) -> Factor:
    """Compute kappa for independent normal noise of deviation 1: Sidak's inequality two-sided, union bound one-sided.

    Source:
        "Rectangular Confidence Regions for the Means of Multivariate Normal Distributions" (JASA 1967).
    """
    return compute_normal_factor(np.sqrt((reconstruction * reconstruction).sum(axis=1)), beta, two_sided=two_sided)


def compute_normal_factor(deviations: Reals, beta: float, *, two_sided: bool) -> Factor:
    """As ``compute_gaussian_factor``, from the deviations of the answers' noise only, shape (answers,)."""
    deviations = deviations[deviations > 0]
    method = "sidak" if two_sided else "union"
    if not len(deviations):
        return Factor(0.0, method)
    return Factor(_solve_normal_level(deviations, beta, two_sided=two_sided), method)


def _solve_normal_level(deviations: Reals, beta: float, *, two_sided: bool) -> float:
    from scipy.optimize import brentq
    from scipy.special import ndtr

    def excess(x: float) -> float:
        miss = ndtr(-x / deviations)
        total = -math.expm1(np.log1p(-2 * miss).sum()) if two_sided else float(miss.sum())
        return math.log(max(total, 1e-300) / beta)

    sides = 2 if two_sided else 1
    low = float(deviations.max()) * max(1e-6, normal_quantile(beta / sides) * (1 - 1e-6))
    high = float(deviations.max()) * max(1e-3, normal_quantile(beta / (sides * len(deviations)))) * (1 + 1e-6)
    if excess(low) <= 0:
        return low
    return float(brentq(excess, low, high, rtol=1e-12)) * (1 + 1e-9)


def _certify_level(rows: Reals, tails: UnionTails, beta: float, random: np.random.Generator) -> float:
    """Return a level whose failure rate is certified to be at most ``beta``, or infinity.

    P[some row beyond x] is the sum of all tails at x times the mean of 1/(rows beyond x), over noise drawn given that a
    row, picked in proportion to its tail, is beyond x.

    Source:
        The estimate: "Importance sampling the union of rare events with an application to power systems analysis"
        (Electronic Journal of Statistics, 2019). The bound: "Empirical Bernstein Bounds and Sample Variance
        Penalization" (COLT 2009), theorem 4, for means of values in [0, 1].
    """
    samples = _choose_samples(rows)
    level = tails.quantile
    for _ in range(2):  # the mean changes slowly with the level: two short samples find the level to certify
        pilot = _draw_shares(rows, tails, level, random, _PILOT)
        expected = (
            float(pilot.mean()) + _bound_mean_error(pilot, samples) + 1.5 * float(pilot.std()) / math.sqrt(_PILOT)
        )
        level = tails.solve(beta / expected)
    for attempt in range(_TRIES):
        shares = _draw_shares(rows, tails, level, random, samples)
        above = float(shares.mean()) + _bound_mean_error(shares, samples)
        if float(tails(level).sum()) * above <= beta:
            return level
        level = tails.solve(beta / above * (1 - _SLACK * (attempt + 1)))
    return math.inf


def _choose_samples(rows: Reals) -> int:
    """Return the number of samples of a certificate: fewer where each costs more."""
    return int(np.clip(_NUMBERS / max(rows.shape), _PILOT, _SAMPLES))


def _bound_mean_error(shares: Reals, samples: int) -> float:
    """Bound how far the mean of ``samples`` such values lies below the truth, with doubt ``DOUBT`` over all tries."""
    doubts = math.log(2 * _TRIES / DOUBT)
    return math.sqrt(2 * float(shares.var(ddof=1)) * doubts / samples) + 7 * doubts / (3 * (samples - 1))


def _draw_shares(rows: Reals, tails: UnionTails, level: float, random: np.random.Generator, samples: int) -> Reals:
    """Return 1/(rows beyond the level) for noise drawn given that one is beyond it, shape (samples,)."""
    weights = tails(level)
    tilt = choose_tilts(rows, level, steepest=0.95)
    slopes = rows * tilt[:, None]
    picked = random.choice(len(rows), size=samples, p=weights / weights.sum())
    noise = np.empty((samples, rows.shape[1]))
    found = 0
    while len(picked):
        batch = picked[: max(16, _BATCH // rows.shape[1])]
        drawn, taken = _draw_noise_beyond(slopes[batch], tilt[batch] * level, random)
        noise[found : found + len(drawn)] = drawn
        found += len(drawn)
        picked = np.concatenate([batch[~taken], picked[len(batch) :]])
    sums = noise @ rows.T
    beyond = (np.abs(sums) if tails.sides == 2 else sums) > level
    # The picked row itself is beyond the level, whatever rounding in the product says.
    shares: Reals = 1.0 / np.maximum(beyond.sum(axis=1), 1)
    return shares


def _draw_noise_beyond(slopes: Reals, levels: Reals, random: np.random.Generator) -> tuple[Reals, NDArray[np.bool_]]:
    """Try once per row to draw Laplace(1) noise given that the row's sum is beyond the level; say which tries worked.

    The noise is drawn from the distribution tilted along the row and accepted with probability
    exp(-tilt (sum - level)) where the sum is above the level, which leaves the conditional distribution.

    Args:
        slopes: The rows times their tilts, shape (tries, noises).
        levels: The level times the tilts, shape (tries,).
    """
    # Tilted by s: positive with probability (1 + s)/2, then exponential of rate 1 - s; else negative of rate 1 + s.
    side = 2.0 * random.random(slopes.shape)
    side += slopes - 1.0
    np.copysign(1.0, side, out=side)
    side -= slopes
    noise = random.standard_exponential(slopes.shape)
    noise /= side
    above = np.einsum("rn,rn->r", slopes, noise) - levels
    taken = (above > 0) & (random.random(len(above)) < np.exp(-np.maximum(above, 0.0)))
    return noise[taken], taken
