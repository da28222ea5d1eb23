"""The measure room: counts records in hashed cells, adds noise, releases nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from siloquent.maths.lsh import (
    Hashes,
    MinHashes,
    count_dense,
    count_sets,
    count_sparse,
    hash_ids,
)
from siloquent.sketch.hash_plan import HashPlan
from siloquent.sketch.sketch import MeasuredCounters
from siloquent.sketch.tokens import build_one_hot_sets, compute_word_tokens

if TYPE_CHECKING:
    import pyarrow as pa

    from siloquent.data import PrivateTable
    from siloquent.ledger import Permit
    from siloquent.sketch.plan import SketchPlan

Integers = NDArray[np.int64]


def measure(plan: SketchPlan, table: PrivateTable, permit: Permit) -> MeasuredCounters:
    """Count every record once in each of its rows of the sketch, and release the counters with noise.

    Raises:
        NotAllowed: the permit is not an open permit of this table.
        DataError: the source failed; the charge stands.
    Privacy:
        ``plan.event`` in the account's unit and adjacency: discrete noise on a table that one unit changes by at most
        ``plan.sensitivity``, and on the numbers of records. Proof: docs/explanation/sketch.md.
    Source:
        "A One-Pass Distributed and Private Sketch for Kernel Sums" (CCS 2021), algorithm 1; discrete noise instead of
        rounded floats, the number of records as a separate release.
    """
    counters = count_counters(plan, table, permit)
    sizes = _compute_sizes(plan, counters)
    noisy_sizes = None if plan.size_parameter is None else add_counter_noise(plan, sizes, plan.size_parameter)
    return MeasuredCounters(add_counter_noise(plan, counters, plan.parameter), noisy_sizes)


def measure_share(plan: SketchPlan, table: PrivateTable, permit: Permit, *, honest: int) -> MeasuredCounters:
    """Measure counters with one silo's share of the noise, only for the secure sum of several silos.

    Args:
        honest: The minimal number of silos that follow the protocol and do not pool their noise.
    Privacy:
        NONE by itself: a share has less noise than the event states. Only the sum over at least ``honest`` silos has
        the guarantee of ``plan.event``; the counters must leave this silo encrypted or split, never in the clear.
    Source:
        docs/explanation/sketch.md, "Several silos"; shares: siloquent.privacy.noise.distributed.
    """
    from siloquent.privacy.noise.distributed import add_gaussian_share, add_laplace_share

    def shared(values: Integers, parameter: Fraction) -> Integers:
        if plan.noise == "gaussian":
            return add_gaussian_share(values, variance=parameter, honest=honest)
        return add_laplace_share(values, scale=parameter, honest=honest)

    counters = count_counters(plan, table, permit)
    sizes = _compute_sizes(plan, counters)
    noisy_sizes = None if plan.size_parameter is None else shared(sizes, plan.size_parameter)
    return MeasuredCounters(shared(counters, plan.parameter), noisy_sizes)


def count_counters(plan: SketchPlan, table: PrivateTable, permit: Permit) -> Integers:
    """Compute counters without noise, shape (classes, R, W), for this room and for secure sums.

    Privacy:
        None: exact. One unit changes them by at most ``plan.sensitivity``.
    """
    hashed = plan.hash_plan
    if hashed.sets == "group":
        return _count_grouped(plan, table, permit)
    kernel = CountBatch(hashed, plan.hits)
    columns = [feature.name for feature in hashed.features] + ([hashed.label] if hashed.label else [])
    return table.fold(kernel, add_in_place, columns, permit, encoded="countable" if hashed.sets == "words" else True)


def count_places(plan: SketchPlan, places: Integers, classes: Integers | None) -> tuple[Integers, Integers]:
    """Compute exact counters and numbers of records from indices, shape (records, features), all of them inside.

    Privacy:
        None: exact. One record changes both by at most ``plan.sensitivity``.
    """
    hashes = plan.hash_plan.hashes
    assert isinstance(hashes, Hashes)
    labels = np.zeros(len(places), dtype=np.int64) if classes is None else classes
    records = plan.hash_plan.compute_hashed_indices(places)
    counters = count_dense(hashes, records, labels, class_count=plan.hash_plan.classes)
    return counters, _compute_sizes(plan, counters)


def add_in_place(total: Integers, more: Integers) -> Integers:
    """Add ``more`` to ``total`` in place: counters are large, and no other code holds ``total``."""
    if not total.flags.writeable:
        total = total.copy()
    np.add(total, more, out=total)
    return total


def add_counter_noise(plan: SketchPlan, values: Integers, parameter: Fraction) -> Integers:
    """Add the plan's kind of noise to ``values``, of scale (Laplace) or variance (Gaussian) ``parameter``.

    Privacy:
        Pure (L1 / parameter)-DP or zCDP with rho = L2^2 / (2 parameter), exactly.
    """
    from siloquent.privacy.noise import add_gaussian, add_laplace

    if plan.noise == "gaussian":
        return add_gaussian(values, variance=parameter)
    return add_laplace(values, scale=parameter)


def _compute_sizes(plan: SketchPlan, counters: Integers) -> Integers:
    """Compute the number of counted records of each class: every record is in the same number of rows."""
    if plan.hits is None:
        return np.asarray(counters[:, 0].sum(axis=1), dtype=np.int64)
    return np.asarray(counters.sum(axis=(1, 2)) // plan.hits, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class CountBatch:
    """The kernel of a fold: a batch of records to counters. A class, not a closure, so that it can be pickled.

    ``hits``: the number of rows in which each record counts, drawn anew for each; None: all rows.
    """

    plan: HashPlan
    hits: int | None

    def __call__(self, batch: pa.RecordBatch) -> Integers:
        classes, keep = self._find_classes(batch)
        hashes, number = self.plan.hashes, self.plan.classes
        if isinstance(hashes, Hashes):
            places = np.stack([_read_indices(batch, f.name) for f in self.plan.features], axis=1)
            keep &= (places >= 0).all(axis=1) & (places < [f.steps for f in self.plan.features]).all(axis=1)
            places, classes = self.plan.compute_hashed_indices(places[keep]), classes[keep]
            if self.hits is None:
                return count_dense(hashes, places, classes, class_count=number)
            words = _draw_words(len(places))
            return count_sparse(hashes, places, classes, hits=self.hits, words=words, class_count=number)
        tokens, ends = self._build_sets(batch, keep)
        return _count_sets(hashes, tokens, ends, classes, number, self.hits)

    def _find_classes(self, batch: pa.RecordBatch) -> tuple[Integers, NDArray[np.bool_]]:
        """Return the class of each record, and whether it has one."""
        if self.plan.label is None:
            return np.zeros(batch.num_rows, dtype=np.int64), np.ones(batch.num_rows, dtype=np.bool_)
        found = _read_indices(batch, self.plan.label)
        inside = (found >= 0) & (found < self.plan.classes)
        return np.where(inside, found, 0), inside

    def _build_sets(self, batch: pa.RecordBatch, keep: NDArray[np.bool_]) -> tuple[NDArray[np.uint32], Integers]:
        """Build the tokens of each record; records that are not kept have empty sets, which are not counted."""
        if self.plan.sets == "words":
            import pyarrow as pa
            import pyarrow.compute as pc

            texts = batch.column(self.plan.features[0].name)
            return compute_word_tokens(pc.if_else(pa.array(keep), texts, None), self.plan.token_key)
        places = np.stack([_read_indices(batch, feature.name) for feature in self.plan.features], axis=1)
        places[~keep] = -1
        return build_one_hot_sets(self.plan, places)


def _read_indices(batch: pa.RecordBatch, name: str) -> Integers:
    return np.asarray(batch.column(name).to_numpy(zero_copy_only=False), dtype=np.int64)


def _draw_words(count: int) -> NDArray[np.uint64]:
    from siloquent.privacy.noise import draw_words

    return draw_words(count)


def _count_sets(
    hashes: MinHashes, tokens: NDArray[np.uint32], ends: Integers, classes: Integers, number: int, hits: int | None
) -> Integers:
    words = None if hits is None else _draw_words(len(ends) - 1)
    return count_sets(hashes, tokens, ends, classes, class_count=number, hits=hits, words=words)


def _count_grouped(plan: SketchPlan, table: PrivateTable, permit: Permit) -> Integers:
    """Count one set per unit: rows are collected first, since a unit's rows may lie in several batches."""
    hashed = plan.hash_plan
    assert isinstance(hashed.hashes, MinHashes)
    assert hashed.group is not None
    owners, places = _collect_rows(plan, table.read_rows([hashed.group, hashed.features[0].name], permit))
    order = np.argsort(owners, kind="stable")
    owners, places = owners[order], places[order]
    starts = np.flatnonzero(np.diff(owners, prepend=-1))
    ends = np.append(starts, len(owners)).astype(np.int64)
    tokens = hash_ids(places, key=hashed.token_key)
    return _count_sets(hashed.hashes, tokens, ends, np.zeros(len(ends), dtype=np.int64), 1, plan.hits)


def _collect_rows(plan: SketchPlan, batches: Any) -> tuple[Integers, Integers]:
    """Collect the owner of each row as a number, and the index of its value; rows without either are left out."""
    import pyarrow as pa
    import pyarrow.compute as pc

    feature = plan.hash_plan.features[0]
    chunks: list[Sequence[Any]] = [[], []]
    for batch in batches:
        chunks[0].append(batch.column(0))  # type: ignore[attr-defined]
        chunks[1].append(_find_indices(feature, batch.column(1)))  # type: ignore[attr-defined]
    if not chunks[0]:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    owners = pa.chunked_array(chunks[0]).combine_chunks().dictionary_encode().indices
    places = np.concatenate(chunks[1])
    keep = (places >= 0) & (places < feature.steps) & pc.is_valid(owners).to_numpy(zero_copy_only=False)
    return owners.fill_null(-1).to_numpy().astype(np.int64)[keep], places[keep]


def _find_indices(feature: Any, column: pa.Array) -> Integers:
    """Return the indices of declared values, -1 for NULL."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if feature.values:
        found = pc.index_in(column, value_set=pa.array(feature.values, column.type))
        return np.asarray(found.fill_null(-1).to_numpy(zero_copy_only=False), dtype=np.int64)
    values = column.to_numpy(zero_copy_only=False).astype(np.float64)
    places = np.rint((np.nan_to_num(values, nan=feature.lo - feature.grid) - feature.lo) / feature.grid)
    return np.asarray(places, dtype=np.int64)
