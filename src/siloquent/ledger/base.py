"""What every ledger offers, and the values it speaks in.

A ledger knows what was spent and never sees a row. The order of events is ``seq``, never the clock.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol

from siloquent.privacy.accountants import AccountantName, Cost, get_accountant
from siloquent.privacy.events import Event

if TYPE_CHECKING:
    from siloquent.ledger.checkpoint import Checkpoint


@dataclass(frozen=True, slots=True)
class Account:
    """The budget of one table and epoch (``visits@1``), or one analyst's share of it (``visits@1/ana``).

    ``unit`` is "row" or "user:COLUMN:ROWS"; ``successor`` is the next epoch, which closed this account.
    """

    name: str
    parent: str | None
    accountant: AccountantName
    unit: str
    adjacency: str
    limit: Cost
    spent: Cost
    disclosures: bool = False
    successor: str | None = None

    @property
    def left(self) -> Cost:
        """What this account alone could still pay; its parents may have less."""
        return Cost(self.limit.amount - self.spent.amount, self.limit.delta - self.spent.delta)

    def compute_remaining(self) -> Fraction:
        """``left`` in epsilon or rho, exactly."""
        return Fraction(self.left.amount, get_accountant(self.accountant).scale)


@dataclass(frozen=True, slots=True)
class Permit:
    """A charge that stands and a measurement that may be made once; ``seq`` is that of the reserve entry.

    A retry with the same key gets the same permit: measure its ``event``, which is what was paid for.
    """

    id: str
    account: str
    key: str
    digest: str
    event: Event
    cost: Cost
    seq: int


@dataclass(frozen=True, slots=True)
class Receipt:
    """Where an answer stands in the chain: anybody with the ledger can find it, nobody can move it."""

    ledger: str
    seq: int
    hash: str


@dataclass(frozen=True, slots=True)
class SettledAnswer:
    """A settled measurement, the same at every replay.

    ``spent_before`` and ``spent_after`` are the named account's, taken at the reservation: the total before it, and
    that plus what was finally paid. ``table_before`` and ``table_after`` are the same for the root of the tree, which
    bounds what colluding analysts learn. ``source_mark`` is of the rows that were measured (``ledger.marks``); empty
    in entries of earlier revisions.
    """

    permit_id: str
    account: str
    key: str
    event: Event
    payload: bytes
    receipt: Receipt
    spent_before: Cost
    spent_after: Cost
    table_before: Cost
    table_after: Cost
    source_mark: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the chain; ``body`` is what ``hash`` covers, ``at`` and ``kind`` included."""

    seq: int
    at: str
    kind: str
    body: dict[str, Any]
    prev: str
    hash: str


@dataclass(frozen=True, slots=True)
class Head:
    """The newest entry, or (0, hash of the ledger's id) for an empty ledger."""

    seq: int
    hash: str


@dataclass(frozen=True, slots=True)
class LedgerVerdict:
    """Whether all is as the chain says; if not, what is wrong and at which entry (None: beside the chain)."""

    ok: bool
    entries: int
    first_bad_seq: int | None = None
    problem: str = ""


class Ledger(Protocol):
    """The same promises for every kind of ledger; ``tests/contract/ledger_contract.py`` holds each to them."""

    @property
    def id(self) -> str:
        """The ledger's random name, fixed when it was made."""
        ...

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
    ) -> Account:
        """A new account, or the one of that name if it is the same in all settings.

        Args:
            name: ``visits@1``, or ``PARENT/LABEL`` for a share of ``parent``.
            accountant, unit, adjacency: Required without a parent; a share has its parent's.
            disclosures: Whether events outside differential privacy may be recorded here.
        Raises:
            LedgerError: The account exists with other settings.
            RequestError: A name, limit or setting that no account may have.
            UnknownName: The parent does not exist.
        """
        ...

    def set_limit(self, name: str, limit: Cost) -> Account:
        """An owner's new limit, never below what is spent."""
        ...

    def open_epoch(self, old: str, new: str, *, statement: str) -> Account:
        """Close ``old`` (``visits@1``) and open ``new`` (``visits@2``) with the same settings and nothing spent.

        Args:
            statement: The owner's words that the people are new, kept in the chain.
        """
        ...

    def get_account(self, name: str) -> Account:
        """The account of that name.

        Raises:
            UnknownName: It was never opened.
        """
        ...

    def list_accounts(self) -> list[Account]:
        """All accounts by name: a parent stands before its shares."""
        ...

    def reserve(
        self, account: str, event: Event, *, key: str | None, digest: str, source_mark: str = ""
    ) -> Permit | SettledAnswer:
        """Charge the worst case of ``event`` to ``account`` and its parents, durably, before data is touched.

        Args:
            key: The client's idempotency key, one for the whole ledger; None: a fresh random one.
            digest: What was asked, hashed: the same key with another digest is refused.
            source_mark: Of the rows as they are now, kept in the entry; the key is not bound to it.
        Returns:
            A permit; the earlier permit if ``key`` holds an open one; the stored answer if it was settled.
        Raises:
            BudgetExceeded: Some account of the line has too little left; the refusal is recorded, nothing is charged.
            ChainBroken: Accounts, the newest entry, or what stands under ``key``, are not as the chain left them.
            KeyReused: ``key`` belongs to another request.
            NotAllowed: The price of the event would be wrong in this account, or the account is closed.
        Privacy:
            Admission looks at the worst case and at earlier charges alone, so a refusal tells nothing about rows.
        """
        ...

    def find_charge(self, account: str, *, key: str, digest: str) -> Permit | SettledAnswer | None:
        """What ``reserve`` would find under ``key``: an open permit, a stored answer, or None. Charges nothing.

        Raises:
            KeyReused: ``key`` belongs to another request.
        """
        ...

    def cost_under(self, account: str, key: str) -> Cost | None:
        """What ``account`` paid for the charge under ``key``: what was reserved, or what that was settled at.

        None if nothing of that account stands under the key.
        """
        ...

    def settle(self, permit: Permit, event: Event, payload: bytes, *, source_mark: str | None = None) -> SettledAnswer:
        """Keep the measurement; only after this may it leave the process. The first payload stored wins.

        Args:
            event: What was published. It costs what was reserved; the stop of a noise reduction may lower it.
            source_mark: Of the rows that were measured; None: those of the reservation.
        Raises:
            LedgerError: ``event`` is not what was paid for (our bug): the charge stands and nothing is stored.
            NotAllowed: The permit is not of this ledger.
        """
        ...

    def get_permit(self, permit_id: str) -> Permit:
        """The open permit of that id.

        Raises:
            NotAllowed: Unknown or settled.
        """
        ...

    def require_open(self, permit: Permit, *, account: str | None = None) -> None:
        """What the data room asks before it touches a row.

        Args:
            account: The account whose rows are about to be read; its shares' permits are good too.
        Raises:
            NotAllowed: ``permit`` is unknown here, altered, settled, or of another account.
        """
        ...

    def iter_answers(self, account: str, *, after_seq: int = 0) -> Iterator[SettledAnswer]:
        """The settled answers of the whole tree to which ``account`` belongs, in the order of their receipts."""
        ...

    def iter_entries(self, after: int = 0, account: str | None = None) -> Iterator[Entry]:
        """The chain after ``after``; with ``account``, only entries of it and of its shares."""
        ...

    def read_head(self) -> Head:
        """The newest entry's seq and hash."""
        ...

    def has(self, head: Head) -> bool:
        """Whether entry ``head.seq`` has this hash: if so, all entries up to it are those that were there before."""
        ...

    def upgrade(self) -> bool:
        """Bring tables of an earlier revision to this one's, in one transaction, and tie the accounts to the chain.

        Returns:
            Whether there was anything to do.
        Raises:
            ChainBroken: The ledger is not as its chain says; it stays as it is.
        """
        ...

    def verify(self, checkpoint: Checkpoint | None = None) -> LedgerVerdict:
        """Recompute the chain, totals, permits, answers and limits, and say the first thing that is wrong."""
        ...

    def create_checkpoint(self) -> Checkpoint:
        """Append a checkpoint entry, and return what to keep elsewhere: a cut tail shows only against it."""
        ...

    def close(self) -> None:
        """Let go of files and connections; everything committed stays."""
        ...
