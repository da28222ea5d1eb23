"""The walk through explore's rooms: plan, reserve, measure, settle, estimate."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from siloquent.errors import BudgetExceeded, KeyReused, RequestError
from siloquent.explore.estimate import reconstruct
from siloquent.explore.measure import measure
from siloquent.explore.plan.explain import Explanation, explain_plan
from siloquent.explore.plan.planner import Plan, least_error, plan
from siloquent.explore.spec import Answer, Kept, Paid, Placed, Query, canonical, render
from siloquent.explore.spec.measured import Measured
from siloquent.ledger import Account, Permit, Stored
from siloquent.privacy import Cost, Guarantee, accountant, digits, exact
from siloquent.session import limit_of_budget

if TYPE_CHECKING:
    from siloquent.schema import TableSchema
    from siloquent.session import Session


def answer(session: Session, query: Query, *, key: str | None = None, max_cost: str | None = None) -> Answer:
    """Answer ``query`` within the accuracy it asks for, at the least privacy cost.

    Args:
        key: The idempotency key: the same key and question give the same answer for nothing.
        max_cost: Refuse, before anything is spent, if the price in the account's epsilon or rho is higher.
    Returns:
        The answer with intervals, guarantee and receipt.
    Raises:
        SchemaError, RequestError: the question cannot be answered; nothing is spent.
        AccuracyUnreachable: the whole budget would not pay for this accuracy; it names the best one that it would.
        BudgetExceeded: what is left does not pay for it; nothing is spent, and it names the error bound that fits.
        DataError: the source failed after the reservation; the charge stands, a retry with ``key`` costs no more.
    Privacy:
        The unit, adjacency and definition of the table's account; the amount is the plan's event, charged durably
        before a row is read. Refusals depend on the question, the declaration and earlier charges alone.
    """
    schema = session.schema(query.table)
    account = session.account(query.table)
    chosen = plan(query, schema, left=limit_of_budget(schema.budget))
    asked = _Asked(key, account.name, request_digest(session, query, account, schema))
    permit = asked.held(session)
    if permit is None:
        _check_price(chosen, account, max_cost)
        session.table(query.table)  # what is wrong with a source is found before it costs anything
        permit = _reserve(session, chosen, asked)
    stored = permit if isinstance(permit, Stored) else _measured(session, chosen, permit)
    return assemble(chosen, schema, stored, replayed=isinstance(permit, Stored))


def explain(session: Session, query: Query) -> Explanation:
    """What ``query`` would cost and how it would be answered: the plan of ``answer``, without touching data.

    Raises:
        As ``answer``, but for a budget that is too small, which is explained.
    """
    schema = session.schema(query.table)
    account = session.account(query.table)
    chosen = plan(query, schema, left=limit_of_budget(schema.budget))
    return explain_plan(chosen, account=account.name, left=session.left(query.table))


def request_digest(session: Session, query: Query, account: Account, schema: TableSchema) -> str:
    """SHA-256 of who asks what of which account under which declaration: what an idempotency key is bound to."""
    parts = [session.analyst or "", account.name, canonical(query), schema.digest, schema.version]
    return hashlib.sha256(json.dumps(parts, ensure_ascii=False).encode()).hexdigest()


def _check_price(chosen: Plan, account: Account, max_cost: str | None) -> None:
    if max_cost is None:
        return
    price = accountant(account.accountant).price(chosen.event).amount
    if price > exact(max_cost):
        symbol = accountant(account.accountant).symbol
        raise RequestError(
            f"The question costs {symbol} {digits(price)}, more than the {max_cost} that you allow.",
            fix=f"--max-cost {digits(price)}, or ask for a wider error",
        )


@dataclass(frozen=True, slots=True)
class _Asked:
    """A request as the ledger knows it."""

    key: str | None
    account: str
    digest: str

    def __post_init__(self) -> None:
        if self.key is not None and not (1 <= len(self.key) <= 64 and self.key.isascii() and self.key.isprintable()):
            raise RequestError("A key is 1 to 64 printable ASCII characters.", fix="--key monday-report")

    @property
    def own_key(self) -> str | None:
        """A key is its account's own: otherwise analysts could learn from refusals which keys others have used."""
        return None if self.key is None else f"{self.account}:{self.key}"

    def held(self, session: Session) -> Permit | Stored | None:
        """What was asked under this key before."""
        if self.own_key is None:
            return None
        try:
            return session.ledger.held(self.account, key=self.own_key, digest=self.digest)
        except KeyReused:
            raise KeyReused(
                f"The key {self.key!r} belongs to another question.", fix="use a new key, or repeat that question"
            ) from None


def _reserve(session: Session, chosen: Plan, asked: _Asked) -> Permit | Stored:
    try:
        return session.ledger.reserve(asked.account, chosen.event, key=asked.own_key, digest=asked.digest)
    except BudgetExceeded as refused:
        raise BudgetExceeded(
            refused.account, asked=refused.asked, left=refused.left, fix=_what_fits(session, chosen) or refused.fix
        ) from None


def _what_fits(session: Session, chosen: Plan) -> str:
    """The fix of a refusal: the smallest error bound that what is left would pay for, if there is one."""
    error = least_error(chosen, left=session.left(chosen.query.table))
    return "" if error is None else f"ask with ERROR {digits(error)}"


def _measured(session: Session, chosen: Plan, permit: Permit) -> Stored:
    if permit.event != chosen.event:
        raise RequestError(
            "This key holds a charge that another version of siloquent planned differently; the charge stands.",
            fix="ask again with a new key",
        )
    measured = measure(chosen, session.table(chosen.query.table), permit)
    return session.ledger.settle(permit, measured.event, measured.to_payload())


def assemble(chosen: Plan, schema: TableSchema, stored: Stored, *, replayed: bool) -> Answer:
    """The answer to ``chosen.query`` from what the ledger keeps: free post-processing, the same at every replay."""
    measured = Measured.from_payload(stored.payload)
    # What was promised then, also if today's planner would promise something else.
    chosen = replace(chosen, alpha=Fraction(measured.alpha))
    estimate = reconstruct(chosen.query, chosen.compiled, measured, alpha=chosen.alpha)
    return Answer(
        task="explore",
        table_name=schema.name,
        request=render(chosen.query),
        schema_digest=schema.digest,
        kind=chosen.kind,
        columns=estimate.columns,
        rows=estimate.rows,
        promise=chosen.promise,
        accuracy=Kept(alpha=chosen.alpha, beta=chosen.beta, unit=chosen.alpha_unit),
        cost=_paid(schema, stored),
        guarantee=guarantee_of(schema, stored),
        receipt=Placed(stored.receipt.ledger, stored.receipt.seq, stored.receipt.hash),
        mechanism=measured.mechanism,
        grid=chosen.grid,
        replayed=replayed,
        notes=estimate.notes,
    )


def _amount(schema: TableSchema, cost: Cost) -> Fraction:
    return Fraction(cost.amount, accountant(schema.budget.accountant).scale)


def _paid(schema: TableSchema, stored: Stored) -> Paid:
    limit = _amount(schema, limit_of_budget(schema.budget))
    if "/" in stored.account:
        limit *= dict(schema.budget.shares).get(stored.account.partition("/")[2], Fraction(1))
    after = _amount(schema, stored.spent_after)
    paid = after - _amount(schema, stored.spent_before)
    return Paid(stored.account, accountant(schema.budget.accountant).symbol, paid, limit - after)


def guarantee_of(schema: TableSchema, stored: Stored) -> Guarantee:
    """The guarantee of a settled measurement: its exact price, and what the whole table has spent with it."""
    book = accountant(schema.budget.accountant)
    price = book.price(stored.event)
    zcdp = schema.budget.accountant == "zcdp"
    return Guarantee(
        definition=schema.budget.accountant,
        unit=schema.unit.words,
        adjacency=schema.adjacency,
        account=schema.account,
        spent_before=_amount(schema, stored.table_before),
        spent_after=_amount(schema, stored.table_after),
        epsilon=Fraction(0) if zcdp else price.amount,
        rho=price.amount if zcdp else Fraction(0),
        delta=price.delta,
        report_delta=schema.budget.delta - schema.budget.delta_events if zcdp else Fraction(1, 10**6),
    )
