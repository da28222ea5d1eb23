"""One value per key from an offer: the mean of each feature, shrunk according to its noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from siloquent.maths.models.shrinkage import KeyMeans, estimate_key_means
from siloquent.search.domains import JoinKey
from siloquent.search.offers import Offer

Floats = NDArray[np.float64]
MIN_OVERLAP = 0.5


@dataclass(frozen=True, slots=True)
class JoinCandidate:
    """One feature of an offer that can be joined: ``key`` of the offer, ``own`` of the request, ``column``."""

    offer: Offer
    key: int
    own: int
    column: int

    @property
    def name(self) -> str:
        """The name of the new feature."""
        return f"{self.offer.table}.{self.offer.columns[self.column]}"


@dataclass(frozen=True, slots=True, eq=False)
class CandidatePool:
    """All candidates of one key of the request: ``values`` and error ``variances`` (candidates, own cells).

    ``unsure``: the variance of the remaining noise in a candidate's values, (candidates,), over all cells.
    """

    candidates: tuple[JoinCandidate, ...]
    values: Floats
    variances: Floats
    unsure: Floats


def compute_offer_means(offer: Offer, key: int) -> KeyMeans:
    """Compute the means of every column by one of the offer's keys, in units of -1 to 1, with their error variances.

    A key with a parent is shrunk towards the parent's mean instead of the mean of all rows.
    """
    counts, sums = offer.get_key_sums(key)
    zero, first, _ = offer.deviations
    group, groups = offer.keys[key].compute_parents()
    if groups == 1:
        return estimate_key_means(counts, sums, count_variance=zero**2, sum_variance=first**2)
    # The parents' sums, and their noise, are sums over their children.
    children = np.bincount(group, minlength=groups)
    added = [np.bincount(group, weights=column, minlength=groups) for column in sums.T]
    coarse = np.stack(added, axis=1).astype(np.float64)
    whole = np.bincount(group, weights=counts, minlength=groups).astype(np.float64)
    each = float(children.mean())
    parents = estimate_key_means(whole, coarse, count_variance=each * zero**2, sum_variance=each * first**2)
    return estimate_key_means(
        counts, sums, count_variance=zero**2, sum_variance=first**2, parents=parents, parent_of=group
    )


def is_matching_key(mine: JoinKey, theirs: JoinKey) -> bool:
    """Return whether the other key has at least half of this key's values."""
    return mine.compute_overlap(theirs) >= MIN_OVERLAP


def pool_candidates(
    offers: Sequence[Offer], own_keys: Sequence[JoinKey], *, without: frozenset[str]
) -> list[CandidatePool]:
    """Pool, for each key of the request, all features that can be joined by it.

    Args:
        without: Names of features that are not candidates: the target's.
    """
    found = []
    for own, mine in enumerate(own_keys):
        candidates: list[JoinCandidate] = []
        values: list[Floats] = []
        variances: list[Floats] = []
        unsure: list[Floats] = []
        for offer in offers:
            for key, theirs in enumerate(offer.keys):
                if not is_matching_key(mine, theirs):
                    continue
                columns = [i for i, name in enumerate(_list_owners(offer)) if name not in without]
                at, means = mine.align_cells(theirs), compute_offer_means(offer, key)
                candidates += [JoinCandidate(offer, key, own, column) for column in columns]
                values.append(_place_rows(means.values, means.centre, at)[:, columns].T)
                errors = _place_rows(means.variances, means.spread, at)[:, columns]
                variances.append(errors.T)
                # A mean shrunk to a share k of itself has noise of k times its error's variance.
                unsure.append((errors * (1 - errors / means.spread[columns])).mean(axis=0))
        shape = (0, mine.cells)
        found.append(
            CandidatePool(
                tuple(candidates),
                np.concatenate(values) if values else np.zeros(shape),
                np.concatenate(variances) if variances else np.zeros(shape),
                np.concatenate(unsure) if unsure else np.zeros(0),
            )
        )
    return found


def _list_owners(offer: Offer) -> list[str]:
    """Return the feature to which each column belongs."""
    return [feature.name for feature in offer.features for _ in feature.columns]


def _place_rows(found: Floats, other: Floats, at: NDArray[np.int64]) -> Floats:
    """Return rows of ``found`` at the indices ``at``, and ``other`` where there is none (-1)."""
    return np.where((at >= 0)[:, None], found[np.maximum(at, 0)], other)
