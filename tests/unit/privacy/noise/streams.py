"""Byte streams that can be read twice: the only place where noise meets bits that are not random."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Sequence


def recorded(seed: str, first: Sequence[int] = ()) -> Callable[[int], bytes]:
    """A source like ``os.urandom`` that gives the 32-bit words of ``first``, then the hash stream of ``seed``."""
    ready = bytearray(struct.pack(f"={len(first)}I", *first))
    block = 0

    def source(count: int) -> bytes:
        nonlocal block
        while len(ready) < count:
            ready.extend(hashlib.sha512(f"{seed}/{block}".encode()).digest())
            block += 1
        given = bytes(ready[:count])
        del ready[:count]
        return given

    return source
