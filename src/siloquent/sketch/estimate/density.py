"""Kernel sums and densities with intervals; differences of two points; the paper's two estimates."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from siloquent.errors import RequestError
from siloquent.maths.lsh import Hashes, MinHashes
from siloquent.sketch.estimate.points import (
    KernelSums,
    build_point_array,
    compute_kernel_sums,
    compute_point_indices,
    quantile,
)
from siloquent.sketch.sketch import Sketch
from siloquent.sketch.spec import Density, DensityEstimate, Difference
from siloquent.sketch.tokens import build_point_sets

Floats = NDArray[np.float64]
CHUNK = 256


def estimate_density(sketch: Sketch, question: Density) -> DensityEstimate:
    """Estimate kernel sums at each point, of all classes or of one; as a share of all records where ``normalise``.

    Raises:
        RequestError: A point is not of the sketch's type, or it does not have the class.
    """
    sums, outside = compute_kernel_sums(sketch, question.points)
    chosen = _find_class(sketch, question.label)
    values = sums.values[chosen].sum(axis=0)
    errors = np.sqrt((sums.errors[chosen] ** 2).sum(axis=0))
    if question.normalise:
        size = float(sketch.estimate_class_sizes()[chosen].sum())
        size_variance = sketch.class_size_variance * len(chosen)
        # The delta method: relative variances of numerator and denominator are added.
        errors = np.sqrt((errors / size) ** 2 + values**2 * size_variance / size**4)
        values = values / size
    return build_interval(values, errors, sums.rows, question.beta, outside)


def build_interval(
    values: Floats, errors: Floats, rows: int, beta: float, outside: NDArray[np.bool_]
) -> DensityEstimate:
    """Build symmetric intervals for values, with error probability ``beta``."""
    reach = quantile(rows, beta) * errors
    return DensityEstimate(values, errors, values - reach, values + reach, outside)


def _find_class(sketch: Sketch, label: Any) -> NDArray[np.int64]:
    if label is None:
        return np.arange(sketch.plan.classes)
    if label not in sketch.plan.labels:
        raise RequestError(f"This sketch has no class {label!r}. Known: {list(sketch.plan.labels)}.")
    return np.array([sketch.plan.labels.index(label)])


def compute_row_values(sketch: Sketch, points: Any) -> Floats:
    """Return each row's estimate of the kernel sum at each point, all classes together, shape (points, R)."""
    plan, hashes = sketch.plan, sketch.plan.hashes
    if isinstance(hashes, MinHashes):
        buckets = hashes.compute_buckets(*build_point_sets(plan, points))
    else:
        buckets = hashes.compute_buckets(compute_point_indices(plan, build_point_array(plan, points))[0])
    cells = sketch.counters.sum(axis=0)[np.arange(hashes.rows), np.maximum(buckets, 0)]
    values = np.where(buckets >= 0, cells, 0) * (sketch.rows / sketch.per_record)
    if not hashes.is_exact and sketch.sizes is not None:
        values = (hashes.width * values - sketch.estimate_class_sizes().sum()) / (hashes.width - 1)
    return np.asarray(values, dtype=np.float64)


def estimate_difference(sketch: Sketch, question: Difference) -> DensityEstimate:
    """Estimate f(point) - f(other) for each pair: rows in which both have the same cell give 0, without noise.

    Raises:
        RequestError: As ``estimate_density``, or the two lists differ in length.
    """
    apart = compute_row_values(sketch, question.points) - compute_row_values(sketch, question.others)
    outside = np.zeros(len(apart), dtype=np.bool_)
    if isinstance(sketch.plan.hashes, Hashes):
        for points in (question.points, question.others):
            outside |= compute_point_indices(sketch.plan, build_point_array(sketch.plan, points))[1]
    errors = apart.std(axis=1, ddof=1) / math.sqrt(sketch.rows)
    return build_interval(apart.mean(axis=1), errors, sketch.rows, question.beta, outside)


def compute_paper_mean(sketch: Sketch, points: Any) -> Floats:
    """Compute algorithm 2: the mean of the cells, as a share of the mean of all rows' totals; shape (points,).

    Source: "A One-Pass Distributed and Private Sketch for Kernel Sums" (CCS 2021), algorithm 2.
    """
    values = compute_row_values(sketch, points).mean(axis=1)
    return np.asarray(values / (sketch.counters.sum() / sketch.rows))


def median_of_means(sketch: Sketch, points: Any, *, delta: float) -> Floats:
    """Compute the median of the means of 8 ln(1/delta) groups of rows, shape (points,).

    Source: Lemma 3.3 of the same paper. A tighter proof, not a better estimate: the plain mean has a smaller error.
    """
    groups = min(max(1, math.ceil(8 * math.log(1 / delta))), sketch.rows)
    parts = np.array_split(compute_row_values(sketch, points), groups, axis=1)
    return np.asarray(np.median([part.mean(axis=1) for part in parts], axis=0))


__all__ = [
    "KernelSums",
    "build_interval",
    "compute_paper_mean",
    "compute_row_values",
    "estimate_density",
    "estimate_difference",
    "median_of_means",
]
