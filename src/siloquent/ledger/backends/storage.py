"""The storage interface that a ledger uses inside one transaction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from siloquent.ledger.base import Account, Head

PAGE = 1000
ANSWER_PAGE = 100
"""The number of answers per page; payloads may be large, so it is smaller than ``PAGE``."""


DECLARATION = "declaration"
"""The field of an entry that records what a table's owner declares."""


class EntryRow(NamedTuple):
    """A stored entry; ``account`` is a copy from ``body``, for look-ups."""

    seq: int
    account: str
    body: str
    prev: str
    hash: str


class PermitRow(NamedTuple):
    """The key of the charge of reserve entry ``seq``; the charge itself is in that entry."""

    seq: int
    account: str
    key: str
    digest: str


class AnswerRow(NamedTuple):
    """The payload that settle entry ``seq`` authenticates; a permit is settled when it has one."""

    seq: int
    permit: int
    table: str
    payload: bytes


class LedgerStorage(Protocol):
    """Storage within one transaction; all writes are kept, or none."""

    def get_head(self) -> Head: ...

    def list_accounts(self) -> list[Account]:
        """Return all accounts, by name."""
        ...

    def load_account_path(self, name: str) -> list[Account]:
        """Return the account and its parents up to the table's, locked for this transaction; empty if unknown."""
        ...

    def find_permit(self, *, key: str | None = None, seq: int | None = None) -> PermitRow | None: ...

    def find_answer(self, permit: int) -> AnswerRow | None: ...

    def find_entry(self, seq: int) -> EntryRow | None: ...

    def find_newest_entry(self) -> EntryRow | None:
        """Return the newest entry, None in an empty ledger."""
        ...

    def load_entry_pair(self, seq: int) -> list[EntryRow]:
        """Return entry ``seq`` and its successor, as far as they exist."""
        ...

    def compute_accounts_hash(self) -> str:
        """Compute the ``AccountsHash`` of all accounts as this transaction leaves them."""
        ...

    def add_account(self, account: Account) -> None: ...

    def put_account(self, account: Account) -> None:
        """Update limit, spent amount and successor of an existing account."""
        ...

    def add_permit(self, permit: PermitRow) -> None: ...

    def add_answer(self, answer: AnswerRow) -> None: ...

    def add_entry(self, entry: EntryRow) -> None: ...

    def list_entries(self, after: int, tree: str | None = None) -> list[EntryRow]:
        """Return the next ``PAGE`` entries; with ``tree``, of that account and its shares."""
        ...

    def list_declarations(self, account: str, after: int) -> list[EntryRow]:
        """Return the entries of ``account`` after ``after`` that hold ``DECLARATION``, in order."""
        ...

    def list_permits(self, after: int) -> list[PermitRow]:
        """Return the next ``PAGE`` permits."""
        ...

    def list_answers(self, after: int, table: str | None = None) -> list[AnswerRow]:
        """Return the next ``ANSWER_PAGE`` answers; with ``table``, of that root account's tree."""
        ...


def split_account_path(name: str) -> Sequence[str]:
    """Return the names of an account and its parents: the account first, the table's last.

    >>> split_account_path("visits@1/ana/trial")
    ['visits@1/ana/trial', 'visits@1/ana', 'visits@1']
    """
    parts = name.split("/")
    return ["/".join(parts[:length]) for length in range(len(parts), 0, -1)]


def iter_all_entries(books: LedgerStorage, after: int = 0) -> Iterator[EntryRow]:
    """Iterate over the entries after ``after`` in order, a page at a time."""
    page = books.list_entries(after)
    while page:
        yield from page
        page = books.list_entries(page[-1].seq)


def iter_all_permits(books: LedgerStorage) -> Iterator[PermitRow]:
    """Iterate over all permits in order, a page at a time."""
    page = books.list_permits(0)
    while page:
        yield from page
        page = books.list_permits(page[-1].seq)


def iter_all_answers(books: LedgerStorage) -> Iterator[AnswerRow]:
    """Iterate over all answers in order, a page at a time."""
    page = books.list_answers(0)
    while page:
        yield from page
        page = books.list_answers(page[-1].seq)
