"""Schnorr proofs that a role knows its key's logarithm: without them the last role could cancel the others' keys."""

from __future__ import annotations

from siloquent.errors import ProtocolError
from siloquent.federation.crypto.group import SCALAR, Group
from siloquent.federation.crypto.hashing import expand_message
from siloquent.federation.crypto.points import POINT
from siloquent.federation.crypto.seeds import derive_scalar

_TAG = b"siloquent/schnorr/1"
PROOF = POINT + SCALAR


def prove(group: Group, key: bytes, seed: bytes, *, session: bytes, name: str) -> bytes:
    """Prove knowledge of ``key``, bound to ``session`` and ``name``; the nonce is derived from ``seed``."""
    public = group.multiply_base(key)
    nonce = derive_scalar(group, seed, "schnorr nonce", session + public)
    commitment = group.multiply_base(nonce)
    challenge = _derive_challenge(group, public, commitment, session, name)
    return commitment + group.add_scalars(nonce, group.multiply_scalars(challenge, key))


def verify(group: Group, public: bytes, proof: bytes, *, session: bytes, name: str) -> None:
    """Check the proof that the owner of a key knows its logarithm.

    Raises:
        ProtocolError: ``bad_encoding``.
    """
    if len(proof) != PROOF:
        raise ProtocolError("bad_encoding", role=name)
    commitment, answer = proof[:POINT], proof[POINT:]
    group.check(public + commitment, distinct=False)
    group.require_decodable(public + commitment)
    challenge = _derive_challenge(group, public, commitment, session, name)
    if group.reduce_wide(answer + bytes(SCALAR)) != answer:  # the encoding of a response is unique
        raise ProtocolError("bad_encoding", role=name)
    if group.multiply_base(answer) != group.add_points(commitment, group.multiply_points(public, challenge)):
        raise ProtocolError("bad_encoding", role=name)


def _derive_challenge(group: Group, public: bytes, commitment: bytes, session: bytes, name: str) -> bytes:
    text = session + len(name).to_bytes(2, "big") + name.encode() + public + commitment
    return group.reduce_wide(expand_message(text, _TAG, 64))
