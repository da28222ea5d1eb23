"""Peaks of the density: located on one half of the rows, measured on the other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from siloquent.maths.lsh import Angular, Hamming, Jaccard, Kernel, Laplacian, Power, Product, PStable, Surrogate
from siloquent.sketch.estimate.density import estimate_density
from siloquent.sketch.estimate.points import compute_corners, select_half
from siloquent.sketch.sketch import Sketch
from siloquent.sketch.spec import Density, Modes, Peaks

Floats = NDArray[np.float64]
STARTS, PROPOSALS, CHILDREN, HALVINGS, STEPS = 64, 4_096, 8, 5, 12


def find_modes(sketch: Sketch, question: Modes) -> Peaks:
    """Find the highest peaks, at least a bandwidth apart, highest first; heights from rows not used to choose them.

    A maximum over noisy values is biased upwards; rows without a part in the choice are not.

    Raises:
        RequestError: The sketch compares sets.
    """
    low, high = compute_corners(sketch.plan)
    random = np.random.default_rng(question.seed)
    climbing = select_half(sketch, odd=False)
    reach = compute_bandwidth_steps(sketch)
    starts = _spread(random, low, high, PROPOSALS)
    # Starts lie apart: otherwise all of them would surround the highest peak.
    points = _select_apart(starts[np.argsort(-_estimate_heights(climbing, starts), kind="stable")], reach, STARTS)
    for halving in range(1, HALVINGS + 1):
        for _ in range(STEPS):
            points = _climb_points(climbing, points, reach / 2**halving, low, high, random)
    peaks = _select_apart(
        points[np.argsort(-_estimate_heights(climbing, points), kind="stable")], reach, question.count
    )
    return Peaks(peaks, estimate_density(select_half(sketch, odd=True), Density(peaks)))


def _select_apart(points: Floats, reach: Floats, most: int) -> Floats:
    """Return the first ``most`` points that are a bandwidth away from all previous points."""
    kept: list[Floats] = []
    for point in points:
        if len(kept) < most and all(float(np.linalg.norm((point - other) / reach)) > 1 for other in kept):
            kept.append(point)
    return np.array(kept)


def compute_bandwidth_steps(sketch: Sketch) -> Floats:
    """Compute a bandwidth in each feature's own units, shape (features,)."""
    scales = np.array([feature.scale for feature in sketch.plan.features])
    low, high = compute_corners(sketch.plan)
    return np.minimum(scales * _compute_bandwidth(sketch.plan.kernel), (high - low) / 2 + 1e-12)


def _compute_bandwidth(kernel: Kernel) -> float:
    """Return a distance over which the kernel changes; for kernels of angles or shares, a tenth of the maximum."""
    if isinstance(kernel, PStable):
        return kernel.bandwidth
    if isinstance(kernel, Laplacian):
        return kernel.sigma
    if isinstance(kernel, Power):
        return _compute_bandwidth(kernel.kernel) / kernel.times
    if isinstance(kernel, Product):
        return min(_compute_bandwidth(part) for part in kernel.kernels)
    assert isinstance(kernel, Angular | Hamming | Jaccard | Surrogate)
    return 0.1


def _spread(random: np.random.Generator, low: Floats, high: Floats, count: int) -> Floats:
    from scipy.stats import qmc

    points: Floats = qmc.Sobol(len(low), scramble=True, rng=random).random(count)
    return low + points * (high - low)


def _estimate_heights(sketch: Sketch, points: Floats) -> Floats:
    return estimate_density(sketch, Density(points)).values


def _climb_points(
    sketch: Sketch, points: Floats, step: Floats, low: Floats, high: Floats, random: np.random.Generator
) -> Floats:
    """Return each point, or its best child around it."""
    moves = random.standard_normal((len(points), CHILDREN, points.shape[1])) * step
    tried = np.clip(np.concatenate([points[:, None], points[:, None] + moves], axis=1), low, high)
    heights = _estimate_heights(sketch, tried.reshape(-1, points.shape[1])).reshape(len(points), -1)
    return np.asarray(tried[np.arange(len(points)), heights.argmax(axis=1)])
