"""The sizes of batches, and their division into messages."""

from __future__ import annotations

from collections.abc import Sequence

CHUNK_ELEMENTS = 2**13
"""The elements of one message: 256 kB, so that the next worker begins early."""


def compute_size_class(rows: int) -> int:
    """Return the next multiple of 2^(floor(log2 rows) - 4): at most 6.25 % more, and exact below 32.

    >>> [compute_size_class(rows) for rows in (31, 32, 33, 1000, 1001)]
    [31, 32, 34, 1024, 1024]
    """
    step = 1 << max(0, rows.bit_length() - 1 - 4)
    return -(-rows // step) * step


def split_queries(queries: Sequence[int], elements: int) -> list[list[int]]:
    """Divide queries of ``elements`` elements each, over all parties, into messages; in order, each query once."""
    each = max(1, CHUNK_ELEMENTS // max(1, elements))
    return [list(queries[at : at + each]) for at in range(0, len(queries), each)]


def split_sets(first: int, count: int, sizes: Sequence[int]) -> list[list[int]]:
    """Divide a level's sets of the thesis' traversal, from ``first`` on, into messages; a value is two elements."""
    return split_queries(range(first, first + count), 2 * sum(sizes))
