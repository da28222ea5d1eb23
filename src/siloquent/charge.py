"""Charging a request to the ledger, shared by all tasks: one key, a maximum cost and the charged guarantee."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from siloquent.errors import KeyReused, NotAllowed, RequestError, SchemaError, SiloquentError
from siloquent.fixes import UseOption, join_choices
from siloquent.ledger import Account, Ledger, Permit, SettledAnswer
from siloquent.ledger.rules import parse_table_name
from siloquent.privacy import FREE, Composed, Cost, Event, format_digits, get_accountant, parse_exact
from siloquent.readable import Readable

if TYPE_CHECKING:
    from siloquent.data import PrivateTable
    from siloquent.schema import TableSchema
    from siloquent.session import WorkspaceSession

Q = TypeVar("Q", bound="NamesTable", contravariant=True)
T = TypeVar("T", covariant=True)
RESERVED = "what was reserved"
"""The cost that an error reports if it occurs after the reservation."""


class PricedPlan(Protocol):
    """A plan of any task: the declaration that it was made for, and the event that it releases."""

    @property
    def schema(self) -> TableSchema:
        """The declaration."""

    @property
    def event(self) -> Event:
        """The event that is reserved and released."""


@dataclass(frozen=True, slots=True)
class EarlierFile:
    """A request under an earlier table file.

    Attributes:
        digest: The digest that its key was bound to under that file.
        file: The digest of the file; empty for one that is not recorded.
        differs: The changes since by which the request means something else, as text.
    """

    digest: str
    file: str = ""
    differs: str = ""


@dataclass(frozen=True, slots=True)
class Charge:
    """A request as the ledger sees it, and its maximum cost.

    Attributes:
        key: The idempotency key given by the caller.
        account: The account that is charged.
        digest: The digest that a new key is bound to, from ``compute_request_digest``.
        max_cost: The highest price in the account's epsilon or rho, as text.
        what: The task's noun for the request in messages, such as "question" or "sketch".
        dearer: The advice in messages if it costs too much, such as "ask for a wider error".
        step: The index of this charge within its request; each step has its own permit.
        before: The amount charged for the request's earlier steps.
        alike: The same request under earlier table files, under which it means the same: keys bound to them fit.
        unlike: The same request under earlier table files, under which it means something else.
        table: The table that is asked about; empty if the account is its own.
    """

    key: str | None
    account: Account
    digest: str
    max_cost: str | None = None
    what: str = "request"
    dearer: str = "a smaller budget"
    step: int = 1
    before: Event = FREE
    alike: tuple[EarlierFile, ...] = ()
    unlike: tuple[EarlierFile, ...] = ()
    table: str = ""

    def __post_init__(self) -> None:
        if self.key is not None and not (1 <= len(self.key) <= 64 and self.key.isascii() and self.key.isprintable()):
            raise RequestError(
                "A key must have 1 to 64 printable ASCII characters.", fix=UseOption("key", "monday-report")
            )
        if self.max_cost is not None:
            parse_exact(self.max_cost)  # an invalid limit is rejected before planning starts

    @property
    def own_key(self) -> str | None:
        """The key scoped to its account and step; otherwise refusals would reveal keys used by other analysts."""
        return None if self.key is None else _key_of(self.account.name, self.step, self.key)

    @property
    def table_name(self) -> str:
        """The table that is asked about."""
        return self.table or parse_table_name(self.account.name)

    def build_next_step(self, before: Event) -> Charge:
        """Build the request's next step, after ``before`` was charged."""
        return replace(self, step=self.step + 1, before=before)

    def find_existing(self, session: WorkspaceSession) -> Permit | SettledAnswer | None:
        """Return the earlier charge under this key: a permit that awaits its measurement, or the released answer.

        Raises:
            KeyReused: the key belongs to another request.
        """
        return self._look_up(session)[0]

    def find_digest(self, session: WorkspaceSession) -> str:
        """Return the digest that the key is bound to, today's if it is new.

        What is kept beside a permit, such as finished steps, is found by it: under another name it would be released
        a second time for one charge.

        Raises:
            KeyReused: as for ``find_existing``.
        """
        return self._look_up(session)[1]

    def restore_declaration(self, session: WorkspaceSession, schema: TableSchema) -> TableSchema:
        """Return ``schema`` with the facts for planning that held when this key was charged; itself for a new key.

        A change of delta, for instance, changes what a budget in epsilon is in rho. Planned by today's, the request
        would not be the one that was reserved, and its charge would be lost.

        Raises:
            KeyReused: as for ``find_existing``.
        """
        digest = self.find_digest(session)
        file = schema.digest if session.earlier else ""
        file = next((one.file for one in self.alike if one.digest == digest), file)
        return session.restore_declaration(schema, file) if file else schema

    def record_use(self, session: WorkspaceSession) -> None:
        """Record today's declaration if the key is bound to an earlier one that means the same.

        A release that names today's declaration can then be verified after the next change, too. If the ledger cannot
        be written, the stored answer is returned all the same.
        """
        if self.find_digest(session) != self.digest:
            with suppress(SiloquentError):
                session.record_declaration(self.table_name)

    def _look_up(self, session: WorkspaceSession) -> tuple[Permit | SettledAnswer | None, str]:
        """Return the earlier charge under this key, if any, and the digest that the key is bound to."""
        if self.own_key is None:
            return None, self.digest
        for digest in (self.digest, *(one.digest for one in self.alike)):
            with suppress(KeyReused):
                found = session.ledger.find_charge(self.account.name, key=self.own_key, digest=digest)
                return found, self.digest if found is None else digest
        raise self._build_reused(session)

    def _build_reused(self, session: WorkspaceSession) -> KeyReused:
        """Build the refusal of a key of another request, or of this one under a declaration with another meaning."""
        for one in self.unlike:
            with suppress(KeyReused):
                session.ledger.find_charge(self.account.name, key=self.own_key or "", digest=one.digest)
                return KeyReused(
                    f"The key {self.key!r} belongs to this {self.what} before its table was declared otherwise: "
                    f"{one.differs}. Its charge is kept.",
                    fix=f"declare that as it was in schemas/{self.table_name}.toml and repeat the {self.what}, or use "
                    "a new key, which is charged",
                )
        return KeyReused(
            f"The key {self.key!r} belongs to another {self.what}, or to this one before its table was declared "
            "otherwise: with other rows, columns or another promise.",
            fix=f"repeat that {self.what} under that declaration, or use a new key, which is charged",
        )

    def find_cost_refusal(self, session: WorkspaceSession, event: Event) -> RequestError | None:
        """Return the refusal if ``event`` plus earlier charges exceeds ``max_cost``; None otherwise.

        A request that was already charged under this key never exceeds it.
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
            fix=join_choices(filter(None, (UseOption("max_cost", format_digits(price)), self.dearer))),
        )

    def require_affordable(self, session: WorkspaceSession, event: Event) -> None:
        """Raise the error of ``find_cost_refusal``, if any, before anything is spent."""
        if refusal := self.find_cost_refusal(session, event):
            raise refusal

    def reserve(self, session: WorkspaceSession, event: Event) -> Permit | SettledAnswer:
        """Return the permit for ``event``, durably recorded before it is returned.

        Raises:
            BudgetExceeded: the remaining budget does not cover it. InstallationError: noise cannot be drawn here.
                Nothing is spent.
        """
        if self.step == 1:
            session.require_current_declaration()
        session.require_samplers()
        session.open_account(self.account.name, event, table=self.table_name)
        mark, digest = session.compute_table_mark(self.table_name), self.find_digest(session)
        return session.ledger.reserve(self.account.name, event, key=self.own_key, digest=digest, source_mark=mark)

    def find_or_reserve(
        self, session: WorkspaceSession, planned: PricedPlan, *, rehearse: Callable[[], object] | None = None
    ) -> Permit | SettledAnswer:
        """Return the earlier charge under this key, or reserve ``planned`` now, after all that may fail was tried.

        Args:
            rehearse: Raises if the request cannot be completed; not called for an earlier charge.
        Raises:
            KeyReused, RequestError, SchemaError, DataError, BudgetExceeded: nothing is spent.
        """
        held = self.find_existing(session)
        if held is not None:
            self.record_use(session)
            return held
        if rehearse is not None:
            rehearse()
        self.require_affordable(session, planned.event)
        session.open_planned_table(planned.schema)
        return self.reserve(session, planned.event)

    def measure_once(self, session: WorkspaceSession, work: Callable[[], SettledAnswer]) -> tuple[SettledAnswer, bool]:
        """Measure and settle once with ``work``; return the answer and whether the same request settled it elsewhere.

        Two concurrent requests under one key share a permit: it measures once, and the later request gets that answer.
        """
        try:
            return work(), False
        except NotAllowed:
            kept = self.find_existing(session)
            if isinstance(kept, SettledAnswer):
                return kept, True
            raise

    def derive_seed(self, session: WorkspaceSession) -> int | None:
        """Derive a public seed that is the same at every retry, so that the same permit fits; None without a key."""
        if self.own_key is None:
            return None
        text = f"{session.ledger.id}|{self.own_key}|{self.find_digest(session)}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest())


def _key_of(account: str, step: int, key: str) -> str:
    return f"{account}{'' if step == 1 else f'+{step}'}:{key}"  # no account name contains a "+"


def spent_under(ledger: Ledger, account: str, key: str) -> Cost | None:
    """Return the total that ``account`` paid for all steps of the request under ``key``; None if nothing was paid."""
    total, step = None, 1
    while (paid := ledger.cost_under(account, _key_of(account, step, key))) is not None:
        total, step = paid if total is None else total + paid, step + 1
    return total


def compute_request_digest(session: WorkspaceSession, account: Account, schema: TableSchema, *parts: Any) -> str:
    """Return the SHA-256 of requester, request, account and declaration, to which an idempotency key is bound."""
    whole = [session.analyst or "", account.name, *parts, schema.digest, schema.version]
    return hashlib.sha256(json.dumps(whole, ensure_ascii=False).encode()).hexdigest()


def bind_request(
    session: WorkspaceSession,
    account: Account,
    schema: TableSchema,
    *parts: Any,
    key: str | None,
    columns: Collection[str] | None = None,
    also: Sequence[str] = (),
    **terms: Any,
) -> Charge:
    """Build the charge of a request whose key fits as long as the declaration means the same for it.

    A change of budgets, shares, sizes, labels or constraints, which leave an answer as it is, must not make a paid
    answer unreachable or an open permit useless: ``Charge.restore_declaration`` gives the declaration to plan by.

    Args:
        parts: What is asked, as for ``compute_request_digest``.
        columns: The columns that it reads; None: all.
        also: Further declared facts that the answer depends on, such as ``constraints``.
        terms: Further attributes of ``Charge``.
    """
    own = compute_request_digest(session, account, schema, *parts)
    files = session.compare_files(schema, columns, also)
    asked = [replace(schema, digest=one.digest, version=one.version) for one in files]
    earlier = [
        EarlierFile(compute_request_digest(session, account, then, *parts), one.digest, one.differs)
        for then, one in zip(asked, files, strict=True)
    ]
    others = [one for one in earlier if one.digest != own]
    alike, unlike = (tuple(one for one in others if bool(one.differs) == differs) for differs in (False, True))
    return Charge(key, account, own, alike=alike, unlike=unlike, table=schema.name, **terms)


class NamesTable(Protocol):
    """Any request of one table."""

    @property
    def table(self) -> str:
        """The table's name."""


class Prepare(Protocol[Q, T]):
    """Plans a request under a key."""

    def __call__(self, session: WorkspaceSession, request: Q, /, *, key: str | None = None) -> T:
        """Return the planned request."""


def plan_as_charged(prepare: Prepare[Q, T]) -> Prepare[Q, T]:
    """Let ``prepare`` plan what was charged under its key as it was declared then, if it no longer fits.

    Over the same rows and for the same promise, but with the columns by which it was priced: so a charge whose table
    was declared otherwise before it was finished has its answer, and a settled one is found again.
    """

    @wraps(prepare)
    def planned(session: WorkspaceSession, request: Q, /, *, key: str | None = None) -> T:
        try:
            return prepare(session, request, key=key)
        except (SchemaError, RequestError, KeyReused):
            for view in _list_earlier(session, request.table, key):
                with suppress(SchemaError, RequestError, KeyReused):
                    return prepare(view, request, key=key)
            raise

    return planned


def _list_earlier(session: WorkspaceSession, table: str, key: str | None) -> list[WorkspaceSession]:
    """Return ``session`` as of earlier declarations of ``table`` and of its relations; none if ``key`` is new."""
    found: list[WorkspaceSession] = []
    with suppress(SiloquentError):
        if key is not None and spent_under(session.ledger, session.get_account(table).name, key) is not None:
            for name in (table, *session.list_relations(table)):
                with suppress(SiloquentError):  # a table that is not linked any more has none
                    found += session.iter_earlier(name)
    return found


def require_planned(permit: Permit, event: Event) -> None:
    """Refuse to measure under a permit that was not reserved for ``event``.

    Raises:
        RequestError: the permit is from an earlier version or for other rows, so the plan differs.
    """
    if permit.event != event:
        raise RequestError(
            "This key was charged for a different plan: by another version of siloquent, or before the source's rows "
            "changed. That charge stands.",
            fix="ask again with a new key",
        )


def run_once(
    session: WorkspaceSession,
    charge: Charge,
    planned: PricedPlan,
    measure: Callable[[PrivateTable, Permit], bytes],
    *,
    rehearse: Callable[[], object] | None = None,
) -> SettledAnswer:
    """Return what the ledger stores of ``planned``: from an earlier run under the key, or measured and charged now.

    Every paid request of one measurement takes these steps in this order: look up the key, rehearse, compare the price
    with the caller's limit, open the source, reserve durably, measure under the permit, settle.

    Args:
        measure: Reads the rows under the permit and returns the release as bytes, the same at every later reading.
        rehearse: As in ``Charge.find_or_reserve``.
    Raises:
        KeyReused, SchemaError, RequestError, BudgetExceeded: nothing is spent, unless the error says so.
        DataError: the source failed after the reservation; the charge stands, a retry with the key costs no more.
    Privacy:
        The unit, adjacency and definition of the table's account; the amount is ``planned.event``, charged durably
        before a row is read.
    """
    held = charge.find_or_reserve(session, planned, rehearse=rehearse)
    if isinstance(held, SettledAnswer):
        return held
    permit = held
    require_planned(permit, planned.event)

    def work() -> SettledAnswer:
        table = session.open_planned_table(planned.schema, spent=RESERVED)
        return session.ledger.settle(permit, permit.event, measure(table, permit))

    return charge.measure_once(session, work)[0]


P = TypeVar("P", bound=PricedPlan)
R = TypeVar("R")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PreparedRelease(Readable, Generic[P, R]):
    """A release of one measurement, planned once: ``plan`` has its price, and ``run`` makes it at that price.

    ``measure``: reads the rows as planned, under a permit, and returns the release as bytes. ``assemble``: the release
    in a ledger entry. ``rehearse``: raises if the release cannot be completed.
    """

    session: WorkspaceSession
    charge: Charge
    plan: P
    measure: Callable[[P, PrivateTable, Permit], bytes]
    assemble: Callable[[TableSchema, SettledAnswer], R]
    rehearse: Callable[[], object] | None = None

    def __str__(self) -> str:
        return f"{self.plan}\nTo make it for at most this: run()"

    def run(self, *, max_cost: str | None = None) -> R:
        """Make the release under the key given before, or return the one that was made under it.

        Args:
            max_cost: Refuse, before anything is spent, if the price in the account's epsilon or rho is higher.
        Raises:
            As ``run_once``. SchemaError: the table was redeclared since; nothing is spent.
        Privacy:
            As ``run_once``, with ``plan.event``.
        """
        charge = replace(self.charge, max_cost=max_cost)
        stored = run_once(self.session, charge, self.plan, partial(self.measure, self.plan), rehearse=self.rehearse)
        return self.assemble(self.plan.schema.declared, stored)
