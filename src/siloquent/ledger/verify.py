"""Verification of a whole ledger against its chain, up to the first fault.

The chain is authoritative: accounts, permits and answers must equal the result of its entries.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

from siloquent.errors import SiloquentError
from siloquent.ledger import rules
from siloquent.ledger.backends.storage import (
    AnswerRow,
    EntryRow,
    LedgerStorage,
    PermitRow,
    iter_all_answers,
    iter_all_entries,
    iter_all_permits,
    split_account_path,
)
from siloquent.ledger.base import Account, LedgerVerdict
from siloquent.ledger.chain import AccountsHash, compute_genesis_hash, seal_after
from siloquent.ledger.checkpoint import Checkpoint
from siloquent.privacy.accountants import Cost
from siloquent.privacy.events import event_from_json

_PRICES_KEPT = 10_000
_DECODE = json.JSONDecoder().raw_decode  # half the time of json.loads


class _Wrong(Exception):
    """A fault and its entry."""

    def __init__(self, problem: str, seq: int | None = None) -> None:
        self.problem, self.seq = problem, seq
        super().__init__(problem)


@dataclass(slots=True)
class _Tally:
    """The state of an account after the entries so far."""

    account: Account
    amount: int = 0
    delta: int = 0

    def add(self, amount: int, delta: int) -> None:
        limit = self.account.limit
        self.amount, self.delta = self.amount + amount, self.delta + delta
        if not (0 <= self.amount <= limit.amount and 0 <= self.delta <= limit.delta):
            raise _Wrong(f"account {self.account.name!r} exceeds its limit")

    def to_account(self) -> Account:
        return replace(self.account, spent=Cost(self.amount, self.delta))


def verify(ledger: str, books: LedgerStorage, checkpoint: Checkpoint | None) -> LedgerVerdict:
    """Verify the ledger of id ``ledger``; with ``checkpoint``, also whether it has lost entries since."""
    replay = _Replay(ledger, books, checkpoint)
    try:
        replay.run()
    except _Wrong as wrong:
        return LedgerVerdict(False, replay.seq, wrong.seq, f"{wrong.problem[:1].upper()}{wrong.problem[1:]}.")
    return LedgerVerdict(True, replay.seq)


_Open = tuple[str, str, str, int, int]
"""Account, key, event, amount and delta of an open permit; a tuple, since a ledger may have a million of them."""
_NEVER: _Open = ("", "", "", 0, 0)


class _Row(Protocol):
    @property
    def seq(self) -> int: ...


_R = TypeVar("_R", bound=_Row)


class _SideRows(Generic[_R]):
    """Rows stored outside the chain, read in step with it: each belongs to one entry."""

    def __init__(self, what: str, rows: Iterator[_R]) -> None:
        self.what, self.rows = what, rows

    def take(self, seq: int) -> _R:
        """Return the row of entry ``seq``, which must be the next one."""
        row = next(self.rows, None)
        if row is None or row.seq > seq:
            raise _Wrong(f"the {self.what} of entry {seq} is missing")
        if row.seq < seq:
            raise _Wrong(f"the {self.what} at entry {row.seq} belongs to no entry")
        return row

    def end(self) -> None:
        row = next(self.rows, None)
        if row is not None:
            raise _Wrong(f"the {self.what} at entry {row.seq} belongs to no entry")


class _Replay:
    def __init__(self, ledger: str, books: LedgerStorage, checkpoint: Checkpoint | None) -> None:
        self.ledger, self.books, self.checkpoint = ledger, books, checkpoint
        self.seq, self.hash = 0, compute_genesis_hash(ledger)
        self.digest = bytes.fromhex(self.hash)
        self.accounts, self.moved, self.paid = AccountsHash(ledger, ()), set[str](), list[_Tally]()
        self.tallies: dict[str, _Tally] = {}
        self.lines: dict[str, list[_Tally]] = {}
        self.open: dict[int, _Open] = {}
        self.prices: dict[tuple[str, str], Cost] = {}
        self.permits: _SideRows[PermitRow] = _SideRows("permit", iter_all_permits(books))
        self.answers: _SideRows[AnswerRow] = _SideRows("answer", iter_all_answers(books))
        self.kinds: dict[str, Callable[[dict[str, Any]], None]] = {
            "open-account": self._open_account,
            "set-limit": self._set_limit,
            "epoch": self._open_epoch,
            "changed-epoch": self._open_changed_epoch,
            "declare": self._require_account,
            "refresh": self._require_account,
            "reserve": self._reserve,
            "settle": self._settle,
            "deny": lambda facts: None,
            "checkpoint": self._compare_totals,
        }

    def run(self) -> None:
        if self.checkpoint is not None and self.checkpoint.ledger != self.ledger:
            raise _Wrong("the checkpoint belongs to another ledger")
        self._compare_checkpoint()
        for entry in iter_all_entries(self.books):
            try:
                self._step(entry)
            except _Wrong as wrong:
                raise _Wrong(wrong.problem, entry.seq) from None
            self._compare_checkpoint()
        if self.checkpoint is not None and self.seq < self.checkpoint.seq:
            raise _Wrong(
                f"entries after {self.seq} are missing: the checkpoint has {self.checkpoint.seq}", self.seq + 1
            )
        self._compare_tables()

    def _step(self, entry: EntryRow) -> None:
        if type(entry.body) is not str:  # for all other fields, a value of another type never equals its counterpart
            raise _Wrong(f"entry {self.seq + 1} was changed")
        if entry.seq != self.seq + 1:
            raise _Wrong(f"entry {self.seq + 1} is missing")
        if entry.prev != self.hash:
            raise _Wrong(f"entry {entry.seq} does not follow the one before it")
        digest = seal_after(self.digest, entry.seq, entry.body)
        if digest.hex() != entry.hash:
            raise _Wrong(f"entry {entry.seq} was changed")
        self.seq, self.hash, self.digest = entry.seq, entry.hash, digest
        try:
            facts, end = _DECODE(entry.body)
            if end != len(entry.body):
                raise _Wrong(f"entry {entry.seq} has extra data after its body")
            if facts["account"] != entry.account:
                raise _Wrong(f"entry {entry.seq} is stored under another account")
            self.kinds[facts["kind"]](facts)
            if "accounts" in facts:
                self._compare_accounts(facts["accounts"])
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError, SiloquentError) as broken:
            raise _Wrong(f"entry {entry.seq} is not a valid ledger entry") from broken

    def _compare_checkpoint(self) -> None:
        """Check that hash and totals at the checkpoint's position equal those in the checkpoint."""
        kept = self.checkpoint
        if kept is None or kept.seq != self.seq:
            return
        if kept.hash != self.hash:
            raise _Wrong(f"entry {self.seq} differs from the checkpoint", self.seq)
        if kept.spent != self._list_spent():
            raise _Wrong(f"the totals at entry {self.seq} differ from the checkpoint", self.seq)

    def _list_spent(self) -> dict[str, Cost]:
        return {name: Cost(tally.amount, tally.delta) for name, tally in self.tallies.items()}

    def _compare_accounts(self, kept: str) -> None:
        """Check that the entry's hash of all accounts equals that of the accounts after the entries up to it."""
        if self.moved:
            for name in self.moved:
                self.accounts.put(self.tallies[name].to_account())
            self.moved.clear()
        for tally in self.paid:
            self.accounts.spend(tally.account.name, tally.amount, tally.delta)
        self.paid.clear()
        if kept != self.accounts.format_hex():
            raise _Wrong("an entry refers to accounts that are not in the chain")

    def _compare_tables(self) -> None:
        """Check that the rows outside the chain are complete, correct and no more."""
        self.permits.end()
        self.answers.end()
        try:
            stored = {account.name: account for account in self.books.list_accounts()}
        except (ValueError, TypeError, AttributeError, SiloquentError) as broken:
            raise _Wrong("accounts have values that no ledger writes") from broken
        for name, tally in self.tallies.items():
            if stored.pop(name, None) != tally.to_account():
                raise _Wrong(f"account {name!r} has limits, totals or settings that differ from the chain")
        if stored:
            raise _Wrong(f"account {min(stored)!r} was never opened")

    # One method per kind of entry

    def _open_account(self, facts: dict[str, Any]) -> None:
        name = facts["account"]
        if name in self.tallies:
            raise _Wrong(f"account {name!r} is opened twice")
        self.tallies[name] = _Tally(
            Account(
                name=name,
                parent=facts["parent"] or None,
                accountant=facts["accountant"],
                unit=facts["unit"],
                adjacency=facts["adjacency"],
                limit=Cost(*facts["limit"]),
                spent=Cost(0),
                disclosures=bool(facts["disclosures"]),
            )
        )
        self.lines[name] = [self.tallies[above] for above in split_account_path(name)]
        self.moved.add(name)

    def _set_limit(self, facts: dict[str, Any]) -> None:
        tally = self.tallies[facts["account"]]
        tally.account = rules.change_limit(tally.to_account(), Cost(*facts["limit"]))
        self.moved.add(facts["account"])

    def _open_epoch(self, facts: dict[str, Any]) -> None:
        expected = rules.build_next_epoch(self.tallies[facts["old"]].to_account(), facts["account"])
        self._open_changed_epoch(facts)
        if self.tallies[facts["account"]].to_account() != expected:
            raise _Wrong("an epoch changes an account's settings")

    def _open_changed_epoch(self, facts: dict[str, Any]) -> None:
        old = self.tallies[facts["old"]]
        self._open_account(facts)
        opened = self.tallies[facts["account"]].to_account()
        if rules.build_next_epoch(old.to_account(), opened.name, opened) != opened:
            raise _Wrong("an epoch does not follow the one before it")
        old.account = replace(old.account, successor=facts["account"])
        self.moved.add(facts["old"])
        self.prices.clear()  # a closed account has none

    def _require_account(self, facts: dict[str, Any]) -> None:
        if facts["account"] not in self.tallies:
            raise _Wrong("a declaration is recorded for an account that was never opened")

    def _reserve(self, facts: dict[str, Any]) -> None:
        name, event, key = facts["account"], facts["event"], facts["key"]
        line = self.lines[name]
        amount, delta = facts["cost"]
        least = self.prices.get((name, event)) or self._price_event(line, name, event)
        if amount < least.amount or delta < least.delta:
            raise _Wrong("an event was charged less than its price")
        own, table = line[0], line[-1]
        if facts["before"] != [own.amount, own.delta] or facts["table_before"] != [table.amount, table.delta]:
            raise _Wrong("a reservation starts from totals that differ from the chain")
        for tally in line:
            tally.add(amount, delta)
        self.paid += line
        self.open[self.seq] = (name, key, event, amount, delta)
        if self.permits.take(self.seq) != (self.seq, name, key, facts["digest"]):
            raise _Wrong(f"the permit of entry {self.seq} was changed")

    def _price_event(self, line: list[_Tally], name: str, event: str) -> Cost:
        if len(self.prices) >= _PRICES_KEPT:
            self.prices.clear()
        price = self.prices[name, event] = rules.price_event([tally.account for tally in line], event_from_json(event))
        return price

    def _settle(self, facts: dict[str, Any]) -> None:
        account, key, event, *cost = self.open.pop(facts["permit"], _NEVER)
        if (account, key) != (facts["account"], facts["key"]):
            raise _Wrong("an entry settles a permit that was not open")
        line = self.lines[account]
        if facts["event"] != event or facts["cost"] != cost:
            self._lower(line, event, Cost(*cost), facts)
        answer = self.answers.take(self.seq)
        if (answer.permit, answer.table) != (facts["permit"], line[-1].account.name):
            raise _Wrong(f"the answer of entry {self.seq} is stored under another permit")
        if type(answer.payload) is not bytes or hashlib.sha256(answer.payload).hexdigest() != facts["payload"]:
            raise _Wrong(f"the answer of entry {self.seq} was changed")

    def _lower(self, line: list[_Tally], reserved: str, cost: Cost, facts: dict[str, Any]) -> None:
        """Apply a settlement with another event, which may have lowered the charge."""
        paid, events = Cost(*facts["cost"]), (event_from_json(reserved), event_from_json(facts["event"]))
        if paid != rules.compute_final_cost([tally.account for tally in line], events[0], cost, events[1]):
            raise _Wrong("a settlement refunds more than allowed")
        self.paid += line
        for tally in line:
            tally.add(paid.amount - cost.amount, paid.delta - cost.delta)

    def _compare_totals(self, facts: dict[str, Any]) -> None:
        if {name: Cost(*pair) for name, pair in facts["spent"].items()} != self._list_spent():
            raise _Wrong("a checkpoint has totals that differ from the chain")
