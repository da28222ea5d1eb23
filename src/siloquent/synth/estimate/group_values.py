"""Values inside a group, for columns that a soft constraint compares: they depend on another column, as groups do."""

from __future__ import annotations

import math
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from siloquent.maths.graphical.fit import GraphicalModel

if TYPE_CHECKING:
    from siloquent.synth.estimate.model_domain import ModelDomain

Floats = NDArray[np.float64]

LEAST = 1e-22
"""e^-50: smaller probabilities, as left by a mask, count as zero."""
_MOST = math.log(20.0)
"""The bound on the odds of a value given another column's group."""


def compute_run_weights(frame: ModelDomain, place: int) -> Floats:
    """Return the weights of the runs of one column in each of its groups, shape (groups, runs)."""
    group = frame.groups[place]
    made = np.zeros((frame.sizes[place], len(group)))
    made[group, np.arange(len(group))] = np.maximum(frame.shares[place], LEAST)
    return made


def find_partners(frame: ModelDomain, model: GraphicalModel) -> dict[int, int]:
    """Return, for each ordered column that a soft constraint compares, the most informative column compared with it."""
    pairs: set[tuple[int, int]] = set()
    for one in frame.compiled.soft:
        ordered = [p for p, fine in enumerate(frame.fines) if fine.ordered and fine.name in one.attributes]
        pairs.update(combinations(ordered, 2))
    found: dict[int, tuple[float, int]] = {}
    for pair in sorted(pairs):
        told = _compute_information(np.asarray(model.compute_marginal(pair)))
        for place, other in (pair, pair[::-1]):
            found[place] = max(found.get(place, (0.0, other)), (told, other))
    return {place: other for place, (_, other) in found.items()}


def _compute_information(joint: Floats) -> float:
    """Return the mutual information, in nats."""
    one, other = (np.log(np.maximum(joint.sum(axis=axis), 1e-300)) for axis in (1, 0))
    logs = np.log(np.maximum(joint, 1e-300)) - one[:, None] - other
    return float((joint * logs).sum())


def compute_partner_weights(frame: ModelDomain, place: int, joint: Floats, *, kept: Floats | None = None) -> Floats:
    """Return the weights of the runs of one column in each of its groups, for each group of a partner column.

    The odds of a group given the partner's group are those of its middle; between two middles they are interpolated
    along the ranks. Averaged over the partner's groups, each run nearly keeps its share.

    Args:
        joint: Probabilities, shape (groups of the partner, groups of the column).
        kept: The share of each run that a condition lets pass; without it, its whole share.
    Returns:
        Shape (partner's groups x groups, runs).
    """
    group, shares = frame.groups[place], frame.shares[place]
    ordered = np.arange(len(group)) < frame.fines[place].ordered
    ranks = np.cumsum(shares) - shares / 2
    size = frame.sizes[place]
    mass = np.maximum(np.bincount(group, weights=shares, minlength=size), 1e-12)
    middles = np.bincount(group, weights=shares * ranks, minlength=size) / mass
    apart = np.outer(joint.sum(axis=1), joint.sum(axis=0))
    floor = 1 / (2 * frame.total)
    odds = np.clip(np.log((joint + floor) / (apart + floor)), -_MOST, _MOST)
    known = np.flatnonzero(np.bincount(group[ordered], weights=shares[ordered], minlength=size) > 0)
    order = known[np.argsort(middles[known])]
    tilt = np.ones((len(joint), len(group)))
    for row, line in enumerate(odds):
        tilt[row, ordered] = np.exp(_interpolate(ranks[ordered], middles[order], line[order]))
    inside = compute_run_weights(frame, place)
    made = tilt[:, None, :] * inside
    made /= made.sum(axis=2, keepdims=True)
    beside = joint / np.maximum(joint.sum(axis=0), 1e-300)
    mean = np.einsum("pg,pgr->gr", beside, made)
    made *= np.divide(inside / mass[:, None], mean, out=np.ones_like(mean), where=mean > 0)
    if kept is not None:
        made *= np.divide(kept, shares, out=np.zeros_like(kept), where=shares > 0)
        made = np.maximum(made, np.where(inside > 0, LEAST, 0.0))
    return np.asarray(made.reshape(len(joint) * size, len(group)))


def _interpolate(at: Floats, known: Floats, values: Floats) -> Floats:
    """Interpolate linearly between known points, and extrapolate beyond the outer two."""
    if len(known) < 2:
        return np.zeros_like(at)
    place = np.clip(np.searchsorted(known, at) - 1, 0, len(known) - 2)
    slope = (values[place + 1] - values[place]) / np.maximum(known[place + 1] - known[place], 1e-12)
    return np.asarray(np.clip(values[place] + slope * (at - known[place]), -_MOST, _MOST))
