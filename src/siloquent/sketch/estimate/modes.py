"""Peaks of the density: climbed on one half of the rows, measured on the other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from siloquent.maths.lsh import Angular, Hamming, Jaccard, Kernel, Laplacian, Power, Product, PStable, Surrogate
from siloquent.sketch.estimate.density import density
from siloquent.sketch.estimate.points import box, half
from siloquent.sketch.sketch import Sketch
from siloquent.sketch.spec import Density, Modes, Peaks

Floats = NDArray[np.float64]
STARTS, PROPOSALS, CHILDREN, HALVINGS, STEPS = 64, 4_096, 8, 5, 12


def modes(sketch: Sketch, question: Modes) -> Peaks:
    """The highest peaks, at least a bandwidth apart, highest first; heights from rows that did not choose them.

    A maximum over noisy values is too high; rows that had no part in the choice are not.

    Raises:
        RequestError: The sketch compares sets.
    """
    low, high = box(sketch.plan)
    random = np.random.default_rng(question.seed)
    climbing = half(sketch, odd=False)
    reach = step_of(sketch)
    starts = _spread(random, low, high, PROPOSALS)
    # Starts lie apart: else all of them would stand around the highest peak.
    points = _apart(starts[np.argsort(-_heights(climbing, starts), kind="stable")], reach, STARTS)
    for halving in range(1, HALVINGS + 1):
        for _ in range(STEPS):
            points = _climbed(climbing, points, reach / 2**halving, low, high, random)
    peaks = _apart(points[np.argsort(-_heights(climbing, points), kind="stable")], reach, question.count)
    return Peaks(peaks, density(half(sketch, odd=True), Density(peaks)))


def _apart(points: Floats, reach: Floats, most: int) -> Floats:
    """The first ``most`` points that are a bandwidth away from all points before them."""
    kept: list[Floats] = []
    for point in points:
        if len(kept) < most and all(float(np.linalg.norm((point - other) / reach)) > 1 for other in kept):
            kept.append(point)
    return np.array(kept)


def step_of(sketch: Sketch) -> Floats:
    """A bandwidth in each feature's own units, shape (features,)."""
    scales = np.array([feature.scale for feature in sketch.plan.features])
    low, high = box(sketch.plan)
    return np.minimum(scales * _bandwidth(sketch.plan.kernel), (high - low) / 2 + 1e-12)


def _bandwidth(kernel: Kernel) -> float:
    """A distance over which the kernel changes; that of directions and places is a tenth of what there is."""
    if isinstance(kernel, PStable):
        return kernel.bandwidth
    if isinstance(kernel, Laplacian):
        return kernel.sigma
    if isinstance(kernel, Power):
        return _bandwidth(kernel.kernel) / kernel.times
    if isinstance(kernel, Product):
        return min(_bandwidth(part) for part in kernel.kernels)
    assert isinstance(kernel, Angular | Hamming | Jaccard | Surrogate)
    return 0.1


def _spread(random: np.random.Generator, low: Floats, high: Floats, count: int) -> Floats:
    from scipy.stats import qmc

    points: Floats = qmc.Sobol(len(low), scramble=True, rng=random).random(count)
    return low + points * (high - low)


def _heights(sketch: Sketch, points: Floats) -> Floats:
    return density(sketch, Density(points)).values


def _climbed(
    sketch: Sketch, points: Floats, step: Floats, low: Floats, high: Floats, random: np.random.Generator
) -> Floats:
    """Each point, or the best of its children around it."""
    moves = random.standard_normal((len(points), CHILDREN, points.shape[1])) * step
    tried = np.clip(np.concatenate([points[:, None], points[:, None] + moves], axis=1), low, high)
    heights = _heights(sketch, tried.reshape(-1, points.shape[1])).reshape(len(points), -1)
    return np.asarray(tried[np.arange(len(points)), heights.argmax(axis=1)])
