"""Points drawn from the estimated density."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from siloquent.errors import RequestError
from siloquent.sketch.estimate.density import density
from siloquent.sketch.estimate.modes import _spread, step_of
from siloquent.sketch.estimate.points import box
from siloquent.sketch.sketch import Sketch
from siloquent.sketch.spec import Density, Drawn, Sample

Floats = NDArray[np.float64]
MOST_BY_WEIGHT = 8
"""Features up to which evenly spread proposals reach the density; beyond, chains walk to it."""
PROPOSALS, MOST_PROPOSALS, CHAINS, BURN_IN, THIN = 64, 2**20, 64, 200, 4
_NOTES = (
    "what is below two standard errors is never drawn, so rare records are missing",
    "the drawn density is smoothed by the kernel",
)


def sample(sketch: Sketch, question: Sample) -> Drawn:
    """``count`` points, on the features' grids; equal seeds give equal points.

    Raises:
        RequestError: The sketch compares sets, or nothing stands out of the noise.
    """
    low, high = box(sketch.plan)
    random = np.random.default_rng(question.seed)
    draw = _by_weight if len(low) <= MOST_BY_WEIGHT else _by_chains
    points = draw(sketch, question.count, low, high, random)
    grid = np.array([feature.grid for feature in sketch.plan.features])
    return Drawn(np.clip(low + np.rint((points - low) / grid) * grid, low, high), _NOTES)


def _weights(sketch: Sketch, points: Floats) -> Floats:
    found = density(sketch, Density(points))
    return np.maximum(found.values - 2 * found.errors, 0)


def _by_weight(sketch: Sketch, count: int, low: Floats, high: Floats, random: np.random.Generator) -> Floats:
    proposals = _spread(random, low, high, 2 ** math.ceil(math.log2(min(PROPOSALS * count, MOST_PROPOSALS))))
    weights = _weights(sketch, proposals)
    if not weights.sum() > 0:
        raise RequestError("Nothing in this sketch stands out of its noise.", fix="build it with a larger budget")
    return proposals[random.choice(len(proposals), count, p=weights / weights.sum())]


def _by_chains(sketch: Sketch, count: int, low: Floats, high: Floats, random: np.random.Generator) -> Floats:
    """Metropolis chains from the best of many starts; their points depend on each other."""
    starts = _spread(random, low, high, 2**14)
    weights = _weights(sketch, starts)
    if not weights.max(initial=0) > 0:
        raise RequestError("Nothing in this sketch stands out of its noise.", fix="build it with a larger budget")
    at = starts[random.choice(len(starts), CHAINS, p=weights / weights.sum())]
    here, step = _weights(sketch, at), step_of(sketch) / math.sqrt(len(low))
    kept: list[Floats] = []
    for turn in range(BURN_IN + THIN * math.ceil(count / CHAINS)):
        tried = at + random.standard_normal(at.shape) * step
        there = np.where(((tried >= low) & (tried <= high)).all(axis=1), _weights(sketch, np.clip(tried, low, high)), 0)
        moves = random.random(CHAINS) * np.maximum(here, 1e-300) < there
        at, here = np.where(moves[:, None], tried, at), np.where(moves, there, here)
        if turn >= BURN_IN and (turn - BURN_IN) % THIN == 0:
            kept.append(at.copy())
    return np.concatenate(kept)[:count]
