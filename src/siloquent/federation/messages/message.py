"""The envelope: a header that the relay may read, a signature over it, a payload that only the receiver can open."""

from __future__ import annotations

import base64
import hashlib
import re
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from typing import Any

from siloquent.errors import ProtocolError
from siloquent.federation.channel.base import MAX_ATTEMPT, NAME, STEP
from siloquent.federation.identity.seal import SEAL_BYTES, SIGNATURE_BYTES
from siloquent.federation.messages.payload import KINDS, encode_canonical, parse

VERSION = 2
PART_BYTES = 8 * 2**20
MAX_PARTS = 4096
MAX_HEADER = 4096
MAX_SEALED = PART_BYTES + SEAL_BYTES
MAX_ENVELOPE = 2 + MAX_HEADER + SIGNATURE_BYTES + MAX_SEALED
_HEX = re.compile(r"[0-9a-f]{64}")
_DIGESTS = ("session", "prev", "roster", "sha256")  # 43 characters each on the wire, to keep headers short
_KEYS = {
    "session": "session",
    "sender": "from",
    "receiver": "to",
    "step": "step",
    "attempt": "attempt",
    "part": "part",
    "parts": "parts",
    "seq": "seq",
    "prev": "prev",
    "roster": "roster",
    "kind": "kind",
    "size": "size",
    "sha256": "sha256",
}


@dataclass(frozen=True, slots=True)
class Header:
    """The part of a message that the relay may see. It has no clock time, so a message sent again is identical.

    ``seq`` counts from this sender to this receiver in this session; ``prev`` is the SHA-256 of the previous header;
    ``size`` and ``sha256`` are those of the *sealed* bytes: a digest of plain ones would let the relay test guesses.
    """

    session: str
    sender: str
    receiver: str
    step: str
    attempt: int
    part: int
    parts: int
    seq: int
    prev: str
    roster: str
    kind: str
    size: int
    sha256: str

    def __post_init__(self) -> None:
        good = (
            all(isinstance(value, str) and _HEX.fullmatch(value) for value in self._list_digests())
            and _is_name(self.sender)
            and _is_name(self.receiver)
            and isinstance(self.step, str)
            and STEP.fullmatch(self.step) is not None
            and _is_within(self.attempt, 0, MAX_ATTEMPT)
            and _is_within(self.parts, 1, MAX_PARTS)
            and _is_within(self.part, 0, self.parts - 1)
            and _is_within(self.seq, 0, 10**9)
            and self.kind in KINDS.values()
            and _is_within(self.size, SEAL_BYTES, MAX_SEALED)
        )
        if not good:
            raise ProtocolError("bad_encoding")

    def encode(self) -> bytes:
        """Encode the header in its canonical form."""
        return encode_canonical({"v": VERSION, **self._to_dict()})

    @classmethod
    def decode(cls, text: bytes) -> Header:
        """Parse the header in ``text``.

        Raises:
            ProtocolError: ``bad_encoding``; ``version_mismatch``: of another version; ``too_large``.
        """
        if len(text) > MAX_HEADER:
            raise ProtocolError("too_large")
        value = parse(text)
        if not isinstance(value, dict) or "v" not in value:
            raise ProtocolError("bad_encoding")
        if value.pop("v") != VERSION:
            raise ProtocolError("version_mismatch")
        if set(value) != set(_KEYS.values()):
            raise ProtocolError("bad_encoding")
        read = {field.name: value[_KEYS[field.name]] for field in fields(cls)}
        return cls(**{**read, **{name: _decode_digest(read[name]) for name in _DIGESTS}})

    def build_context(self) -> bytes:
        """Return all of the header except the digest of the sealed bytes: the nonce is bound to it."""
        plain = self._to_dict()
        del plain["sha256"]
        return encode_canonical({"v": VERSION, **plain})

    def _to_dict(self) -> dict[str, Any]:
        values = {key: getattr(self, field) for field, key in _KEYS.items()}
        return {**values, **{name: _encode_digest(values[name]) for name in _DIGESTS}}

    def replace_digest(self, sha256: str) -> Header:
        """Return this header with the digest of the sealed payload."""
        return replace(self, sha256=sha256)

    @property
    def key(self) -> tuple[str, str, str, str, int, int]:
        """The identity of a message: session, sender, receiver, step, attempt, part."""
        return (self.session, self.sender, self.receiver, self.step, self.attempt, self.part)

    def _list_digests(self) -> tuple[str, str, str, str]:
        return (self.session, self.prev, self.roster, self.sha256)


@dataclass(frozen=True, slots=True)
class Envelope:
    """A whole message as it travels: 2 bytes of header length, header, signature, sealed payload."""

    header: bytes
    signature: bytes
    sealed: bytes

    def encode(self) -> bytes:
        """Encode the envelope as the bytes on the wire."""
        return len(self.header).to_bytes(2, "big") + self.header + self.signature + self.sealed

    @classmethod
    def decode(cls, wire: bytes) -> Envelope:
        """Parse the envelope in ``wire``; nothing in it is verified yet.

        Raises:
            ProtocolError: ``bad_encoding`` or ``too_large``.
        """
        if len(wire) > MAX_ENVELOPE:
            raise ProtocolError("too_large")
        length = int.from_bytes(wire[:2], "big")
        start = 2 + length + SIGNATURE_BYTES
        if length > MAX_HEADER or len(wire) < start + SEAL_BYTES:
            raise ProtocolError("bad_encoding")
        return cls(wire[2 : 2 + length], wire[2 + length : start], wire[start:])

    @property
    def digest(self) -> str:
        """The SHA-256 over the whole message, in hex."""
        return hashlib.sha256(self.encode()).hexdigest()


def compute_pair_genesis(session: str, sender: str, receiver: str) -> str:
    """Return the ``prev`` of the first header from one role to another in a session."""
    return hashlib.sha256(f"siloquent/chain/1|{session}|{sender}|{receiver}".encode()).hexdigest()


def compute_link(header: bytes) -> str:
    """Return the ``prev`` of the header that follows ``header`` in the same pair."""
    return hashlib.sha256(header).hexdigest()


def split_parts(payload: bytes) -> list[bytes]:
    """Split ``payload`` into pieces of at most 8 MiB, at least one.

    Raises:
        ProtocolError: ``too_large``: more than 4,096 pieces.
    """
    pieces = [payload[start : start + PART_BYTES] for start in range(0, len(payload), PART_BYTES)] or [b""]
    if len(pieces) > MAX_PARTS:
        raise ProtocolError("too_large")
    return pieces


def _encode_digest(digest: str) -> str:
    """Encode 32 bytes in hex as URL-safe base64, without padding.

    >>> _encode_digest("ff" * 32)
    '__________________________________________8'
    """
    return base64.urlsafe_b64encode(bytes.fromhex(digest)).rstrip(b"=").decode()


def _decode_digest(told: object) -> str:
    """Decode the output of ``_encode_digest`` to hex.

    Raises:
        ProtocolError: ``bad_encoding``: missing, or not in canonical form.
    """
    digest = ""
    if isinstance(told, str):
        with suppress(ValueError):  # binascii's own error is one
            digest = base64.urlsafe_b64decode(told + "=").hex()
    if _encode_digest(digest) != told:
        raise ProtocolError("bad_encoding")
    return digest


def _is_within(value: object, least: int, most: int) -> bool:
    return type(value) is int and least <= value <= most


def _is_name(value: object) -> bool:
    return isinstance(value, str) and NAME.fullmatch(value) is not None
