"""Alternatives to queries that cost too much: affordable within this session's remaining budget, not just the total."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from siloquent.errors import AccuracyUnreachable, BudgetExceeded, RequestError, SiloquentError, UnknownName
from siloquent.explore.default_accuracy import state_accuracy
from siloquent.explore.examples import find_example
from siloquent.explore.mending.search import mend
from siloquent.explore.offers import Offers, offer_mended
from siloquent.explore.plan.planner import compute_allowed_cost
from siloquent.explore.spec.language.render import render_offer
from siloquent.explore.spec.predicate import Column
from siloquent.explore.spec.promises import Accuracy, Spend
from siloquent.explore.spec.query import GroupBy
from siloquent.fixes import NO_FIX, AskWith, Fix, RunCommand, build_fix, run
from siloquent.schema.table import list_tables_of
from siloquent.session import compute_budget_limit

if TYPE_CHECKING:
    from siloquent.explore.spec import Query
    from siloquent.session import WorkspaceSession

MAX_TABLES = 8
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
        promise, offers = query.stated, Offers(session, query, verb="explain")
        if isinstance(promise, Accuracy):
            refused.best_alpha = offers.find_best(refused.best_alpha)
            refused.remedy = offers.suggest_wider(refused.best_alpha)
            refused.detail += offers.tell_most_exact(refused.remedy, refused.best_alpha)
            refused.best_alpha = refused.best_alpha if refused.remedy.find(AskWith) else None
        else:
            refused.best_alpha, refused.remedy = None, offers.suggest_spending()
            if _is_beyond(session, promise, query.table):
                refused.detail = f"This BUDGET exceeds the whole budget of {query.table!r}."
            elif query.is_composite:
                refused.detail = "This BUDGET is too small for the query."
        raise
    except BudgetExceeded as refused:
        query = state_accuracy(session, query)
        offers = Offers(session, query, verb="ask")
        asked = refused.remedy.find(AskWith)
        if isinstance(query.promise, Spend):
            refused.remedy = offers.suggest_spending()
        else:
            refused.remedy = Fix((asked,)) if asked else offers.suggest_wider(None)
            refused.detail += offers.tell_most_exact(refused.remedy, None)
        raise
    except UnknownName as unknown:
        if not unknown.kind.startswith("column in the source"):  # the question is right, its source lacks a column
            unknown.remedy = _mend(session, query, unknown)
        raise
    except RequestError as refused:
        with suppress(SiloquentError):
            query = state_accuracy(session, query)
        refused.remedy = _suggest_discovery(session, query) or _mend(session, query, refused)
        raise


def _mend(session: WorkspaceSession, query: Query, refused: SiloquentError) -> Fix:
    """Return the question that is meant, if one like ``query`` can be asked; otherwise where its names are listed."""
    with suppress(SiloquentError):
        asked = session.schema(query.table)
        is_public = query.join is not None and query.join.table in {one.name for one in asked.public}
        if query.join is not None and not (
            is_public and (refused.remedy.find(AskWith) or refused.code != "unknown_name")
        ):
            # The same question about only its first table: another private one may be unknown to the asker.
            alone = render_offer(replace(query, join=None))
            mended = mend(alone, [asked], may_lose=True) or find_example([asked])
            if mended:
                return build_fix(offer_mended(session, mended, alone))
            return refused.remedy or build_fix(run("show", asked.name))
        joined = list_tables_of(query.table)
        if query.publics or (query.join is not None and len(joined) > 1):
            example = find_example([session.schema(joined[0])])
            return refused.remedy if refused.remedy.find(AskWith) or not example else build_fix(AskWith(example))
        others = [] if query.join is None else list(asked.public)
        if not others and (mended := mend(render_offer(query), [asked], wrong=refused)):
            return build_fix(offer_mended(session, mended, render_offer(query)))
        return refused.remedy or build_fix(run("show", asked.name))
    if session.is_frame_of_before(query.table) or not session.list_tables():
        return refused.remedy
    tables = (
        [session.schema(name) for name in session.list_tables()[:MAX_TABLES]] if refused.code == "unknown_name" else []
    )
    mended = mend(render_offer(query), tables, wrong=refused)
    return build_fix(offer_mended(session, mended, render_offer(query)) if mended else run("tables"))


def _is_beyond(session: WorkspaceSession, spend: Spend, table: str) -> bool:
    schema = session.schema(table)
    with suppress(AccuracyUnreachable):  # less than any charge
        return compute_allowed_cost(spend, schema).amount > compute_budget_limit(schema.budget).amount
    return False


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
