"""Counts of the reports that support each node, and each pair of nodes of two reports, in whole numbers.

Numba is imported where it is needed, since it takes .2 s.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from siloquent.maths.local.frequency_oracles import Kind

Integers = NDArray[np.int64]
WORD_BITS = 43
"""Bits of a set in one 64-bit column, so that three columns hold 128 and none is negative in any engine."""


def count_supports(kind: Kind, nodes: int, size: int, columns: Integers) -> Integers:
    """Return how many reports support each node; the last entry is the number of reports. Shape (nodes + 1,).

    Args:
        columns: Shape (reports, 3): a set's bits, ``WORD_BITS`` a column, or a, b, y of a hash.
    """
    from siloquent.maths.local import support_kernels as kernels

    found = np.zeros(nodes + 1, dtype=np.int64)
    if kind == "subset":
        kernels.count_sets(columns, found)
    else:
        kernels.count_hashes(columns, size, found)
    return found


def count_joint_supports(
    kinds: tuple[Kind, ...], nodes: tuple[int, ...], sizes: tuple[int, ...], columns: list[Integers]
) -> Integers:
    """Return how many users' reports support each combination of nodes, one axis a service; last entries: all reports.

    Args:
        columns: One array a service, as for ``count_supports``, whose rows belong to the same users in the same order.
    """
    from siloquent.maths.local import support_kernels as kernels

    if len(kinds) == 2:
        found = np.zeros((nodes[0] + 1, nodes[1] + 1), dtype=np.int64)
        lists = [
            kernels.list_supported(kind == "subset", size, k, own)
            for kind, size, k, own in zip(kinds, sizes, nodes, columns, strict=True)
        ]
        kernels.count_pairs(*lists[0], *lists[1], found)
        return found
    return _count_many(kinds, nodes, sizes, columns)


def _count_many(
    kinds: tuple[Kind, ...], nodes: tuple[int, ...], sizes: tuple[int, ...], columns: list[Integers]
) -> Integers:
    """Count for three services or more: one service after the other, the reports that support a node at a time."""
    first = find_supported(kinds[0], nodes[0], sizes[0], columns[0])
    rest = []
    for node in range(nodes[0] + 1):
        kept = first[:, node]
        part = [own[kept] for own in columns[1:]]
        if len(part) == 1:
            rest.append(count_supports(kinds[1], nodes[1], sizes[1], part[0]))
        else:
            rest.append(count_joint_supports(kinds[1:], nodes[1:], sizes[1:], part))
    return np.stack(rest)


def find_supported(kind: Kind, nodes: int, size: int, columns: Integers) -> NDArray[np.bool_]:
    """Return which nodes each report supports, shape (reports, nodes + 1), the last column all true."""
    at = np.arange(nodes)
    if kind == "subset":
        found = columns[:, at // WORD_BITS] >> (at % WORD_BITS) & 1 == 1
    else:
        a, b, y = (columns[:, [i]] for i in range(3))
        found = (a * at + b) % (2**31 - 1) % size == y
    return np.hstack([found, np.ones((len(columns), 1), dtype=np.bool_)])
