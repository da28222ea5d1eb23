"""Generalised least squares over noisy linear measurements: known ones, and the least that must be added.

A measurement is a row b of whole or real weights over cells x, divided by the deviation of its noise, so that all
noises have deviation 1. ``rows`` stacks them, shape (measurements, cells). An answer w x is estimated by g (rows x +
noise) with g rows = w; of all such g the shortest is used, and its length is the deviation of the answer.
Derivation and guarantees: docs/explanation/reuse.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]
Keeps = Callable[[Reals], bool]

EXACT = 1e-9  # relative to the largest weight: the estimate must not depend on x
_RANK = 1e-11  # eigenvalues below this share of the largest are rounding errors of zeros
_RIDGE = 1e-12
_REFINEMENTS = 3
_BISECTIONS = 40


@dataclass(frozen=True, slots=True, eq=False)
class SupplementFamily:
    """Deviations of answers from known measurements and from a new one whose strength is yet to be chosen.

    The new measurement has the rows ``strength * asked``; all strengths from 0 to ``most`` share one decomposition.
    """

    most: float
    shares: Reals
    squares: Reals

    def compute_deviations(self, strength: float) -> Reals:
        """Return the deviation of each answer; infinite where the measurements do not determine it."""
        weight = (1 - self.shares) + (strength / self.most) ** 2 * self.shares
        blind = weight < 1e-10
        total = (self.squares[:, ~blind] / weight[~blind]).sum(axis=1)
        unknown = self.squares[:, blind].sum(axis=1) > 1e-12 * self.squares.sum(axis=1)
        return np.where(unknown, np.inf, np.sqrt(total))


def build_supplement_family(known: Reals, asked: Reals, wanted: Reals, *, most: float) -> SupplementFamily | None:
    """Return the family of ``known`` and up to ``most`` times ``asked``; None if even that cannot determine ``wanted``.

    Args:
        known: Rows of what was measured, shape (measurements, cells), noise of deviation 1.
        asked: Rows of a new measurement at strength 1, shape (new measurements, cells).
        wanted: W, shape (answers, cells).
    """
    from scipy.linalg import eigh

    extra = (most * most) * (asked.T @ asked)
    values, vectors = eigh(known.T @ known + extra)
    kept = values > _RANK * max(float(values[-1]), 1e-300)
    basis = vectors[:, kept]
    inside = wanted @ basis
    if not _is_same(inside @ basis.T, wanted):
        return None
    root = basis / np.sqrt(values[kept])
    shares, turn = eigh(root.T @ extra @ root)
    return SupplementFamily(most, np.clip(shares, 0.0, 1.0), (wanted @ root @ turn) ** 2)


def solve_weights(rows: Reals, wanted: Reals) -> Reals | None:
    """Return the shortest G with ``G rows = wanted``, shape (answers, measurements), or None if there is none.

    A tiny ridge makes the system regular, and refinement removes its effect; checked to 1e-9 of the largest weight.
    """
    from scipy.linalg import cho_factor, cho_solve

    if not rows.size:
        return None if wanted.any() else np.zeros((len(wanted), len(rows)))
    system = rows.T @ rows
    system[np.diag_indices_from(system)] += _RIDGE * max(float(system.diagonal().max()), 1e-300)
    factor = cho_factor(system)
    found, missing = np.zeros((len(wanted), len(rows))), wanted
    for _ in range(_REFINEMENTS):
        found += cho_solve(factor, missing.T).T @ rows.T
        missing = wanted - found @ rows
    # Residues of true zeros would only slow the tails down.
    found[np.abs(found) < 1e-14 * np.abs(found).max(initial=0.0)] = 0.0
    return found if _is_same(found @ rows, wanted) else None


def _is_same(found: Reals, wanted: Reals) -> bool:
    return float(np.abs(found - wanted).max(initial=0.0)) <= EXACT * float(np.abs(wanted).max(initial=1.0))


def bound_gaussian_miss(deviations: Reals, room: Reals, *, two_sided: bool) -> float:
    """Bound from above P[some answer's noise exceeds its ``room``], noises jointly normal with these deviations.

    Source:
        Two-sided: "Rectangular Confidence Regions for the Means of Multivariate Normal Distributions" (JASA 1967),
        which holds for any correlation. One-sided: the union bound.
    """
    from scipy.special import ndtr

    if np.any(room < 0) or np.any(np.isinf(deviations)):
        return 1.0
    noisy = deviations > 0
    miss = ndtr(-room[noisy] / deviations[noisy])
    if two_sided:
        return -math.expm1(float(np.log1p(-2 * np.minimum(miss, 0.5 - 1e-16)).sum()))
    return min(1.0, float(miss.sum()))


def find_least_strength(family: SupplementFamily, keeps: Keeps) -> float | None:
    """Return the least strength, up to the family's most, at which ``keeps(deviations)``; None if the most does not.

    Args:
        keeps: Whether deviations are small enough; smaller ones must not be refused.
    """
    if keeps(family.compute_deviations(0.0)):
        return 0.0
    if not keeps(family.compute_deviations(family.most)):
        return None
    low, high = 0.0, family.most
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (low, middle) if keeps(family.compute_deviations(middle)) else (middle, high)
    return high
