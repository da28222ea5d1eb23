"""The asymmetric pair before sign projections: records and linear models as unit vectors of one space.

A record z and a model t, both in the unit ball, become [z, sqrt(1 - z.z), 0] and [t, 0, sqrt(1 - t.t)]: their angle is
acos(z.t), whatever their lengths are.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from siloquent.maths.lsh.hashes import Axes

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

LIFT = 2**12
"""The resolution of the two coordinates that make vectors of length 1."""


def build_surrogate_axes(steps: Integers) -> Axes:
    """Return attributes on -1..1, an intercept constant, all over sqrt(d + 1), and the two lifts; shape (d + 3,)."""
    reach = _compute_reach(steps)
    ends = np.maximum(steps - 1, 1)
    return Axes(
        np.concatenate([steps, [1, LIFT + 1, LIFT + 1]]),
        np.concatenate([np.full(len(steps), -reach), [reach, 0, 0]]),
        np.concatenate([2 * reach / ends, [1, 1 / LIFT, 1 / LIFT]]),
    )


def lift_records(places: Integers, steps: Integers) -> Integers:
    """Return cells (records, d) with the constant and the first lift, shape (records, d + 3)."""
    z = (2 * places / np.maximum(steps - 1, 1) - 1) * _compute_reach(steps)
    squares = np.full(len(places), _compute_reach(steps) ** 2)
    for column in z.T:  # in this order on every machine
        squares += column**2
    lift = np.rint(LIFT * np.sqrt(np.maximum(1 - squares, 0))).astype(np.int64)
    none = np.zeros(len(places), dtype=np.int64)
    return np.column_stack([places, none, lift, none])


def lift_models(models: Floats, steps: Integers) -> Floats:
    """Return models (models, d + 1), in the unit ball, the constant's weight last, as cells that need not be whole."""
    axes = build_surrogate_axes(steps)
    lift = np.sqrt(np.maximum(1 - (models**2).sum(axis=1), 0))
    points = np.column_stack([models, np.zeros(len(models)), lift])
    return np.asarray((points - axes.lo) / axes.grid)


def _compute_reach(steps: Integers) -> float:
    return 1 / float(np.sqrt(len(steps) + 1))
