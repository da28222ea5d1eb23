"""Exact laws, and the tests that compare draws with them at a false alarm of 1e-9 each."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from siloquent.privacy.noise.selection import Rule

FALSE_ALARM = 1e-9
CELLS = 200
MIN_EXPECTED = 50.0

Draws = NDArray[np.int64]


@dataclass(frozen=True)
class Law:
    """A law on whole numbers: ``below(y)`` = P[Y < y], and a range outside of which lies less than 1e-12."""

    below: Callable[[Draws], NDArray[np.float64]]
    low: int
    high: int


def laplace(scale: Fraction) -> Law:
    """P[Y = y] ~ exp(-|y| / scale)."""
    b = float(scale)
    p = np.exp(-1 / b)

    def below(y: Draws) -> NDArray[np.float64]:
        # P[Y >= y] = p^y / (1 + p) for y >= 1; P[Y < y] = p^(1 - y) / (1 + p) for y <= 0.
        return np.where(
            y >= 1, 1 - np.exp(-np.maximum(y, 1) / b) / (1 + p), np.exp((np.minimum(y, 0) - 1) / b) / (1 + p)
        )

    reach = int(30 * b) + 2
    return Law(below, -reach, reach)


def geometric(scale: Fraction) -> Law:
    """P[Y >= y] = exp(-y / scale)."""
    b = float(scale)
    return Law(lambda y: -np.expm1(-np.maximum(y, 0) / b), 0, int(30 * b) + 2)


def gaussian(variance: Fraction) -> Law:
    """P[Y = y] ~ exp(-y^2 / (2 variance)), summed term by term."""
    reach = int(9 * float(variance) ** 0.5) + 3
    values = np.arange(-reach, reach + 1)
    weights = np.exp(-(values.astype(float) ** 2) / (2 * float(variance)))
    running = np.concatenate([[0.0], np.cumsum(weights / weights.sum())])
    return Law(lambda y: running[np.clip(y + reach, 0, len(running) - 1)], -reach, reach)


def selection_chances(rule: Rule, utilities: tuple[int, ...], rate: Fraction) -> list[float]:
    """The exact chance of each candidate, for permute-and-flip over all orders of refusal."""
    accept = [math.exp(-rate * (max(utilities) - u)) for u in utilities]
    if rule == "exponential":
        return [weight / sum(accept) for weight in accept]

    @cache
    def among(left: frozenset[int]) -> tuple[float, ...]:
        """Chances when the candidates ``left`` have not been refused yet."""
        total = [0.0] * len(utilities)
        for i in left:
            total[i] += accept[i] / len(left)
            if accept[i] < 1:
                for j, chance in enumerate(among(left - {i})):
                    total[j] += (1 - accept[i]) * chance / len(left)
        return tuple(total)

    return list(among(frozenset(range(len(utilities)))))


def assert_law(draws: Draws, law: Law) -> None:
    """Chi-square of ``draws`` against ``law``, on some 200 cells of equal chance."""
    edges = _edges(law, draws.size)
    chances = np.diff(np.concatenate([[0.0], law.below(edges), [1.0]]))
    found = np.bincount(np.searchsorted(edges, draws, side="right"), minlength=len(chances))
    assert_chances(found, chances)


def assert_chances(found: Sequence[int] | Draws, chances: Sequence[float] | NDArray[np.float64]) -> None:
    """Chi-square of counts against the exact chances of their cells; cells too rare to test are put together."""
    seen, chance = np.asarray(found, dtype=float), np.asarray(chances, dtype=float)
    expected = chance / chance.sum() * seen.sum()
    rare = expected < MIN_EXPECTED
    if expected[rare].sum() >= 1:
        expected, seen = np.append(expected[~rare], expected[rare].sum()), np.append(seen[~rare], seen[rare].sum())
    else:
        assert seen[rare].sum() <= stats.poisson.isf(FALSE_ALARM, max(expected[rare].sum(), 1e-9)), "impossible values"
        expected, seen = expected[~rare], seen[~rare]
    statistic = float(((seen - expected) ** 2 / expected).sum())
    limit = float(stats.chi2.isf(FALSE_ALARM, len(expected) - 1)) if len(expected) > 1 else 1e-6
    assert statistic <= limit, (
        f"chi-square {statistic:.0f} over {len(expected)} cells; the right law gives <= {limit:.0f}"
    )


def assert_same_law(one: Draws, other: Draws, law: Law) -> None:
    """Two-sample chi-square on the cells of ``law``."""
    edges = _edges(law, min(one.size, other.size))
    table = np.array(
        [np.bincount(np.searchsorted(edges, side, side="right"), minlength=len(edges) + 1) for side in (one, other)]
    )
    table = table[:, table.sum(axis=0) > 0]
    statistic, _, freedom, _ = stats.chi2_contingency(table, correction=False)
    limit = stats.chi2.isf(FALSE_ALARM, freedom)
    assert statistic <= limit, f"chi-square {statistic:.0f} between two samples; equal laws give <= {limit:.0f}"


def assert_rate(hits: int, trials: int, rate: float) -> None:
    """Two-sided binomial test."""
    low, high = stats.binom.ppf(FALSE_ALARM / 2, trials, rate), stats.binom.isf(FALSE_ALARM / 2, trials, rate)
    assert low <= hits <= high, f"{hits} hits in {trials}; a true rate of {rate} gives {low:.0f} to {high:.0f}"


def _edges(law: Law, size: int) -> Draws:
    """Whole cut points that make at most 200 cells of about equal chance, and at least 50 expected draws in each."""
    cells = int(min(CELLS, size / (2 * MIN_EXPECTED)))
    wanted = np.arange(1, cells) / cells
    low, high = np.full(wanted.shape, law.low), np.full(wanted.shape, law.high)
    while (high - low > 1).any():  # bisection for all cut points at once
        middle = (low + high) // 2
        inside = law.below(middle) <= wanted
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    return np.unique(np.concatenate([low, high]))
