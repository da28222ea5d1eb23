"""The cliques of a set of marginals: greedy elimination on bitmasks, fast enough to try every candidate."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache

_BITS = 8


def build_mask(attributes: Iterable[int]) -> int:
    """Return attribute numbers as a bitmask."""
    mask = 0
    for attribute in attributes:
        mask |= 1 << attribute
    return mask


def list_members(mask: int) -> tuple[int, ...]:
    """Return the attribute numbers in a bitmask, increasing."""
    found = []
    while mask:
        lowest = mask & -mask
        found.append(lowest.bit_length() - 1)
        mask ^= lowest
    return tuple(found)


def find_cliques(sizes: Sequence[int], sets: Iterable[int]) -> list[int]:
    """Return the maximal cliques, as bitmasks, of a triangulated graph in which every set of ``sets`` is connected.

    The attribute whose elimination makes the smallest table is eliminated first. Every attribute is in some clique.

    Source:
        Greedy minimum-weight elimination, "Triangulation of graphs: algorithms giving small total state space" (1990).
    """
    weights = _Weights(tuple(sizes))
    around = _build_neighbours(len(sizes), sets)
    cost = [weights.compute_log_size(around[v] | 1 << v) for v in range(len(sizes))]
    left = list(range(len(sizes)))
    found: list[int] = []
    while left:
        v = min(left, key=cost.__getitem__)
        left.remove(v)
        clique = around[v] | 1 << v
        if not any(clique & other == clique for other in found):
            found.append(clique)
        for u in list_members(around[v]):
            around[u] = (around[u] | around[v]) & ~(1 << u) & ~(1 << v)
            cost[u] = weights.compute_log_size(around[u] | 1 << u)
    return found


def count_cells(sizes: Sequence[int], found: Iterable[int]) -> int:
    """Return the number of cells of the tables of these cliques together."""
    return sum(math.prod(sizes[v] for v in list_members(clique)) for clique in found)


def _build_neighbours(count: int, sets: Iterable[int]) -> list[int]:
    around = [0] * count
    for mask in sets:
        for v in list_members(mask):
            around[v] |= mask & ~(1 << v)
    return around


class _Weights:
    """The logarithm of the size of a clique, from tables of eight attributes each."""

    def __init__(self, sizes: tuple[int, ...]) -> None:
        self.tables = _build_tables(sizes)

    def compute_log_size(self, mask: int) -> float:
        total, place = 0.0, 0
        while mask:
            total += self.tables[place][mask & (2**_BITS - 1)]
            mask >>= _BITS
            place += 1
        return total


@lru_cache(maxsize=8)
def _build_tables(sizes: tuple[int, ...]) -> tuple[tuple[float, ...], ...]:
    logs = [math.log(size) for size in sizes]
    logs += [0.0] * (-len(logs) % _BITS)
    return tuple(
        tuple(sum(logs[start + v] for v in list_members(mask)) for mask in range(2**_BITS))
        for start in range(0, len(logs), _BITS)
    )
