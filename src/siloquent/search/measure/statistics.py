"""The measure room: sums by key of whole records, each order with its own noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from siloquent.maths.models.monomial_index import count_orderings, list_products, sum_products
from siloquent.privacy.budget import round_up_to_drawable
from siloquent.search.domains import Feature, JoinKey
from siloquent.search.measure.ranges import Clip, clip_feature, measure_ranges
from siloquent.search.offers import MeasuredSums
from siloquent.search.records import build_whole_records

if TYPE_CHECKING:
    import pyarrow as pa

    from siloquent.data import PrivateTable
    from siloquent.ledger import Permit
    from siloquent.search.plan import OfferPlan

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


def measure(plan: OfferPlan, table: PrivateTable, permit: Permit) -> tuple[MeasuredSums, tuple[Feature, ...]]:
    """Measure counts, sums and second moments of all records with noise; return them and the features with used ranges.

    Raises:
        NotAllowed: The permit is not an open permit of this table.
        DataError: The source failed; the charge stands.
    Privacy:
        ``plan.event`` in the account's unit and adjacency: whole records no longer than ``plan.longest``; one unit
        changes their sums of all orders by at most the event's bound. Proof: docs/explanation/search.md.
    Source:
        "Saibot: A Differentially Private Data Search Platform" (PVLDB 2023), algorithm 1; all orders in one joint
        release with whole noise instead of one scale for all.
    """
    clips = measure_ranges(plan, table, permit)
    features = tuple(map(clip_feature, plan.features, clips))
    kernel = build_sum_kernel(plan, features, clips)
    exact = kernel.unpack_sums(table.fold(kernel, np.add, list(plan.places), permit, encoded=True))
    return add_plan_noise(plan, exact), features


def build_sum_kernel(plan: OfferPlan, features: tuple[Feature, ...], clips: tuple[Clip | None, ...] = ()) -> SumBatch:
    """Build the kernel that sums each batch of rows for a plan."""
    spec = plan.spec
    return SumBatch(features, plan.keys, plan.steps, spec.norm_cut, spec.second_moments, clips, spec.order)


def add_plan_noise(plan: OfferPlan, exact: MeasuredSums) -> MeasuredSums:
    """Add the plan's noise to ``exact``: a product's variance is divided by the number of orderings of its numbers.

    Privacy:
        ``plan.event``, for the unit that ``plan`` was made for.
    """
    zero, first, second, *others = plan.parameters
    return MeasuredSums(
        counts=tuple(_add_noise(plan, counts, zero) for counts in exact.counts),
        sums=tuple(_add_noise(plan, sums, first) for sums in exact.sums),
        second=None if exact.second is None else _add_matrix_noise(plan, exact.second, second),
        higher=tuple(
            _add_product_noise(plan, array, parameter, order)
            for order, (array, parameter) in enumerate(zip(exact.higher, others, strict=True), start=3)
        ),
    )


def _add_product_noise(plan: OfferPlan, exact: Integers, parameter: Fraction | None, order: int) -> Integers:
    """Add noise to products of ``order`` numbers, (..., products); each stands for all orderings of its numbers."""
    assert parameter is not None
    times = count_orderings(len(plan.columns), order)
    found = np.zeros_like(exact)
    for each in np.unique(times):
        found[..., times == each] = _add_noise(
            plan, exact[..., times == each], round_up_to_drawable(parameter / int(each))
        )
    return found


def _add_matrix_noise(plan: OfferPlan, exact: Integers, parameter: Fraction | None) -> Integers:
    """Add symmetric noise to symmetric matrices, shape (..., p, p)."""
    assert parameter is not None
    p = exact.shape[-1]
    off, on = np.triu_indices(p, 1), np.diag_indices(p)
    found = np.zeros_like(exact)
    found[..., off[0], off[1]] = _add_noise(
        plan, exact[..., off[0], off[1]], parameter / 2 if plan.is_halved else parameter
    )
    found += np.swapaxes(found, -1, -2)
    found[..., on[0], on[1]] = _add_noise(plan, exact[..., on[0], on[1]], parameter)
    return found


def _add_noise(plan: OfferPlan, values: Integers, parameter: Fraction | None) -> Integers:
    from siloquent.privacy.noise import add_gaussian, add_laplace

    whole = np.ascontiguousarray(values)
    if parameter is None:  # the number of rows, where it is equal for all neighbours
        return whole
    if plan.noise == "gaussian":
        return add_gaussian(whole, variance=parameter)
    return add_laplace(whole, scale=parameter)


@dataclass(frozen=True, slots=True)
class SumBatch:
    """The kernel of a fold: maps a batch of indices to concatenated sums. It can be sent to other processes."""

    features: tuple[Feature, ...]
    keys: tuple[JoinKey, ...]
    steps: int
    norm_cut: float | None
    second: str
    clips: tuple[Clip | None, ...] = ()
    order: int = 2

    def __call__(self, batch: pa.RecordBatch) -> Integers:
        places = {
            name: np.asarray(batch.column(name).to_numpy(zero_copy_only=False), dtype=np.int64)
            for name in batch.schema.names
        }
        for feature, clip in zip(self.features, self.clips, strict=False):
            if clip is not None:
                places[feature.name] = shift_indices(places[feature.name], clip)
        cells = [compute_key_cells(key, places, batch.num_rows) for key in self.keys]
        keep = find_counted_rows(self.features, places, cells, batch.num_rows)
        records = build_whole_records(self.features, places, batch.num_rows, self.steps, self.norm_cut)[keep]
        return self.sum_records(records, [cell[keep] for cell in cells])

    def sum_records(self, records: Integers, cells: list[Integers]) -> Integers:
        """Compute exact sums of whole records, flat.

        Privacy:
            None: exact. One record changes them by at most the bound in ``maths/sensitivity/joint.py``.
        """
        parts: list[NDArray[Any]] = []
        grouped = list(zip(cells, (key.cells for key in self.keys), strict=True)) or [
            (np.zeros(len(records), dtype=np.int64), 1)
        ]
        for cell, size in grouped:
            # Doubles represent every sum exactly: a batch has at most 2^31 records of at most 2^10 steps.
            parts.append(np.bincount(cell, minlength=size))
            parts.append(np.stack([np.bincount(cell, weights=w, minlength=size) for w in records.T], axis=1).ravel())
        if self.second == "total":
            parts.append((records.T.astype(np.float64) @ records.astype(np.float64)).ravel())
        elif self.second == "per-key":
            cell, size = grouped[0]
            products = [np.bincount(cell, weights=a * b, minlength=size) for a in records.T for b in records.T]
            parts.append(np.stack(products, axis=1).ravel())
        parts += [sum_products(records, order) for order in range(3, self.order + 1)]
        return np.concatenate(parts).astype(np.int64)

    def unpack_sums(self, flat: Integers) -> MeasuredSums:
        """Unpack the sums concatenated by ``sum_records``."""
        p = sum(len(feature.columns) for feature in self.features)
        sizes = [key.cells for key in self.keys] or [1]
        counts, sums, at = [], [], 0
        for size in sizes:
            counts.append(flat[at : at + size])
            sums.append(flat[at + size : at + size * (1 + p)].reshape(size, p))
            at += size * (1 + p)
        shape = {"none": (0,), "total": (p, p), "per-key": (sizes[0], p, p)}[self.second]
        higher = [len(list_products(p, order)) for order in range(3, self.order + 1)]
        rest = np.split(flat[at:], np.cumsum([math.prod(shape), *higher]))
        second = None if self.second == "none" else rest[0].reshape(shape)
        return MeasuredSums(tuple(counts), tuple(sums), second, tuple(rest[1:-1]))


def shift_indices(places: Integers, clip: Clip) -> Integers:
    """Return indices from the start of an estimated range, clamped to it; cells after the declared values stay last."""
    first, last, declared = clip
    inside = np.where(places < declared, np.clip(places, first, last) - first, last + 1 - first)
    return np.where(places < 0, -1, inside)


def find_counted_rows(
    features: tuple[Feature, ...], places: dict[str, Integers], cells: list[Integers], rows: int
) -> NDArray[np.bool_]:
    """Return the rows that count: those that have every key, and no feature OUTSIDE."""
    keep = np.ones(rows, dtype=np.bool_)
    for cell in cells:
        keep &= cell >= 0
    for feature in features:
        keep &= places[feature.name] >= 0
    return keep


def compute_key_cells(key: JoinKey, places: dict[str, Integers], rows: int) -> Integers:
    """Compute the cell of each row, -1 where a part of its key is OUTSIDE."""
    cell, inside = np.zeros(rows, dtype=np.int64), np.ones(rows, dtype=np.bool_)
    for part in key.parts:
        place = places[part.name]
        inside &= (place >= 0) & (place < part.cells)
        cell = cell * part.cells + place
    return np.where(inside, cell, -1)
