"""The hash chain: one canonical text per entry, each sealed to the one before it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from siloquent.errors import LedgerError
from siloquent.ledger.base import Entry

# A prefix of its own, as in RFC 6962: no entry's hash can be passed off as another kind of hash.
ENTRY_PREFIX = b"\x00"


def genesis(ledger_id: str) -> str:
    """What stands before the first entry: the hash of the ledger's random id."""
    return hashlib.sha256(ledger_id.encode()).hexdigest()


def seal(prev: str, seq: int, body: str) -> str:
    """The hash of an entry: SHA-256 of 0x00, the hash before it, its seq as 8 bytes, and its body."""
    return hashlib.sha256(ENTRY_PREFIX + bytes.fromhex(prev) + seq.to_bytes(8, "big") + body.encode()).hexdigest()


def canonical(body: Mapping[str, Any]) -> str:
    """``body`` as JSON in the one form that is hashed: sorted keys, no blanks, whole numbers and strings only.

    >>> canonical({"kind": "deny", "amount": 3})
    '{"amount":3,"kind":"deny"}'
    """
    _require_plain(body)
    return json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _require_plain(value: object) -> None:
    """Floats have several texts and null several meanings: neither is ever hashed."""
    if isinstance(value, Mapping):
        for item in value.values():
            _require_plain(item)
    elif isinstance(value, list):
        for item in value:
            _require_plain(item)
    elif type(value) not in (int, str):
        raise LedgerError(f"An entry holds whole numbers and strings only, not {type(value).__name__}.")


def entry_of(seq: int, body: str, prev: str, digest: str) -> Entry:
    """The entry that a row of the chain holds."""
    facts = json.loads(body)
    return Entry(seq, facts["at"], facts["kind"], facts, prev, digest)


def now() -> str:
    """The time for the record, in UTC and whole seconds; no rule of the ledger looks at it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
