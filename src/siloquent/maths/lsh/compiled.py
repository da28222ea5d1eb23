"""The compiled loops over records: hash, count, look up. Imported inside functions, since Numba is slow to load.

Records are columns of doubles that hold whole numbers, a multiple of four of them (the last ones are zero). Every
product and partial sum stays below 2^53, so doubles are exact in any order of addition.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np

F = TypeVar("F", bound=Callable[..., Any])

CHUNK = 2048
"""The number of records at a time: their columns, codes and one row's counters stay in the L1 cache."""
LANES = 64
"""The number of rows of MinHash at a time: their minima stay in registers."""
RANGE, BITS = 0, 1


def _compile_kernel(function: F) -> F:
    try:
        made: F = numba.njit(cache=True, nogil=True)(function)
    except RuntimeError:  # the compiled code cannot be cached, so it is compiled in each process
        made = numba.njit(nogil=True)(function)
    return made


@_compile_kernel
def mix64(x: Any) -> Any:
    """Return a bijection of 64 bits in which every input bit affects every output bit (the finaliser of splitmix64)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@_compile_kernel
def _add_codes(columns: Any, start: int, count: int, A: Any, b: float, shift: int, column: int, value: Any) -> None:  # noqa: C901 - loops, unrolled
    """Compute one component of one row for records start..start+count, into ``value`` (int64).

    It takes four attributes a pass, and the last pass writes the code: one pass for each would take twice the time.
    """
    if column >= 0:
        a, line = A[0], columns[column, start : start + count]
        for i in range(count):
            value[i] = np.int64(b + a * line[i]) >> shift
        return
    total = np.empty(CHUNK if columns.shape[0] > 4 else 0)
    last = columns.shape[0] - 4
    for j in range(0, last + 1, 4):
        a0, a1, a2, a3 = A[j], A[j + 1], A[j + 2], A[j + 3]
        c0, c1 = columns[j, start : start + count], columns[j + 1, start : start + count]
        c2, c3 = columns[j + 2, start : start + count], columns[j + 3, start : start + count]
        if j == 0 and j == last:
            for i in range(count):
                value[i] = np.int64(b + a0 * c0[i] + a1 * c1[i] + a2 * c2[i] + a3 * c3[i]) >> shift
        elif j == 0:
            for i in range(count):
                total[i] = b + a0 * c0[i] + a1 * c1[i] + a2 * c2[i] + a3 * c3[i]
        elif j == last:
            for i in range(count):
                value[i] = np.int64(total[i] + a0 * c0[i] + a1 * c1[i] + a2 * c2[i] + a3 * c3[i]) >> shift
        else:
            for i in range(count):
                total[i] += a0 * c0[i] + a1 * c1[i] + a2 * c2[i] + a3 * c3[i]


@_compile_kernel
def _fill_row(
    columns: Any, start: int, count: int, r: int, A: Any, B: Any, shift: Any, column: Any, low: Any, key: Any,
    mode: int, width: int, value: Any, bucket: Any
) -> None:  # fmt: skip
    """Compute the buckets of row r for records start..start+count."""
    if mode == RANGE:
        _add_codes(columns, start, count, A[r, 0], B[r, 0], shift[r, 0], column[r, 0], bucket)
        for i in range(count):
            bucket[i] -= low[r]
        return
    mixed = np.empty(CHUNK, dtype=np.uint64)
    for i in range(count):
        mixed[i] = key[r] if mode != BITS else np.uint64(0)
    for c in range(A.shape[1]):
        _add_codes(columns, start, count, A[r, c], B[r, c], shift[r, c], column[r, c], value)
        if mode == BITS:
            for i in range(count):
                mixed[i] = (mixed[i] << np.uint64(1)) | np.uint64(value[i] & 1)
        else:
            for i in range(count):
                mixed[i] = mix64(mixed[i] ^ np.uint64(value[i]))
    mask = np.uint64(width - 1)
    for i in range(count):
        bucket[i] = np.int64(mixed[i] & mask)


@_compile_kernel
def fill_buckets(
    columns: Any, A: Any, B: Any, shift: Any, column: Any, low: Any, key: Any, mode: int, width: int, found: Any
) -> None:
    """Compute every row's bucket of every record, into ``found`` (rows, records)."""
    value, bucket = np.empty(CHUNK, dtype=np.int64), np.empty(CHUNK, dtype=np.int64)
    n = columns.shape[1]
    for start in range(0, n, CHUNK):
        count = min(CHUNK, n - start)
        for r in range(A.shape[0]):
            _fill_row(columns, start, count, r, A, B, shift, column, low, key, mode, width, value, bucket)
            for i in range(count):
                found[r, start + i] = bucket[i]


@_compile_kernel
def count_all(
    columns: Any, classes: Any, A: Any, B: Any, shift: Any, column: Any, low: Any, key: Any, mode: int, width: int,
    counters: Any
) -> None:  # fmt: skip
    """Add one in each row at each record's bucket, in the counters of its class; (classes, rows, width)."""
    value, bucket = np.empty(CHUNK, dtype=np.int64), np.empty(CHUNK, dtype=np.int64)
    n, one_class = columns.shape[1], counters.shape[0] == 1
    for start in range(0, n, CHUNK):
        count = min(CHUNK, n - start)
        for r in range(A.shape[0]):
            _fill_row(columns, start, count, r, A, B, shift, column, low, key, mode, width, value, bucket)
            if one_class:
                cells = counters[0, r]
                for i in range(count):
                    cells[bucket[i]] += 1
            else:
                for i in range(count):
                    counters[classes[start + i], r, bucket[i]] += 1


@_compile_kernel
def count_projected(projected: Any, classes: Any, first: int, shift: Any, low: Any, counters: Any) -> None:
    """As ``count_all`` for a range of codes, from ready projections (rows, records) of records from ``first`` on."""
    for r in range(projected.shape[0]):
        for i in range(projected.shape[1]):
            code = (np.int64(projected[r, i]) >> shift[r, 0]) - low[r]
            counters[classes[first + i], r, code] += 1


@_compile_kernel
def _hash_record(
    place: Any, r: int, A: Any, B: Any, shift: Any, column: Any, low: Any, key: Any, mode: int, width: int
) -> Any:
    """Return the bucket of one record in row r; A and B as whole numbers."""
    mixed = key[r] if mode != BITS else np.uint64(0)
    code = np.int64(0)
    for c in range(A.shape[1]):
        total = B[r, c]
        if column[r, c] >= 0:
            total += A[r, c, 0] * place[column[r, c]]
        else:
            for j in range(place.size):
                total += A[r, c, j] * place[j]
        code = total >> shift[r, c]
        if mode == BITS:
            mixed = (mixed << np.uint64(1)) | np.uint64(code & 1)
        elif mode != RANGE:
            mixed = mix64(mixed ^ np.uint64(code))
    if mode == RANGE:
        return code - low[r]
    return np.int64(mixed & np.uint64(width - 1))


@_compile_kernel
def draw_rows(word: Any, rows: int, chosen: Any) -> None:
    """Draw ``len(chosen)`` different rows of a power of two, uniformly, from one random word."""
    state = word
    for k in range(chosen.size):
        fresh = False
        while not fresh:
            state += np.uint64(0x9E3779B97F4A7C15)
            row = np.int64(mix64(state) & np.uint64(rows - 1))
            fresh = True
            for other in range(k):
                if chosen[other] == row:
                    fresh = False
        chosen[k] = row


@_compile_kernel
def _count_one(places: Any, classes: Any, words: Any, A: Any, B: Any, shift: Any, low: Any, counters: Any) -> None:
    """Do ``count_some`` for one hit and a range of codes, the most frequent case, without the general branches."""
    mask = np.uint64(A.shape[0] - 1)
    for i in range(places.shape[0]):
        r = np.int64(words[i] & mask)
        total = B[r, 0]
        for j in range(places.shape[1]):
            total += A[r, 0, j] * places[i, j]
        counters[classes[i], r, (total >> shift[r, 0]) - low[r]] += 1


@_compile_kernel
def count_some(
    places: Any, classes: Any, words: Any, hits: int, A: Any, B: Any, shift: Any, column: Any, low: Any, key: Any,
    mode: int, width: int, counters: Any
) -> None:  # fmt: skip
    """Add one at each record's bucket in ``hits`` rows of its own; ``words``: one random word a record.

    ``places`` (records, d), A and B are whole numbers: a record is read once, so columns would not help.
    """
    if hits == 1 and mode == RANGE and column[0, 0] < 0:
        _count_one(places, classes, words, A, B, shift, low, counters)
        return
    chosen = np.empty(hits, dtype=np.int64)
    for i in range(places.shape[0]):
        draw_rows(words[i], A.shape[0], chosen)
        for k in range(hits):
            r = chosen[k]
            at = _hash_record(places[i], r, A, B, shift, column, low, key, mode, width)
            counters[classes[i], r, at] += 1


@_compile_kernel
def look_up(
    columns: Any, A: Any, B: Any, shift: Any, column: Any, low: Any, key: Any, mode: int, width: int, counters: Any,
    sums: Any, squares: Any
) -> None:  # fmt: skip
    """Sum each query's cells, and their squares, over rows, into (classes, queries) each."""
    value, bucket = np.empty(CHUNK, dtype=np.int64), np.empty(CHUNK, dtype=np.int64)
    n = columns.shape[1]
    for start in range(0, n, CHUNK):
        count = min(CHUNK, n - start)
        for r in range(A.shape[0]):
            _fill_row(columns, start, count, r, A, B, shift, column, low, key, mode, width, value, bucket)
            for c in range(counters.shape[0]):
                cells = counters[c, r]
                for i in range(count):
                    found = np.float64(cells[bucket[i]])
                    sums[c, start + i] += found
                    squares[c, start + i] += found * found


@_compile_kernel
def _find_least_hashes(tokens: Any, begin: int, end: int, seed: Any, odd: Any, least: Any) -> None:
    """Compute the least hash of tokens[begin:end] under LANES hash functions at a time."""
    for k in range(LANES):
        least[k] = np.uint32(0xFFFFFFFF)
    for at in range(begin, end):
        token = tokens[at]
        for k in range(LANES):
            h = np.uint32((token ^ seed[k]) * odd[k])
            h = np.uint32((h ^ (h >> np.uint32(15))) * np.uint32(0x846CA68B))
            least[k] = min(least[k], h)


@_compile_kernel
def _set_buckets(tokens: Any, begin: int, end: int, seed: Any, odd: Any, bits: int, block: int, bucket: Any) -> None:
    """Compute the buckets of one set in rows block..block+LANES; seed and odd have shape (components, rows)."""
    least = np.empty(LANES, dtype=np.uint32)
    mixed = np.zeros(LANES, dtype=np.uint32)
    for c in range(seed.shape[0]):
        span = slice(block, block + LANES)
        _find_least_hashes(tokens, begin, end, seed[c, span], odd[c, span], least)
        for k in range(LANES):
            mixed[k] = np.uint32((np.uint32(mixed[k] ^ least[k])) * np.uint32(0x9E3779B1))
            mixed[k] = mixed[k] ^ (mixed[k] >> np.uint32(16)) if c + 1 < seed.shape[0] else mixed[k]
    for k in range(LANES):
        bucket[k] = np.int64(mixed[k] >> np.uint32(32 - bits))


@_compile_kernel
def count_all_sets(tokens: Any, ends: Any, classes: Any, seed: Any, odd: Any, bits: int, counters: Any) -> None:
    """As ``count_all`` for sets: set i holds tokens[ends[i]:ends[i + 1]]; empty sets are left out."""
    bucket = np.empty(LANES, dtype=np.int64)
    # A block's 32-bit counters stay in the cache; there are fewer than 2^31 sets in a batch.
    cells = np.zeros((counters.shape[0], LANES, counters.shape[2]), dtype=np.int32)
    for block in range(0, seed.shape[1], LANES):
        cells[:] = 0
        for i in range(ends.size - 1):
            if ends[i] == ends[i + 1]:
                continue
            _set_buckets(tokens, ends[i], ends[i + 1], seed, odd, bits, block, bucket)
            own = cells[classes[i]]
            for k in range(LANES):
                own[k, bucket[k]] += 1
        last = min(LANES, counters.shape[1] - block)
        counters[:, block : block + last] += cells[:, :last]


@_compile_kernel
def _hash_set(tokens: Any, begin: int, end: int, seed: Any, odd: Any, bits: int, r: int) -> Any:
    mixed = np.uint32(0)
    for c in range(seed.shape[0]):
        least = np.uint32(0xFFFFFFFF)
        for at in range(begin, end):
            h = np.uint32((tokens[at] ^ seed[c, r]) * odd[c, r])
            h = np.uint32((h ^ (h >> np.uint32(15))) * np.uint32(0x846CA68B))
            least = min(least, h)
        mixed = np.uint32(np.uint32(mixed ^ least) * np.uint32(0x9E3779B1))
        if c + 1 < seed.shape[0]:
            mixed = np.uint32(mixed ^ (mixed >> np.uint32(16)))
    return np.int64(mixed >> np.uint32(32 - bits))


@_compile_kernel
def count_some_sets(
    tokens: Any, ends: Any, classes: Any, words: Any, hits: int, seed: Any, odd: Any, bits: int, counters: Any
) -> None:
    """As ``count_some`` for sets; the number of rows is a power of two."""
    chosen = np.empty(hits, dtype=np.int64)
    for i in range(ends.size - 1):
        if ends[i] == ends[i + 1]:
            continue
        draw_rows(words[i], counters.shape[1], chosen)
        for k in range(hits):
            at = _hash_set(tokens, ends[i], ends[i + 1], seed, odd, bits, chosen[k])
            counters[classes[i], chosen[k], at] += 1


@_compile_kernel
def look_up_sets(
    tokens: Any, ends: Any, seed: Any, odd: Any, bits: int, counters: Any, sums: Any, squares: Any
) -> None:
    """As ``look_up`` for sets; empty ones give zero."""
    bucket = np.empty(LANES, dtype=np.int64)
    for block in range(0, seed.shape[1], LANES):
        last = min(LANES, counters.shape[1] - block)
        for i in range(ends.size - 1):
            if ends[i] == ends[i + 1]:
                continue
            _set_buckets(tokens, ends[i], ends[i + 1], seed, odd, bits, block, bucket)
            for c in range(counters.shape[0]):
                cells = counters[c, block : block + last]
                total, square = 0.0, 0.0
                for k in range(last):
                    found = np.float64(cells[k, bucket[k]])
                    total += found
                    square += found * found
                sums[c, i] += total
                squares[c, i] += square


@_compile_kernel
def fill_set_buckets(tokens: Any, ends: Any, seed: Any, odd: Any, bits: int, found: Any) -> None:
    """Compute every row's bucket of every set, into ``found`` (sets, rows); -1 for empty sets."""
    bucket = np.empty(LANES, dtype=np.int64)
    for block in range(0, seed.shape[1], LANES):
        for i in range(ends.size - 1):
            for k in range(min(LANES, found.shape[1] - block)):
                found[i, block + k] = -1
            if ends[i] < ends[i + 1]:
                _set_buckets(tokens, ends[i], ends[i + 1], seed, odd, bits, block, bucket)
                for k in range(min(LANES, found.shape[1] - block)):
                    found[i, block + k] = bucket[k]
