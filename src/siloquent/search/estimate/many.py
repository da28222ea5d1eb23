"""Many-to-many joins: a row is a random pair of rows that share a key, as if the key carried no other information."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from siloquent.maths.models.moments import Moments
from siloquent.maths.models.ridge import clip_eigenvalues, estimate_covariance_matrix, solve_slopes
from siloquent.search.offers import Offer

Floats = NDArray[np.float64]


def compute_pooled_covariance(own: Offer, other: Offer, key: int = 0, other_key: int = 0) -> Floats:
    """Compute the covariance of the other's numbers, then one's own (the target last), over pairs with equal keys.

    Products within a table are released once, over all rows; only products across come from sums by key, corrected for
    the pairs that share a key by chance.

    Source:
        "Saibot: A Differentially Private Data Search Platform" (PVLDB 2023), proposition 6, with numbers centred
        before the join, so that their means add no noise.
    """
    (a, s), (b, t) = own.get_key_sums(key), other.get_key_sums(other_key)
    one, two = own.compute_second_moments(), other.compute_second_moments()
    assert one is not None
    assert two is not None
    rows, others = max(float(a.sum()), 1.0), max(float(b.sum()), 1.0)
    mine, theirs = s.sum(axis=0) / rows, t.sum(axis=0) / others
    keys = len(a)
    # With n rows and d keys, sums by key vary together n (n - 1) / d (d - 1) times as much as pairs do.
    met = (s - a[:, None] * mine).T @ (t - b[:, None] * theirs) / (keys - 1) * keys / np.sqrt(rows * others)
    own_part = estimate_covariance_matrix(Moments(rows, s.sum(axis=0), one))
    other_part = estimate_covariance_matrix(Moments(others, t.sum(axis=0), two))
    return np.block([[other_part, met.T], [met, own_part]])


def compute_cross_error(own: Offer, other: Offer) -> float:
    """Compute the standard error of one covariance across tables, from noise and from chance pairs."""
    (a, s), (b, t) = own.get_key_sums(0), other.get_key_sums(0)
    rows, others, keys = max(float(a.sum()), 1.0), max(float(b.sum()), 1.0), len(a)
    centred = s - a[:, None] * (s.sum(axis=0) / rows), t - b[:, None] * (t.sum(axis=0) / others)
    spread = [float((part**2).mean()) for part in centred]
    return float(np.sqrt(keys * spread[0] * spread[1]) / (keys - 1) * keys / np.sqrt(rows * others))


def compute_pooled_slopes(own: Offer, other: Offer) -> Floats:
    """Compute slopes on the other's numbers, then own ones; the ridge equals the noise of products across tables."""
    covariance = clip_eigenvalues(compute_pooled_covariance(own, other))
    ridge = compute_cross_error(own, other)
    return solve_slopes(covariance, ridge)
