"""The hash chain: one canonical text per entry, each sealed to the one before it."""

from __future__ import annotations

import hashlib
import json
from bisect import insort
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from siloquent.errors import LedgerError
from siloquent.ledger.base import Account, Entry

# A prefix of its own, as in RFC 6962: no entry's hash can be passed off as another kind of hash.
ENTRY_PREFIX = b"\x00"


_JSON = json.JSONEncoder(ensure_ascii=False).encode


def compute_genesis_hash(ledger_id: str) -> str:
    """What stands before the first entry: the hash of the ledger's random id."""
    return hashlib.sha256(ledger_id.encode()).hexdigest()


def seal(prev: str, seq: int, body: str) -> str:
    """The hash of an entry: SHA-256 of 0x00, the hash before it, its seq as 8 bytes, and its body."""
    return seal_after(bytes.fromhex(prev), seq, body).hex()


def seal_after(prev: bytes, seq: int, body: str) -> bytes:
    """``seal``, from and to the bytes of hashes."""
    # surrogateescape: bytes that are no UTF-8 were read so, and count as the bytes they are.
    text = body.encode("utf-8", "surrogateescape")
    return hashlib.sha256(b"%b%b%b%b" % (ENTRY_PREFIX, prev, seq.to_bytes(8, "big"), text)).digest()


class AccountsHash:
    """All accounts of a ledger as one hash, which each entry carries as they are after it.

    A charge compares the accounts that stand in the database with the newest entry's hash of them: a total that was
    lowered or a limit that was raised beside the chain is found before anything is granted.

    SHA-256 of 0x01, the ledger's id, and the hash of each table's accounts, in the order of their names; a table's is
    SHA-256 of 0x02 and its accounts' lines: JSON lists of name, parent, accountant, unit, adjacency, successor,
    disclosures, limit, limit of delta, spent and spent delta.
    """

    def __init__(self, ledger: str, accounts: Iterable[Account]) -> None:
        self._start = hashlib.sha256(b"\x01" + ledger.encode())
        self._lines: dict[str, dict[str, str]] = {}  # of each table, its accounts' by their names
        self._fixed: dict[str, tuple[str, str]] = {}  # of each account, its table, and its line but for what is spent
        self._tables: dict[str, bytes] = {}
        self._order: list[str] = []  # of the tables' names
        self._stale: set[str] = set()
        for account in accounts:
            self.put(account)

    def put(self, account: Account) -> None:
        """Take ``account`` in, or in the place of the one with its name."""
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
        """``put`` without making an account of it: a ledger may have thousands, and looks at all of them."""
        texts = (name, parent or "", accountant, unit, adjacency, successor or "")
        table = name.partition("/")[0]
        if table not in self._lines:
            self._lines[table] = {}
            insort(self._order, table)
        self._fixed[name] = (table, _JSON((*texts, int(disclosures), limit, limit_delta))[:-1])
        self.spend(name, spent, spent_delta)

    def spend(self, name: str, amount: int, delta: int) -> None:
        """Account ``name`` has spent ``amount`` and ``delta`` in all."""
        table, fixed = self._fixed[name]
        self._lines[table][name] = f"{fixed}, {amount}, {delta}]"
        self._stale.add(table)

    def format_hex(self) -> str:
        """The hash in hexadecimal."""
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
    """``body`` as JSON in the one form that is hashed: sorted keys, no blanks, whole numbers and strings only.

    >>> format_canonical_json({"kind": "deny", "amount": 3})
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


def build_entry(seq: int, body: str, prev: str, digest: str) -> Entry:
    """The entry that a row of the chain holds."""
    facts = json.loads(body)
    return Entry(seq, facts["at"], facts["kind"], facts, prev, digest)


def format_current_time() -> str:
    """The time for the record, in UTC and whole seconds; no rule of the ledger looks at it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
