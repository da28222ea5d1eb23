"""Conversion of stored rows to the values that were returned: permits, answers, receipts."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from siloquent.errors import ChainBroken, NotAllowed, RequestError, UnknownName
from siloquent.fixes import run
from siloquent.ledger.backends.storage import AnswerRow, EntryRow, LedgerStorage, PermitRow
from siloquent.ledger.base import Account, Permit, Receipt, SettledAnswer
from siloquent.ledger.chain import AccountsHash, seal
from siloquent.ledger.verify import verify
from siloquent.privacy.accountants import Cost
from siloquent.privacy.events import event_from_json

MARK = "source_mark"
"""The field of reserve and settle entries that identifies the rows concerned."""
FIX = run("ledger verify")


def require_account_path(books: LedgerStorage, name: str) -> list[Account]:
    """Return the account and its parents, the table's account last.

    Raises:
        UnknownName: It was never opened.
    """
    line = books.load_account_path(name)
    if not line:
        known = [account.name for account in books.list_accounts()]
        raise UnknownName("account", name, known, fix=run("ledger show"))
    return line


def read_entry_body(entry: EntryRow) -> dict[str, Any]:
    """Return the body of ``entry``, recomputing its hash.

    Raises:
        ChainBroken: It was changed.
    """
    try:
        facts = json.loads(entry.body) if seal(entry.prev, entry.seq, entry.body) == entry.hash else None
    except (ValueError, TypeError, AttributeError, OverflowError):  # of a type or text that no ledger writes
        facts = None
    if not isinstance(facts, dict):
        raise ChainBroken(f"Entry {entry.seq} was changed.", seq=entry.seq, fix=FIX)
    return facts


def load_entry(books: LedgerStorage, seq: int) -> EntryRow:
    """Return entry ``seq``, which must exist, be unchanged and be linked from its successor.

    Raises:
        ChainBroken: It is missing, changed or not linked.
    """
    found = books.load_entry_pair(seq)
    if not found or found[0].seq != seq:
        raise ChainBroken(f"Entry {seq} is missing.", seq=seq, fix=FIX)
    read_entry_body(found[0])
    if len(found) > 1 and found[1].prev != found[0].hash:
        raise ChainBroken(f"Entry {seq + 1} does not follow the one before it.", seq=seq + 1, fix=FIX)
    return found[0]


def load_reserve_body(books: LedgerStorage, row: PermitRow) -> dict[str, Any]:
    """Return the body of the reserve entry that gave ``row``.

    Raises:
        ChainBroken: It was changed, or did not give this permit.
    """
    facts = read_entry_body(load_entry(books, row.seq))
    given = tuple(facts.get(name) for name in ("kind", "account", "key", "digest"))
    if given != ("reserve", row.account, row.key, row.digest):
        raise ChainBroken(f"The permit of entry {row.seq} was changed.", seq=row.seq, fix=FIX)
    return facts


def require_chain(ledger: str, books: LedgerStorage) -> None:
    """Refuse to write if the newest entry or the accounts contradict the chain.

    A ledger of an earlier revision, whose newest entry has no hash of the accounts, is verified as a whole instead.

    Raises:
        ChainBroken: Something was changed outside the chain.
    """
    newest = books.find_newest_entry()
    kept = AccountsHash(ledger, ()).format_hex() if newest is None else read_entry_body(newest).get("accounts")
    seq = newest.seq if newest else 0
    try:
        if kept is None:
            require_whole(ledger, books)
        elif kept != books.compute_accounts_hash():
            raise ChainBroken(
                f"Accounts have limits, totals or settings that entry {seq} does not give them.", seq=seq, fix=FIX
            )
    except (ValueError, TypeError, AttributeError, RequestError):  # numbers that no account has
        raise ChainBroken("Accounts have values that no ledger writes.", seq=seq, fix=FIX) from None


def build_permit(row: PermitRow, facts: dict[str, Any]) -> Permit:
    """Build the permit that reserve entry ``facts`` gave."""
    event = event_from_json(facts["event"])
    return Permit(format_permit_id(row.seq), row.account, row.key, row.digest, event, Cost(*facts["cost"]), row.seq)


def require_whole(ledger: str, books: LedgerStorage) -> None:
    """Verify the whole ledger.

    Raises:
        ChainBroken: Something in it contradicts its chain.
    """
    verdict = verify(ledger, books, None)
    if not verdict.ok:
        raise ChainBroken(verdict.problem, seq=verdict.first_bad_seq or verdict.entries, fix=FIX)


def recognise(books: LedgerStorage, permit: Permit) -> tuple[PermitRow, dict[str, Any]]:
    """Return the row and reserve entry of ``permit``, which must equal the permit that this ledger issued.

    Raises:
        NotAllowed: It is unknown or was altered.
        ChainBroken: Its entry or its row was altered.
    """
    row = books.find_permit(seq=permit.seq)
    facts = load_reserve_body(books, row) if row else {}
    if row is None or build_permit(row, facts) != permit:
        raise NotAllowed(f"Permit {permit.id!r} was not issued by this ledger.", fix="reserve first")
    return row, facts


def restore_answer(ledger: str, books: LedgerStorage, answer: AnswerRow) -> SettledAnswer:
    """Restore the settled answer as it was first returned."""
    return build_settled_answer(ledger, answer, load_entry(books, answer.seq))


def build_settled_answer(ledger: str, answer: AnswerRow, entry: EntryRow) -> SettledAnswer:
    """Build the value of settle entry ``entry`` and its payload.

    Raises:
        ChainBroken: The payload is not the settled one.
    """
    facts = read_entry_body(entry)
    whole = isinstance(answer.payload, bytes) and hashlib.sha256(answer.payload).hexdigest() == facts.get("payload")
    if not whole or (facts.get("kind"), facts.get("permit")) != ("settle", answer.permit):
        raise ChainBroken("A stored answer was changed.", seq=answer.seq, fix=FIX)
    before, table_before, paid = (Cost(*facts[name]) for name in ("before", "table_before", "cost"))
    return SettledAnswer(
        permit_id=format_permit_id(answer.permit),
        account=facts["account"],
        key=facts["key"],
        event=event_from_json(facts["event"]),
        payload=answer.payload,
        receipt=Receipt(ledger, entry.seq, entry.hash),
        spent_before=before,
        spent_after=before + paid,
        table_before=table_before,
        table_after=table_before + paid,
        source_mark=str(facts.get(MARK, "")),
    )


def format_permit_id(seq: int) -> str:
    """Format an id such as ``p-000017`` for logs; look-ups use the seq in it."""
    return f"p-{seq:06d}"


def parse_permit_id(permit: str) -> int:
    """Return the seq in ``permit``, or 0, which no permit has."""
    digits = permit.removeprefix("p-")
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 19 else 0
