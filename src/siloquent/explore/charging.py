"""Charges of questions, and their plans: what was charged before is planned by the declaration of then. No data."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from siloquent.charge import Charge, bind_request
from siloquent.errors import KeyReused, SiloquentError
from siloquent.explore.default_accuracy import list_unstated, state_accuracy
from siloquent.explore.plan.limits import lifted
from siloquent.explore.plan.relations.public_joins import build_canonical_request
from siloquent.explore.plan.rules import list_read_columns
from siloquent.explore.plan.steps import QueryPlan, plan_query
from siloquent.explore.spec import Query
from siloquent.explore.spec.rewriting.name_resolution import resolve_names
from siloquent.privacy import FREE, Event
from siloquent.session import compute_budget_limit

if TYPE_CHECKING:
    from siloquent.ledger import Account
    from siloquent.schema import TableSchema
    from siloquent.session import WorkspaceSession


def build_charge(
    session: WorkspaceSession, query: Query, account: Account, *, key: str | None = None, max_cost: str | None = None
) -> Charge:
    """Build the charge of ``query`` for the ledger."""
    schema = session.schema(query.table)
    return bind_request(
        session,
        account,
        schema,
        *build_canonical_request(query, schema),
        key=key,
        max_cost=max_cost,
        columns=list_read_columns(query, schema),
        what="question",
        dearer="",
    )


def bind_query(
    session: WorkspaceSession, query: Query, schema: TableSchema, *, key: str | None
) -> tuple[Query, Charge]:
    """Return ``query`` with its names resolved and its accuracy stated, and its charge under ``key``.

    A default accuracy is today's, unless ``key`` was charged for the same question with an earlier default.

    Raises:
        KeyReused: the key belongs to another request. Others as ``state_accuracy``.
    """
    account = session.get_account(query.table)
    stated = resolve_names(state_accuracy(session, query), schema)
    charge = build_charge(session, stated, account, key=key)
    try:
        charge.find_existing(session)
    except KeyReused:
        for earlier in _iter_earlier_defaults(session, stated, schema):
            then = build_charge(session, earlier, account, key=key)
            with suppress(KeyReused):
                then.find_existing(session)
                return earlier, then
        raise
    return stated, charge


def _iter_earlier_defaults(session: WorkspaceSession, stated: Query, schema: TableSchema) -> Iterator[Query]:
    """Yield ``stated`` with the default accuracies of earlier table files; nothing if its own was stated."""
    for unstated in list_unstated(stated):
        for file in session.list_files_alike(schema, list_read_columns(stated, schema)):
            with suppress(SiloquentError):
                yield state_accuracy(session, unstated, then=session.restore_declaration(schema, file))


def plan_charged(query: Query, schema: TableSchema, *, paid: Event | None = None) -> QueryPlan:
    """Plan ``query`` by ``schema``, which is of the time of its charge if ``Charge.restore_declaration`` gave it.

    Args:
        paid: The event charged for it before: then limits that are newer do not apply.
    """
    with lifted(paid is not None, paid=FREE if paid is None else paid):
        course = plan_query(query, schema, left=compute_budget_limit(schema.budget))
    return replace(course, limit_now=compute_budget_limit(schema.declared.budget))
