"""Counters from records, and sums from counters, for kernels of numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from siloquent.maths.lsh.hashes import Hashes, pack_columns

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

WIDE = 12
"""The number of attributes from which a matrix product is faster than the fused loop."""
BLOCK = 512


def count_dense(hashes: Hashes, places: Integers, classes: Integers, *, class_count: int = 1) -> Integers:
    """Count all records in all rows, shape (classes, R, width).

    Args:
        places: Shape (records, d), all inside the domain.
        classes: Shape (records,), each in 0..class_count-1.
    """
    from siloquent.maths.lsh import compiled

    counters = np.zeros((class_count, hashes.rows, hashes.width), dtype=np.int64)
    columns = pack_columns(places)
    if hashes.bucket == "range" and hashes.A.shape[2] >= WIDE:
        matrix, offset = hashes.A[:, 0], hashes.B[:, :1]
        for first in range(0, len(places), BLOCK):
            projected = matrix @ columns[:, first : first + BLOCK] + offset
            compiled.count_projected(projected, classes, first, hashes.shift, hashes.low, counters)
    else:
        compiled.count_all(columns, classes, *hashes.list_arrays(), counters)
    return counters


def count_sparse(
    hashes: Hashes,
    places: Integers,
    classes: Integers,
    *,
    hits: int,
    words: NDArray[np.uint64],
    class_count: int = 1,
) -> Integers:
    """Count each record in ``hits`` rows drawn for it, shape (classes, R, width).

    Args:
        words: One random word a record, shape (records,). R is a power of two.
    """
    from siloquent.maths.lsh import compiled

    counters = np.zeros((class_count, hashes.rows, hashes.width), dtype=np.int64)
    shift, column, low, key, mode, width = hashes.list_arrays()[2:]
    A, B = (part.astype(np.int64) for part in (hashes.A[:, :, : places.shape[1]], hashes.B))
    records = np.ascontiguousarray(places)
    compiled.count_some(records, classes, words, hits, A, B, shift, column, low, key, mode, width, counters)
    return counters


def compute_row_sums(hashes: Hashes, counters: Integers, places: Integers | Floats) -> tuple[Floats, Floats]:
    """Return, for each query, the sums of its cells over rows, and of their squares; both (classes, queries)."""
    from siloquent.maths.lsh import compiled

    sums, squares = (np.zeros((len(counters), len(places))) for _ in range(2))
    compiled.look_up(pack_columns(places), *hashes.list_arrays(), counters, sums, squares)
    return sums, squares
