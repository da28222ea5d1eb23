"""What one more number would add to a linear model: from moments by key, for many candidates at once.

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


@dataclass(frozen=True, slots=True, eq=False)
class ByKey:
    """Of a table with p numbers, the target last: counts (keys,), sums (keys, p), mean products (p, p) over all rows.

    ``covariance`` is of the same rows, positive semi-definite with its ridge on the features.
    """

    counts: Floats
    sums: Floats
    covariance: Floats

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
    """For each candidate: R2 gained, the partial correlation's sign in ``slopes``, shape (candidates,)."""

    gains: NDArray[Any]
    slopes: NDArray[Any]


def gains_of(table: ByKey, values: Candidates, squares: Candidates | None = None) -> Gains:
    """The share of the target's variance that each candidate would explain besides the features.

    Args:
        values: One value a key, shape (candidates, keys).
        squares: Their squares, where they are kept; else made here.
    """
    rows = table.rows
    one = np.column_stack([table.counts, table.sums]) / rows
    first = values @ one.astype(np.float32)
    second = (values * values if squares is None else squares) @ one[:, 0].astype(np.float32)
    return _schur(table, first, second)


def exact_gains_of(table: ByKey, values: Floats) -> Gains:
    """As ``gains_of`` in double precision, for the few that are left."""
    one = np.column_stack([table.counts, table.sums]) / table.rows
    return _schur(table, values @ one, values**2 @ one[:, 0])


def _schur(table: ByKey, first: NDArray[Any], second: NDArray[Any]) -> Gains:
    """From mean values, mean products with the table's numbers, and mean squares, in the precision they come in."""
    kind, total = first.dtype, first[:, 0]
    cross = first[:, 1:] - total[:, None] * table.means.astype(kind)
    features, target = cross[:, :-1], cross[:, -1]
    variance = np.maximum(second - total**2, 0)
    inverse = np.linalg.inv(table.covariance[:-1, :-1])
    left = target - features @ (inverse @ table.covariance[:-1, -1]).astype(kind)
    rest = variance - np.einsum("cf,cf->c", features @ inverse.astype(kind), features)
    rest = np.maximum(rest, kind.type(_LEAST) * np.maximum(variance, kind.type(_LEAST)))
    slopes = left / rest
    whole = max(float(table.covariance[-1, -1]), _LEAST)
    # A candidate whose noise outweighs it can only be useless: its gain is nothing, and never more than all.
    gains = np.clip(left * slopes / kind.type(whole), 0, 1) * (variance > _LEAST)
    return Gains(gains, slopes)


def robust_errors(table: ByKey, values: Floats) -> Floats:
    """The standard error of each candidate's partial covariance where keys, not rows, are what was drawn at random.

    A key's rows share the candidate's value, so only keys count as independent: cluster-robust, each key's part over
    one less its leverage (of kind CR3), so that few keys are not taken for many.
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
        # A key's mean features stand for its rows'.
        z = z - slopes @ (centred[:, :-1] / np.maximum(table.counts, 1)[:, None]).T
    weight = np.maximum((z**2) @ share, _LEAST)
    slope = (z @ residual / rows) / weight
    leverage = z**2 * share / weight[:, None]
    left = z * (residual - slope[:, None] * z * table.counts) / np.maximum(1 - leverage, 0.05)
    return np.asarray(np.sqrt((left**2).sum(axis=1)) / rows)


def wide_quantile(miss: float, freedom: int) -> float:
    """The x that Student's t of so many degrees of freedom passes with probability ``miss``."""
    from scipy.special import stdtrit

    return -float(stdtrit(max(freedom, 1), miss))
