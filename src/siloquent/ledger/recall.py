"""From stored rows back to the values that were given out: permits, answers, receipts."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from siloquent.errors import ChainBroken, NotAllowed, UnknownName
from siloquent.ledger.base import Account, Permit, Receipt, Stored
from siloquent.ledger.books import AnswerRow, Books, EntryRow, PermitRow
from siloquent.privacy.accountants import Cost
from siloquent.privacy.events import event_from_json


def line_of(books: Books, name: str) -> list[Account]:
    """The account and its parents, the table's last.

    Raises:
        UnknownName: It was never opened.
    """
    line = books.line(name)
    if not line:
        known = [account.name for account in books.accounts()]
        raise UnknownName("account", name, known, fix="siloquent ledger show")
    return line


def facts_of(books: Books, seq: int) -> dict[str, Any]:
    """The body of entry ``seq``, which must be there: a permit stands on it."""
    entry = books.entry(seq)
    if entry is None:
        raise ChainBroken(f"Entry {seq} is missing.", seq=seq, fix="siloquent ledger verify")
    facts: dict[str, Any] = json.loads(entry.body)
    return facts


def permit_of(row: PermitRow, facts: dict[str, Any]) -> Permit:
    """The permit that reserve entry ``facts`` gave."""
    event = event_from_json(facts["event"])
    return Permit(id_of_permit(row.seq), row.account, row.key, row.digest, event, Cost(*facts["cost"]), row.seq)


def recognise(books: Books, permit: Permit) -> tuple[PermitRow, dict[str, Any]]:
    """The row and reserve entry of ``permit``, which must be just what this ledger gave out.

    Raises:
        NotAllowed: It is unknown, or something in it was altered.
    """
    row = books.permit(seq=permit.seq)
    facts = facts_of(books, row.seq) if row else {}
    if row is None or permit_of(row, facts) != permit:
        raise NotAllowed(f"Permit {permit.id!r} was not given by this ledger.", fix="reserve first")
    return row, facts


def require_unsettled(books: Books, row: PermitRow) -> None:
    """Refuse a permit whose one measurement was made."""
    if books.answer(row.seq) is not None:
        raise NotAllowed(
            f"Permit {id_of_permit(row.seq)} is settled: one permit, one measurement.",
            fix="the same key gives the stored answer",
        )


def recall(ledger: str, books: Books, answer: AnswerRow) -> Stored:
    """The settled answer, as it was given the first time."""
    entry = books.entry(answer.seq)
    if entry is None:
        raise ChainBroken(f"Entry {answer.seq} is missing.", seq=answer.seq, fix="siloquent ledger verify")
    return stored_from(ledger, answer, entry)


def stored_from(ledger: str, answer: AnswerRow, entry: EntryRow) -> Stored:
    """The value that settle entry ``entry`` and its payload make.

    Raises:
        ChainBroken: The payload is not the one that was settled.
    """
    facts = json.loads(entry.body)
    if hashlib.sha256(answer.payload).hexdigest() != facts["payload"]:
        raise ChainBroken("A stored answer was changed.", seq=answer.seq, fix="siloquent ledger verify")
    before, table_before, paid = (Cost(*facts[name]) for name in ("before", "table_before", "cost"))
    return Stored(
        permit_id=id_of_permit(answer.permit),
        account=facts["account"],
        key=facts["key"],
        event=event_from_json(facts["event"]),
        payload=answer.payload,
        receipt=Receipt(ledger, entry.seq, entry.hash),
        spent_before=before,
        spent_after=before + paid,
        table_before=table_before,
        table_after=table_before + paid,
    )


def id_of_permit(seq: int) -> str:
    """``p-000017``: what a person reads in a log; the seq behind it is what is looked up."""
    return f"p-{seq:06d}"


def seq_of_permit(permit: str) -> int:
    """The seq in ``permit``, or 0, which no permit has."""
    digits = permit.removeprefix("p-")
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 19 else 0
