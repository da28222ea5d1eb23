"""The walk through explore's rooms: plan, reserve, measure, settle, estimate; once, or twice for some questions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from siloquent.charging import Charge, request_digest, require_planned
from siloquent.errors import BudgetExceeded, DataError, MissingExtra, RequestError, SchemaError, UnknownName
from siloquent.explore.estimate import Progress, assemble, completed, nothing_new, reads_rows, rehearse
from siloquent.explore.measure import measure
from siloquent.explore.plan.cheaper import as_paid, sharper, wish_of, with_reuse
from siloquent.explore.plan.explain import Explanation, explain_plan
from siloquent.explore.plan.limits import lifted
from siloquent.explore.plan.lookups import meaning_of
from siloquent.explore.plan.planner import least_error
from siloquent.explore.plan.quantiles import steps_in_words
from siloquent.explore.plan.recall import Recall, recall
from siloquent.explore.plan.steps import Course, Step, after, chart, errors_text, least_widening, sizes_in_words
from siloquent.explore.plan.wholes import CompositeExplanation, explain_course
from siloquent.explore.spec import Answer, Query, render
from siloquent.explore.spec.measured import OTHER_ROWS, payload_of
from siloquent.explore.spec.spelled import as_declared
from siloquent.ledger import Account, Permit, Stored
from siloquent.privacy import FREE, Cost, digits
from siloquent.session import limit_of_budget

if TYPE_CHECKING:
    from siloquent.data import PrivateTable
    from siloquent.schema import TableSchema
    from siloquent.session import Session


RESERVED = "what was reserved"
_KEPT = "the second step was refused, and what the first one gave is kept"


def answer(session: Session, query: Query, *, key: str | None = None, max_cost: str | None = None) -> Answer:
    """Answer ``query`` within the accuracy it asks for, at the least privacy cost.

    Args:
        key: The idempotency key: the same key and question give the same answer for nothing.
        max_cost: Refuse, before anything is spent, if the price in the account's epsilon or rho is higher.
    Returns:
        The answer with intervals, guarantee and receipt. If its second step is refused, what the first one released,
        and a note that says so.
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
    query = as_declared(query, schema)
    account = session.account(query.table)
    limit = limit_of_budget(schema.budget)
    asked = charge_of(session, query, account, key=key, max_cost=max_cost)
    held = asked.held(session)
    with lifted(held is not None, paid=FREE if held is None else held.event):
        return _answered(session, query, asked, held, limit)


def _answered(session: Session, query: Query, asked: Charge, permit: Permit | Stored | None, limit: Cost) -> Answer:
    """The answer under ``permit``, what the key held before; under a new one without it."""
    schema, account = session.schema(query.table), asked.account
    course = chart(query, schema, left=limit)
    earlier = _earlier(session, query, account)
    if asked.max_cost is not None:  # drawing from many answers takes longer than all else, so not for nothing
        asked.require_affordable(session, replace(course, first=with_reuse(course.first, earlier)).event)
    try:
        progress = Progress(course)
        held = _reserved(session, progress, course.first, asked, earlier, permit)
    except BudgetExceeded as refused:
        raise BudgetExceeded(
            refused.account,
            asked=refused.asked,
            left=refused.left,
            fix=_what_fits(session, course, earlier) or refused.fix,
        ) from None
    progress = progress.with_step(*_settled(session, progress, *held, asked, earlier.changed))
    if course.second is not None:
        progress = _second(session, progress, asked.next(progress.event), limit)
    return assemble(progress)


def _earlier(session: Session, query: Query, account: Account) -> Recall:
    """The earlier answers that may be drawn from: everybody's, or the account's own where analysts do not share."""
    schema = session.schema(query.table)
    if wish_of(query, schema) == "none":
        return Recall()
    found = recall(session.ledger, schema.account)
    if schema.budget.sharing != "pool":
        found = found.of(account.name)  # first, so that nobody hears of others' entries, changed or not
    return _about_these_rows(session, schema, found)


def _about_these_rows(session: Session, schema: TableSchema, found: Recall) -> Recall:
    """``found`` without answers about other rows than the source has now; all of it where there is no source any more.

    A source that is gone has not changed: its answers stay what is known of it.
    """
    if not found.has_marks:
        return found
    try:
        mark = session.source_mark(session.table_of(schema))
    except (SchemaError, DataError, MissingExtra):
        return found
    return found.about(mark.fits, schema.version)


def changed_since(session: Session, table: str) -> int:
    """The newest entry of ``table`` and its version that is about other rows than the source holds; 0 without any.

    Privacy:
        For the table's owner and whoever asks: that a source was replaced, and nothing about its rows.
    """
    schema = session.schema(table)
    try:
        found = recall(session.ledger, schema.account)
    except UnknownName:  # nobody has asked anything yet
        return 0
    return _about_these_rows(session, schema, found).changed


def _second(session: Session, progress: Progress, asked: Charge, limit: Cost) -> Progress:
    """One step further. Where its reservation is refused the first one is kept: it was paid for.

    A failure after the reservation is not a refusal: it is raised, and says what was spent.
    """
    try:
        held = asked.held(session)
        with lifted(held is not None, paid=FREE if held is None else held.event):
            step = after(progress.course, progress.values, progress.chosen, left=limit)
        if step is None:
            return progress.stopped_by("no group was large enough or reported: nothing more was asked, or paid")
        earlier = _earlier(session, progress.course.query, asked.account)
        drawn = step if asked.max_cost is None else with_reuse(step, earlier)
        if too_dear := asked.too_dear(session, drawn.event):
            return progress.stopped_by(f"{_KEPT}: {too_dear.detail}")
        taken = _reserved(session, progress, step, asked, earlier, asked.held(session))
    except (BudgetExceeded, RequestError) as refused:
        return progress.stopped_by(f"{_KEPT}: {refused.detail}")
    return progress.with_step(*_settled(session, progress, *taken, asked, earlier.changed))


def explain(session: Session, query: Query, *, key: str | None = None) -> Explanation | CompositeExplanation:
    """What ``query`` would cost and how it would be answered: the plan of ``answer``, without touching data.

    Args:
        key: That of ``answer``: what was charged under it before is explained whatever is refused now.
    Raises:
        As ``answer``, but for a budget that is too small, which is explained.
    """
    schema = session.schema(query.table)
    query = as_declared(query, schema)
    account = session.account(query.table)
    held = charge_of(session, query, account, key=key).held(session)
    with lifted(held is not None, paid=FREE if held is None else held.event):
        course = chart(query, schema, left=limit_of_budget(schema.budget))
    sizes = sizes_in_words(course)
    earlier = _earlier(session, query, account)
    course = replace(course, first=with_reuse(course.first, earlier))
    left = session.left(query.table)
    rows = (earlier.passed_over(schema.version), OTHER_ROWS if earlier.changed else "")
    notes = tuple(filter(None, (*sizes, *steps_in_words(course.first.plans), *rows)))
    if query.is_composite:
        return replace(explain_course(course, account=account.name, left=left), notes=notes)
    return replace(explain_plan(course.first.plans[0], account=account.name, left=left), notes=notes)


def charge_of(
    session: Session, query: Query, account: Account, *, key: str | None = None, max_cost: str | None = None
) -> Charge:
    """``query`` as the ledger knows it."""
    schema = session.schema(query.table)
    digest = request_digest(session, account, schema, *meaning_of(query, schema))
    return Charge(key, account, digest, max_cost, what="question", dearer="ask for a wider error")


def _reserved(
    session: Session,
    progress: Progress,
    step: Step,
    asked: Charge,
    earlier: Recall,
    permit: Permit | Stored | None,
) -> tuple[Step, Permit | Stored]:
    """``step`` as it is paid for, and its permit; or ``permit``, what the ledger holds under the same key."""
    if permit is None:
        step = with_reuse(step, earlier)
        rehearse(progress, step)
        for plan in step.plans:
            if reads_rows(plan):
                session.table_of(plan.schema)  # what is wrong with a source is found before it costs anything
        permit = asked.reserve(session, step.event)
    elif isinstance(permit, Permit):
        step = as_paid(step, earlier, permit)
    return step, permit


def _settled(
    session: Session, progress: Progress, step: Step, permit: Permit | Stored, asked: Charge, changed: int
) -> tuple[Step, Stored, bool]:
    """``step`` with what the ledger keeps of it, measured now or before, and whether it was before."""
    if isinstance(permit, Stored):
        return step, permit, True
    text = render(progress.course.query)
    return step, *asked.first(session, lambda: _measured(session, step, permit, text, changed))


def _measured(session: Session, step: Step, permit: Permit, text: str, changed: int) -> Stored:
    require_planned(permit, step.event)
    found, mark = [], None
    for plan in step.plans:
        table = session.table_of(plan.schema, spent=RESERVED) if reads_rows(plan) else None
        mark = mark if table is None else _mark_of(session, table)
        found.append(completed(plan, nothing_new(plan) if table is None else measure(plan, table, permit)))
    paid = found[0].event if len(found) == 1 else step.event
    kept = payload_of(found, request=text, changed=changed)
    return session.ledger.settle(permit, paid, kept, source_mark=mark)


def _mark_of(session: Session, table: PrivateTable) -> str:
    """The mark of the rows that are measured: after a crash they may be others than those of the reservation."""
    try:
        return session.source_mark(table).fresh()
    except DataError:
        raise DataError(charged=True) from None


def _what_fits(session: Session, course: Course, earlier: Recall) -> str:
    """The fix of a refusal: the smallest error bound that what is left, and what is known, pay for, if there is one."""
    left = session.left(course.query.table)
    if course.query.is_composite:
        wider = least_widening(course.query, course.schema, left=left)
        return "" if wider is None else f"ask with ERROR {errors_text(wider)}"
    (plan,) = course.first.plans
    error = least_error(plan, left=left)
    wish = wish_of(plan.query, plan.schema)
    if error is not None and wish != "none":
        error = sharper(replace(plan, alpha=error), earlier, left, wish=wish, least=plan.alpha).alpha
    return "" if error is None else f"ask with ERROR {digits(error)}"
