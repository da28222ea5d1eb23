"""The prime-order group that all protocols here are written for: batches of 32-byte elements and 32-byte scalars.

Scalars are secrets: they stay byte strings from their derivation to libsodium, and never become Python integers, whose
arithmetic takes a time that depends on their value.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Protocol

from siloquent.errors import MissingExtra, ProtocolError
from siloquent.federation.crypto.points import POINT, check_points

SCALAR = 32
WIDE = 64
IDENTITY = bytes(POINT)


class Group(Protocol):
    """A group of prime order L with base point G. A batch is the concatenation of its elements, 32 bytes each."""

    @property
    def name(self) -> str:
        """Which group it is; part of every key derivation."""

    def check(self, batch: bytes, *, distinct: bool = True, identity: bool = False) -> None:
        """Refuse anything but encodings of elements, as ``check_points``.

        Raises:
            ProtocolError: ``bad_encoding``, ``duplicate_points``.
        """

    def require_decodable(self, batch: bytes) -> None:
        """Refuse encodings that stand for no element; needed where the first use is no scalar multiplication."""

    def from_uniform(self, wide: bytes) -> bytes:
        """One element a 64 uniform bytes: the map of RFC 9496, for hashing and for points of unknown logarithm."""

    def reduce_wide(self, wide: bytes) -> bytes:
        """64 uniform bytes modulo L: a scalar, all zeros with probability 2^-252."""

    def multiply_scalars(self, a: bytes, b: bytes) -> bytes:
        """The product of two scalars."""

    def add_scalars(self, a: bytes, b: bytes) -> bytes:
        """The sum of two scalars."""

    def subtract_scalars(self, a: bytes, b: bytes) -> bytes:
        """The difference of two scalars."""

    def invert_scalar(self, a: bytes) -> bytes:
        """1 / a modulo L, of a scalar that is not zero."""

    def multiply_base(self, scalars: bytes) -> bytes:
        """a G for each scalar a of a batch; a = 0 gives the identity."""

    def multiply_points(self, batch: bytes, scalar: bytes) -> bytes:
        """The same multiple of every element.

        Raises:
            ProtocolError: ``bad_encoding``: one encoding stands for no element.
        """

    def multiply_each(self, batch: bytes, scalars: bytes) -> bytes:
        """Each element times its own scalar.

        Raises:
            ProtocolError: as ``multiply_points``.
        """

    def add_points(self, a: bytes, b: bytes) -> bytes:
        """Element by element sums of two batches of decodable elements."""

    def subtract_points(self, a: bytes, b: bytes) -> bytes:
        """Element by element differences of two batches of decodable elements."""


class Ristretto:
    """ristretto255 (RFC 9496) by libsodium, whose wheel ``rbcl`` brings along."""

    name = "ristretto255"

    def check(self, batch: bytes, *, distinct: bool = True, identity: bool = False) -> None:
        """Refuse anything but canonical encodings."""
        check_points(batch, distinct=distinct, identity=identity)

    def require_decodable(self, batch: bytes) -> None:
        """Refuse encodings that stand for no element."""
        valid = _load_sodium().crypto_core_ristretto255_is_valid_point
        if not all(valid(element) for element in split(batch)):
            raise ProtocolError("bad_encoding")

    def from_uniform(self, wide: bytes) -> bytes:
        """One element a 64 bytes."""
        mapped = _load_sodium().crypto_core_ristretto255_from_hash
        return b"".join(mapped(wide[at : at + WIDE]) for at in range(0, len(wide), WIDE))

    def reduce_wide(self, wide: bytes) -> bytes:
        """64 bytes modulo L."""
        return bytes(_load_sodium().crypto_core_ristretto255_scalar_reduce(wide))

    def multiply_scalars(self, a: bytes, b: bytes) -> bytes:
        """a b."""
        return bytes(_load_sodium().crypto_core_ristretto255_scalar_mul(a, b))

    def add_scalars(self, a: bytes, b: bytes) -> bytes:
        """a + b."""
        return bytes(_load_sodium().crypto_core_ristretto255_scalar_add(a, b))

    def subtract_scalars(self, a: bytes, b: bytes) -> bytes:
        """a - b."""
        return bytes(_load_sodium().crypto_core_ristretto255_scalar_sub(a, b))

    def invert_scalar(self, a: bytes) -> bytes:
        """1 / a."""
        return bytes(_load_sodium().crypto_core_ristretto255_scalar_invert(a))

    def multiply_base(self, scalars: bytes) -> bytes:
        """a G for each a."""
        multiple = _load_sodium().crypto_scalarmult_ristretto255_base_allow_scalar_zero
        return b"".join(multiple(scalar) for scalar in split(scalars))

    def multiply_points(self, batch: bytes, scalar: bytes) -> bytes:
        """All elements times one scalar."""
        multiple = _load_sodium().crypto_scalarmult_ristretto255
        try:
            return b"".join([multiple(scalar, batch[at : at + POINT]) for at in range(0, len(batch), POINT)])
        except RuntimeError:  # libsodium's only complaint: no element, or a product that is the identity
            raise ProtocolError("bad_encoding") from None

    def multiply_each(self, batch: bytes, scalars: bytes) -> bytes:
        """Each element times its scalar."""
        multiple = _load_sodium().crypto_scalarmult_ristretto255
        try:
            return b"".join(multiple(s, p) for s, p in zip(split(scalars), split(batch), strict=True))
        except RuntimeError:
            raise ProtocolError("bad_encoding") from None

    def add_points(self, a: bytes, b: bytes) -> bytes:
        """Sums."""
        add = _load_sodium().crypto_core_ristretto255_add
        return b"".join(add(x, y) for x, y in zip(split(a), split(b), strict=True))

    def subtract_points(self, a: bytes, b: bytes) -> bytes:
        """Differences."""
        subtract = _load_sodium().crypto_core_ristretto255_sub
        return b"".join(subtract(x, y) for x, y in zip(split(a), split(b), strict=True))


def split(batch: bytes) -> Sequence[bytes]:
    """The elements or scalars of a batch, one by one."""
    return [batch[at : at + POINT] for at in range(0, len(batch), POINT)]


@lru_cache(maxsize=1)
def _load_sodium() -> Any:
    try:
        import rbcl  # loads libsodium, which takes a while
    except ImportError:
        raise MissingExtra("federation", "A protocol between silos") from None
    return rbcl
