"""How every task asks the ledger: one request under one key, what it may cost, and the promise that was charged."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from siloquent.errors import KeyReused, NotAllowed, RequestError
from siloquent.ledger import Account, Ledger, Permit, SettledAnswer
from siloquent.privacy import ATTO, FREE, Composed, Cost, Event, Guarantee, format_digits, get_accountant, parse_exact
from siloquent.releases.provenance import Provenance

if TYPE_CHECKING:
    from siloquent.schema import TableSchema
    from siloquent.session import WorkspaceSession


@dataclass(frozen=True, slots=True)
class Charge:
    """A request as the ledger knows it, and what it may cost.

    Attributes:
        key: The idempotency key that the asker gave.
        account: Who pays.
        digest: What the key is bound to: ``compute_request_digest``.
        max_cost: The highest price in the account's epsilon or rho, as text.
        what: The task's word for what is asked, for messages: "question", "sketch".
        dearer: What to do when it costs too much, for messages: "ask for a wider error".
        step: The place of this charge among those of one request; each has a permit of its own.
        before: What the request's earlier steps were charged.
    """

    key: str | None
    account: Account
    digest: str
    max_cost: str | None = None
    what: str = "request"
    dearer: str = "a smaller budget"
    step: int = 1
    before: Event = FREE

    def __post_init__(self) -> None:
        if self.key is not None and not (1 <= len(self.key) <= 64 and self.key.isascii() and self.key.isprintable()):
            raise RequestError("A key is 1 to 64 printable ASCII characters.", fix="--key monday-report")
        if self.max_cost is not None:
            parse_exact(self.max_cost)  # a limit that cannot be read is refused before anything is planned

    @property
    def own_key(self) -> str | None:
        """A key is its account's own: otherwise analysts could learn from refusals which keys others have used."""
        return None if self.key is None else _key_of(self.account.name, self.step, self.key)

    def build_next_step(self, before: Event) -> Charge:
        """The same request's next step, after ``before`` was paid."""
        return replace(self, step=self.step + 1, before=before)

    def find_existing(self, session: WorkspaceSession) -> Permit | SettledAnswer | None:
        """What was asked under this key before: a permit that waits for its measurement, or what was released.

        Raises:
            KeyReused: the key belongs to another request.
        """
        if self.own_key is None:
            return None
        try:
            return session.ledger.find_charge(self.account.name, key=self.own_key, digest=self.digest)
        except KeyReused:
            raise KeyReused(
                f"The key {self.key!r} belongs to another {self.what}.",
                fix=f"use a new key, or repeat that {self.what}",
            ) from None

    def find_cost_refusal(self, session: WorkspaceSession, event: Event) -> RequestError | None:
        """The refusal if ``event``, with what was paid before, is charged more than ``max_cost``; None if not.

        What was paid for under this key already is never too dear.
        """
        if self.max_cost is None or self.find_existing(session) is not None:
            return None
        book = get_accountant(self.account.accountant)
        price = Fraction(book.compute_cost(Composed((self.before, event))).amount, book.scale)
        if price <= parse_exact(self.max_cost):
            return None
        return RequestError(
            f"The {self.what} costs {book.symbol} {format_digits(price)}, more than the {self.max_cost} "
            "that you allow.",
            fix=f"--max-cost {format_digits(price)}, or {self.dearer}",
        )

    def require_affordable(self, session: WorkspaceSession, event: Event) -> None:
        """Refuse, before anything is spent, what ``find_cost_refusal`` refuses."""
        if refusal := self.find_cost_refusal(session, event):
            raise refusal

    def reserve(self, session: WorkspaceSession, event: Event) -> Permit | SettledAnswer:
        """The permit for ``event``, written durably before it is returned.

        Raises:
            BudgetExceeded: what is left does not pay for it. InstallationError: noise cannot be drawn here. Nothing is
                spent.
        """
        session.require_samplers()
        mark = session.compute_account_mark(self.account.name)
        return session.ledger.reserve(self.account.name, event, key=self.own_key, digest=self.digest, source_mark=mark)

    def measure_once(self, session: WorkspaceSession, work: Callable[[], SettledAnswer]) -> tuple[SettledAnswer, bool]:
        """What ``work`` measures and settles, or what the same request settled elsewhere meanwhile; whether it is that.

        Two at once under one key hold one permit: it measures once, and the later one gets what the first one released.
        """
        try:
            return work(), False
        except NotAllowed:
            kept = self.find_existing(session)
            if isinstance(kept, SettledAnswer):
                return kept, True
            raise

    def derive_seed(self, ledger: str) -> int | None:
        """A public seed that is the same at every retry, so that the same permit fits; None without a key."""
        if self.own_key is None:
            return None
        return int.from_bytes(hashlib.sha256(f"{ledger}|{self.own_key}|{self.digest}".encode()).digest())


def _key_of(account: str, step: int, key: str) -> str:
    return f"{account}{'' if step == 1 else f'+{step}'}:{key}"  # no account's name holds a "+"


def spent_under(ledger: Ledger, account: str, key: str) -> Cost | None:
    """Add up what ``account`` has paid for all steps of the request under ``key``; None if it has paid nothing."""
    total, step = None, 1
    while (paid := ledger.cost_under(account, _key_of(account, step, key))) is not None:
        total, step = paid if total is None else total + paid, step + 1
    return total


def compute_request_digest(session: WorkspaceSession, account: Account, schema: TableSchema, *parts: Any) -> str:
    """SHA-256 of who asks what of which account under which declaration: what an idempotency key is bound to."""
    whole = [session.analyst or "", account.name, *parts, schema.digest, schema.version]
    return hashlib.sha256(json.dumps(whole, ensure_ascii=False).encode()).hexdigest()


def require_planned(permit: Permit, event: Event) -> None:
    """Refuse to measure under a permit that was reserved for something else than ``event``.

    Raises:
        RequestError: the permit is of an earlier version, or of other rows: the request was planned otherwise.
    """
    if permit.event != event:
        raise RequestError(
            "This key holds a charge that was planned differently, by another version of siloquent or when the source "
            "held other rows; the charge stands.",
            fix="ask again with a new key",
        )


def compute_charged_amount(schema: TableSchema, *stored: SettledAnswer) -> Fraction:
    """What the account paid for ``stored``, in epsilon or rho: never less than their exact price."""
    scale = get_accountant(schema.budget.accountant).scale
    return sum((Fraction(one.spent_after.amount - one.spent_before.amount, scale) for one in stored), Fraction(0))


def build_guarantee(schema: TableSchema, *stored: SettledAnswer) -> Guarantee:
    """The guarantee of settled measurements, the steps of one request in order: what was charged for them together."""
    book = get_accountant(schema.budget.accountant)
    charged, zcdp = compute_charged_amount(schema, *stored), book.name == "zcdp"
    return Guarantee(
        definition=book.name,
        unit=schema.unit.description,
        adjacency=schema.adjacency,
        account=schema.account,
        spent_before=Fraction(stored[0].table_before.amount, book.scale),
        spent_after=Fraction(stored[-1].table_after.amount, book.scale),
        epsilon=Fraction(0) if zcdp else charged,
        rho=charged if zcdp else Fraction(0),
        delta=Fraction(sum(one.spent_after.delta - one.spent_before.delta for one in stored), ATTO),
        report_delta=schema.budget.delta - schema.budget.delta_events if zcdp else Fraction(1, 10**6),
        spent_delta=Fraction(stored[-1].table_after.delta, ATTO),
    )


def build_provenance(schema: TableSchema, stored: SettledAnswer) -> Provenance:
    """Where a settled measurement stands in its ledger, and what was promised, for the file of its release."""
    return Provenance(
        account=stored.account,
        ledger=stored.receipt.ledger,
        seq=stored.receipt.seq,
        hash=stored.receipt.hash,
        guarantee=build_guarantee(schema, stored).describe(),
        unit=schema.unit.description,
        adjacency=schema.adjacency,
    )
