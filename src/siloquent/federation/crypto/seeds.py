"""A session's secrets, derived from few seeds so that a restarted role computes the same bytes; none is reused."""

from __future__ import annotations

import hashlib

from siloquent.federation.crypto.group import SCALAR, Group

SEED = 32
_ZERO = bytes(SCALAR)


def derive(seed: bytes, label: str, session: bytes, *numbers: int, size: int = 64) -> bytes:
    """Return ``size`` (at most 64) pseudorandom bytes: BLAKE2b keyed with ``seed`` over label, session and numbers.

    The encoding of the inputs is injective: the label's length comes first, numbers have 8 bytes each.
    """
    text = label.encode()
    data = len(text).to_bytes(2, "big") + text + session + b"".join(n.to_bytes(8, "big") for n in numbers)
    return hashlib.blake2b(data, key=seed, digest_size=size).digest()


def derive_scalar(group: Group, seed: bytes, label: str, session: bytes, *numbers: int) -> bytes:
    """Derive a uniform nonzero scalar from seed, label, session and numbers."""
    counter = 0
    while True:
        found = group.reduce_wide(derive(seed, f"{group.name} {label}", session, *numbers, counter))
        if found != _ZERO:
            return found
        counter += 1


def derive_scalars(group: Group, seed: bytes, label: str, session: bytes, *numbers: int, count: int) -> bytes:
    """Derive a batch of ``count`` nonzero scalars."""
    return b"".join(derive_scalar(group, seed, label, session, *numbers, index) for index in range(count))


def derive_stream(seed: bytes, label: str, session: bytes, *numbers: int, size: int) -> bytes:
    """Return any number ``size`` of pseudorandom bytes: SHAKE256 over a key derived as above."""
    return hashlib.shake_256(derive(seed, f"stream {label}", session, *numbers)).digest(size)


def derive_next_seed(seed: bytes, step: int) -> bytes:
    """Return the seed of the next pass; the old one cannot be computed from it."""
    return hashlib.blake2b(b"next" + step.to_bytes(8, "big"), key=seed, digest_size=SEED).digest()
