"""The measure room: counts of undeclared keys behind a threshold, and noisy histograms of values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from siloquent.discover.plan import BoundsPlan, KeysPlan
from siloquent.discover.release import MAX_KEYS, is_releasable, pack_bounds, pack_keys
from siloquent.privacy import DiscreteGaussian

if TYPE_CHECKING:
    import pyarrow as pa

    from siloquent.data import PrivateTable
    from siloquent.discover.plan import DiscoverPlan
    from siloquent.ledger import Permit


@dataclass(frozen=True, slots=True, eq=False)
class CountBins:
    """The kernel of a fold: the number of a batch's values in each bin. It can be sent to other processes."""

    column: str
    starts: NDArray[np.int64]
    cells: int

    def __call__(self, batch: pa.RecordBatch) -> NDArray[np.int64]:
        places = np.asarray(batch.column(self.column).to_numpy(zero_copy_only=False), dtype=np.int64)
        inside = places[(places >= 0) & (places < self.cells)]  # neither OUTSIDE nor NULL's cell
        bins = np.searchsorted(self.starts, inside, side="right") - 1
        return np.bincount(bins, minlength=len(self.starts)).astype(np.int64)


def measure(plan: DiscoverPlan, table: PrivateTable, permit: Permit) -> bytes:
    """Measure what ``plan`` describes, as the ledger stores it.

    Privacy:
        As ``measure_keys`` and ``measure_bounds``.
    """
    return measure_keys(plan, table, permit) if isinstance(plan, KeysPlan) else measure_bounds(plan, table, permit)


def measure_keys(plan: KeysPlan, table: PrivateTable, permit: Permit) -> bytes:
    """Measure the keys whose noisy number of units reaches the threshold, as the ledger stores them.

    Raises:
        NotAllowed: the permit is not an open permit of this table.
        DataError: the source failed; the charge stands.
    Privacy:
        ``plan.event`` in the account's unit and adjacency. Proof: docs/explanation/discover.md.
    """
    from siloquent.privacy.noise import add_gaussian

    passed: list[tuple[int, bytes]] = []
    for part in table.count_units_by_key(plan.spec.column, permit, keys_each=plan.spec.keys_each):
        noisy = add_gaussian(part.units, variance=plan.event.variance)
        passed += _list_passing(part.keys, noisy, plan.event.threshold)
        if len(passed) > 2 * MAX_KEYS:  # what is dropped is decided by released numbers only
            passed = _keep_largest(passed)
    return pack_keys(plan, [key.decode() for _, key in _keep_largest(passed)])


def measure_bounds(plan: BoundsPlan, table: PrivateTable, permit: Permit) -> bytes:
    """Measure the noisy histogram of the column's values, as the ledger stores it.

    Raises:
        NotAllowed: the permit is not an open permit of this table.
        DataError: the source failed; the charge stands.
    Privacy:
        ``plan.event`` in the account's unit and adjacency: the rows of a unit that count move at most ``max_rows``
        values, all of them in one bin at worst.
    """
    from siloquent.privacy.noise import add_gaussian, add_laplace

    column = plan.schema.domain[plan.spec.column]
    kernel = CountBins(column.name, plan.starts, column.steps)
    exact = table.fold(kernel, np.add, [column.name], permit, encoded=True)
    if isinstance(plan.event, DiscreteGaussian):
        return pack_bounds(plan, add_gaussian(exact, variance=plan.event.variance))
    return pack_bounds(plan, add_laplace(exact, scale=plan.event.scale))


def _list_passing(keys: pa.Array, noisy: NDArray[np.int64], threshold: int) -> list[tuple[int, bytes]]:
    import pyarrow as pa

    chosen = np.flatnonzero(noisy >= threshold)
    texts = keys.take(pa.array(chosen)).to_pylist()
    return [(-int(noisy[i]), key.encode()) for i, key in zip(chosen, texts, strict=True) if is_releasable(key)]


def _keep_largest(passed: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    return sorted(passed)[:MAX_KEYS]
