"""How often promises break in sessions whose answers draw from each other, all noise drawn anew; and on purpose."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray

from benchmarks.trials.sessions import BETA, Walk, kept, place_of, receipt_of
from siloquent.explore.plan.mechanisms.reconstruction import compute_reconstructions
from siloquent.explore.plan.reuse.evidence import gather
from siloquent.explore.plan.reuse.linear_measurements import LinearMeasurement, compute_laplace_deviation
from siloquent.explore.plan.reuse.plans import ReusedMechanism
from siloquent.maths.tails.distributions import normal_quantile
from siloquent.maths.tails.simultaneous import (
    compute_chi_square_radius,
    compute_normal_radius,
    compute_number_log_share,
    compute_set_log_share,
)
from siloquent.privacy import DiscreteGaussian, DiscreteLaplace, Event
from siloquent.privacy.noise import add_gaussian, add_laplace

BATCH = 10_000


def misses(walk: Walk, sessions: int) -> list[int]:
    """In how many of ``sessions`` sessions each question's promise breaks, all noise drawn anew by the real samplers.

    Answers are the plans' own weights times noise, so rows do not matter.
    """
    count = [0] * len(walk.plans)
    for start in range(0, sessions, BATCH):
        now = min(BATCH, sessions - start)
        noise = np.zeros((now, 0))
        for place, (found, weights) in enumerate(zip(walk.plans, _weights(walk), strict=True)):
            noise = np.hstack([noise, _drawn(found.event, weights.shape[1] - noise.shape[1], now)])
            beyond = np.abs(noise @ weights.T) > float(found.alpha)
            count[place] += int(beyond.any(axis=1).sum())
    return count


@cache
def _weights(walk: Walk) -> tuple[NDArray[np.float64], ...]:
    """For each question its answers' weights on all noises drawn so far and its own, in their own units."""
    found: list[NDArray[np.float64]] = []
    past: list[LinearMeasurement] = []
    sizes: list[float] = []  # of every noise, in its own units
    for place, one in enumerate(walk.plans):
        chosen = one.chosen
        blend = chosen.blend if isinstance(chosen, ReusedMechanism) else None
        if blend is not None:
            evidence = gather(one.compiled, one.schema, past)
            rows = np.zeros((0, evidence.known.shape[1]))
            if blend.added is not None:
                rows = evidence.express_asked(blend.added.matrices) / blend.deviation
            whole = evidence.find_weights(rows)
            assert whole is not None
            weights = np.zeros((len(whole), len(sizes) + len(rows)))
            # What the past holds instead of a value is the noise's place.
            known = len(evidence.known)
            places = np.rint(evidence.values * np.array([_deviation(walk, source) for source in evidence.sources]))
            np.add.at(weights.T, places.astype(np.int64), whole[:, :known].T)
            weights[:, len(sizes) :] = whole[:, known:]
            weights /= np.array([*sizes, *[blend.deviation] * len(rows)])
        elif isinstance(chosen, ReusedMechanism) and chosen.repeated is not None:
            before = found[place_of(chosen.repeated.source)]
            weights = np.hstack([before, np.zeros((len(before), len(sizes) - before.shape[1]))])
        else:
            backs = (
                compute_reconstructions(one.compiled, tuple(np.asarray(matrix) for matrix in chosen.strategy))
                if chosen.strategy
                else (np.eye(one.compiled.answers),)
            )
            assert backs is not None
            new = np.hstack(backs)
            weights = np.hstack([np.zeros((len(new), len(sizes))), new])
        found.append(weights)
        drawn = weights.shape[1] - len(sizes)
        if drawn:
            past.append(kept(one, receipt_of(place), len(sizes)))
            sizes += [_deviation(walk, receipt_of(place))] * drawn
    return tuple(found)


def _deviation(walk: Walk, receipt: int) -> float:
    event = walk.plans[place_of(receipt)].event
    assert isinstance(event, DiscreteGaussian | DiscreteLaplace)
    return (
        math.sqrt(event.variance)
        if isinstance(event, DiscreteGaussian)
        else compute_laplace_deviation(float(event.scale))
    )


def _drawn(event: Event, noises: int, sessions: int) -> NDArray[np.float64]:
    zeros = np.zeros(noises * sessions, dtype=np.int64)
    if not noises:
        return np.zeros((sessions, 0))
    if isinstance(event, DiscreteGaussian):
        return add_gaussian(zeros, variance=event.variance).reshape(sessions, noises).astype(np.float64)
    assert isinstance(event, DiscreteLaplace)
    return add_laplace(zeros, scale=event.scale).reshape(sessions, noises).astype(np.float64)


def adversary(runs: int, *, cells: int = 100, seed: int = 0) -> tuple[float, float]:
    """Who knows the truth asks for all cells whose noise is positive: how often that breaks each kind of bound.

    Returns:
        The shares of runs in which the ``independent`` and the ``simultaneous`` bound of that one sum is broken.
    """
    noise = np.random.default_rng(seed).standard_normal((runs, cells))
    error = np.where(noise > 0, noise, 0).sum(axis=1)
    deviation = np.sqrt((noise > 0).sum(axis=1))
    independent = normal_quantile(BETA / 2) * deviation
    shares = np.array([compute_set_log_share(one) for one in noise > 0])
    own = math.log(BETA) + compute_number_log_share(receipt_of(0))
    simultaneous = np.minimum(
        compute_normal_radius(deviation, own + math.log(7 / 8) + shares),
        compute_chi_square_radius(deviation, cells, own + math.log(1 / 8)),
    )
    return float((error > independent).mean()), float((error > simultaneous).mean())


def scanner(runs: int, *, cells: int = 100, seed: int = 0) -> tuple[int, int]:
    """Who knows the truth asks for the run of cells whose noise is furthest off: in how many runs that breaks a bound.

    Returns:
        For the ``independent`` and for the ``simultaneous`` bound, each attacked where it is weakest.
    """
    lengths = np.arange(1, cells + 1)
    share = np.array(
        [
            [
                compute_set_log_share((low <= lengths - 1) & (lengths - 1 < low + n)) if low + n <= cells else 0.0
                for n in lengths
            ]
            for low in range(cells)
        ]
    )
    radius = compute_normal_radius(
        np.sqrt(lengths), share + math.log(BETA * 7 / 8) + compute_number_log_share(receipt_of(0))
    )
    rng, weak, strong = np.random.default_rng(seed), 0, 0
    for _ in range(runs):
        sums = np.concatenate([[0.0], np.cumsum(rng.standard_normal(cells))])
        error = np.abs(np.array([np.append(sums[low + 1 :] - sums[low], np.zeros(low)) for low in range(cells)]))
        weak += bool((error > normal_quantile(BETA / 2) * np.sqrt(lengths)).any())
        strong += bool((error > radius).any())
    return weak, strong
