"""Greedy selection: score all candidates, take the best, stop when the next gain is not certain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from siloquent.maths import normal_quantile
from siloquent.maths.models.partial_correlation import (
    MomentsByKey,
    compute_exact_gains,
    compute_gains,
    compute_robust_errors,
    compute_wide_quantile,
)
from siloquent.search.estimate.joins import CandidatePool, JoinCandidate
from siloquent.search.estimate.training import Training

Floats = NDArray[np.float64]
MAX_RANKED = 100
BETA = 0.05


@dataclass(frozen=True, slots=True, eq=False)
class ScoredCandidate:
    """A candidate in one round: R2 gained with its interval, and its values and errors by own cell.

    ``expected``: the gain shrunk to account for the noise; candidates are ranked by it.
    """

    candidate: JoinCandidate
    expected: float
    gain: float
    low: float
    high: float
    values: Floats
    variances: Floats


@dataclass(frozen=True, slots=True, eq=False)
class GreedyRound:
    """The best candidates of one round, best first, the number scored, and the one taken: the first certain one."""

    ranked: tuple[ScoredCandidate, ...]
    looked_at: int
    taken: ScoredCandidate | None


def rank_candidates(
    training: Training, pools: Sequence[CandidatePool], rng: np.random.Generator
) -> tuple[list[ScoredCandidate], int]:
    """Rank the best candidates over all keys, best first, with simultaneous intervals for all candidates."""
    total = sum(len(pool.candidates) for key, pool in enumerate(pools) if training.can_join(key))
    found: list[ScoredCandidate] = []
    for key, pool in enumerate(pools):
        if not pool.candidates or not training.can_join(key):
            continue
        table = training.compute_key_moments(key)
        # One key's value is subtracted, which changes no gain: a constant is then exactly 0, and rounding of
        # large values does not look like a gain. Without variance there is no gain.
        moved = pool.values - pool.values[:, [int(np.argmax(table.counts))]]
        # Single precision selects the candidates for closer inspection; their order is that of double precision.
        rough = compute_gains(table, moved.astype(np.float32), unsure=pool.unsure)
        best = np.argsort(-rough.compute_expected(), kind="stable")[:MAX_RANKED]
        found += _add_intervals(training, key, table, pool, moved[best], best, rough.spread, total, rng)
    return sorted(found, key=lambda one: (-one.expected, -one.gain))[:MAX_RANKED], total


def _add_intervals(
    training: Training,
    key: int,
    table: MomentsByKey,
    pool: CandidatePool,
    values: Floats,
    best: NDArray[np.int64],
    spread: float,
    total: int,
    rng: np.random.Generator,
) -> list[ScoredCandidate]:
    unsure = np.broadcast_to(np.asarray(pool.unsure), len(pool.values))[best]
    exact = compute_exact_gains(table, values, unsure=unsure)
    expected = exact.compute_expected(spread)
    r = np.sign(exact.slopes) * np.sqrt(exact.gains)
    # The partial correlation is the partial covariance over this length, which noise and sampling hardly change.
    length = np.abs(exact.gains / np.where(exact.slopes == 0, 1, exact.slopes)) / np.maximum(np.abs(r), 1e-9)
    length = np.where(np.abs(r) > 1e-9, length, 1.0)
    whole = max(float(table.covariance[-1, -1]), 1e-9)
    errors = compute_robust_errors(table, values) / np.maximum(length * whole, 1e-9)
    cells, used = int((table.counts > 0).sum()), table.sums.shape[1]
    sampling = compute_wide_quantile(BETA / 2 / max(total, 1), cells - used) * errors
    noise = np.zeros(len(best))
    drawn = [compute_exact_gains(moved, values) for moved in training.draw_moments(key, rng)]
    if drawn:
        moved = np.stack([np.sign(one.slopes) * np.sqrt(one.gains) for one in drawn])
        noise = normal_quantile(BETA / 2 / max(total, 1)) * moved.std(axis=0, ddof=1)
    half = np.sqrt(sampling**2 + noise**2)
    near, far = np.maximum(np.abs(r) - half, 0), np.minimum(np.abs(r) + half, 1)
    return [
        ScoredCandidate(
            candidate=pool.candidates[i],
            expected=float(expected[n]),
            gain=float(exact.gains[n]),
            low=float(near[n] ** 2),
            high=float(far[n] ** 2),
            values=pool.values[i],
            variances=pool.variances[i],
        )
        for n, i in enumerate(best)
    ]


def select_greedily(
    training: Training, pools: Sequence[CandidatePool], *, most: int, least_gain: float, rng: np.random.Generator
) -> tuple[list[GreedyRound], Training]:
    """Run rounds until ``most`` were taken, or the best gains less than ``least_gain``, or possibly nothing.

    Returns:
        The rounds, of which only the last may have taken nothing, and the table with the taken features.
    """
    rounds: list[GreedyRound] = []
    while len(rounds) < most:
        ranked, looked_at = rank_candidates(training, pools, rng)
        before = [earlier.taken.candidate for earlier in rounds if earlier.taken is not None]
        ranked = [one for one in ranked if one.candidate not in before]
        # Intervals hold for all candidates simultaneously, so any certain one may be taken.
        taken = next((one for one in ranked if one.gain >= least_gain and one.low > 0), None)
        rounds.append(GreedyRound(tuple(ranked), looked_at, taken))
        if taken is None:
            break
        training = training.add_feature(taken.candidate.own, taken.values)
    return rounds, training
