"""Tails of weighted sums of Laplace noise, and of the maximum of several such sums.

A reconstructed answer carries the noise sum_i r_i X_i. Its tail is bounded from above by a tilted Fourier series, for
every row of a reconstruction at once. Derivation and error bound: docs/explanation/calibration.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]
Complexes = NDArray[np.complex128]

_STEEPEST = 0.6  # tilts stay below this share of the pole 1/max r, so that the series' aliases stay below e^-20
_TERMS = (32, 128, 512, 2_048, 8_192)
_CLOSE = 1e-6  # the truncated terms may raise the bound by this share


@dataclass(frozen=True, slots=True)
class TailSeries:
    """Upper bounds on P[sum_i r_i X_i > x], X_i independent Laplace(1), for many rows r at once.

    They are tight near the x that the series was built for, and valid everywhere.
    """

    tilt: Reals
    log_size: Reals
    frequency: Reals
    terms: tuple[tuple[NDArray[np.int64], Complexes], ...]
    remainder: Reals

    def __call__(self, x: float) -> Reals:
        """Return the bounds, shape (rows,)."""
        series = 1.0 + self.remainder
        for rows, terms in self.terms:
            waves = np.exp(-1j * x * self.frequency[rows, None] * np.arange(1, terms.shape[1] + 1))
            series[rows] += 2.0 * np.einsum("rj,rj->r", terms, waves).real
        bound: Reals = np.exp(self.log_size - self.tilt * x) * series
        return bound


def choose_tilts(weights: Reals, x: float, *, steepest: float = _STEEPEST) -> Reals:
    """Return, for every row, the tilt that bounds P[sum > x] best: where the derivative of log E exp(t sum) is x.

    It is at most the share ``steepest`` of the pole at 1/max abs(r).
    """
    squares = weights * weights
    low = np.zeros(len(weights))
    high = steepest / np.sqrt(squares.max(axis=1))
    for _ in range(40):
        middle = (low + high) / 2
        t2 = (middle * middle)[:, None]
        slope = 2 * middle * (squares / (1 - squares * t2)).sum(axis=1)
        low, high = np.where(slope < x, middle, low), np.where(slope < x, high, middle)
    return np.asarray(high)


def compute_log_moment(weights: Reals, tilt: Reals) -> Reals:
    """Return log E exp(tilt sum_i r_i X_i) for every row."""
    return np.asarray(-np.log1p(-((weights * tilt[:, None]) ** 2)).sum(axis=1))


def build_tail_series(weights: Reals, x: float, *, level: float) -> TailSeries:
    """Return the series for rows ``weights``, shape (rows, noises), tilted for values near ``x``.

    Args:
        weights: No row may be zero.
        x: The value at which the bounds will be read.
        level: The size of the tails of interest, for which the period is chosen.
    """
    size = -np.sort(-np.abs(weights), axis=1)
    tilt = choose_tilts(size, x)
    period = (math.log(1 / level) + 16.0) / tilt
    frequency = 2 * math.pi / period
    base = compute_log_moment(size, tilt)
    remainder = np.empty(len(size))
    pending = np.arange(len(size), dtype=np.int64)
    parts = []
    for count in _TERMS:
        z = tilt[pending, None] + 1j * frequency[pending, None] * np.arange(1, count + 1)
        terms = np.exp(_compute_log_terms(size[pending], z) - (base[pending] - np.log(tilt[pending]))[:, None])
        rest = _bound_remainder(size[pending], z[:, -1], np.abs(terms[:, -1]) * frequency[pending] ** -1)
        done = (rest <= _CLOSE) | (count == _TERMS[-1])
        parts.append((pending[done], terms[done]))
        remainder[pending[done]] = rest[done]
        pending = pending[~done]
        if not len(pending):
            break
    return TailSeries(tilt, base - np.log(tilt * period), frequency, tuple(parts), remainder)


@dataclass(frozen=True, slots=True)
class UnionTails:
    """The tails of all rows of a reconstruction, for a total miss probability of about ``beta``.

    Attributes:
        series: The series of the distinct rows.
        place: The index of each row among the distinct ones.
        sides: 2 if sums below -x count too, otherwise 1.
        quantile: The x at which all tails sum to ``beta``: an upper bound on the quantile of the maximum.
    """

    series: TailSeries
    place: NDArray[np.int64]
    sides: int
    quantile: float

    def __call__(self, x: float) -> Reals:
        """Return upper bounds on the probability that each row's sum is beyond x, shape (rows,)."""
        tails: Reals = self.sides * self.series(x)[self.place]
        return tails

    def solve(self, total: float) -> float:
        """Return the x at which all tails sum to ``total``, slightly to the safe side."""
        return _solve(self, total, self.quantile)


def build_union_tails(weights: Reals, beta: float, *, two_sided: bool) -> UnionTails:
    """Return the tails of the rows r of ``weights``, shape (rows, noises), none of them zero."""
    rows, place = _find_distinct(weights)
    sides = 2 if two_sided else 1
    level = beta / (sides * len(weights))
    x = float(np.sqrt(2 * (rows * rows).sum(axis=1)).max()) * math.sqrt(2 * math.log(1 / level))
    for _ in range(8):
        tails = UnionTails(build_tail_series(rows, x, level=level), place, sides, x)
        before, x = x, tails.solve(beta)
        if abs(x - before) <= 0.1 * x:
            break
    return UnionTails(tails.series, place, sides, x)


def _solve(tails: UnionTails, total: float, start: float) -> float:
    from scipy.optimize import brentq

    counts = np.bincount(tails.place).astype(np.float64) * tails.sides

    def excess(x: float) -> float:
        return math.log(max(float(counts @ tails.series(x)), 1e-300) / total)

    low = high = start
    while excess(low) <= 0:
        low /= 1.1
    while excess(high) >= 0:
        high *= 1.1
    return float(brentq(excess, low, high, rtol=1e-9)) * (1 + 1e-8)


def _find_distinct(weights: Reals) -> tuple[Reals, NDArray[np.int64]]:
    """Return rows that differ in more than order, sign and rounding, and each row's index in them. Weights only grow.

    A larger weight makes every tail of the sum larger, since the noises are symmetric and unimodal.
    """
    size = -np.sort(-np.abs(weights), axis=1)
    grid = size.max() * 1e-9
    # Simple fractions of the largest weight lie on the grid: the shift keeps their rounding errors on one side of it.
    steps = np.where(size > 0, np.ceil(size / grid + 0.37), 0.0)
    rows, place = np.unique(steps, axis=0, return_inverse=True)
    return rows[:, rows.any(axis=0)] * grid, place.reshape(-1).astype(np.int64)


def _compute_log_terms(size: Reals, z: Complexes) -> Complexes:
    """Return log of E exp(z sum) / z, shape (rows, terms)."""
    square = z * z
    total = -np.log(z)
    for start in range(0, size.shape[1], 16):  # one logarithm for 16 factors; their product stays far from overflow
        factor = np.ones_like(z)
        for weight in size[:, start : start + 16].T:
            factor *= 1.0 - (weight * weight)[:, None] * square
        total -= np.log(factor)
    return total


def _bound_remainder(size: Reals, last: Complexes, step: Reals) -> Reals:
    """Bound the terms beyond the last one, doubled, relative to the first.

    Beyond it, each of the n largest factors is at most 1/(r omega)^2 and the others no larger than at the last term.
    """
    omega = last.imag
    best = np.full(len(size), np.inf)
    ratio = np.ones(len(size))
    for place in range(min(8, size.shape[1])):
        square = size[:, place] ** 2
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            ratio = np.where(square > 0, ratio * np.abs(1 - square * last**2) / (square * omega**2), np.inf)
        best = np.minimum(best, ratio / (2 * (place + 1)))
    scale: Reals = 2.0 * best * step * np.abs(last)
    return scale
