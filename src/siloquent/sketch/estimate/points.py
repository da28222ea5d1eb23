"""Queried points as indices, and the sketch's cells at them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from siloquent.errors import RequestError
from siloquent.maths.lsh import Hashes, MinHashes, Surrogate, compute_row_sums, compute_set_sums
from siloquent.sketch.hash_plan import HashedFeature, HashPlan
from siloquent.sketch.sketch import Sketch
from siloquent.sketch.tokens import build_point_sets

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class KernelSums:
    """Kernel sums of each class at each point, with standard errors; both (classes, points)."""

    values: Floats
    errors: Floats
    rows: int


def build_point_array(plan: HashPlan, points: Any) -> Floats:
    """Convert numeric points to an array of shape (points, features).

    Raises:
        RequestError: Another shape, text, or a NaN; the message names the point.
    """
    _require_points(plan)
    try:
        array = np.asarray(points, dtype=np.float64)
    except (TypeError, ValueError):
        raise RequestError("The points must be numbers, one row per point.") from None
    d = len(plan.features)
    if array.ndim == 1 and (d == 1 or len(array) == d):
        array = array.reshape(-1, d)
    if array.ndim != 2 or array.shape[1] != d:
        names = ", ".join(feature.name for feature in plan.features)
        raise RequestError(f"Points have {d} numbers each ({names}); these have shape {array.shape}.")
    bad = np.flatnonzero(np.isnan(array).any(axis=1))
    if len(bad):
        raise RequestError(f"Point {int(bad[0])} contains NaN.", fix="omit the point, or fill in the value")
    return array


def _require_points(plan: HashPlan) -> None:
    if isinstance(plan.kernel, Surrogate):
        raise RequestError("A sketch of a surrogate loss answers only Regress.", fix="build it with another kernel")


def compute_point_indices(plan: HashPlan, array: Floats) -> tuple[Integers, NDArray[np.bool_]]:
    """Return the indices of points, moved to the domain's edge where they lie outside, and whether they did."""
    lo, grid, steps = _compute_edges(plan.features)
    hi = lo + (steps - 1) * grid
    clamped = np.clip(array, lo, hi)
    places = np.floor((clamped - lo) / grid + 0.5).astype(np.int64)
    outside: NDArray[np.bool_] = np.any((array < lo - grid / 2) | (array > hi + grid / 2), axis=1)
    return places, outside


def _compute_edges(features: tuple[HashedFeature, ...]) -> tuple[Floats, Floats, Floats]:
    lo, grid, steps = (np.array([getattr(f, name) for f in features], dtype=float) for name in ("lo", "grid", "steps"))
    return lo, grid, steps


def compute_corners(plan: HashPlan) -> tuple[Floats, Floats]:
    """Return the domain's corners in the features' own units, both (features,).

    Raises:
        RequestError: The sketch compares sets, which have no box.
    """
    _require_points(plan)
    if not isinstance(plan.hashes, Hashes):
        raise RequestError("This sketch compares sets: it has densities and anomalies, but no modes and no samples.")
    lo, grid, steps = _compute_edges(plan.features)
    return lo, lo + (steps - 1) * grid


def select_half(sketch: Sketch, odd: bool) -> Sketch:
    """Return only every second row: two halves whose hash functions and noise are independent."""
    start = int(odd)
    counters, variance = np.ascontiguousarray(sketch.counters[:, start::2]), sketch.variance
    if sketch.hits is not None:
        # On average half of a record's hits are in half of the rows, so counters are doubled to represent all
        # of them.
        counters, variance = 2 * counters, 4 * variance
    plan = replace(sketch.plan, hashes=sketch.plan.hashes.take_every(start, 2))
    return replace(sketch, plan=plan, counters=counters, variance=variance)


def compute_kernel_sums(sketch: Sketch, points: Any) -> tuple[KernelSums, NDArray[np.bool_]]:
    """Compute the mean over rows of each point's cells, corrected for shared buckets; and which points lay outside.

    The spread over rows includes the variance of hashing and noise, so it needs no knowledge of either. It is right
    for independent rows and too wide for Sobol rows, which are more evenly distributed than chance.
    """
    hashes, rows = sketch.plan.hashes, sketch.rows
    if isinstance(hashes, MinHashes):
        tokens, ends = build_point_sets(sketch.plan, points)
        sums, squares = compute_set_sums(hashes, sketch.counters, tokens, ends)
        outside = np.diff(ends) == 0
    else:
        places, outside = compute_point_indices(sketch.plan, build_point_array(sketch.plan, points))
        sums, squares = compute_row_sums(hashes, sketch.counters, places)
    factor = rows / sketch.per_record
    means = sums / rows
    variances = np.maximum(squares / rows - means**2, 0) * rows / (rows - 1)
    errors = np.sqrt(variances / rows)
    return _correct_crowding(sketch, means * factor, errors * factor), outside


def _correct_crowding(sketch: Sketch, values: Floats, errors: Floats) -> KernelSums:
    """Correct for a hashed cell's share 1/W of all other records: E[cell] = f + (N - f) / W."""
    width, hashes = sketch.plan.hashes.width, sketch.plan.hashes
    if not hashes.is_exact and sketch.sizes is not None:
        sizes = sketch.estimate_class_sizes()[:, None]
        values = (width * values - sizes) / (width - 1)
        errors = np.hypot(width * errors, np.sqrt(sketch.class_size_variance)) / (width - 1)
    return KernelSums(values, errors, sketch.rows)


def quantile(rows: int, beta: float) -> float:
    """Return Student's quantile for a two-sided interval with error probability ``beta`` from ``rows`` rows."""
    from scipy.special import stdtrit

    if not 0 < beta < 1:
        raise RequestError(f"beta must be between 0 and 1, not {beta!r}.")
    return float(stdtrit(rows - 1, 1 - beta / 2))
