"""Exact counts of many marginals in one pass over the rows. They never leave ``measure``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from siloquent.synth.spec.compiled import TupleTest, evaluate_row_test

if TYPE_CHECKING:
    import pyarrow as pa

    from siloquent.data import PrivateTable
    from siloquent.ledger import Permit

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class CoarseDomain:
    """A map from the cells of one attribute to numbered classes: runs of cells, and the class of each run.

    ``count``: the number of classes. A class of -1 is left out of every count over this attribute.
    """

    name: str
    starts: Integers
    classes: Integers
    count: int

    def classify_cells(self, places: Integers) -> Integers:
        """Return the class of each cell; OUTSIDE has none."""
        found = self.classes[np.searchsorted(self.starts, places, side="right") - 1]
        return np.where(places < 0, -1, found)


@dataclass(frozen=True, slots=True, eq=False)
class MarginalQuery:
    """One marginal: the indices of its attributes among the coarse ones, and rules that a counted row must pass."""

    axes: tuple[int, ...]
    when: tuple[TupleTest, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class CountKernel:
    """The kernel of a fold: from a batch of cells to the counts of all marginals, concatenated.

    A row that is OUTSIDE in any of ``columns`` is not counted, so all marginals count the same rows. It is a class and
    not a closure, so that engines can serialise it.
    """

    columns: tuple[str, ...]
    coarse: tuple[CoarseDomain, ...]
    wanted: tuple[MarginalQuery, ...]

    def __call__(self, batch: pa.RecordBatch) -> Integers:
        places, classes = classify_batch(batch, self.columns, self.coarse)
        return np.concatenate([self._count(one, classes, places) for one in self.wanted])

    def _count(self, one: MarginalQuery, classes: list[Integers], places: dict[str, Integers]) -> Integers:
        code = classes[one.axes[0]]
        for axis in one.axes[1:]:
            code = code * self.coarse[axis].count + classes[axis]
        if one.when:
            passing = np.ones(len(code), dtype=np.bool_)
            for test in one.when:
                passing &= evaluate_row_test(test, places)
            code = code[passing]
        return np.bincount(code, minlength=self.count_cells(one)).astype(np.int64)

    def count_cells(self, one: MarginalQuery) -> int:
        """Return the number of cells of a marginal."""
        return math.prod(self.coarse[axis].count for axis in one.axes)

    def compute_shape(self, one: MarginalQuery) -> tuple[int, ...]:
        """Return the lengths of a marginal's axes."""
        return tuple(self.coarse[axis].count for axis in one.axes)


def classify_batch(
    batch: pa.RecordBatch, columns: Sequence[str], coarse: Sequence[CoarseDomain]
) -> tuple[dict[str, Integers], list[Integers]]:
    """Return the cells of the rows that are never OUTSIDE, by column, and their classes."""
    places = {name: batch.column(name).to_numpy(zero_copy_only=False).astype(np.int64) for name in columns}
    inside = np.ones(batch.num_rows, dtype=np.bool_)
    for found in places.values():
        inside &= found >= 0
    if not inside.all():
        places = {name: found[inside] for name, found in places.items()}
    return places, [each.classify_cells(places[each.name]) for each in coarse]


def count_marginals(
    table: PrivateTable,
    permit: Permit,
    *,
    columns: Sequence[str],
    coarse: Sequence[CoarseDomain],
    wanted: Sequence[MarginalQuery],
) -> list[Integers]:
    """Return the exact counts of ``wanted``, each with one axis per attribute, in one pass.

    Raises:
        NotAllowed, DataError: As ``PrivateTable.fold``.
    Privacy:
        None: exact. Each marginal counts a row at most once, so adding or removing one row changes one of its counts
        by one, and one user with at most m rows changes it by m in L1.
    """
    if not wanted:
        return []
    kernel = CountKernel(tuple(columns), tuple(coarse), tuple(wanted))
    counted = table.fold(kernel, np.add, list(columns), permit, encoded=True)
    ends = np.cumsum([kernel.count_cells(one) for one in wanted])[:-1]
    parts = np.split(counted, ends)
    return [part.reshape(kernel.compute_shape(one)) for part, one in zip(parts, wanted, strict=True)]
