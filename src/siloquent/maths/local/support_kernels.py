"""The loops of ``supports``, compiled; callers import this module inside functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
F = TypeVar("F", bound=Callable[..., Any])
PRIME = 2**31 - 1
WORD_BITS = 43


def compile_kernel(function: F) -> F:
    """Compile for the types of the first call, using the disk cache if there is one."""
    try:
        made: F = numba.njit(cache=True, nogil=True)(function)
    except RuntimeError:  # the compiled code cannot be cached, so it is compiled in each process
        made = numba.njit(nogil=True)(function)
    return made


@compile_kernel
def count_sets(columns: Integers, found: Integers) -> None:
    """Count the bits of sets; ``found`` has one more entry for the number of reports. Bits beyond it are ignored."""
    nodes = found.size - 1
    for i in range(columns.shape[0]):
        for c in range(3):
            word, node = columns[i, c], c * WORD_BITS
            while word != 0:
                # Sets are small, so only set bits are visited.
                low = word & -word
                at = node + _find_bit(low)
                if at < nodes:
                    found[at] += 1
                word ^= low
    found[found.size - 1] += columns.shape[0]


@compile_kernel
def _find_bit(low: int) -> int:
    """Return the index of the only bit that is set."""
    place = 0
    for shift in (32, 16, 8, 4, 2, 1):
        if low >> shift:
            low >>= shift
            place += shift
    return place


@compile_kernel
def count_hashes(columns: Integers, size: int, found: Integers) -> None:
    """Evaluate each report's hash at each node."""
    nodes = found.size - 1
    for i in range(columns.shape[0]):
        a, value, y = columns[i, 0], columns[i, 1], columns[i, 2]
        for node in range(nodes):
            if value % size == y:
                found[node] += 1
            value += a
            if value >= PRIME:
                value -= PRIME
    found[nodes] += columns.shape[0]


@compile_kernel
def list_supported(is_set: bool, size: int, nodes: int, columns: Integers) -> tuple[Integers, Integers]:
    """Return the nodes that each report supports, concatenated, and where each list ends; shape (reports + 1,)."""
    ends = np.zeros(columns.shape[0] + 1, dtype=np.int64)
    for pass_ in range(2):
        held = np.empty(ends[columns.shape[0]] if pass_ else 0, dtype=np.int64)
        at = 0
        for i in range(columns.shape[0]):
            value = columns[i, 1]
            for node in range(nodes):
                if is_set:
                    hit = columns[i, node // WORD_BITS] >> (node % WORD_BITS) & 1 == 1
                else:
                    hit = value % size == columns[i, 2]
                    value += columns[i, 0]
                    if value >= PRIME:
                        value -= PRIME
                if hit:
                    if pass_:
                        held[at] = node
                    at += 1
            ends[i + 1] = at
    return held, ends


@compile_kernel
def count_pairs(
    first: Integers, first_ends: Integers, second: Integers, second_ends: Integers, found: Integers
) -> None:
    """Add up the pairs of supported nodes; the last row and column count every report."""
    rows, columns = found.shape[0] - 1, found.shape[1] - 1
    for i in range(first_ends.size - 1):
        for x in range(first_ends[i], first_ends[i + 1]):
            for y in range(second_ends[i], second_ends[i + 1]):
                found[first[x], second[y]] += 1
            found[first[x], columns] += 1
        for y in range(second_ends[i], second_ends[i + 1]):
            found[rows, second[y]] += 1
        found[rows, columns] += 1


@compile_kernel
def weigh_factors(is_set: bool, size: int, columns: Integers, factors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the summed rows of ``factors``, one a node, over the nodes each report supports: (reports, factors)."""
    found = np.zeros((columns.shape[0], factors.shape[1]))
    for i in range(columns.shape[0]):
        value = columns[i, 1]
        for node in range(factors.shape[0]):
            if is_set:
                hit = columns[i, node // WORD_BITS] >> (node % WORD_BITS) & 1 == 1
            else:
                hit = value % size == columns[i, 2]
                value += columns[i, 0]
                if value >= PRIME:
                    value -= PRIME
            if hit:
                for at in range(factors.shape[1]):
                    found[i, at] += factors[node, at]
    return found


@compile_kernel
def weigh(columns: Integers, size: int, nodes: Integers, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the summed weights of the nodes that each hashed report supports, shape (reports,)."""
    found = np.zeros(columns.shape[0])
    for i in range(columns.shape[0]):
        a, b, y = columns[i, 0], columns[i, 1], columns[i, 2]
        for at in range(nodes.size):
            if (a * nodes[at] + b) % PRIME % size == y:
                found[i] += weights[at]
    return found
