"""The interface of every ledger, and its value classes.

A ledger records spending and never sees a row. Events are ordered by ``seq``, never by the clock.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
        """The amount that this account itself can still pay; its parents may have less."""
        return Cost(self.limit.amount - self.spent.amount, self.limit.delta - self.spent.delta)

    def compute_remaining(self) -> Fraction:
        """Compute ``left`` in epsilon or rho, exactly."""
        return Fraction(self.left.amount, get_accountant(self.accountant).scale)


@dataclass(frozen=True, slots=True)
class Permit:
    """A valid charge that allows one measurement; ``seq`` is that of the reserve entry.

    A retry with the same key gets the same permit: measure its ``event``, which was charged.
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
    """An answer's position in the chain; verifiable by anyone with the ledger, and impossible to move."""

    ledger: str
    seq: int
    hash: str


@dataclass(frozen=True, slots=True)
class SettledAnswer:
    """A settled measurement, the same at every replay.

    ``spent_before`` and ``spent_after`` are the named account's totals at the reservation: before it, and with the
    final charge added. ``table_before`` and ``table_after`` are the same for the root of the tree, which
    bounds what colluding analysts learn. ``source_mark`` identifies the measured rows (``ledger.marks``); empty
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
    """One entry of the chain; ``hash`` covers ``body``, including ``at`` and ``kind``."""

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
    """The result of a verification; if it failed, the fault and its entry (None: outside the chain)."""

    ok: bool
    entries: int
    first_bad_seq: int | None = None
    problem: str = ""


class Ledger(Protocol):
    """The guarantees of every kind of ledger; ``tests/contract/ledger_contract.py`` verifies each implementation."""

    @property
    def id(self) -> str:
        """The ledger's random id, fixed at creation."""
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
        declaration: Mapping[str, Any] | None = None,
    ) -> Account:
        """Open an account, or return the existing one of that name if all settings are equal.

        Args:
            name: ``visits@1``, or ``PARENT/LABEL`` for a share of ``parent``.
            accountant, unit, adjacency: Required without a parent; a share has its parent's.
            disclosures: Whether events outside differential privacy may be recorded here.
            declaration: What the table's owner declares now, kept in the entry.
        Raises:
            LedgerError: The account exists with other settings.
            RequestError: A name, limit or setting is invalid.
            UnknownName: The parent does not exist.
        """
        ...

    def set_limit(self, name: str, limit: Cost) -> Account:
        """Set an owner's new limit, never below the amount spent."""
        ...

    def open_epoch(
        self,
        old: str,
        new: str,
        *,
        statement: str,
        settings: Account | None = None,
        declaration: Mapping[str, Any] | None = None,
    ) -> Account:
        """Close ``old`` (``visits@1``) and open ``new`` (``visits@2``) with nothing spent.

        Args:
            statement: The owner's statement about the persons, kept in the chain.
            settings: An account with the new limit, accountant, unit, adjacency and disclosures; None: those of old.
            declaration: As in ``open_account``.
        """
        ...

    def declare(
        self, account: str, declaration: Mapping[str, Any], *, refreshed: bool = False, source_mark: str = ""
    ) -> Entry:
        """Record what the owner of an account's table declares now; with ``refreshed``, that its rows were replaced.

        Args:
            source_mark: The mark of the new rows.
        """
        ...

    def list_declarations(self, account: str, after: int = 0) -> list[Entry]:
        """Return the entries of an account after ``after`` that record a declaration, oldest first."""
        ...

    def get_account(self, name: str) -> Account:
        """Return the account of that name.

        Raises:
            UnknownName: It was never opened.
        """
        ...

    def list_accounts(self) -> list[Account]:
        """Return all accounts by name; parents precede their shares."""
        ...

    def reserve(
        self, account: str, event: Event, *, key: str | None, digest: str, source_mark: str = ""
    ) -> Permit | SettledAnswer:
        """Charge the worst case of ``event`` to ``account`` and its parents, durably, before data is touched.

        Args:
            key: The client's idempotency key, one for the whole ledger; None: a fresh random one.
            digest: The request's hash; the same key with another digest is refused.
            source_mark: The mark of the current rows, kept in the entry; the key is not bound to it.
        Returns:
            A permit; the earlier permit if ``key`` holds an open one; the stored answer if it was settled.
        Raises:
            BudgetExceeded: An account or parent has too little left; the refusal is recorded, nothing is charged.
            ChainBroken: Accounts, the newest entry, or the data under ``key`` contradict the chain.
            KeyReused: ``key`` belongs to another request.
            NotAllowed: The price of the event would be wrong in this account, or the account is closed.
        Privacy:
            Admission depends only on the worst case and earlier charges, so a refusal reveals nothing about rows.
        """
        ...

    def find_charge(self, account: str, *, key: str, digest: str) -> Permit | SettledAnswer | None:
        """Return the open permit or stored answer that ``reserve`` would find under ``key``, or None. Charges nothing.

        Raises:
            KeyReused: ``key`` belongs to another request.
        """
        ...

    def cost_under(self, account: str, key: str) -> Cost | None:
        """Return what ``account`` paid for the charge under ``key``: the settled amount, or else the reserved one.

        None if there is no charge of that account under the key.
        """
        ...

    def settle(self, permit: Permit, event: Event, payload: bytes, *, source_mark: str | None = None) -> SettledAnswer:
        """Store the measurement, which may leave the process only afterwards. The first stored payload wins.

        Args:
            event: The published event. It costs the reserved amount; the stop of a noise reduction may lower it.
            source_mark: The mark of the measured rows; None: that of the reservation.
        Raises:
            LedgerError: ``event`` differs from the charged one (our bug); the charge stands and nothing is stored.
            NotAllowed: The permit is not of this ledger.
        """
        ...

    def get_permit(self, permit_id: str) -> Permit:
        """Return the open permit of that id.

        Raises:
            NotAllowed: Unknown or settled.
        """
        ...

    def require_open(self, permit: Permit, *, account: str | None = None) -> None:
        """Check a permit before the data layer reads a row.

        Args:
            account: The account whose rows are about to be read; its shares' permits are also valid.
        Raises:
            NotAllowed: ``permit`` is unknown here, altered, settled, or of another account.
        """
        ...

    def iter_answers(self, account: str, *, after_seq: int = 0) -> Iterator[SettledAnswer]:
        """Iterate over the settled answers of the whole tree of ``account``, in the order of their receipts."""
        ...

    def iter_entries(self, after: int = 0, account: str | None = None) -> Iterator[Entry]:
        """Iterate over the entries after ``after``; with ``account``, only those of it and its shares."""
        ...

    def read_head(self) -> Head:
        """Return the newest entry's seq and hash."""
        ...

    def has(self, head: Head) -> bool:
        """Return whether entry ``head.seq`` has this hash; if so, all entries up to it are unchanged."""
        ...

    def upgrade(self) -> bool:
        """Upgrade the tables of an earlier revision in one transaction, and bind the accounts to the chain.

        Returns:
            Whether anything was changed.
        Raises:
            ChainBroken: The ledger contradicts its chain; it is left unchanged.
        """
        ...

    def verify(self, checkpoint: Checkpoint | None = None) -> LedgerVerdict:
        """Recompute the chain, totals, permits, answers and limits, and report the first fault."""
        ...

    def create_checkpoint(self) -> Checkpoint:
        """Append a checkpoint entry and return the checkpoint, to be kept elsewhere: only it reveals truncation."""
        ...

    def close(self) -> None:
        """Release files and connections; everything committed is kept."""
        ...
