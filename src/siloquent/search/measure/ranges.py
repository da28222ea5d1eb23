"""Ends of ranges, selected privately from the values of the rows."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from siloquent.schema import Block
from siloquent.search.domains import Feature
from siloquent.search.plan.ranges import PARTS, is_estimated

if TYPE_CHECKING:
    from siloquent.data import PrivateTable
    from siloquent.ledger import Permit
    from siloquent.search.plan import OfferPlan

Integers = NDArray[np.int64]
Clip = tuple[int, int, int]
"""The first and the last index of a range, and the number of declared values."""


def measure_ranges(plan: OfferPlan, table: PrivateTable, permit: Permit) -> tuple[Clip | None, ...]:
    """Select for each feature the indices at the ends of its range, None where the declared range is used.

    Privacy:
        The ``ExponentialSelect`` of ``plan.event``, in the account's unit and adjacency.
    """
    if plan.rate is None:
        return tuple(None for _ in plan.features)
    numbers = [feature for feature in plan.features if is_estimated(feature)]
    blocks = [Block((feature.name,), (_list_indices(plan, feature),)) for feature in numbers]
    found = {
        feature.name: select_range(counts, plan.rate)
        for feature, counts in zip(numbers, table.count_by_cell(blocks, permit), strict=True)
    }
    return tuple(found.get(feature.name) for feature in plan.features)


def _list_indices(plan: OfferPlan, feature: Feature) -> Integers:
    """Return every value as its own class; OUTSIDE and NULL in none."""
    size = plan.schema.domain[feature.name].size
    return np.where(np.arange(size + 1) < feature.steps, np.arange(size + 1), -1).astype(np.int64)


def select_range(counts: Integers, rate: Fraction) -> Clip:
    """Select a range with about one row in 50 below it, and one above, from counts by index.

    Privacy:
        Two selections by the exponential mechanism, of ``rate``.
    Source:
        "Privacy-preserving statistical estimation with optimal convergence rates" (STOC 2011): quantiles by the
        exponential mechanism on ranks.
    """
    from siloquent.privacy.noise import select_exponential

    below = np.concatenate([[0], np.cumsum(counts)[:-1]])
    above = counts.sum() - below - counts
    # PARTS times the rows on one side minus all rows: 0 where one in PARTS lies on that side.
    low = -np.abs((PARTS - 1) * below - (above + counts))
    high = -np.abs((PARTS - 1) * above - (below + counts))
    first, last = sorted((select_exponential(low, rate=rate), select_exponential(high, rate=rate)))
    last = min(max(last, first + 1), len(counts) - 1)
    return min(first, last - 1), last, len(counts)


def clip_feature(feature: Feature, clip: Clip | None) -> Feature:
    """Return the feature with the range between two indices of the declared one."""
    if clip is None:
        return feature
    lo, grid = Fraction(feature.lo), Fraction(feature.grid)
    return replace(feature, lo=str(lo + clip[0] * grid), hi=str(lo + clip[1] * grid))
