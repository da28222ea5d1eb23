"""Unions: moments of tables with equal columns are added, and the model's intervals include all their noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from siloquent.errors import RequestError
from siloquent.maths.models.moments import Moments
from siloquent.maths.models.ridge import choose_ridge, estimate_covariance_matrix, solve_slopes
from siloquent.search.domains import Feature
from siloquent.search.estimate.models import Scales, convert_units
from siloquent.search.estimate.training import DRAWS, LocalRows, ReleasedSums, draw_symmetric_noise
from siloquent.search.offers import Offer
from siloquent.search.results import FittedModel

Floats = NDArray[np.float64]
Z95 = 1.959964


@dataclass(frozen=True, slots=True, eq=False)
class NoisyMoments:
    """Moments of a table in units of -1 to 1, the target last, with the variances of their noise.

    ``variances``: of the count, of one sum, of one second moment on the diagonal, summed over all added tables.
    """

    moments: Moments
    variances: tuple[float, float, float]
    is_halved: bool = True

    def __add__(self, other: NoisyMoments) -> NoisyMoments:
        """Return the moments of both tables' rows together."""
        both = [mine + theirs for mine, theirs in zip(self.variances, other.variances, strict=True)]
        return NoisyMoments(
            self.moments + other.moments, (both[0], both[1], both[2]), self.is_halved and other.is_halved
        )


@dataclass(frozen=True, slots=True, eq=False)
class Slopes:
    """A linear model with 95 % intervals in units of -1 to 1; ``ridge`` and ``covariance`` were used to solve it."""

    values: Floats
    low: Floats
    high: Floats
    intercept: float
    r2: float
    risk: float


def compute_totals(offer: Offer, columns: Sequence[int] | None = None) -> NoisyMoments:
    """Compute the moments of all rows of an offer, for some columns in order.

    Raises:
        RequestError: The offer has no second moments.
    """
    second = offer.compute_second_moments()
    if second is None:
        raise RequestError(f"The offer {offer.id} has no second moments, so it can only be joined.")
    chosen = list(range(len(offer.columns))) if columns is None else list(columns)
    counts, sums = offer.get_key_sums(0)
    zero, first, last = offer.deviations
    cells = len(counts)
    # Second moments by key were added, and their noise with them.
    times = cells if offer.measured.second is not None and offer.measured.second.ndim == 3 else 1
    return NoisyMoments(
        Moments(float(counts.sum()), sums.sum(axis=0)[chosen], second[np.ix_(chosen, chosen)]),
        (cells * zero**2, cells * first**2, times * last**2),
        offer.is_halved,
    )


def find_offer_columns(offer: Offer, wanted: Sequence[Feature]) -> list[int] | None:
    """Find the indices of the columns of ``wanted`` in an offer; None where it lacks one.

    Raises:
        RequestError: It has a feature of that name in another unit or with other values.
    """
    start, places = 0, {}
    for feature in offer.features:
        places[feature.name] = (feature, range(start, start + len(feature.columns)))
        start += len(feature.columns)
    found: list[int] = []
    for feature in wanted:
        if feature.name not in places:
            return None
        theirs, at = places[feature.name]
        if theirs != feature:
            raise RequestError(
                f"The offer {offer.id} declares {feature.name!r} as {_describe_feature(theirs)}, the request as "
                f"{_describe_feature(feature)}: their sums cannot be added.",
                fix="declare the same range, grid or values in both tables, and release the offer again",
            )
        found += at
    return found


def _describe_feature(feature: Feature) -> str:
    if feature.kind == "category":
        return f"a category of {len(feature.values)} values"
    return f"{feature.kind} from {feature.lo} to {feature.hi} by {feature.grid}"


def fit_noisy_moments(noisy: NoisyMoments, rng: np.random.Generator) -> Slopes:
    """Fit a model to noisy moments, with 95 % intervals for its slopes from noise, sampling and the ridge's bias.

    Source:
        First-order noise of the score, drawn 200 times from its known distribution; docs/explanation/search.md.
    """
    moments = noisy.moments
    n, p = max(moments.count, 1.0), len(moments.sums)
    covariance = estimate_covariance_matrix(moments)
    ridge = choose_ridge(p - 1, float(np.sqrt(noisy.variances[2])), n)
    beta = solve_slopes(covariance, ridge)
    w = np.concatenate([-beta, [1.0]])
    means = moments.sums / n
    solved = np.linalg.inv(covariance[:-1, :-1] + ridge * np.eye(p - 1))
    moved = np.stack([_compute_score_noise(noisy, w, means, n, rng) for _ in range(DRAWS)])
    scores = moved[:, :-1]
    noise = solved @ np.cov(scores.T).reshape(p - 1, p - 1) @ solved
    left = max(float(w @ covariance @ w), 0.0)
    # Noise that makes the fit look better than it is must not narrow its intervals.
    sampling = (left + float((moved @ w).std(ddof=1))) * solved / n
    pull = ridge * solved @ beta
    half = Z95 * np.sqrt(np.diag(noise) + np.diag(sampling)) + np.abs(pull)
    whole = max(float(covariance[-1, -1]), 1e-12)
    risk = float(np.trace(covariance[:-1, :-1] @ (noise + sampling))) / whole
    return Slopes(beta, beta - half, beta + half, float(means[-1] - means[:-1] @ beta), 1 - left / whole, risk)


def _compute_score_noise(noisy: NoisyMoments, w: Floats, means: Floats, n: float, rng: np.random.Generator) -> Floats:
    """Draw the effect of noise on the products of all numbers with the model's residuals, (p,)."""
    zero, first, second = (float(np.sqrt(v)) for v in noisy.variances)
    E = draw_symmetric_noise(rng, len(w), second, is_halved=noisy.is_halved)
    e, e0 = rng.normal(0, first, len(w)), rng.normal(0, zero)
    moved = E @ w - means * float(w @ e) - float(w @ means) * e + means * float(w @ means) * e0
    return np.asarray(moved / n)


def compute_own_moments(training: LocalRows | ReleasedSums, own: Offer | None) -> NoisyMoments:
    """Compute the request's own moments: from its release, or exactly from its rows."""
    if isinstance(training, ReleasedSums):
        assert own is not None
        return compute_totals(own)
    rows = training.numbers
    return NoisyMoments(Moments(float(len(rows)), rows.sum(axis=0), rows.T @ rows), (0.0, 0.0, 0.0))


def is_consistent(one: Slopes, other: Slopes) -> bool:
    """Return whether no slopes of two models differ for certain: at three standard errors of the difference."""
    errors = np.hypot(one.high - one.low, other.high - other.low) / 2 / Z95
    return bool((np.abs(one.values - other.values) <= 3 * errors).all())


def build_union_model(slopes: Slopes, names: Sequence[str], scales: Scales) -> FittedModel:
    """Convert the model to the attributes' own units."""
    return convert_units(names, scales, slopes.values, slopes.low, slopes.high, slopes.intercept, slopes.r2)
