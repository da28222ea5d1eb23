"""A ledger in memory, with the guarantees of a ledger on disk until the process ends. For tests and trials."""

from __future__ import annotations

import secrets  # allowed: names of keys and ledgers, never noise
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import TypeVar

from siloquent.ledger.backends.storage import (
    ANSWER_PAGE,
    DECLARATION,
    PAGE,
    AnswerRow,
    EntryRow,
    LedgerStorage,
    PermitRow,
    split_account_path,
)
from siloquent.ledger.base import Account, Head
from siloquent.ledger.base_ledger import BaseLedger, CrashPoints
from siloquent.ledger.chain import AccountsHash, compute_genesis_hash

_R = TypeVar("_R", EntryRow, PermitRow, AnswerRow)


class MemoryLedger(BaseLedger):
    """A thread-safe ledger that is lost when the process ends."""

    def __init__(self, *, crash_points: CrashPoints | None = None) -> None:
        self._id = secrets.token_hex(16)  # allowed: a name
        self._books = _MemoryStorage(self._id)
        self._lock = threading.RLock()
        self._crash_points = crash_points

    @property
    def id(self) -> str:
        return self._id

    @contextmanager
    def _write(self, point: str) -> Iterator[LedgerStorage]:
        with self._lock:
            try:
                yield self._books
                self._pass_point(f"before-{point}-commit")
            except BaseException:  # allowed: whatever stopped it, nothing is kept
                self._books.forget()
                raise
            self._books.keep()
            self._pass_point(f"after-{point}-commit")

    def _pass_point(self, point: str) -> None:
        if self._crash_points is not None:
            self._crash_points(point)

    @contextmanager
    def _read(self) -> Iterator[LedgerStorage]:
        with self._lock:
            yield self._books

    _open_snapshot = _read

    def close(self) -> None:
        """Do nothing: there are no files or connections to release."""


class _MemoryStorage:
    """Storage in lists and dictionaries; writes are staged, so that transactions are atomic."""

    def __init__(self, ledger: str) -> None:
        self._ledger, self._genesis = ledger, compute_genesis_hash(ledger)
        self._hash = AccountsHash(ledger, ())
        self._accounts: dict[str, Account] = {}
        self._entries: list[EntryRow] = []
        self._permits: list[PermitRow] = []
        self._by_key: dict[str, PermitRow] = {}
        self._answers: list[AnswerRow] = []
        self._by_permit: dict[int, AnswerRow] = {}
        self._staged: list[Callable[[], None]] = []

    def keep(self) -> None:
        for write in self._staged:
            write()
        self._staged.clear()

    def forget(self) -> None:
        self._staged.clear()
        self._hash = AccountsHash(self._ledger, self._accounts.values())

    def get_head(self) -> Head:
        newest = self._entries[-1] if self._entries else None
        return Head(newest.seq, newest.hash) if newest else Head(0, self._genesis)

    def list_accounts(self) -> list[Account]:
        return [self._accounts[name] for name in sorted(self._accounts)]

    def load_account_path(self, name: str) -> list[Account]:
        return [self._accounts[above] for above in split_account_path(name)] if name in self._accounts else []

    def find_permit(self, *, key: str | None = None, seq: int | None = None) -> PermitRow | None:
        if key is not None:
            return self._by_key.get(key)
        found = _slice_after(self._permits, (seq or 0) - 1, 1)
        return found[0] if found and found[0].seq == seq else None

    def find_answer(self, permit: int) -> AnswerRow | None:
        return self._by_permit.get(permit)

    def find_entry(self, seq: int) -> EntryRow | None:
        return self._entries[seq - 1] if 0 < seq <= len(self._entries) else None

    def find_newest_entry(self) -> EntryRow | None:
        return self._entries[-1] if self._entries else None

    def load_entry_pair(self, seq: int) -> list[EntryRow]:
        return self._entries[seq - 1 : seq + 1]

    def compute_accounts_hash(self) -> str:
        return self._hash.format_hex()

    def add_account(self, account: Account) -> None:
        self.put_account(account)

    def put_account(self, account: Account) -> None:
        self._hash.put(account)
        self._staged.append(lambda: self._accounts.update({account.name: account}))

    def add_permit(self, permit: PermitRow) -> None:
        self._staged.append(lambda: self._permits.append(permit))
        self._staged.append(lambda: self._by_key.update({permit.key: permit}))

    def add_answer(self, answer: AnswerRow) -> None:
        self._staged.append(lambda: self._answers.append(answer))
        self._staged.append(lambda: self._by_permit.update({answer.permit: answer}))

    def add_entry(self, entry: EntryRow) -> None:
        self._staged.append(lambda: self._entries.append(entry))

    def list_entries(self, after: int, tree: str | None = None) -> list[EntryRow]:
        if tree is None:
            return _slice_after(self._entries, after, PAGE)
        rows = (row for row in self._entries[after:] if f"{row.account}/".startswith(f"{tree}/"))
        return list(islice(rows, PAGE))

    def list_declarations(self, account: str, after: int) -> list[EntryRow]:
        sign = f'"{DECLARATION}":'
        return [row for row in self._entries[after:] if row.account == account and sign in row.body]

    def list_permits(self, after: int) -> list[PermitRow]:
        return _slice_after(self._permits, after, PAGE)

    def list_answers(self, after: int, table: str | None = None) -> list[AnswerRow]:
        if table is None:
            return _slice_after(self._answers, after, ANSWER_PAGE)
        rows = (row for row in _slice_after(self._answers, after, len(self._answers)) if row.table == table)
        return list(islice(rows, ANSWER_PAGE))


def _slice_after(rows: Sequence[_R], seq: int, most: int) -> list[_R]:
    """Return up to ``most`` rows whose seq is above ``seq``; ``rows`` are ordered by seq."""
    start = bisect_right(rows, seq, key=lambda row: row.seq)
    return list(rows[start : start + most])
