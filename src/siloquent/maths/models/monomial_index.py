"""Products of three and four numbers, each once: their numbering, and how often each occurs in the whole tensor."""

from __future__ import annotations

import math
from collections import Counter
from functools import lru_cache
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


@lru_cache(maxsize=32)
def list_products(numbers: int, order: int) -> Integers:
    """Return the numbers in each product of ``order`` numbers, in lexicographic order, shape (products, order)."""
    found = list(combinations_with_replacement(range(numbers), order))
    return np.array(found, dtype=np.int64).reshape(len(found), order)


@lru_cache(maxsize=32)
def count_orderings(numbers: int, order: int) -> Integers:
    """Return the number of orders in which the numbers of each product can be written, (products,)."""
    found = [
        math.factorial(order) // math.prod(math.factorial(n) for n in Counter(one.tolist()).values())
        for one in list_products(numbers, order)
    ]
    return np.array(found, dtype=np.int64)


def sum_products(records: Integers, order: int) -> Integers:
    """Return each product of three or four numbers, added up over whole records (rows, numbers); shape (products,).

    Exact while steps^order times rows is below 2^53: 63 steps and 10^8 rows.
    """
    return sum_products_exactly(records.astype(np.float64), order).astype(np.int64)


def sum_products_exactly(rows: Floats, order: int) -> Floats:
    """Return each product of two to four numbers, added up over rows (rows, numbers); shape (products,)."""
    numbers, chosen = rows.shape[1], list_products(rows.shape[1], order)
    if order == 2:
        return np.asarray((rows.T @ rows)[tuple(chosen.T)])
    first, second = list_products(numbers, 2).T
    pairs, places = rows[:, first] * rows[:, second], index_pairs(numbers)
    at = places[chosen[:, 0], chosen[:, 1]]
    if order == 3:
        return np.asarray((pairs.T @ rows)[at, chosen[:, 2]])
    return np.asarray((pairs.T @ pairs)[at, places[chosen[:, 2], chosen[:, 3]]])


@lru_cache(maxsize=32)
def index_pairs(numbers: int) -> Integers:
    """Return the index of the product of two numbers among all, (numbers, numbers), symmetric."""
    first, second = list_products(numbers, 2).T
    found = np.zeros((numbers, numbers), dtype=np.int64)
    found[first, second] = found[second, first] = np.arange(len(first))
    return found


@lru_cache(maxsize=8)
def index_tensor(numbers: int, order: int) -> Integers:
    """Return, for each entry of the tensor over 1 and all numbers, its index in the flat sums of orders 0..``order``.

    Shape (numbers + 1,) * order; entry (0, 0, 2, 1) of order 4 is the index of the product of numbers 0 and 1.
    """
    axes = np.meshgrid(*[np.arange(numbers + 1)] * order, indexing="ij")
    entries = np.sort(np.stack([axis.ravel() for axis in axes], axis=1), axis=1)
    # With 1 as number 0, products of exactly ``order`` are in lexicographic order; their index is looked up once.
    whole = list_products(numbers + 1, order)
    weights = (numbers + 1) ** np.arange(order - 1, -1, -1, dtype=np.int64)
    place = np.searchsorted(whole @ weights, entries @ weights)
    return index_flat(numbers, order)[place].reshape((numbers + 1,) * order)


def index_flat(numbers: int, order: int) -> Integers:
    """Return, for each product of exactly ``order`` out of 1 and all numbers, its index in the flat sums by degree."""
    starts = np.cumsum([0] + [math.comb(numbers + degree - 1, degree) for degree in range(order)])
    seen = [0] * (order + 1)
    found = []
    # Products without the 1s keep their lexicographic order within each degree.
    for one in list_products(numbers + 1, order):
        degree = int((one > 0).sum())
        found.append(int(starts[degree]) + seen[degree])
        seen[degree] += 1
    return np.array(found, dtype=np.int64)
