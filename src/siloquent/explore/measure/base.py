"""Exact numbers of a workload, from which noise is drawn; and the outcome of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from siloquent.explore.plan.cells.compiled import CompiledWorkload, Integers, SummedAttribute, WorkloadPart
from siloquent.explore.plan.mechanisms.reconstruction import Matrix
from siloquent.maths.strategies.sparse import Sparse
from siloquent.privacy import Event

LARGEST_VALUE = 2**60
SAFE = 2**62


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """The release of one run: ``values`` and their ``event``, which may cost less than the planned one."""

    values: Integers
    event: Event


def sum_units(summed: SummedAttribute, part: WorkloadPart, index_sums: Integers, counts: Integers) -> Integers:
    """Sum a part's columns exactly, each rounded to the nearest unit, shape (columns,).

    One row of value v changes a column by at most v / quantum units, rounded up: by ``summed.largest``.

    Args:
        index_sums: Sums of indices, shape (cells of the part's block,).
        counts: The numbers of rows in them.
    """
    # Sums of 2^31 rows of 2^48 steps exceed 64 bits, and an overflow would break the guarantee.
    total = float(np.abs(index_sums.astype(np.float64)).sum()) + (abs(summed.offset) + 1) * float(counts.sum())
    kind = np.int64 if total < SAFE else object
    exact = part.fold(index_sums.astype(kind) + summed.offset * counts.astype(kind))
    return np.asarray((exact + summed.quantum // 2) // summed.quantum, dtype=np.int64)


def multiply_clipped(matrix: NDArray[np.signedinteger[Any]] | Sparse, x: Integers) -> Integers:
    """Compute ``matrix @ x`` without overflow, each entry clipped to +-2^60.

    Clipping never increases the distance of two results, so it costs no privacy; and no error reveals a large number.
    """
    if isinstance(matrix, Sparse):
        exact = matrix.apply(x)
    else:
        largest = int(np.abs(matrix).sum(axis=1, dtype=np.int64).max(initial=0)) * max(int(np.abs(x).max(initial=0)), 1)
        exact = matrix @ x if largest < SAFE else matrix.astype(object) @ x.astype(object)
    return np.asarray(np.clip(exact, -LARGEST_VALUE, LARGEST_VALUE), dtype=np.int64)


def compute_answers(compiled: CompiledWorkload, columns: list[Integers]) -> Integers:
    """Compute the exact answers W x of a workload, clipped to +-2^60, shape (answers,)."""
    total = np.zeros(compiled.answers, dtype=np.int64)
    for part, x in zip(compiled.parts, columns, strict=True):
        # Each answer belongs to one part, so this sum cannot overflow.
        if part.weights is not None:
            total += multiply_clipped(part.weights, x)
        elif part.running:
            kind = np.int64 if float(np.abs(x.astype(np.float64)).sum()) < SAFE else object
            total += np.clip(np.cumsum(x.astype(kind)), -LARGEST_VALUE, LARGEST_VALUE).astype(np.int64)
        else:
            total += np.clip(x, -LARGEST_VALUE, LARGEST_VALUE)
    return total


def compute_measurements(matrices: Sequence[Matrix], columns: list[Integers]) -> Integers:
    """Compute the exact measurements A x of a strategy's ``matrices``, one per part, shape (measurements,)."""
    return np.concatenate([multiply_clipped(matrix, x) for matrix, x in zip(matrices, columns, strict=True)])
