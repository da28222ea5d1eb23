"""Workload matrices: the cells that every predicate counts, and the shape of the predicates.

A workload is a whole matrix W of shape (predicates, cells); its answers are W x for the cell counts x.
"""

from __future__ import annotations

from functools import reduce

import numpy as np
from numpy.typing import NDArray

Workload = NDArray[np.int64]


def build_histogram(cells: int) -> Workload:
    """Return one predicate a cell, shape (cells, cells)."""
    return np.eye(cells, dtype=np.int64)


def build_prefix(cells: int) -> Workload:
    """Return the workload whose predicate i counts the cells 0..i, shape (cells, cells)."""
    return np.tril(np.ones((cells, cells), dtype=np.int64))


def build_product(*factors: Workload) -> Workload:
    """Return every conjunction of one predicate of each factor, the last factor running fastest.

    >>> build_product(build_prefix(2), build_histogram(2)).tolist()
    [[1, 0, 0, 0], [0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1]]
    """
    return reduce(np.kron, factors)


def merge_columns(workload: Workload) -> tuple[Workload, NDArray[np.int64]]:
    """Return the workload over classes of cells that no predicate distinguishes.

    Returns:
        The merged workload, its columns in the order of their first appearance, and for every cell its new column, -1
        for a cell that no predicate counts.

    >>> merged, column = merge_columns(np.array([[0, 1, 1, 0], [1, 0, 0, 0]]))
    >>> merged.tolist(), column.tolist()
    ([[0, 1], [1, 0]], [0, 1, 1, -1])
    """
    # Cells as rows of bytes: sorting the narrowest type that holds the values is several times faster.
    cells = np.ascontiguousarray(_narrow(workload).T)
    keys = cells.view(np.dtype((np.void, max(1, cells.dtype.itemsize * cells.shape[1])))).reshape(-1)
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    counted = workload[:, first].any(axis=0)
    order = np.argsort(first[counted], kind="stable")
    place = np.full(len(first), -1, dtype=np.int64)
    place[np.flatnonzero(counted)[order]] = np.arange(len(order))
    return np.ascontiguousarray(workload[:, first[counted][order]]), place[group.reshape(-1)]


def is_disjoint(workload: NDArray[np.int64] | NDArray[np.float64]) -> bool:
    """Return whether no cell is counted by two predicates."""
    return bool(np.all(np.count_nonzero(workload, axis=0) <= 1))


def is_monotone(workload: Workload) -> bool:
    """Return whether no weight is negative, so one more row never lowers an answer (under add-remove)."""
    return bool(np.all(workload >= 0))


def find_chain(workload: Workload) -> NDArray[np.int64] | None:
    """Return the order of predicates in which their answers can only grow, or None if there is none.

    Equal predicates keep their declared order.
    """
    if not is_monotone(workload):
        return None
    order = np.argsort(workload.sum(axis=1), kind="stable").astype(np.int64)
    ordered = workload[order]
    return order if bool(np.all(ordered[:-1] <= ordered[1:])) else None


def is_nested(workload: Workload) -> bool:
    """Return whether the predicates form a chain, as prefixes do."""
    return find_chain(workload) is not None


def _narrow(workload: Workload) -> NDArray[np.signedinteger]:
    """Return the same values in the narrowest signed type."""
    low, high = (int(workload.min()), int(workload.max())) if workload.size else (0, 0)
    for kind in (np.int8, np.int16, np.int32):
        if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max:
            return workload.astype(kind)
    return workload
