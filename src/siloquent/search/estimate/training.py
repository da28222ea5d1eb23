"""The request's data: its own rows exactly, or its own release; both give moments by key and can be augmented."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from siloquent.maths.models.moments import Moments
from siloquent.maths.models.partial_correlation import MomentsByKey
from siloquent.maths.models.ridge import choose_ridge, clip_eigenvalues, estimate_covariance_matrix, solve_slopes
from siloquent.maths.models.shrinkage import estimate_counts

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
_LEAST = 1e-9
DRAWS = 200


class LineLike(Protocol):
    """A linear model of numbers in -1 to 1."""

    @property
    def values(self) -> Floats:
        """The slopes."""
        ...

    @property
    def intercept(self) -> float:
        """The constant."""
        ...


class Training(Protocol):
    """The interface of a request's table for greedy search: numbers in units of -1 to 1, the target last."""

    def compute_key_moments(self, key: int) -> MomentsByKey:
        """Compute the table's moments by one key."""
        ...

    def add_feature(self, key: int, values: Floats) -> Training:
        """Return the table with one more feature, before the target, with one value per cell of ``key``."""
        ...

    def can_join(self, key: int) -> bool:
        """Return whether a feature by ``key`` can be added to those already added."""
        ...

    def draw_moments(self, key: int, rng: np.random.Generator) -> list[MomentsByKey]:
        """Draw the moments with other noise; empty where there is no noise."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class LocalRows:
    """A table's own rows: ``numbers`` (rows, p), the target last; ``cells`` (rows,) and ``sizes`` of each key."""

    numbers: Floats
    cells: tuple[Integers, ...]
    sizes: tuple[int, ...]

    def compute_key_moments(self, key: int) -> MomentsByKey:
        """Compute exact moments."""
        cell, size = self.cells[key], self.sizes[key]
        sums = np.stack([np.bincount(cell, weights=column, minlength=size) for column in self.numbers.T], axis=1)
        counts = np.bincount(cell, minlength=size)
        return MomentsByKey(counts.astype(np.float64), sums.astype(np.float64), self.compute_covariance())

    def compute_covariance(self) -> Floats:
        """Compute the rows' covariance, with a ridge against collinear features."""
        centred = self.numbers - self.numbers.mean(axis=0)
        found = centred.T @ centred / max(len(centred), 1)
        found[np.diag_indices(len(found) - 1)] += _LEAST
        return np.asarray(found)

    def add_feature(self, key: int, values: Floats) -> LocalRows:
        """Return the rows with the feature looked up."""
        column = values[self.cells[key]][:, None]
        return replace(self, numbers=np.hstack([self.numbers[:, :-1], column, self.numbers[:, -1:]]))

    def can_join(self, key: int) -> bool:
        """Return True: every row has all its keys."""
        del key
        return True

    def draw_moments(self, key: int, rng: np.random.Generator) -> list[MomentsByKey]:
        """Return an empty list: own rows have no noise."""
        del key, rng
        return []

    def split(self, share: float, rng: np.random.Generator) -> tuple[LocalRows, LocalRows]:
        """Split the rows into training rows, and ``share`` of all rows for testing."""
        order = rng.permutation(len(self.numbers))
        cut = round(share * len(order))
        test, train = order[:cut], order[cut:]
        return self._select_rows(train), self._select_rows(test)

    def _select_rows(self, chosen: Integers) -> LocalRows:
        return replace(self, numbers=self.numbers[chosen], cells=tuple(cell[chosen] for cell in self.cells))

    def fit_slopes(self) -> tuple[Floats, float]:
        """Fit the linear model's slopes and intercept."""
        slopes = solve_slopes(self.compute_covariance(), 0.0)
        means = self.numbers.mean(axis=0)
        return slopes, float(means[-1] - means[:-1] @ slopes)

    def compute_r2(self, slopes: Floats, intercept: float) -> float:
        """Compute the share of the variance of these rows' target that a model explains."""
        target = self.numbers[:, -1]
        left = target - self.numbers[:, :-1] @ slopes - intercept
        whole = float(((target - target.mean()) ** 2).sum())
        return 1 - float((left**2).sum()) / whole if whole > 0 else 0.0

    def compute_improvement(self, before: LineLike, after: LineLike) -> tuple[float, float]:
        """Compute the growth of R2 on these rows from one model to the other, and its standard error."""
        target = self.numbers[:, -1]
        errors = [
            (target - self.numbers[:, :-1] @ line.values - line.intercept) ** 2 / max(float(target.var()), 1e-12)
            for line in (before, after)
        ]
        gained = errors[0] - errors[1]
        return float(gained.mean()), float(gained.std(ddof=1) / np.sqrt(len(gained)))


@dataclass(frozen=True, slots=True, eq=False)
class ReleasedSums:
    """A table's own release: noisy counts and sums of each key, products over all rows, and the noise's deviations.

    ``joined``: the key of the added features, None before the first. A key without sums in a united table is None.
    ``by_key_noise``: deviations of counts and sums of each key, where they differ from ``deviations``.
    """

    counts: tuple[Floats | None, ...]
    sums: tuple[Floats | None, ...]
    second: Floats
    deviations: tuple[float, float, float]
    is_halved: bool
    joined: int | None = None
    added: tuple[Floats, ...] = ()
    by_key_noise: tuple[tuple[float, float], ...] = ()

    @property
    def first_key(self) -> int:
        """The key of the added features, or any that all tables have."""
        return self.joined if self.joined is not None else next(i for i, c in enumerate(self.counts) if c is not None)

    def compute_key_moments(self, key: int) -> MomentsByKey:
        """Compute moments with noise: negative eigenvalues of the covariance are cut, the ridge equals the noise."""
        return self._complete_moments(key, *self._select_key(key), self.second)

    def _select_key(self, key: int) -> tuple[Floats, Floats]:
        counts, sums = self.counts[key], self.sums[key]
        assert counts is not None
        assert sums is not None
        return counts, sums

    def _get_noise(self, key: int) -> tuple[float, float]:
        return self.by_key_noise[key] if self.by_key_noise else self.deviations[:2]

    def _complete_moments(self, key: int, counts: Floats, sums: Floats, second: Floats) -> MomentsByKey:
        """Return the moments with the added features, whose products follow from sums by key."""
        own = sums.shape[1]
        rows = max(float(counts.sum()), 1.0)
        zero, first = self._get_noise(key)
        likely, unsure = estimate_counts(counts, zero**2)
        covariance = estimate_covariance_matrix(Moments(rows, sums.sum(axis=0), second))
        ridge = choose_ridge(max(own - 1, 1), self.deviations[2], rows)
        covariance[np.diag_indices(own - 1)] += ridge
        for values in self.added:
            mean, means = float(values @ likely) / rows, sums.sum(axis=0) / rows
            cross = sums.T @ values / rows - mean * means
            variance = max(float(values**2 @ likely) / rows - mean**2, _LEAST)
            covariance = _extend_matrix(covariance, cross, variance)
            sums = np.insert(sums, -1, values * likely, axis=1)
        if self.added:
            covariance = clip_eigenvalues(covariance)
            covariance[np.diag_indices(len(covariance) - 1)] += _LEAST
        return MomentsByKey(likely, sums, covariance, (unsure, first**2))

    def add_feature(self, key: int, values: Floats) -> ReleasedSums:
        """Return the release with a feature that is a function of ``key``."""
        return replace(self, joined=key, added=(*self.added, values))

    def can_join(self, key: int) -> bool:
        """Return whether ``key`` is the added features' key: others need counts by pairs of keys."""
        return self.joined in (None, key) and self.counts[key] is not None

    def unite(self, other: ReleasedSums) -> ReleasedSums:
        """Return the rows of both tables, before features are added: keys that one of them lacks are dropped."""
        pairs = zip(self.counts, other.counts, self.sums, other.sums, strict=True)
        both = [(None, None) if a is None or b is None else (a + b, s + t) for a, b, s, t in pairs]  # type: ignore[operator]
        keys = range(len(self.counts))
        zero, first, second = (float(np.hypot(a, b)) for a, b in zip(self.deviations, other.deviations, strict=True))
        return replace(
            self,
            counts=tuple(counts for counts, _ in both),
            sums=tuple(sums for _, sums in both),
            second=self.second + other.second,
            deviations=(zero, first, second),
            is_halved=(self.is_halved or not self.deviations[2]) and (other.is_halved or not other.deviations[2]),
            by_key_noise=tuple(
                (float(np.hypot(a[0], b[0])), float(np.hypot(a[1], b[1])))
                for a, b in ((self._get_noise(key), other._get_noise(key)) for key in keys)
            ),
        )

    def draw_moments(self, key: int, rng: np.random.Generator) -> list[MomentsByKey]:
        """Draw the moments with more noise of the same distribution, to measure how far noise moved them."""
        second, (zero, first) = self.deviations[2], self._get_noise(key)
        if not second and not first:
            return []
        counts, sums = self._select_key(key)
        p = sums.shape[1]
        return [
            self._complete_moments(
                key,
                counts + rng.normal(0, zero, counts.shape),
                sums + rng.normal(0, first, sums.shape),
                self.second + draw_symmetric_noise(rng, p, second, is_halved=self.is_halved),
            )
            for _ in range(DRAWS)
        ]


def _extend_matrix(covariance: Floats, cross: Floats, variance: float) -> Floats:
    """Extend a covariance matrix by one number before the last, with these covariances to the others."""
    p = len(covariance)
    order = [*range(p - 1), p, p - 1]
    whole = np.block([[covariance, cross[:, None]], [cross[None, :], np.array([[variance]])]])
    return np.asarray(whole[np.ix_(order, order)])


def draw_symmetric_noise(rng: np.random.Generator, p: int, deviation: float, *, is_halved: bool) -> Floats:
    """Draw a symmetric noise matrix, like that of an offer's second moments."""
    drawn = rng.normal(0, deviation, (p, p))
    off = np.triu(drawn, 1) / (np.sqrt(2) if is_halved else 1)
    return np.asarray(off + off.T + np.diag(np.diag(drawn)))
