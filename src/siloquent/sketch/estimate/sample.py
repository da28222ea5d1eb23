"""Points drawn from the estimated density."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from siloquent.errors import RequestError
from siloquent.sketch.estimate.density import estimate_density
from siloquent.sketch.estimate.modes import _spread, compute_bandwidth_steps
from siloquent.sketch.estimate.points import compute_corners
from siloquent.sketch.sketch import Sketch
from siloquent.sketch.spec import Density, Sample, SampledPoints

Floats = NDArray[np.float64]
MAX_BY_WEIGHT = 8
"""The number of features up to which evenly spread proposals represent the density; beyond, chains explore it."""
PROPOSALS, MAX_PROPOSALS, CHAINS, BURN_IN, THIN = 64, 2**20, 64, 200, 4
_NOTES = (
    "what is below two standard errors is never drawn, so rare records are missing",
    "the drawn density is smoothed by the kernel",
)


def sample(sketch: Sketch, question: Sample) -> SampledPoints:
    """Draw ``count`` points, on the features' grids; equal seeds give equal points.

    Raises:
        RequestError: The sketch compares sets, or nothing is distinguishable from the noise.
    """
    low, high = compute_corners(sketch.plan)
    random = np.random.default_rng(question.seed)
    draw = _draw_by_weight if len(low) <= MAX_BY_WEIGHT else _draw_by_chains
    points = draw(sketch, question.count, low, high, random)
    grid = np.array([feature.grid for feature in sketch.plan.features])
    return SampledPoints(np.clip(low + np.rint((points - low) / grid) * grid, low, high), _NOTES)


def _compute_weights(sketch: Sketch, points: Floats) -> Floats:
    found = estimate_density(sketch, Density(points))
    return np.maximum(found.values - 2 * found.errors, 0)


def _draw_by_weight(sketch: Sketch, count: int, low: Floats, high: Floats, random: np.random.Generator) -> Floats:
    proposals = _spread(random, low, high, 2 ** math.ceil(math.log2(min(PROPOSALS * count, MAX_PROPOSALS))))
    weights = _compute_weights(sketch, proposals)
    if not weights.sum() > 0:
        raise RequestError("No value in this sketch exceeds the noise.", fix="build it with a larger budget")
    return proposals[random.choice(len(proposals), count, p=weights / weights.sum())]


def _draw_by_chains(sketch: Sketch, count: int, low: Floats, high: Floats, random: np.random.Generator) -> Floats:
    """Draw by Metropolis chains from the best of many starts; their points depend on each other."""
    starts = _spread(random, low, high, 2**14)
    weights = _compute_weights(sketch, starts)
    if not weights.max(initial=0) > 0:
        raise RequestError("No value in this sketch exceeds the noise.", fix="build it with a larger budget")
    at = starts[random.choice(len(starts), CHAINS, p=weights / weights.sum())]
    here, step = _compute_weights(sketch, at), compute_bandwidth_steps(sketch) / math.sqrt(len(low))
    kept: list[Floats] = []
    for turn in range(BURN_IN + THIN * math.ceil(count / CHAINS)):
        tried = at + random.standard_normal(at.shape) * step
        there = np.where(
            ((tried >= low) & (tried <= high)).all(axis=1), _compute_weights(sketch, np.clip(tried, low, high)), 0
        )
        moves = random.random(CHAINS) * np.maximum(here, 1e-300) < there
        at, here = np.where(moves[:, None], tried, at), np.where(moves, there, here)
        if turn >= BURN_IN and (turn - BURN_IN) % THIN == 0:
            kept.append(at.copy())
    return np.concatenate(kept)[:count]
