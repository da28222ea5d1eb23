"""Alternatives to queries that cost too much: affordable within this session's remaining budget, not just the total."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from siloquent.errors import AccuracyUnreachable, BudgetExceeded, RequestError, SiloquentError, UnknownName
from siloquent.explore.default_accuracy import state_accuracy
from siloquent.explore.examples import find_example
from siloquent.explore.mending.search import mend
from siloquent.explore.plan.planner import compute_allowed_cost, find_least_error, plan
from siloquent.explore.plan.reuse.plans import find_most_exact_with_reuse, resolve_wish
from siloquent.explore.plan.steps import find_least_widening, format_errors, plan_query
from siloquent.explore.plan.usefulness import is_useful
from siloquent.explore.spec.language.render import render_offer
from siloquent.explore.spec.name_resolution import resolve_names
from siloquent.explore.spec.predicate import Column
from siloquent.explore.spec.query import Accuracy, GroupBy, Spend
from siloquent.fixes import NO_FIX, AskWith, Fix, RunCommand, Verb, build_fix, let_owner_run, run
from siloquent.privacy import format_digits, get_accountant
from siloquent.session import compute_budget_limit

if TYPE_CHECKING:
    from siloquent.explore.plan.reuse.earlier_answers import EarlierAnswers
    from siloquent.explore.plan.steps import QueryPlan
    from siloquent.explore.spec import Query
    from siloquent.session import WorkspaceSession

MAX_TABLES = 8
SPENT_PARTS = (10, 3, 1)
"""Of the remaining budget, these parts are tried where no error can be had."""
DISCOVERED = "0.2"


@contextmanager
def suggest_affordable(session: WorkspaceSession, query: Query) -> Iterator[None]:
    """Let a refusal by price suggest what ``session`` can afford: a wider error, or for a BUDGET a smaller one.

    Raises:
        AccuracyUnreachable, BudgetExceeded: as raised, with a fix that currently works.
    """
    try:
        yield
    except AccuracyUnreachable as refused:
        query = state_accuracy(session, query)
        promise = query.stated
        if isinstance(promise, Accuracy):
            refused.best_alpha, wider = _find_wider(session, query, refused.best_alpha)
            refused.remedy = _require_useful(session, query, wider)
            refused.best_alpha = refused.best_alpha if refused.remedy is wider else None
        else:
            refused.best_alpha, refused.remedy = None, _suggest_smaller(session, query, verb="explain")
            if _is_beyond(session, promise, query.table):
                refused.detail = f"This BUDGET exceeds the whole budget of {query.table!r}."
            elif query.is_composite:
                refused.detail = "This BUDGET is too small for the query."
        raise
    except BudgetExceeded as refused:
        query = state_accuracy(session, query)
        if isinstance(query.promise, Spend):
            refused.remedy = _suggest_smaller(session, query, verb="ask")
        else:
            asked = Fix(tuple(filter(None, [refused.remedy.find(AskWith)])))
            refused.remedy = _require_useful(session, query, asked) if asked else _ask_owner(query)
        raise
    except UnknownName as unknown:
        unknown.remedy = _mend(session, query, unknown)
        raise
    except RequestError as refused:
        with suppress(SiloquentError):
            query = state_accuracy(session, query)
        refused.remedy = _suggest_discovery(session, query) or _mend(session, query, refused)
        raise


def _ask_owner(query: Query) -> Fix:
    """Return the fix where the remaining budget is too small for an answer that is of use."""
    return build_fix(let_owner_run("budget set", query.table))


def _require_useful(session: WorkspaceSession, query: Query, fix: Fix) -> Fix:
    """Return ``fix``, unless it offers errors as large as the answer itself can be: then only more budget helps."""
    offered = fix.find(AskWith)
    if offered is None or not offered.question:
        return fix
    return fix if is_useful(offered.question, session.schema(query.table)) else _ask_owner(query)


def _mend(session: WorkspaceSession, query: Query, refused: SiloquentError) -> Fix:
    """Return the question that is meant, if one like ``query`` can be asked; otherwise where its names are listed."""
    with suppress(SiloquentError):
        asked = session.schema(query.table)
        is_public = query.join is not None and query.join.table in {one.name for one in asked.public}
        if query.join is not None and not (
            is_public and (refused.remedy.find(AskWith) or refused.code != "unknown_name")
        ):
            # The same question about only its first table: another private one may be unknown to the asker.
            mended = mend(render_offer(replace(query, join=None)), [asked]) or find_example([asked])
            return build_fix(AskWith(mended)) if mended else refused.remedy or build_fix(run("show", asked.name))
        others = [] if query.join is None else list(asked.public)
        if not others and (mended := mend(render_offer(query), [asked], wrong=refused)):
            return build_fix(AskWith(mended))
        return refused.remedy or build_fix(run("show", asked.name))
    tables = (
        [session.schema(name) for name in session.list_tables()[:MAX_TABLES]] if refused.code == "unknown_name" else []
    )
    mended = mend(render_offer(query), tables, wrong=refused)
    return build_fix(AskWith(mended)) if mended else build_fix(run("tables"))


def _find_wider(session: WorkspaceSession, query: Query, best: float | None) -> tuple[float | None, Fix]:
    """Return the smallest affordable error bound, as ``best_alpha`` and as a fix."""
    schema, left = session.schema(query.table), session.get_remaining(query.table)
    query = resolve_names(query, schema)
    if query.is_composite:
        wider = find_least_widening(query, schema, left=left)
        if wider is None:
            return None, _suggest_spending(session, query)
        return None, build_fix(_ask_wider(wider, "explain"))
    if best is None:
        return None, _ask_owner(query)
    payable = replace(
        query, promise=replace(_get_accuracy(query), error=Decimal(format_digits(best, 6)), percent=False)
    )
    error = find_least_error(plan(payable, schema, left=compute_budget_limit(schema.budget)), left=left)
    if error is None:
        return None, _ask_owner(query)
    return float(error), build_fix(_ask_wider(_widen(query, error), "explain"))


def _widen(query: Query, error: Fraction) -> Query:
    return replace(query, promise=replace(_get_accuracy(query), error=Decimal(format_digits(error)), percent=False))


def _ask_wider(wider: Query, verb: Verb) -> AskWith:
    return AskWith(render_offer(wider), f"ERROR {format_errors(wider)}", verb)


def _get_accuracy(query: Query) -> Accuracy:
    assert isinstance(query.promise, Accuracy)
    return query.promise


def _is_beyond(session: WorkspaceSession, spend: Spend, table: str) -> bool:
    schema = session.schema(table)
    with suppress(AccuracyUnreachable):  # less than any charge
        return compute_allowed_cost(spend, schema).amount > compute_budget_limit(schema.budget).amount
    return False


def _suggest_spending(session: WorkspaceSession, query: Query) -> Fix:
    """Suggest a part of the remaining budget in place of an error that cannot be had; the answer states its own."""
    schema, left = session.schema(query.table), session.get_remaining(query.table)
    book = get_accountant(schema.budget.accountant)
    currency: Literal["epsilon", "rho"] = "rho" if book.symbol == "rho" else "epsilon"
    for part in SPENT_PARTS:
        amount = format_digits(Fraction(left.amount, book.scale * part), 2, up=False)
        if not Decimal(amount):
            break
        spending = replace(query, promise=Spend(Decimal(amount), currency, beta=_get_accuracy(query).beta))
        with suppress(AccuracyUnreachable, RequestError):
            plan_query(resolve_names(spending, schema), schema, left=left)
            return build_fix(AskWith(render_offer(spending), f"BUDGET {amount} {book.symbol.upper()}", "explain"))
    return _ask_owner(query)


def _suggest_discovery(session: WorkspaceSession, query: Query) -> Fix:
    """Suggest to discover the values of a text that a query groups by; no fix if it groups by none."""
    keys = query.workload.keys if isinstance(query.workload, GroupBy) else ()
    domain = session.schema(query.table).domain
    for key in keys:
        if isinstance(key, Column) and key.name in domain.names and domain[key.name].kind == "text":
            options, table, column = ("--epsilon", DISCOVERED), query.table, domain[key.name].name
            words = (*options, "--", table, column) if column.startswith("-") else (table, column, *options)
            call = f"session.discover({table!r}, {column!r}, epsilon={DISCOVERED!r})"
            return build_fix(
                "declare its values, or find those that many share: ", RunCommand("discover", words, python=call)
            )
    return NO_FIX


def _suggest_smaller(session: WorkspaceSession, query: Query, *, verb: Verb) -> Fix:
    """Suggest the remaining budget, in the account's own epsilon or rho, if it covers some answer."""
    schema = session.schema(query.table)
    book = get_accountant(schema.budget.accountant)
    amount = format_digits(Fraction(session.get_remaining(query.table).amount, book.scale), up=False)
    if not Decimal(amount):
        return _ask_owner(query)
    currency: Literal["epsilon", "rho"] = "rho" if book.symbol == "rho" else "epsilon"
    assert isinstance(query.promise, Spend)
    try:
        promise = replace(query.promise, amount=Decimal(amount), currency=currency, delta=None)
        plan_query(
            resolve_names(replace(query, promise=promise), schema), schema, left=session.get_remaining(query.table)
        )
    except (AccuracyUnreachable, RequestError):
        return _ask_owner(query)
    return build_fix(
        AskWith(render_offer(replace(query, promise=promise)), f"BUDGET {amount} {book.symbol.upper()}", verb)
    )


def find_affordable(session: WorkspaceSession, course: QueryPlan, earlier: EarlierAnswers) -> Fix:
    """Return the fix of a refusal: the smallest error bound affordable with the remaining budget and known answers."""
    if not isinstance(course.query.promise, Accuracy):
        return NO_FIX
    left = session.get_remaining(course.query.table)
    if course.query.is_composite:
        wider = find_least_widening(course.query, course.schema, left=left)
        return NO_FIX if wider is None else build_fix(_ask_wider(wider, "ask"))
    (plan,) = course.first.plans
    error = find_least_error(plan, left=left)
    wish = resolve_wish(plan.query, plan.schema)
    if error is not None and wish != "none":
        error = find_most_exact_with_reuse(replace(plan, alpha=error), earlier, left, wish=wish, least=plan.alpha).alpha
    return NO_FIX if error is None else build_fix(_ask_wider(_widen(course.query, error), "ask"))
