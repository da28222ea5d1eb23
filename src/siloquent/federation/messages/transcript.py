"""A role's transcript: one hash over every header that it sent and received, in its own order."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from siloquent.errors import ProtocolError
from siloquent.federation.identity.roster import Roster
from siloquent.federation.identity.seal import MESSAGE, is_signed_by
from siloquent.federation.messages.message import Header, compute_link, compute_pair_genesis


@dataclass(frozen=True, slots=True)
class TranscriptFinding:
    """The result of recomputing a transcript: the number of headers, the head, and the first fault, if any."""

    headers: int
    head: str
    fault: str = ""


def compute_head(session: str, headers: Sequence[bytes]) -> str:
    """Compute the hash over ``headers``, each bound to all before it."""
    head = hashlib.sha256(f"siloquent/transcript/1|{session}".encode()).digest()
    for header in headers:
        head = hashlib.sha256(b"\x01" + head + hashlib.sha256(header).digest()).digest()
    return head.hex()


def check_transcript(
    session: str, kept: Sequence[tuple[bytes, bytes]], roster: Roster, count: int
) -> TranscriptFinding:
    """Recompute a role's transcript over its first ``count`` headers: signatures, chains per pair, and the head."""
    chains: dict[tuple[str, str], tuple[int, str]] = {}
    fault = ""
    for number, (text, signature) in enumerate(kept):
        try:
            header = Header.decode(text)
            key = roster.get_role(header.sender).sign_key
        except Exception as unreadable:  # allowed: whatever is wrong with a kept header is the finding
            fault = fault or f"header {number} cannot be read ({type(unreadable).__name__})"
            continue
        pair = (header.sender, header.receiver)
        expected = chains.get(pair, (0, compute_pair_genesis(session, *pair)))
        if header.session != session or (header.seq, header.prev) != expected:
            fault = fault or f"header {number} does not follow the previous one from {pair[0]} to {pair[1]}"
        if not is_signed_by(key, MESSAGE, text, signature):
            fault = fault or f"header {number} is not signed by {header.sender}"
        chains[pair] = (header.seq + 1, compute_link(text))
    if count > len(kept):
        fault = fault or f"{count} headers were counted and {len(kept)} are kept"
    return TranscriptFinding(len(kept), compute_head(session, [text for text, _ in kept[:count]]), fault)


def split_head(told: str) -> tuple[int, str]:
    """Split a head as sent into count and hash.

    Raises:
        ProtocolError: ``bad_encoding``.
    """
    count, _, head = told.partition(":")
    if not count.isdigit() or len(head) != 64:
        raise ProtocolError("bad_encoding")
    return int(count), head
