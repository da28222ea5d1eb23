"""The prime-order group of all protocols here: batches of 32-byte elements and 32-byte scalars.

Scalars are secrets: they stay byte strings from their derivation to libsodium, and never become Python integers,
whose arithmetic takes a time that depends on the value.
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
        """The name of the group; part of every key derivation."""

    def check(self, batch: bytes, *, distinct: bool = True, identity: bool = False) -> None:
        """Check that a batch holds only encodings of elements, as ``check_points``.

        Raises:
            ProtocolError: ``bad_encoding``, ``duplicate_points``.
        """

    def require_decodable(self, batch: bytes) -> None:
        """Check that every encoding represents an element, where the first use is not a scalar multiplication."""

    def from_uniform(self, wide: bytes) -> bytes:
        """Map each 64 uniform bytes to an element (RFC 9496), for hashing and for points of unknown logarithm."""

    def reduce_wide(self, wide: bytes) -> bytes:
        """Reduce 64 uniform bytes modulo L to a scalar; all zeros with probability 2^-252."""

    def multiply_scalars(self, a: bytes, b: bytes) -> bytes:
        """Return the product of two scalars."""

    def add_scalars(self, a: bytes, b: bytes) -> bytes:
        """Return the sum of two scalars."""

    def subtract_scalars(self, a: bytes, b: bytes) -> bytes:
        """Return the difference of two scalars."""

    def invert_scalar(self, a: bytes) -> bytes:
        """Return 1 / a modulo L, for a nonzero scalar a."""

    def multiply_base(self, scalars: bytes) -> bytes:
        """Return a G for each scalar a of a batch; a = 0 gives the identity."""

    def multiply_points(self, batch: bytes, scalar: bytes) -> bytes:
        """Multiply every element by the same scalar.

        Raises:
            ProtocolError: ``bad_encoding``: one encoding does not represent an element.
        """

    def multiply_each(self, batch: bytes, scalars: bytes) -> bytes:
        """Multiply each element by its own scalar.

        Raises:
            ProtocolError: as ``multiply_points``.
        """

    def add_points(self, a: bytes, b: bytes) -> bytes:
        """Return elementwise sums of two batches of decodable elements."""

    def subtract_points(self, a: bytes, b: bytes) -> bytes:
        """Return elementwise differences of two batches of decodable elements."""


class Ristretto:
    """ristretto255 (RFC 9496) by libsodium, which the wheel ``rbcl`` contains."""

    name = "ristretto255"

    def check(self, batch: bytes, *, distinct: bool = True, identity: bool = False) -> None:
        """Check that all encodings are canonical."""
        check_points(batch, distinct=distinct, identity=identity)

    def require_decodable(self, batch: bytes) -> None:
        """Check that every encoding represents an element."""
        valid = _load_sodium().crypto_core_ristretto255_is_valid_point
        if not all(valid(element) for element in split(batch)):
            raise ProtocolError("bad_encoding")

    def from_uniform(self, wide: bytes) -> bytes:
        """Map each 64 bytes to an element."""
        mapped = _load_sodium().crypto_core_ristretto255_from_hash
        return b"".join(mapped(wide[at : at + WIDE]) for at in range(0, len(wide), WIDE))

    def reduce_wide(self, wide: bytes) -> bytes:
        """Reduce 64 bytes modulo L."""
        return bytes(_load_sodium().crypto_core_ristretto255_scalar_reduce(wide))

    def multiply_scalars(self, a: bytes, b: bytes) -> bytes:
        """Return a b."""
        return bytes(_load_sodium().crypto_core_ristretto255_scalar_mul(a, b))

    def add_scalars(self, a: bytes, b: bytes) -> bytes:
        """Return a + b."""
        return bytes(_load_sodium().crypto_core_ristretto255_scalar_add(a, b))

    def subtract_scalars(self, a: bytes, b: bytes) -> bytes:
        """Return a - b."""
        return bytes(_load_sodium().crypto_core_ristretto255_scalar_sub(a, b))

    def invert_scalar(self, a: bytes) -> bytes:
        """Return 1 / a."""
        return bytes(_load_sodium().crypto_core_ristretto255_scalar_invert(a))

    def multiply_base(self, scalars: bytes) -> bytes:
        """Return a G for each a."""
        multiple = _load_sodium().crypto_scalarmult_ristretto255_base_allow_scalar_zero
        return b"".join(multiple(scalar) for scalar in split(scalars))

    def multiply_points(self, batch: bytes, scalar: bytes) -> bytes:
        """Multiply all elements by one scalar."""
        multiple = _load_sodium().crypto_scalarmult_ristretto255
        try:
            return b"".join([multiple(scalar, batch[at : at + POINT]) for at in range(0, len(batch), POINT)])
        except RuntimeError:  # the only error of libsodium: not an element, or a product that is the identity
            raise ProtocolError("bad_encoding") from None

    def multiply_each(self, batch: bytes, scalars: bytes) -> bytes:
        """Multiply each element by its scalar."""
        multiple = _load_sodium().crypto_scalarmult_ristretto255
        try:
            return b"".join(multiple(s, p) for s, p in zip(split(scalars), split(batch), strict=True))
        except RuntimeError:
            raise ProtocolError("bad_encoding") from None

    def add_points(self, a: bytes, b: bytes) -> bytes:
        """Return elementwise sums."""
        add = _load_sodium().crypto_core_ristretto255_add
        return b"".join(add(x, y) for x, y in zip(split(a), split(b), strict=True))

    def subtract_points(self, a: bytes, b: bytes) -> bytes:
        """Return elementwise differences."""
        subtract = _load_sodium().crypto_core_ristretto255_sub
        return b"".join(subtract(x, y) for x, y in zip(split(a), split(b), strict=True))


def split(batch: bytes) -> Sequence[bytes]:
    """Split a batch into its elements or scalars."""
    return [batch[at : at + POINT] for at in range(0, len(batch), POINT)]


@lru_cache(maxsize=1)
def _load_sodium() -> Any:
    try:
        import rbcl  # loads libsodium, which is slow
    except ImportError:
        raise MissingExtra("federation", "A protocol between silos") from None
    return rbcl
