"""The number of reports that support each node, by layer and public group: the input of every estimate.

Reports are already private, so this code needs no permit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from siloquent.collect.measure.wire import Batch
from siloquent.collect.spec.collection import Collection, LayerPlan
from siloquent.maths.local.row_layers import RowReports, Supports, count_users, merge_supports
from siloquent.maths.local.supports import count_joint_supports, count_supports

Integers = NDArray[np.int64]
MAX_COMBINATIONS = (2**20, 2**16)
"""The most node combinations of two services, and of more, that are counted; beyond, reports are kept per user."""
Key = tuple[tuple[int, ...], tuple[int, ...]]
"""A layer of each channel, and the indices of their public attributes."""


@dataclass(slots=True)
class Tally:
    """Supports of reports to ``channels``, over users who reported to all of them.

    ``supports``: by layers and public values, whole numbers, one axis per channel, the last index for all reports; or
    the reports themselves, where there are too many combinations of nodes.
    ``prepared``: tables made by estimates, for the next question.
    """

    channels: tuple[int, ...]
    supports: dict[Key, Supports] = field(default_factory=dict)
    prepared: dict[frozenset[tuple[int, ...]], Any] = field(default_factory=dict)

    def add(self, key: Key, counts: Supports) -> None:
        """Add reports of one key."""
        self.supports[key] = merge_supports(self.supports[key], counts) if key in self.supports else counts

    @property
    def users(self) -> int:
        """The number of users counted."""
        return sum(count_users(counts) for counts in self.supports.values())


def tally(collection: Collection, batches: Sequence[Batch]) -> Tally:
    """Return the supports of reports of one user each: of one channel, or of several with the same users.

    Args:
        batches: One per channel, in ascending order; row i of each belongs to the same user.
    """
    channels = tuple(batch.channel for batch in batches)
    found = Tally(channels)
    for key, rows in _group_rows(batches):
        plans = [collection.channels[at].layers[layer] for at, layer in zip(channels, key[0], strict=True)]
        found.add(key, _count_supports(plans, [batch.columns[rows] for batch in batches]))
    return found


def _group_rows(batches: Sequence[Batch]) -> Iterator[tuple[Key, Integers]]:
    """Yield the rows of each combination of layers and public values."""
    marks = np.hstack([np.column_stack([batch.layers for batch in batches]), *[batch.public for batch in batches]])
    if not len(marks):
        return
    order = np.lexsort(marks.T[::-1])
    marks = marks[order]
    starts = np.flatnonzero(np.r_[True, (marks[1:] != marks[:-1]).any(axis=1)])
    for start, end in zip(starts, np.r_[starts[1:], len(marks)], strict=True):
        own = [int(place) for place in marks[start]]
        yield (tuple(own[: len(batches)]), tuple(own[len(batches) :])), order[start:end]


def _count_supports(plans: Sequence[LayerPlan], columns: list[Integers]) -> Supports:
    if len(plans) == 1:
        return count_supports(plans[0].kind, plans[0].nodes, plans[0].size, columns[0])
    if math.prod(plan.nodes + 1 for plan in plans) > MAX_COMBINATIONS[len(plans) > 2]:
        return RowReports(tuple(columns))
    return count_joint_supports(
        tuple(plan.kind for plan in plans),
        tuple(plan.nodes for plan in plans),
        tuple(plan.size for plan in plans),
        columns,
    )
