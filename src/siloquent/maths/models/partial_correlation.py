"""The gain from one more number in a linear model: from moments by key, for many candidates at once.

A candidate is one value a key. Its covariances with target and features follow from their sums by key alone, so two
matrix products score all candidates of a key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Candidates = NDArray[np.float32]
_LEAST = 1e-9
_TINY = 1e-30


@dataclass(frozen=True, slots=True, eq=False)
class MomentsByKey:
    """Of a table with p numbers, the target last: counts (keys,), sums (keys, p), mean products (p, p) over all rows.

    ``covariance`` is of the same rows, positive semi-definite with its ridge on the features. ``noise``: the variances
    of noise in one count and in one sum, 0 in exact moments.
    """

    counts: Floats
    sums: Floats
    covariance: Floats
    noise: tuple[float, float] = (0.0, 0.0)

    @property
    def rows(self) -> float:
        """The number of rows that have a key, at least 1."""
        return max(float(self.counts.sum()), 1.0)

    @property
    def means(self) -> Floats:
        """Of each number, (p,)."""
        return np.asarray(self.sums.sum(axis=0) / self.rows)


@dataclass(frozen=True, slots=True, eq=False)
class Gains:
    """For each candidate: R2 gained, the partial correlation's sign in ``slopes``, shape (candidates,).

    ``noise``: the variance that noise in the table and in the candidate gives the partial correlation.
    """

    gains: NDArray[Any]
    slopes: NDArray[Any]
    noise: NDArray[Any]

    def compute_expected(self, spread: float | None = None) -> NDArray[Any]:
        """Return the gains with partial correlations drawn in by their noise: what to rank by.

        Of hundreds of candidates some correlate by noise alone, those with most noise most of all.

        Args:
            spread: The correlations' own variance; None: that of these candidates.
        """
        spread = self.spread if spread is None else spread
        return np.asarray(self.gains * (spread / (spread + self.noise)) ** 2)

    @property
    def spread(self) -> float:
        """The correlations' own variance, estimated from all candidates together."""
        usual = float(np.median(self.noise)) if len(self.noise) else 0.0
        weights = 1 / (self.noise + max(usual, _LEAST))
        return max(float((weights * (self.gains - self.noise)).sum() / max(float(weights.sum()), _LEAST)), _LEAST)


def compute_gains(
    table: MomentsByKey,
    values: Candidates,
    squares: Candidates | None = None,
    *,
    unsure: NDArray[Any] | float = 0.0,
) -> Gains:
    """Return the share of the target's variance that each candidate would explain besides the features.

    Args:
        values: One value a key, shape (candidates, keys).
        squares: Their squares, if available; otherwise computed here.
        unsure: The variance of noise in a candidate's values, (candidates,).
    """
    one = _build_weights(table)
    first = values @ one.astype(np.float32)
    second = (values * values if squares is None else squares) @ one[:, [0, -1]].astype(np.float32)
    return _compute_schur(table, first, second, unsure)


def compute_exact_gains(table: MomentsByKey, values: Floats, *, unsure: NDArray[Any] | float = 0.0) -> Gains:
    """As ``compute_gains`` in double precision, for the few remaining candidates."""
    one = _build_weights(table)
    return _compute_schur(table, values @ one, values**2 @ one[:, [0, -1]], unsure)


def _build_weights(table: MomentsByKey) -> Floats:
    """Return the factors of values: each key's share of rows, its sums over all rows, and 1; (keys, p + 2)."""
    return np.column_stack([table.counts, table.sums, np.full(len(table.counts), table.rows)]) / table.rows


def _compute_schur(
    table: MomentsByKey, first: NDArray[Any], second: NDArray[Any], unsure: NDArray[Any] | float
) -> Gains:
    """Compute gains from products of values and squares with ``_build_weights``, in the given precision."""
    kind, total = first.dtype, first[:, 0]
    over_keys = second[:, 1] - total * (2 * first[:, -1] - kind.type(len(table.counts)) * total)
    first, second = first[:, :-1], second[:, 0]
    cross = first[:, 1:] - total[:, None] * table.means.astype(kind)
    features, target = cross[:, :-1], cross[:, -1]
    variance = np.maximum(second - total**2, 0)
    inverse = np.linalg.inv(table.covariance[:-1, :-1])
    left = target - features @ (inverse @ table.covariance[:-1, -1]).astype(kind)
    rest = variance - np.einsum("cf,cf->c", features @ inverse.astype(kind), features)
    rest = np.maximum(rest, kind.type(_LEAST) * np.maximum(variance, kind.type(_LEAST)))
    slopes = left / rest
    whole = max(float(table.covariance[-1, -1]), _LEAST)
    # A candidate dominated by noise is useless: its gain is 0, and it is never more than 1.
    gains = np.clip(left * slopes / kind.type(whole), 0, 1) * (variance > _LEAST)
    own, others = (kind.type(part / table.rows**2 / whole) for part in _compute_noise(table))
    return Gains(gains, slopes, (own * np.maximum(over_keys, 0) + others * unsure) / np.maximum(rest, _TINY))


def _compute_noise(table: MomentsByKey) -> tuple[float, float]:
    """Return, for a key's sum of the target's residuals, the variance of noise, and all keys' squares without it."""
    own = table.covariance[:-1, :-1]
    beta = np.linalg.solve(own, table.covariance[:-1, -1]) if len(own) else np.zeros(0)
    w = np.append(-beta, 1.0)
    level = float(table.means @ w)
    sums = table.sums @ w - table.counts * level
    variance = table.noise[0] * level**2 + table.noise[1] * float(w @ w)
    return variance, float(np.maximum(sums**2 - variance, 0).sum())


def compute_robust_errors(table: MomentsByKey, values: Floats) -> Floats:
    """Return the standard error of each candidate's partial covariance if keys, not rows, are the random sample.

    A key's rows share the candidate's value, so only keys count as independent: cluster-robust, each key's part over
    one minus its leverage (of kind CR3), so that few keys are not treated as many.
    """
    rows, means = table.rows, table.means
    own = table.covariance[:-1, :-1]
    beta = np.linalg.solve(own, table.covariance[:-1, -1]) if len(own) else np.zeros(0)
    centred = table.sums - table.counts[:, None] * means
    residual = centred[:, -1] - centred[:, :-1] @ beta
    share = table.counts / rows
    z = values - (values @ share)[:, None]
    if len(own):
        slopes = np.linalg.solve(own, (z @ centred[:, :-1] / rows).T).T
        # A key's mean features represent its rows'.
        z = z - slopes @ (centred[:, :-1] / np.maximum(table.counts, 1)[:, None]).T
    weight = np.maximum((z**2) @ share, _LEAST)
    slope = (z @ residual / rows) / weight
    leverage = z**2 * share / weight[:, None]
    left = z * (residual - slope[:, None] * z * table.counts) / np.maximum(1 - leverage, 0.05)
    return np.asarray(np.sqrt((left**2).sum(axis=1)) / rows)


def compute_wide_quantile(miss: float, freedom: int) -> float:
    """Return the x that Student's t with ``freedom`` degrees of freedom exceeds with probability ``miss``."""
    from scipy.special import stdtrit

    return -float(stdtrit(max(freedom, 1), miss))
