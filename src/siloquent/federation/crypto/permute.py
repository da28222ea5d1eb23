"""Permutations of batches from a key: the same key gives the same order."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from siloquent.federation.crypto.points import POINT


def derive_permutation(key: bytes, count: int) -> NDArray[np.int64]:
    """Derive a permutation of 0 to count - 1: the order of ``count`` pseudorandom words of 128 bits.

    Equal words would bias it; their probability is below count^2 / 2^129.
    """
    words = np.frombuffer(hashlib.shake_256(b"permutation" + key).digest(16 * count), dtype="<u8").reshape(-1, 2)
    return np.lexsort((words[:, 1], words[:, 0])).astype(np.int64)


def permute_batch(batch: bytes, key: bytes, *, width: int = POINT) -> bytes:
    """Return a batch of ``width``-byte items in the order of ``key``'s permutation."""
    items = np.frombuffer(batch, dtype=f"V{width}")
    return items[derive_permutation(key, len(items))].tobytes()
