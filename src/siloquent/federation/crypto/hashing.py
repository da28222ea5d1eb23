"""Hashing to group elements of unknown logarithm: ristretto255_XMD:SHA-512_R255MAP_RO_ of RFC 9380."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from siloquent.federation.crypto.group import WIDE, Group

_BLOCK = 128  # SHA-512 reads blocks of this many bytes
_ZEROS = hashlib.sha512(bytes(_BLOCK))
MAX_TAG_LENGTH = 255


def expand_message(message: bytes, tag: bytes, length: int) -> bytes:
    """Return ``length`` uniform bytes by ``expand_message_xmd`` with SHA-512.

    Args:
        tag: The domain separation tag, 1 to 255 bytes; different protocols have different ones.
        length: At most 255 * 64.
    Source:
        RFC 9380, section 5.3.1.
    """
    if not 1 <= len(tag) <= MAX_TAG_LENGTH or not 0 < length <= 255 * 64:
        raise ValueError("a tag has 1 to 255 bytes, and the output at most 255 * 64")
    suffix = tag + bytes([len(tag)])
    first = _ZEROS.copy()
    first.update(message + length.to_bytes(2, "big") + b"\0" + suffix)
    start = first.digest()
    block = hashlib.sha512(start + b"\1" + suffix).digest()
    blocks = [block]
    for number in range(2, -(-length // 64) + 1):
        mixed = bytes(a ^ b for a, b in zip(start, block, strict=True))
        block = hashlib.sha512(mixed + bytes([number]) + suffix).digest()
        blocks.append(block)
    return b"".join(blocks)[:length]


def hash_to_group(group: Group, messages: Iterable[bytes], tag: bytes) -> bytes:
    """Hash each message to one element: equal messages give equal elements; no relation between others is known."""
    return group.from_uniform(b"".join(expand_message(message, tag, WIDE) for message in messages))
