"""The hash chain: one canonical text per entry, each hashed together with its predecessor."""

from __future__ import annotations

import hashlib
import json
from bisect import insort
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from siloquent.errors import LedgerError
from siloquent.ledger.base import Account, Entry

# Its own prefix, as in RFC 6962: an entry's hash cannot be passed off as another kind of hash.
ENTRY_PREFIX = b"\x00"


_JSON = json.JSONEncoder(ensure_ascii=False).encode


def compute_genesis_hash(ledger_id: str) -> str:
    """Compute the hash before the first entry: that of the ledger's random id."""
    return hashlib.sha256(ledger_id.encode()).hexdigest()


def seal(prev: str, seq: int, body: str) -> str:
    """Compute the hash of an entry: SHA-256 of 0x00, the previous hash, its seq as 8 bytes, and its body."""
    return seal_after(bytes.fromhex(prev), seq, body).hex()


def seal_after(prev: bytes, seq: int, body: str) -> bytes:
    """Compute ``seal`` from and to the bytes of hashes."""
    # surrogateescape: bytes that are not UTF-8 were decoded this way, and are hashed as the original bytes.
    text = body.encode("utf-8", "surrogateescape")
    return hashlib.sha256(b"%b%b%b%b" % (ENTRY_PREFIX, prev, seq.to_bytes(8, "big"), text)).digest()


class AccountsHash:
    """One hash over all accounts of a ledger; each entry carries the accounts' hash after it.

    A charge compares the accounts in the database with the hash in the newest entry. A lowered total or a raised
    limit outside the chain is thus found before anything is granted.

    SHA-256 of 0x01, the ledger's id, and the hash of each table's accounts, in the order of their names; a table's is
    SHA-256 of 0x02 and its accounts' lines: JSON lists of name, parent, accountant, unit, adjacency, successor,
    disclosures, limit, limit of delta, spent and spent delta.
    """

    def __init__(self, ledger: str, accounts: Iterable[Account]) -> None:
        self._start = hashlib.sha256(b"\x01" + ledger.encode())
        self._lines: dict[str, dict[str, str]] = {}  # per table: its accounts' lines by name
        self._fixed: dict[str, tuple[str, str]] = {}  # per account: its table, and its line without amounts
        self._tables: dict[str, bytes] = {}
        self._order: list[str] = []  # the tables' names
        self._stale: set[str] = set()
        for account in accounts:
            self.put(account)

    def put(self, account: Account) -> None:
        """Add ``account``, or replace the one of the same name."""
        texts = (account.name, account.parent, account.accountant, account.unit, account.adjacency, account.successor)
        limit, spent = account.limit, account.spent
        self.put_facts(*texts, account.disclosures, limit.amount, limit.delta, spent.amount, spent.delta)

    def put_facts(
        self,
        name: str,
        parent: str | None,
        accountant: str,
        unit: str,
        adjacency: str,
        successor: str | None,
        disclosures: int,
        limit: int,
        limit_delta: int,
        spent: int,
        spent_delta: int,
    ) -> None:
        """Do the same as ``put`` without creating an account object, since a ledger may have thousands."""
        texts = (name, parent or "", accountant, unit, adjacency, successor or "")
        table = name.partition("/")[0]
        if table not in self._lines:
            self._lines[table] = {}
            insort(self._order, table)
        self._fixed[name] = (table, _JSON((*texts, int(disclosures), limit, limit_delta))[:-1])
        self.spend(name, spent, spent_delta)

    def spend(self, name: str, amount: int, delta: int) -> None:
        """Set the total that account ``name`` has spent to ``amount`` and ``delta``."""
        table, fixed = self._fixed[name]
        self._lines[table][name] = f"{fixed}, {amount}, {delta}]"
        self._stale.add(table)

    def format_hex(self) -> str:
        """Return the hash in hexadecimal."""
        for table in self._stale:
            lines = self._lines[table]
            ordered = sorted(lines) if len(lines) > 1 else lines  # thousands of entries are about one account
            text = "\n".join([lines[name] for name in ordered])
            self._tables[table] = hashlib.sha256(b"\x02" + text.encode("utf-8", "surrogateescape")).digest()
        self._stale.clear()
        whole = self._start.copy()
        whole.update(b"".join([self._tables[table] for table in self._order]))
        return whole.hexdigest()


def format_canonical_json(body: Mapping[str, Any]) -> str:
    """Return ``body`` in the JSON form that is hashed: sorted keys, no blanks, only whole numbers and strings.

    >>> format_canonical_json({"kind": "deny", "amount": 3})
    '{"amount":3,"kind":"deny"}'
    """
    _require_plain(body)
    return json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _require_plain(value: object) -> None:
    """Refuse floats, which have several texts, and null, which has several meanings: neither is hashed."""
    if isinstance(value, Mapping):
        for item in value.values():
            _require_plain(item)
    elif isinstance(value, list):
        for item in value:
            _require_plain(item)
    elif type(value) not in (int, str):
        raise LedgerError(f"An entry may contain only whole numbers and strings, not {type(value).__name__}.")


def build_entry(seq: int, body: str, prev: str, digest: str) -> Entry:
    """Build the entry that a row of the chain holds."""
    facts = json.loads(body)
    return Entry(seq, facts["at"], facts["kind"], facts, prev, digest)


def format_current_time() -> str:
    """Return the time for the record, in UTC and whole seconds; no ledger rule depends on it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
