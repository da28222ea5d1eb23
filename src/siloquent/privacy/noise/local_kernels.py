"""The samplers of ``local``, compiled. Numba is imported with this module, so callers import it inside functions.

Each draw reads whole words. If the words run out, it returns to its start, and the caller repeats it with more words.
All compiled functions of these draws are in this one file, because Numba's disk cache notices only its changes.
"""

from __future__ import annotations

import numpy as np
from numba import int64, types, uint64
from numpy.typing import NDArray

from siloquent.privacy.noise.kernels import compile_kernel

PRIME = 2**31 - 1
_WORDS, _VALUES = uint64[::1], int64[::1]
_ENDS = types.UniTuple(int64, 2)
_ONE = np.uint64(1)
_BYTE = np.uint64(8)
_HALF = np.uint64(32)
_MASK = np.uint64(PRIME)


@compile_kernel(_ENDS(_VALUES, int64, int64, int64, uint64, _WORDS, uint64[:, ::1]))
def fill_sets(  # noqa: C901 - one loop over words; compiled, and split it would read no better
    nodes: NDArray[np.int64],
    start: int,
    k: int,
    w: int,
    truth: np.uint64,
    words: NDArray[np.uint64],
    found: NDArray[np.uint64],
) -> tuple[int, int]:
    """Fill ``found[start:]``; return (first not done, words read). One word is the coin; further ones' bytes are nodes.

    Of each byte, only as many low bits are read as the last node's number has.
    """
    at, mask = 0, _ONE
    while int64(mask) < k - 1:
        mask = mask << _ONE | _ONE
    for i in range(start, nodes.size):
        begin = at
        if at >= words.size:
            return i, begin
        node = nodes[i]
        low, high, left = uint64(0), uint64(0), w
        kept = words[at] < truth
        at += 1
        if kept:
            if node < 64:
                low = _ONE << uint64(node)
            else:
                high = _ONE << uint64(node - 64)
            left -= 1
        word, unread = uint64(0), 0
        while left > 0:
            if unread == 0:
                if at >= words.size:
                    return i, begin
                word, unread = words[at], 8
                at += 1
            drawn = int64(word & mask)
            word >>= _BYTE
            unread -= 1
            if drawn >= k or drawn == node:
                continue
            if drawn < 64:
                bit = _ONE << uint64(drawn)
                if low & bit == 0:
                    low |= bit
                    left -= 1
            else:
                bit = _ONE << uint64(drawn - 64)
                if high & bit == 0:
                    high |= bit
                    left -= 1
        found[i, 0], found[i, 1] = low, high
    return nodes.size, at


@compile_kernel(_ENDS(_VALUES, int64, int64, uint64, _WORDS, int64[:, ::1]))
def fill_hashes(
    nodes: NDArray[np.int64],
    start: int,
    g: int,
    truth: np.uint64,
    words: NDArray[np.uint64],
    found: NDArray[np.int64],
) -> tuple[int, int]:
    """Fill ``found[start:]`` with a, b, y; return (first not done, words read)."""
    mask = 1
    while mask < g - 2:
        mask = mask * 2 + 1
    at = 0
    for i in range(start, nodes.size):
        begin = at
        if at >= words.size:
            return i, begin
        kept = words[at] < truth
        at += 1
        a, b = int64(0), int64(PRIME)
        while a == 0 or a == PRIME or b == PRIME:
            if at >= words.size:
                return i, begin
            a, b = int64(words[at] & _MASK), int64((words[at] >> _HALF) & _MASK)
            at += 1
        bucket = (a * nodes[i] + b) % PRIME % g
        if not kept:
            other = int64(0) if g == 2 else int64(g)
            while other >= g - 1:
                if at >= words.size:
                    return i, begin
                other = int64(words[at] & uint64(mask))
                at += 1
            bucket = other + (other >= bucket)
        found[i, 0], found[i, 1], found[i, 2] = a, b, bucket
    return nodes.size, at
