"""Ledger operations shared by all backends, over a storage interface: reserve, settle and the owner's actions."""

from __future__ import annotations

import hashlib
import secrets  # allowed: names of keys and ledgers, never noise
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import cached_property
from typing import Any

from siloquent.errors import BudgetExceeded, KeyReused, LedgerError, NotAllowed
from siloquent.fixes import run
from siloquent.ledger import rules
from siloquent.ledger.backends.storage import DECLARATION, AnswerRow, EntryRow, LedgerStorage, PermitRow
from siloquent.ledger.base import Account, Entry, Head, LedgerVerdict, Permit, SettledAnswer
from siloquent.ledger.chain import build_entry, format_canonical_json, format_current_time, seal
from siloquent.ledger.checkpoint import Checkpoint
from siloquent.ledger.open_permits import OpenPermits
from siloquent.ledger.records import (
    MARK,
    build_permit,
    build_settled_answer,
    format_permit_id,
    load_entry,
    load_reserve_body,
    parse_permit_id,
    read_entry_body,
    recognise,
    require_account_path,
    require_chain,
    require_whole,
    restore_answer,
)
from siloquent.ledger.verify import verify
from siloquent.privacy.accountants import AccountantName, Cost
from siloquent.privacy.events import Event

CrashPoints = Callable[[str], None]
"""A callback that receives the name of a point, such as before-reserve-commit, at which tests simulate crashes."""


class BaseLedger(ABC):
    """A ledger over a storage interface; subclasses implement begin, commit and rollback of transactions."""

    @property
    @abstractmethod
    def id(self) -> str:
        """The ledger's random id."""

    @cached_property
    def _open_permits(self) -> OpenPermits:
        return OpenPermits()

    @abstractmethod
    def _write(self, point: str) -> AbstractContextManager[LedgerStorage]:
        """Open a transaction that is durable if the block succeeds, and is rolled back otherwise.

        ``point`` names its two crash points, ``before-POINT-commit`` and ``after-POINT-commit``.
        """

    @contextmanager
    def _change(self, point: str) -> Iterator[LedgerStorage]:
        """Open ``_write`` after checking that accounts and newest entry agree with the chain."""
        with self._write(point) as books:
            require_chain(self.id, books)
            yield books

    @abstractmethod
    def _read(self) -> AbstractContextManager[LedgerStorage]:
        """Open the storage for a short read."""

    @abstractmethod
    def _open_snapshot(self) -> AbstractContextManager[LedgerStorage]:
        """Open a snapshot of the storage that stays constant during the block, while other processes may charge."""

    @abstractmethod
    def close(self) -> None:
        """Release files and connections."""

    # The owner's actions

    def open_account(
        self,
        name: str,
        *,
        limit: Cost,
        accountant: AccountantName | None = None,
        unit: str | None = None,
        adjacency: str | None = None,
        parent: str | None = None,
        disclosures: bool = False,
        declaration: Mapping[str, Any] | None = None,
    ) -> Account:
        with self._change("open-account") as books:
            above = require_account_path(books, parent)[0] if parent is not None else None
            wanted = rules.build_account(
                name,
                above,
                limit=limit,
                accountant=accountant,
                unit=unit,
                adjacency=adjacency,
                disclosures=disclosures,
            )
            existing = books.load_account_path(name)
            if existing:
                return rules.require_same(existing[0], wanted)
            books.add_account(wanted)
            facts = {**_build_account_facts(wanted), **_build_declaration_field(declaration)}
            self._append(books, "open-account", name, facts)
            return wanted

    def set_limit(self, name: str, limit: Cost) -> Account:
        with self._change("set-limit") as books:
            account = rules.change_limit(require_account_path(books, name)[0], limit)
            books.put_account(account)
            self._append(books, "set-limit", name, {"limit": _dump_cost(limit)})
            return account

    def open_epoch(
        self,
        old: str,
        new: str,
        *,
        statement: str,
        settings: Account | None = None,
        declaration: Mapping[str, Any] | None = None,
    ) -> Account:
        rules.check_text("statement", statement, 1000)
        with self._change("epoch") as books:
            before = require_account_path(books, old)[0]
            existing = books.load_account_path(new)
            if existing and before.successor == new:
                return existing[0]
            account = rules.build_next_epoch(before, new, settings)
            if existing:
                raise LedgerError(
                    f"Account {new!r} already exists and is not the successor of {old!r}.", fix=run("ledger show")
                )
            books.put_account(replace(before, successor=new))
            books.add_account(account)
            kind = "epoch" if account == rules.build_next_epoch(before, new) else "changed-epoch"
            told = {"old": old, "statement": statement, **_build_declaration_field(declaration)}
            self._append(books, kind, new, {**told, **_build_account_facts(account)})
            return account

    def declare(
        self, account: str, declaration: Mapping[str, Any], *, refreshed: bool = False, source_mark: str = ""
    ) -> Entry:
        with self._change("declare") as books:
            require_account_path(books, account)
            facts = {**_build_declaration_field(declaration), **_build_mark_field(source_mark)}
            row = self._append(books, "refresh" if refreshed else "declare", account, facts)
            return build_entry(row.seq, row.body, row.prev, row.hash)

    def list_declarations(self, account: str, after: int = 0) -> list[Entry]:
        with self._read() as books:
            rows = books.list_declarations(account, after)
        return [build_entry(row.seq, row.body, row.prev, row.hash) for row in rows]

    # Spending

    def reserve(
        self, account: str, event: Event, *, key: str | None, digest: str, source_mark: str = ""
    ) -> Permit | SettledAnswer:
        text = rules.serialize_event(event)
        is_new = key is None
        fresh = secrets.token_hex(16)  # allowed: a name
        key = fresh if key is None else rules.check_text("key", key, rules.MAX_KEY_LENGTH)
        rules.check_text("digest", digest, rules.MAX_KEY_LENGTH)
        with self._change("reserve") as books:
            known = None if is_new else books.find_permit(key=key)
            if known is not None:
                return self._resolve_permit(books, _require_same_request(known, account, digest))
            row = PermitRow(books.get_head().seq + 1, account, key, digest)
            outcome = self._charge(books, row, event, text, _build_mark_field(source_mark))
        # The refusal's entry is committed at this point.
        if isinstance(outcome, BudgetExceeded):
            raise outcome
        return outcome

    def find_charge(self, account: str, *, key: str, digest: str) -> Permit | SettledAnswer | None:
        with self._read() as books:
            known = books.find_permit(key=key)
            return None if known is None else self._resolve_permit(books, _require_same_request(known, account, digest))

    def cost_under(self, account: str, key: str) -> Cost | None:
        with self._read() as books:
            known = books.find_permit(key=key)
            if known is None or known.account != account:
                return None
            answer = self._open_permits.find_answer(books, known)
            facts = (
                load_reserve_body(books, known) if answer is None else read_entry_body(load_entry(books, answer.seq))
            )
            return Cost(*facts["cost"])

    def _charge(
        self, books: LedgerStorage, row: PermitRow, event: Event, text: str, mark: dict[str, str]
    ) -> Permit | BudgetExceeded:
        line = require_account_path(books, row.account)
        rules.require_current(event)
        cost = rules.price_event(line, event)
        short = rules.find_short_account(line, cost)
        if short is not None:
            asked = _dump_cost(rules.cap_cost(cost))
            facts = {"short": short.name, "digest": row.digest, "event": event.tag, "cost": asked}
            self._append(books, "deny", row.account, facts)
            return rules.build_refusal(short, cost)
        for account in line:
            books.put_account(replace(account, spent=account.spent + cost))
        books.add_permit(row)
        facts = {
            "key": row.key,
            "digest": row.digest,
            "event": text,
            "cost": _dump_cost(cost),
            "before": _dump_cost(line[0].spent),
            "table_before": _dump_cost(line[-1].spent),
            **mark,
        }
        self._append(books, "reserve", row.account, facts)
        return Permit(format_permit_id(row.seq), row.account, row.key, row.digest, event, cost, row.seq)

    def _resolve_permit(self, books: LedgerStorage, row: PermitRow) -> Permit | SettledAnswer:
        """Return the current state of an existing permit: its answer, or the permit itself."""
        facts, answer = load_reserve_body(books, row), self._open_permits.find_answer(books, row)
        return build_permit(row, facts) if answer is None else restore_answer(self.id, books, answer)

    def settle(self, permit: Permit, event: Event, payload: bytes, *, source_mark: str | None = None) -> SettledAnswer:
        text = rules.serialize_event(event)
        with self._change("settle") as books:
            row, reserved = recognise(books, permit)
            answer = self._open_permits.find_answer(books, row)
            if answer is not None:
                return restore_answer(self.id, books, answer)
            line = require_account_path(books, row.account)
            paid = rules.compute_final_cost(line, permit.event, permit.cost, event)
            back = Cost(permit.cost.amount - paid.amount, permit.cost.delta - paid.delta)
            if back != Cost(0):
                for account in line:
                    books.put_account(replace(account, spent=_subtract_cost(account.spent, back)))
            # The time of the reservation: the time of settling would reveal how long the measurement took.
            facts = {
                "at": reserved["at"],
                "permit": row.seq,
                "key": row.key,
                "event": text,
                "cost": _dump_cost(paid),
                "before": reserved["before"],
                "table_before": reserved["table_before"],
                "payload": hashlib.sha256(payload).hexdigest(),
                **_build_mark_field(reserved.get(MARK, "") if source_mark is None else source_mark),
            }
            entry = self._append(books, "settle", row.account, facts)
            answer = AnswerRow(entry.seq, row.seq, line[-1].name, payload)
            books.add_answer(answer)
            return build_settled_answer(self.id, answer, entry)

    # Reading

    def get_account(self, name: str) -> Account:
        with self._read() as books:
            return require_account_path(books, name)[0]

    def list_accounts(self) -> list[Account]:
        with self._read() as books:
            return books.list_accounts()

    def get_permit(self, permit_id: str) -> Permit:
        with self._read() as books:
            row = books.find_permit(seq=parse_permit_id(permit_id))
            if row is None:
                raise NotAllowed(f"Permit {permit_id!r} does not exist.", fix="reserve first")
            self._open_permits.require_unsettled(books, row)
            return build_permit(row, load_reserve_body(books, row))

    def require_open(self, permit: Permit, *, account: str | None = None) -> None:
        with self._read() as books:
            self._open_permits.require_unsettled(books, recognise(books, permit)[0])
        if account is not None and not f"{permit.account}/".startswith(f"{account}/"):
            raise NotAllowed(
                f"Permit {permit.id} belongs to {permit.account!r}, not to {account!r}.", fix="reserve there"
            )

    def iter_answers(self, account: str, *, after_seq: int = 0) -> Iterator[SettledAnswer]:
        with self._read() as books:
            table = require_account_path(books, account)[-1].name
        while True:
            # Each page is one short transaction, so that a slow reader delays no other process.
            with self._read() as books:
                page = [restore_answer(self.id, books, answer) for answer in books.list_answers(after_seq, table)]
            if not page:
                return
            yield from page
            after_seq = page[-1].receipt.seq

    def iter_entries(self, after: int = 0, account: str | None = None) -> Iterator[Entry]:
        while True:
            with self._read() as books:
                page = books.list_entries(after, account)
            if not page:
                return
            yield from (build_entry(row.seq, row.body, row.prev, row.hash) for row in page)
            after = page[-1].seq

    def read_head(self) -> Head:
        with self._read() as books:
            return books.get_head()

    def has(self, head: Head) -> bool:
        with self._read() as books:
            entry = books.find_entry(head.seq)
        return entry is not None and entry.hash == head.hash

    # Verification

    def upgrade(self) -> bool:
        with self._write("upgrade") as books:
            newest = books.find_newest_entry()
            require_whole(self.id, books)
            done = self._rebuild()
            if done:
                require_whole(self.id, books)
        if newest is not None and "accounts" not in read_entry_body(newest):
            self.create_checkpoint()
            return True
        return done

    def _rebuild(self) -> bool:
        """Upgrade the tables of an earlier revision within the transaction; return whether anything changed."""
        return False

    def verify(self, checkpoint: Checkpoint | None = None) -> LedgerVerdict:
        with self._open_snapshot() as books:
            return verify(self.id, books, checkpoint)

    def create_checkpoint(self) -> Checkpoint:
        with self._change("checkpoint") as books:
            spent = {account.name: account.spent for account in books.list_accounts()}
            facts = {"spent": {name: _dump_cost(cost) for name, cost in spent.items()}}
            entry = self._append(books, "checkpoint", "", facts)
            return Checkpoint(self.id, entry.seq, entry.hash, spent)

    def _append(self, books: LedgerStorage, kind: str, account: str, facts: dict[str, Any]) -> EntryRow:
        head = books.get_head()
        seq, body = (
            head.seq + 1,
            format_canonical_json(
                {
                    "accounts": books.compute_accounts_hash(),
                    "at": format_current_time(),
                    "kind": kind,
                    "account": account,
                    **facts,
                }
            ),
        )
        entry = EntryRow(seq, account, body, head.hash, seal(head.hash, seq, body))
        books.add_entry(entry)
        return entry


def _build_mark_field(mark: str) -> dict[str, str]:
    """Build the entry field that holds ``mark``; entries without one keep the format from before marks existed."""
    return {MARK: rules.check_text("mark", mark, rules.MAX_KEY_LENGTH)} if mark else {}


def _build_declaration_field(declaration: Mapping[str, Any] | None) -> dict[str, Any]:
    """Build the entry field that holds ``declaration``; entries without one keep the format from before."""
    return {} if declaration is None else {DECLARATION: dict(declaration)}


def _require_same_request(known: PermitRow, account: str, digest: str) -> PermitRow:
    if (known.account, known.digest) != (account, digest):
        raise KeyReused(
            f"The key {known.key!r} belongs to another request.", fix="use a new key, or repeat that request"
        )
    return known


def _build_account_facts(account: Account) -> dict[str, Any]:
    return {
        "parent": account.parent or "",
        "accountant": account.accountant,
        "unit": account.unit,
        "adjacency": account.adjacency,
        "limit": _dump_cost(account.limit),
        "disclosures": int(account.disclosures),
    }


def _dump_cost(cost: Cost) -> list[int]:
    return [cost.amount, cost.delta]


def _subtract_cost(spent: Cost, back: Cost) -> Cost:
    return Cost(spent.amount - back.amount, spent.delta - back.delta)
