"""The encodings inside a session's messages: digests, bits, seeds, whole numbers."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from siloquent.errors import ProtocolError
from siloquent.federation.crypto.seeds import SEED
from siloquent.federation.messages.payload import encode_canonical, unpack_json
from siloquent.maths.dependencies import FD


def compute_digest(value: Any) -> str:
    """Compute the SHA-256 of canonical JSON."""
    return hashlib.sha256(encode_canonical(value)).hexdigest()


def digest_candidates(candidates: Sequence[FD]) -> str:
    """Compute the digest of candidates (left side, right side), in their order."""
    return compute_digest([list(candidate) for candidate in candidates])


def extend_digest(digest: str, payload: bytes) -> str:
    """Return the digest of all that a party was told, ``payload`` included: the next ballots are blinded with it.

    It covers the document as it was sent: parties that were told different documents never add up their votes.
    """
    return compute_digest([digest, unpack_json(payload)])


def format_bits(bits: Sequence[bool]) -> str:
    """Format bits for a message.

    >>> format_bits([True, False])
    '10'
    """
    return "".join("1" if bit else "0" for bit in bits)


def parse_bits(text: Any) -> tuple[bool, ...]:
    """Parse the output of ``format_bits``.

    Raises:
        ProtocolError: ``bad_encoding``.
    """
    if not isinstance(text, str) or set(text) - {"0", "1"}:
        raise ProtocolError("bad_encoding")
    return tuple(letter == "1" for letter in text)


def parse_seed(text: Any) -> bytes:
    """Parse a seed in hex.

    Raises:
        ProtocolError: ``bad_encoding``.
    """
    try:
        seed = bytes.fromhex(text)
    except (TypeError, ValueError):
        raise ProtocolError("bad_encoding") from None
    if len(seed) != SEED:
        raise ProtocolError("bad_encoding")
    return seed


def parse_whole_numbers(plain: Any) -> list[int]:
    """Parse a list of nonnegative integers.

    Raises:
        ProtocolError: ``bad_encoding``.
    """
    if not isinstance(plain, list) or any(type(number) is not int or number < 0 for number in plain):
        raise ProtocolError("bad_encoding")
    return plain
