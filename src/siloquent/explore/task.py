"""The stages of a query: plan, reserve, measure, settle, estimate; for some queries twice."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from siloquent.charge import RESERVED, Charge, compute_request_digest, require_planned
from siloquent.errors import BudgetExceeded, DataError, MissingExtra, RequestError, SchemaError, UnknownName
from siloquent.explore.estimate import (
    QueryProgress,
    assemble,
    build_empty_measurement,
    complete_measurement,
    reads_rows,
    rehearse,
)
from siloquent.explore.measure import measure
from siloquent.explore.plan.composite_explanation import CompositeExplanation, explain_course
from siloquent.explore.plan.explain import Explanation, explain_plan
from siloquent.explore.plan.limits import lifted
from siloquent.explore.plan.planner import find_least_error
from siloquent.explore.plan.public_joins import build_canonical_request
from siloquent.explore.plan.quantiles import describe_steps
from siloquent.explore.plan.reuse.earlier_answers import EarlierAnswers, load_earlier_answers
from siloquent.explore.plan.reuse.plans import apply_reuse, find_most_exact_with_reuse, resolve_wish, restore_paid_step
from siloquent.explore.plan.steps import (
    PlanStep,
    QueryPlan,
    describe_sizes,
    find_least_widening,
    format_errors,
    plan_query,
    plan_second_step,
)
from siloquent.explore.spec import Answer, Query, render
from siloquent.explore.spec.name_resolution import resolve_names
from siloquent.explore.spec.stored_measurement import OTHER_ROWS, encode_payload
from siloquent.ledger import Account, Permit, SettledAnswer
from siloquent.privacy import FREE, Cost, format_digits
from siloquent.session import compute_budget_limit

if TYPE_CHECKING:
    from siloquent.data import PrivateTable
    from siloquent.schema import TableSchema
    from siloquent.session import WorkspaceSession


_KEPT = "the second step was refused, and what the first one gave is kept"


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
    schema = session.schema(query.table)
    query = resolve_names(query, schema)
    account = session.get_account(query.table)
    limit = compute_budget_limit(schema.budget)
    asked = build_charge(session, query, account, key=key, max_cost=max_cost)
    held = asked.find_existing(session)
    with lifted(held is not None, paid=FREE if held is None else held.event):
        return _answered(session, query, asked, held, limit)


def _answered(
    session: WorkspaceSession, query: Query, asked: Charge, permit: Permit | SettledAnswer | None, limit: Cost
) -> Answer:
    """Return the answer under ``permit``, the earlier result of the key; without it, under a new permit."""
    schema, account = session.schema(query.table), asked.account
    course = plan_query(query, schema, left=limit)
    earlier = _load_earlier(session, query, account)
    if asked.max_cost is not None:  # loading many answers is the slowest part, so it is done only if needed
        asked.require_affordable(session, replace(course, first=apply_reuse(course.first, earlier)).event)
    try:
        progress = QueryProgress(course)
        held = _reserve_step(session, progress, course.first, asked, earlier, permit)
    except BudgetExceeded as refused:
        raise BudgetExceeded(
            refused.account,
            asked=refused.asked,
            left=refused.left,
            fix=_describe_affordable(session, course, earlier) or refused.fix,
        ) from None
    progress = progress.add_step(*_settle_step(session, progress, *held, asked, earlier.changed))
    if course.second is not None:
        progress = _take_second_step(session, progress, asked.build_next_step(progress.event), limit)
    return assemble(progress)


def _load_earlier(session: WorkspaceSession, query: Query, account: Account) -> EarlierAnswers:
    """Load the earlier answers that may be used: all, or only the account's own if analysts do not share."""
    schema = session.schema(query.table)
    if resolve_wish(query, schema) == "none":
        return EarlierAnswers()
    found = load_earlier_answers(session.ledger, schema.account)
    if schema.budget.sharing != "pool":
        found = found.select_account(account.name)  # first, to reveal nothing about others' entries
    return _select_current_rows(session, schema, found)


def _select_current_rows(session: WorkspaceSession, schema: TableSchema, found: EarlierAnswers) -> EarlierAnswers:
    """Return ``found`` without answers about other rows than the source's current ones; all if there is no source.

    A missing source has not changed: its answers remain valid.
    """
    if not found.has_marks:
        return found
    try:
        mark = session.compute_source_mark(session.open_planned_table(schema))
    except (SchemaError, DataError, MissingExtra):
        return found
    return found.select_matching(mark.fits, schema.version)


def find_changed_entry(session: WorkspaceSession, table: str) -> int:
    """Return the newest entry of ``table`` and its version about other rows than the source's; 0 if there is none.

    Privacy:
        Reveals to the table's owner and analysts that a source was replaced, and nothing about its rows.
    """
    schema = session.schema(table)
    try:
        found = load_earlier_answers(session.ledger, schema.account)
    except UnknownName:  # nothing was asked yet
        return 0
    return _select_current_rows(session, schema, found).changed


def _take_second_step(session: WorkspaceSession, progress: QueryProgress, asked: Charge, limit: Cost) -> QueryProgress:
    """Take the second step. If its reservation is refused, the first one is kept, since it was paid for.

    A failure after the reservation is not a refusal: it is raised, and states what was spent.
    """
    try:
        held = asked.find_existing(session)
        with lifted(held is not None, paid=FREE if held is None else held.event):
            step = plan_second_step(progress.course, progress.values, progress.chosen, left=limit)
        if step is None:
            return progress.mark_stopped("no group was large enough or reported: nothing more was asked, or paid")
        earlier = _load_earlier(session, progress.course.query, asked.account)
        drawn = step if asked.max_cost is None else apply_reuse(step, earlier)
        if too_dear := asked.find_cost_refusal(session, drawn.event):
            return progress.mark_stopped(f"{_KEPT}: {too_dear.detail}")
        taken = _reserve_step(session, progress, step, asked, earlier, asked.find_existing(session))
    except (BudgetExceeded, RequestError) as refused:
        return progress.mark_stopped(f"{_KEPT}: {refused.detail}")
    return progress.add_step(*_settle_step(session, progress, *taken, asked, earlier.changed))


def explain(session: WorkspaceSession, query: Query, *, key: str | None = None) -> Explanation | CompositeExplanation:
    """Return the cost of ``query`` and how it would be answered: the plan of ``answer``, without reading data.

    Args:
        key: That of ``answer``; a request charged under it before is explained even if it would be refused now.
    Raises:
        As for ``answer``, except that a too small budget is explained instead.
    """
    schema = session.schema(query.table)
    query = resolve_names(query, schema)
    account = session.get_account(query.table)
    held = build_charge(session, query, account, key=key).find_existing(session)
    with lifted(held is not None, paid=FREE if held is None else held.event):
        course = plan_query(query, schema, left=compute_budget_limit(schema.budget))
    sizes = describe_sizes(course)
    earlier = _load_earlier(session, query, account)
    course = replace(course, first=apply_reuse(course.first, earlier))
    left = session.get_remaining(query.table)
    rows = (earlier.describe_passed_over(schema.version), OTHER_ROWS if earlier.changed else "")
    notes = tuple(filter(None, (*sizes, *describe_steps(course.first.plans), *rows)))
    if query.is_composite:
        return replace(explain_course(course, account=account.name, left=left), notes=notes)
    return replace(explain_plan(course.first.plans[0], account=account.name, left=left), notes=notes)


def build_charge(
    session: WorkspaceSession, query: Query, account: Account, *, key: str | None = None, max_cost: str | None = None
) -> Charge:
    """Build the charge of ``query`` for the ledger."""
    schema = session.schema(query.table)
    digest = compute_request_digest(session, account, schema, *build_canonical_request(query, schema))
    return Charge(key, account, digest, max_cost, what="question", dearer="ask for a wider error")


def _reserve_step(
    session: WorkspaceSession,
    progress: QueryProgress,
    step: PlanStep,
    asked: Charge,
    earlier: EarlierAnswers,
    permit: Permit | SettledAnswer | None,
) -> tuple[PlanStep, Permit | SettledAnswer]:
    """Return ``step`` as charged and its permit; or ``permit``, which the ledger holds under the same key."""
    if permit is None:
        step = apply_reuse(step, earlier)
        rehearse(progress, step)
        for plan in step.plans:
            if reads_rows(plan):
                session.open_planned_table(plan.schema)  # source errors are detected before anything is charged
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
    found, mark = [], None
    for plan in step.plans:
        table = session.open_planned_table(plan.schema, spent=RESERVED) if reads_rows(plan) else None
        mark = mark if table is None else _draw_mark(session, table)
        found.append(
            complete_measurement(plan, build_empty_measurement(plan) if table is None else measure(plan, table, permit))
        )
    paid = found[0].event if len(found) == 1 else step.event
    kept = encode_payload(found, request=text, changed=changed)
    return session.ledger.settle(permit, paid, kept, source_mark=mark)


def _draw_mark(session: WorkspaceSession, table: PrivateTable) -> str:
    """Draw the mark of the measured rows; after a crash they may differ from those of the reservation."""
    try:
        return session.compute_source_mark(table).draw_mark()
    except DataError:
        raise DataError(charged=True) from None


def _describe_affordable(session: WorkspaceSession, course: QueryPlan, earlier: EarlierAnswers) -> str:
    """Return the fix of a refusal: the smallest error bound affordable with the remaining budget and known answers."""
    left = session.get_remaining(course.query.table)
    if course.query.is_composite:
        wider = find_least_widening(course.query, course.schema, left=left)
        return "" if wider is None else f"ask with ERROR {format_errors(wider)}"
    (plan,) = course.first.plans
    error = find_least_error(plan, left=left)
    wish = resolve_wish(plan.query, plan.schema)
    if error is not None and wish != "none":
        error = find_most_exact_with_reuse(replace(plan, alpha=error), earlier, left, wish=wish, least=plan.alpha).alpha
    return "" if error is None else f"ask with ERROR {format_digits(error)}"
