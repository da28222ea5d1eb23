"""The vectors that are added over silos: marginals, pairs of bins, moments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from siloquent.share.spec.layout import Layout

if TYPE_CHECKING:
    import pyarrow as pa

    from siloquent.data import PrivateTable
    from siloquent.ledger import Permit
    from siloquent.share.plan import SharePlan

Integers = NDArray[np.int64]
CHUNK = 2**15
"""The number of rows that are one-hot encoded at once."""


@dataclass(frozen=True, slots=True, eq=False)
class CountRows:
    """The kernel of a fold: the exact vector of a batch of indices. It can be sent to other processes."""

    layout: Layout

    def __call__(self, batch: pa.RecordBatch) -> Integers:
        names = self.layout.encoding.names
        columns = [np.asarray(batch.column(name).to_numpy(zero_copy_only=False), dtype=np.int64) for name in names]
        return count_exactly(self.layout, np.stack(columns, axis=1))


def count_exactly(layout: Layout, places: Integers) -> Integers:
    """Count the exact vector of rows of indices (rows, features + 1), the label last.

    Privacy:
        None: exact. One record changes it by at most the bounds of ``layout.build_blocks``.
    """
    total = np.zeros(layout.length, dtype=np.int64)
    for start in range(0, len(places), CHUNK):
        total += layout.count(places[start : start + CHUNK])
    return total


def measure_counts(plan: SharePlan, table: PrivateTable, permit: Permit) -> Integers:
    """Measure the vector of the whole table with full noise.

    Raises:
        NotAllowed: the permit is not an open permit of this table.
        DataError: the source failed; the charge stands.
    Privacy:
        ``plan.event`` in the account's unit and adjacency. Proof: docs/explanation/share.md.
    """
    return add_count_noise(plan, _count_table(plan, table, permit))


def measure_shared_counts(plan: SharePlan, table: PrivateTable, permit: Permit) -> Integers:
    """Measure the vector with this silo's share of the noise, only for a secure sum.

    Privacy:
        NONE by itself: a share has less noise than the event states. Only the sum over at least ``honest`` silos has
        the guarantee of ``plan.event``; the vector must leave this silo split or encrypted, never in the clear.
    """
    return add_noise_shares(plan, _count_table(plan, table, permit))


def _count_table(plan: SharePlan, table: PrivateTable, permit: Permit) -> Integers:
    assert plan.layout is not None
    return table.fold(CountRows(plan.layout), np.add, list(plan.encoding.names), permit, encoded=True)


def add_count_noise(plan: SharePlan, exact: Integers) -> Integers:
    """Add the plan's noise to an exact vector.

    Privacy:
        ``plan.event``, for the unit that ``plan`` was made for.
    """
    from siloquent.privacy.noise import add_gaussian, add_laplace

    made, start = np.empty_like(exact), 0
    for run in plan.runs:
        part = np.ascontiguousarray(exact[start : start + run.length])
        gaussian = plan.noise == "gaussian"
        noisy = add_gaussian(part, variance=run.parameter) if gaussian else add_laplace(part, scale=run.parameter)
        made[start : start + run.length] = noisy
        start += run.length
    return made


def add_noise_shares(plan: SharePlan, exact: Integers) -> Integers:
    """Add one silo's share of the plan's noise to an exact vector.

    Privacy:
        NONE by itself; see ``measure_shared_counts``.
    """
    from siloquent.privacy.noise.distributed import add_gaussian_share, add_laplace_share

    honest = plan.spec.honest
    assert honest is not None
    made, start = np.empty_like(exact), 0
    for run in plan.runs:
        part = np.ascontiguousarray(exact[start : start + run.length])
        if plan.noise == "gaussian":
            noisy = add_gaussian_share(part, variance=run.parameter, honest=honest)
        else:
            noisy = add_laplace_share(part, scale=run.parameter, honest=honest)
        made[start : start + run.length] = noisy
        start += run.length
    return made
