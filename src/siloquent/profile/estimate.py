"""Excesses, verdicts and checks from the values sent to the last worker and the moderator: no rows, no noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from siloquent.errors import ProtocolError
from siloquent.federation.crypto.points import view_rows
from siloquent.profile.plan.canaries import YES, SharingPlan

Counts = NDArray[np.int64]


def compute_histograms(words: NDArray[np.uint64], queries: int, first: int, sizes: Sequence[int]) -> list[Counts]:
    """Return n_first to n_m of each query.

    Raises:
        ProtocolError: ``batch_size``; ``canary_failed``: more shared values than the batches can hold.
    """
    width = len(sizes) - first + 1
    if len(words) != queries * width:
        raise ProtocolError("batch_size")
    table = words.astype(np.int64).reshape(queries, width)
    weights = np.arange(first, len(sizes) + 1)
    # A value of k parties uses k slots, and two parties share at most as many values as the smaller one has.
    smallest_pairs = sum(sorted(sizes)[:-1])
    excess = table @ (weights - 1)
    if (table < 0).any() or (table @ weights > sum(sizes)).any() or (excess > smallest_pairs).any():
        raise ProtocolError("canary_failed")
    return list(table)


def compute_excess(counts: Counts, first: int) -> int:
    """Compute the excess E: a value of k parties counts k - 1.

    >>> compute_excess(np.array([4, 1]), 2)
    6
    """
    return int(counts @ (np.arange(first, first + len(counts)) - 1))


def check_canaries(plans: Mapping[int, SharingPlan], found: Mapping[int, Counts], parties: int, first: int) -> None:
    """Check that every synthetic request has its planned counts.

    Raises:
        ProtocolError: ``canary_failed``.
    """
    for query, plan in plans.items():
        if not np.array_equal(found[query][2 - first :], plan.compute_histogram(parties)):
            raise ProtocolError("canary_failed")


def select_real_verdicts(bits: bytes, canaries: Sequence[int], places: Sequence[int]) -> list[bool]:
    """Return the verdicts on a round's real candidates.

    Args:
        bits: One byte per ballot, 0 or 1.
        canaries: The planned value of each canary.
        places: The position of each candidate, then of each canary, among the ballots.
    Raises:
        ProtocolError: ``batch_size``, ``bad_encoding``; ``canary_failed``: a canary has another value.
    """
    if len(bits) != len(places):
        raise ProtocolError("batch_size")
    if set(bits) - {0, 1}:
        raise ProtocolError("bad_encoding")
    said = [bool(bits[place]) for place in places]
    real = len(places) - len(canaries)
    if said[real:] != [kind == YES for kind in canaries]:
        raise ProtocolError("canary_failed")
    return said[:real]


def count_distinct_tags(tags: bytes) -> int:
    """Return c(X) of the thesis: the number of distinct tags."""
    return len(np.unique(view_rows(tags)))
