"""Checks of received elements before use; libsodium itself would accept too much."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from siloquent.errors import ProtocolError

POINT = 32
_LOWEST_REFUSED = 0xED  # 2^255 - 19 = 0x7f ff ... ff ed, little-endian in the bytes


def check_points(buffer: bytes, *, distinct: bool = True, identity: bool = False) -> None:
    """Check that ``buffer`` is a batch of canonical ristretto255 encodings.

    Canonical: below 2^255 - 19, so the top bit is clear; not negative, so the first byte is even; not the identity.
    Whether an encoding represents an element is found by the first scalar multiplication, or by
    ``require_decodable``.

    Args:
        distinct: Whether an element may occur only once, as in one party's batch.
        identity: Whether the identity may occur: only where its meaning is known.
    Raises:
        ProtocolError: ``bad_encoding``, ``duplicate_points``.
    """
    if len(buffer) % POINT:
        raise ProtocolError("bad_encoding")
    rows = np.frombuffer(buffer, dtype=np.uint8).reshape(-1, POINT)
    if not len(rows):
        return
    last = rows[:, 31]
    # At or above p: all middle bytes are full, the last one is 0x7f, the first one at least 0xed.
    high = (rows[:, 1:31] == 0xFF).all(axis=1) & (last == 0x7F) & (rows[:, 0] >= _LOWEST_REFUSED)
    wrong = (last & 0x80 != 0) | (rows[:, 0] & 1 != 0) | high
    if not identity:
        wrong |= ~rows.any(axis=1)
    if wrong.any():
        raise ProtocolError("bad_encoding")
    if distinct and has_duplicates(buffer):
        raise ProtocolError("duplicate_points")


def has_duplicates(buffer: bytes) -> bool:
    """Return whether an element occurs twice in a batch."""
    rows = view_rows(buffer)
    return len(np.unique(rows)) < len(rows)


def view_rows(buffer: bytes) -> NDArray[np.void]:
    """View a batch as an array of 32-byte values that can be compared and sorted, shape (elements,)."""
    return np.frombuffer(buffer, dtype=f"V{POINT}")
