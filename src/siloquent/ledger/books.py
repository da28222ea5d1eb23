"""The few questions that a ledger asks its storage inside one transaction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from siloquent.ledger.base import Account, Head

PAGE = 1000
ANSWER_PAGE = 100
"""Payloads may be large: fewer of them are held at once."""


class EntryRow(NamedTuple):
    """An entry as it is stored; ``account`` is a copy out of ``body``, for looking up."""

    seq: int
    account: str
    body: str
    prev: str
    hash: str


class PermitRow(NamedTuple):
    """Which key holds the charge of reserve entry ``seq``; what was charged stands in that entry."""

    seq: int
    account: str
    key: str
    digest: str


class AnswerRow(NamedTuple):
    """The payload that settle entry ``seq`` vouches for; a permit is settled when it has one."""

    seq: int
    permit: int
    table: str
    payload: bytes


class Books(Protocol):
    """Storage within one transaction: what was written is kept altogether or not at all."""

    def head(self) -> Head: ...

    def accounts(self) -> list[Account]:
        """All accounts, by name."""
        ...

    def line(self, name: str) -> list[Account]:
        """The account and its parents up to the table's, held for this transaction; empty if unknown."""
        ...

    def permit(self, *, key: str | None = None, seq: int | None = None) -> PermitRow | None: ...

    def answer(self, permit: int) -> AnswerRow | None: ...

    def entry(self, seq: int) -> EntryRow | None: ...

    def newest(self) -> EntryRow | None:
        """The newest entry, None in an empty ledger."""
        ...

    def entry_and_next(self, seq: int) -> list[EntryRow]:
        """Entry ``seq`` and the one after it, as far as they are there."""
        ...

    def accounts_hash(self) -> str:
        """``AccountsHash`` of all accounts as this transaction leaves them."""
        ...

    def add_account(self, account: Account) -> None: ...

    def put_account(self, account: Account) -> None:
        """Limit, spent and successor of an account that exists."""
        ...

    def add_permit(self, permit: PermitRow) -> None: ...

    def add_answer(self, answer: AnswerRow) -> None: ...

    def add_entry(self, entry: EntryRow) -> None: ...

    def entries(self, after: int, tree: str | None = None) -> list[EntryRow]:
        """The next ``PAGE`` entries; with ``tree``, of that account and its shares."""
        ...

    def permits(self, after: int) -> list[PermitRow]:
        """The next ``PAGE`` permits."""
        ...

    def answers(self, after: int, table: str | None = None) -> list[AnswerRow]:
        """The next ``ANSWER_PAGE`` answers; with ``table``, of that root account's tree."""
        ...


def lineage(name: str) -> Sequence[str]:
    """The names of an account and its parents: the account first, the table's last.

    >>> lineage("visits@1/ana/trial")
    ['visits@1/ana/trial', 'visits@1/ana', 'visits@1']
    """
    parts = name.split("/")
    return ["/".join(parts[:length]) for length in range(len(parts), 0, -1)]


def all_entries(books: Books, after: int = 0) -> Iterator[EntryRow]:
    """Every entry after ``after`` in order, a page at a time."""
    page = books.entries(after)
    while page:
        yield from page
        page = books.entries(page[-1].seq)


def all_permits(books: Books) -> Iterator[PermitRow]:
    """Every permit in order, a page at a time."""
    page = books.permits(0)
    while page:
        yield from page
        page = books.permits(page[-1].seq)


def all_answers(books: Books) -> Iterator[AnswerRow]:
    """Every answer in order, a page at a time."""
    page = books.answers(0)
    while page:
        yield from page
        page = books.answers(page[-1].seq)
