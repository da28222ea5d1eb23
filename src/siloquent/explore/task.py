"""The stages of a query: plan, reserve, measure, settle, estimate; for some queries twice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

from siloquent.charge import RESERVED, Charge, plan_as_charged, require_planned
from siloquent.errors import BudgetExceeded, DataError, RequestError, SchemaError, SiloquentError
from siloquent.explore.answered_rows import tell_rows
from siloquent.explore.charging import bind_query, build_charge, plan_charged
from siloquent.explore.default_accuracy import find_share_refusal
from siloquent.explore.estimate import (
    QueryProgress,
    assemble,
    build_empty_measurement,
    complete_measurement,
    reads_rows,
    rehearse,
)
from siloquent.explore.linked_joins import bind_joins
from siloquent.explore.measure import choose_rows, measure_all
from siloquent.explore.offers import Offers
from siloquent.explore.plan.cells.distinct import describe_distinct
from siloquent.explore.plan.explain import Explanation, describe_rows_left_out, explain_course
from siloquent.explore.plan.limits import lifted
from siloquent.explore.plan.promise import describe_default
from siloquent.explore.plan.quantiles import describe_steps
from siloquent.explore.plan.reuse.earlier_answers import EarlierAnswers
from siloquent.explore.plan.reuse.plans import apply_reuse, restore_paid_step
from siloquent.explore.plan.steps import PlanStep, QueryPlan, plan_second_step
from siloquent.explore.plan.usefulness import describe_sizes
from siloquent.explore.reusable_answers import load_reusable_answers
from siloquent.explore.spec import Answer, Query, render
from siloquent.explore.spec.answers.labels import find_labels
from siloquent.explore.spec.promises import Accuracy
from siloquent.explore.spec.stored_measurement import OTHER_ROWS, StoredMeasurement, encode_payload
from siloquent.explore.suggestions import suggest_affordable
from siloquent.fixes import NO_FIX, Fix
from siloquent.ledger import Permit, SettledAnswer
from siloquent.privacy import FREE, Event, format_digits, get_accountant
from siloquent.readable import Readable

if TYPE_CHECKING:
    from siloquent.data import PrivateTable
    from siloquent.schema import TableSchema
    from siloquent.session import WorkspaceSession


_KEPT = "the second step was refused, and what the first one gave is kept"


@dataclass(frozen=True, slots=True, eq=False)
class PortablePlan:
    """A plan as one process sends it to another, which answers it.

    Attributes:
        charged: The event charged before under the key for which it was planned, if any.
    """

    course: QueryPlan
    charged: Event | None


@dataclass(frozen=True, eq=False, repr=False)
class PreparedQuery(Readable):
    """A query planned once, without reading data: its explanation, and its run for at most the explained price.

    Attributes:
        charge: The request for the ledger, with the key given to ``prepare``.
        held: The earlier charge under that key.
        earlier: The earlier answers that the query may use.
    """

    session: WorkspaceSession
    course: QueryPlan
    charge: Charge
    held: Permit | SettledAnswer | None
    earlier: EarlierAnswers

    def __str__(self) -> str:
        return f"{self.explanation}\nTo ask it for at most this: run()"

    @cached_property
    def with_reuse(self) -> QueryPlan:
        """The plan with the earlier answers that make its first step cheaper."""
        return replace(self.course, first=apply_reuse(self.course.first, self.earlier))

    @cached_property
    def explanation(self) -> Explanation:
        """The price, the promise, the mechanism and the remaining budget. Does not read data; free."""
        schema, course, account = self.course.schema, self.with_reuse, self.charge.account.name
        dear = find_share_refusal(self.session, course.query, course.cost) if self.held is None else None
        left = self.session.get_remaining(schema.name)
        counted = describe_distinct([plan.compiled for step in course.steps for plan in step.plans])
        rows = (self.earlier.describe_passed_over(schema.version), OTHER_ROWS if self.earlier.changed else "")
        told = (*describe_steps(course.first.plans), *counted, *describe_rows_left_out(course.schema))
        default = (*describe_default(course.query), *([] if dear is None else [f"{dear.detail} Fix: {dear.fix}"]))
        notes = (*default, *describe_sizes(self.course), *told, *filter(None, rows))
        return explain_course(course, account=account, left=left, notes=notes)

    @property
    def portable(self) -> PortablePlan:
        """The plan, to be answered by another process; see ``answer_planned``."""
        return PortablePlan(self.course, _get_event(self.held))

    def run(self, *, key: str | None = None, max_cost: str | None = None) -> Answer:
        """Answer the query as explained. It is planned again only if ``key`` was charged before, as it was then.

        Args:
            key: The idempotency key (default: the one given to ``prepare``).
            max_cost: As in ``answer``.
        Raises:
            As ``answer``. SchemaError: the table was redeclared since. RequestError: earlier answers that made it
                cheaper no longer apply. Nothing is spent in both cases.
        Privacy:
            As ``answer``.
        """
        with suggest_affordable(self.session, self.course.query):
            key = self.charge.key if key is None else key
            found = _run(self, replace(self.charge, key=key, max_cost=max_cost), is_told=True)
            return tell_rows(self.session, found)


@plan_as_charged
def prepare(session: WorkspaceSession, query: Query, *, key: str | None = None) -> PreparedQuery:
    """Plan ``query`` once, to explain it and then to run it. Does not read data; free.

    Args:
        key: That of the run, if known; a request charged under it before is planned even if it would be refused now.
    Raises:
        As for ``answer``, except that a too small budget is explained instead.
    """
    query = bind_joins(session, query)
    schema = session.schema(query.table)
    query, charge = bind_query(session, query, schema, key=key)
    return _plan(session, query, schema, charge, charge.find_existing(session))


def _plan(
    session: WorkspaceSession, query: Query, schema: TableSchema, charge: Charge, held: Permit | SettledAnswer | None
) -> PreparedQuery:
    schema = charge.restore_declaration(session, schema)
    course = plan_charged(query, schema, paid=_get_event(held))
    return PreparedQuery(
        session, course, charge, held, load_reusable_answers(session, query, schema, charge.account, held)
    )


def answer(session: WorkspaceSession, query: Query, *, key: str | None = None, max_cost: str | None = None) -> Answer:
    """Answer ``query`` with the accuracy it requests, at the least privacy cost.

    Args:
        key: The idempotency key; the same key and query give the same answer at no cost.
        max_cost: Refuse, before anything is spent, if the price in the account's epsilon or rho is higher.
    Returns:
        The answer with intervals, guarantee and receipt. If its second step is refused, the first one's release with
        a note that says so.
    Raises:
        SchemaError, RequestError: the query cannot be answered; nothing is spent.
        AccuracyUnreachable: the whole budget does not cover this accuracy; the error names the best affordable one.
        BudgetExceeded: the remaining budget does not cover it; nothing is spent, the error names an affordable bound.
        DataError: the source failed after the reservation; the charge stands, a retry with ``key`` costs no more.
    Privacy:
        The unit, adjacency and definition of the table's account; the amount is the plan's event, charged durably
        before a row is read. Refusals depend only on the query, the declaration and earlier charges.
    """
    prepared = prepare(session, query, key=key)
    session = prepared.session  # of the time of the charge, if the table was declared otherwise then
    if session.schema(prepared.course.query.table) is not prepared.course.schema.declared:
        prepared = prepare(session, query, key=key)  # redeclared meanwhile, and nobody was told the other price yet
    return tell_rows(session, _run(prepared, replace(prepared.charge, max_cost=max_cost), is_told=False))


def answer_planned(
    session: WorkspaceSession, sent: PortablePlan, *, key: str | None = None, max_cost: str | None = None
) -> Answer:
    """Answer a query as another process planned it; it is planned again only if it no longer fits.

    That is: if the table was redeclared since, or if ``key`` was charged since. As in ``answer``, the price was told to
    no one.

    Raises:
        As ``answer``.
    Privacy:
        As ``answer``.
    """
    query = sent.course.query
    with suggest_affordable(session, query):
        schema = session.schema(query.table)
        if sent.course.schema.declared != schema:
            return answer(session, query, key=key, max_cost=max_cost)
        asked = build_charge(session, query, session.get_account(query.table), key=key, max_cost=max_cost)
        course, held = sent.course.with_schema(schema), asked.find_existing(session)
        if _get_event(held) != sent.charged:
            return answer(session, query, key=key, max_cost=max_cost)
        earlier = load_reusable_answers(session, query, schema, asked.account, held)
        return tell_rows(session, _run(PreparedQuery(session, course, asked, held, earlier), asked, is_told=False))


def explain(session: WorkspaceSession, query: Query, *, key: str | None = None) -> Explanation:
    """Return the cost of ``query`` and how it would be answered: the plan of ``answer``, without reading data.

    Args:
        key: That of ``answer``; a request charged under it before is explained even if it would be refused now.
    Raises:
        As for ``answer``, except that a too small budget is explained instead.
    """
    return prepare(session, query, key=key).explanation


def _run(prepared: PreparedQuery, asked: Charge, *, is_told: bool) -> Answer:
    """Return the answer under the key of ``asked``: charged before, or charged now.

    Args:
        is_told: Whether the prepared price may have been shown: then it is the highest that is charged.
    """
    session, course, held = prepared.session, prepared.course, asked.find_existing(prepared.session)
    with lifted(held is not None, paid=FREE if held is None else held.event):
        if _get_event(held) != _get_event(prepared.held):  # a charge is planned as it was then, and others are not
            current = _plan(session, course.query, course.schema.declared, asked, held)
        else:
            current = _load_settled_since(prepared)
        if held is not None:
            asked.record_use(session)
        else:
            session.require_same_declaration(course.schema)
            if is_told:
                _require_no_dearer(prepared, current)
            asked.require_affordable(session, current.with_reuse.event)
            if refused := find_share_refusal(session, course.query, current.with_reuse.cost):
                raise refused
        return _finish_answer(current, asked, held)


def _get_event(held: Permit | SettledAnswer | None) -> Event | None:
    return None if held is None else held.event


def _load_settled_since(prepared: PreparedQuery) -> PreparedQuery:
    """Return ``prepared`` with the earlier answers that now apply; itself if they are the same."""
    course = prepared.course
    session, account, held = prepared.session, prepared.charge.account, prepared.held
    earlier = load_reusable_answers(session, course.query, course.schema, account, held)
    return prepared if earlier == prepared.earlier else replace(prepared, earlier=earlier)


def _require_no_dearer(prepared: PreparedQuery, current: PreparedQuery) -> None:
    """Refuse a price above the one that was explained and perhaps confirmed."""
    if current is prepared:
        return
    before, now = prepared.with_reuse.cost, current.with_reuse.cost
    if now.amount <= before.amount and now.delta <= before.delta:
        return
    book = get_accountant(current.course.schema.budget.accountant)
    was, costs = (format_digits(Fraction(cost.amount, book.scale)) for cost in (before, now))
    raise RequestError(
        f"The query costs {book.symbol} {costs} now, but {was} when it was planned: a saving, such as "
        "earlier answers about the same rows, no longer applies.",
        fix="ask again",
    )


def _finish_answer(prepared: PreparedQuery, asked: Charge, held: Permit | SettledAnswer | None) -> Answer:
    """Return the answer under ``held``, the earlier charge of the key; without it, under a new one."""
    session, course, earlier = prepared.session, prepared.course, prepared.earlier
    try:
        progress = QueryProgress(course)
        first = course.first if held is not None else prepared.with_reuse.first
        opened = _reserve_step(session, progress, first, asked, earlier, held)
    except BudgetExceeded as refused:
        raise BudgetExceeded(
            refused.account,
            asked=refused.asked,
            left=refused.left,
            fix=_suggest_wider(session, course.query, earlier) or refused.remedy,
        ) from None
    progress = progress.add_step(*_settle_step(session, progress, *opened, asked, earlier.changed))
    if course.second is not None:
        progress = _take_second_step(session, progress, asked.build_next_step(progress.event))
    try:
        shown = session.schema(course.schema.name)  # labels may change at any time
    except SiloquentError:  # the table file has become invalid meanwhile; the answer is paid for
        shown = course.schema
    return replace(assemble(progress), labels=find_labels(course.query, shown))


def _suggest_wider(session: WorkspaceSession, query: Query, earlier: EarlierAnswers) -> Fix:
    """Return the fix of a question that what is left does not cover: a wider error, by what is known already."""
    is_wider = isinstance(query.promise, Accuracy)
    return Offers(session, query, verb="ask").suggest_wider(None, earlier) if is_wider else NO_FIX


def _take_second_step(session: WorkspaceSession, progress: QueryProgress, asked: Charge) -> QueryProgress:
    """Take the second step. If it is refused before its reservation, the first one is kept, since it was paid for.

    A failure after the reservation is not a refusal: it is raised, and states what was spent.
    """
    course = progress.course
    try:
        held = asked.find_existing(session)
        with lifted(held is not None, paid=FREE if held is None else held.event):
            step = plan_second_step(course, progress.values, progress.chosen, left=course.limit)
        if step is None:
            return progress.mark_stopped("no group was large enough or reported: nothing more was asked, or paid")
        earlier = load_reusable_answers(session, course.query, course.schema, asked.account, held)
        if held is None:
            step = apply_reuse(step, earlier)
            if too_dear := asked.find_cost_refusal(session, step.event):
                return progress.mark_stopped(f"{_KEPT}: {too_dear.detail}")
        taken = _reserve_step(session, progress, step, asked, earlier, held)
    except (BudgetExceeded, DataError, RequestError, SchemaError) as refused:
        return progress.mark_stopped(f"{_KEPT}: {refused.detail}")
    return progress.add_step(*_settle_step(session, progress, *taken, asked, earlier.changed))


def _reserve_step(
    session: WorkspaceSession,
    progress: QueryProgress,
    step: PlanStep,
    asked: Charge,
    earlier: EarlierAnswers,
    permit: Permit | SettledAnswer | None,
) -> tuple[PlanStep, Permit | SettledAnswer]:
    """Return ``step`` and its new permit; or ``permit``, which the ledger holds under the same key, and its step."""
    if permit is None:
        rehearse(progress, step)
        for plan in step.plans:
            if reads_rows(plan):
                choose_rows(plan, session.open_planned_table(plan.schema))  # its errors come before the charge
        permit = asked.reserve(session, step.event)
    elif isinstance(permit, Permit):
        step = restore_paid_step(step, earlier, permit)
    return step, permit


def _settle_step(
    session: WorkspaceSession,
    progress: QueryProgress,
    step: PlanStep,
    permit: Permit | SettledAnswer,
    asked: Charge,
    changed: int,
) -> tuple[PlanStep, SettledAnswer, bool]:
    """Return ``step``, its settled answer, measured now or before, and whether it was measured before."""
    if isinstance(permit, SettledAnswer):
        return step, permit, True
    text = render(progress.course.query)
    return step, *asked.measure_once(session, lambda: _measure_step(session, step, permit, text, changed))


def _measure_step(session: WorkspaceSession, step: PlanStep, permit: Permit, text: str, changed: int) -> SettledAnswer:
    require_planned(permit, step.event)
    read, mark = [plan for plan in step.plans if reads_rows(plan)], None
    measured: Iterator[StoredMeasurement] = iter(())
    if read:
        table = session.open_planned_table(read[0].schema, spent=RESERVED)
        mark = _draw_mark(session, table)
        measured = iter(measure_all(read, table, permit))
    found = [
        complete_measurement(plan, next(measured) if reads_rows(plan) else build_empty_measurement(plan))
        for plan in step.plans
    ]
    paid = found[0].event if len(found) == 1 else step.event
    kept = encode_payload(found, request=text, changed=changed, table=step.plans[0].schema.entry_name)
    return session.ledger.settle(permit, paid, kept, source_mark=mark)


def _draw_mark(session: WorkspaceSession, table: PrivateTable) -> str:
    """Draw the mark of the measured rows; after a crash they may differ from those of the reservation."""
    try:
        return session.compute_source_mark(table).draw_mark()
    except DataError:
        raise DataError(charged=True) from None
