"""The ledger: accounts, entries of the chain, its verification and checkpoints."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import suppress
from itertools import islice
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.requests import Request

from siloquent.documents.ledger import (
    build_account_list_document,
    build_entry_document,
    build_entry_list_document,
    build_head_document,
    build_session_account_document,
    build_verdict_document,
)
from siloquent.documents.server import build_act_list_document, build_denial_list_document, build_spending_document
from siloquent.errors import SiloquentError
from siloquent.server.access.acts import list_newest_acts
from siloquent.server.access.guard import CurrentUser, GuardedRoute
from siloquent.server.access.scope import AccountScope
from siloquent.server.access.tokens import Principal
from siloquent.server.failures.fixes import HTTP
from siloquent.server.failures.problems import Refused, build_not_found
from siloquent.server.routes.bodies import PlainInt
from siloquent.server.state import AppState, get_app_state

router = APIRouter(route_class=GuardedRoute)
MAX_ENTRIES = 500


@router.get("/accounts")
async def list_accounts(request: Request, person: CurrentUser) -> dict[str, Any]:
    """Accounts with limits and what is spent: an analyst's own, everybody's for owners and auditors.

    The account of a unit is shown to a token for one of its tables; what is left of it may be spent on all of them.
    """

    def work(session: Any) -> list[dict[str, Any]]:
        return [build_session_account_document(session, one) for one in list_visible_accounts(session, person)]

    return build_account_list_document(await get_app_state(request).desk.run(person.analyst, work))


@router.get("/accounts/{account:path}/entries")
async def list_entries(
    request: Request,
    account: str,
    person: CurrentUser,
    after: Annotated[PlainInt, Query(ge=0, le=2**62)] = 0,
    limit: Annotated[PlainInt, Query(ge=1, le=MAX_ENTRIES)] = MAX_ENTRIES,
) -> dict[str, Any]:
    """Up to ``limit`` entries of an account after entry ``after``; of an account of several, only to its owner.

    Entries of a unit's account are for tokens that are for all of the unit's tables.
    """

    def work(session: Any) -> list[dict[str, Any]]:
        shared = person.role == "analyst" and "/" not in account
        if shared or account not in {one.name for one in list_visible_accounts(session, person)}:
            raise build_not_found()
        if not AccountScope.of(session, person).shows_charges(account):
            raise _build_some_tables("This account pays for other tables of its unit, too")
        return [build_entry_document(one) for one in islice(session.ledger.iter_entries(after, account), limit)]

    return build_entry_list_document(await get_app_state(request).desk.run(person.analyst, work))


@router.get("/ledger/head")
async def ledger_head(request: Request, person: CurrentUser) -> dict[str, Any]:
    """The ledger's head: the number and the hash of its newest entry."""
    desk = get_app_state(request).desk
    return await desk.run(person.analyst, lambda session: build_head_document(session.ledger))


def verify(session: Any) -> dict[str, Any]:
    """Verify the ledger, and compare the files of released domains with it, as a document."""
    from siloquent.discover.kept import find_domain_faults

    verdict = session.ledger.verify(None)
    faults = find_domain_faults(session.workspace.folder, session.ledger) if verdict.ok else []
    return build_verdict_document(verdict, None, faults, HTTP)


@router.post("/ledger/verify")
async def verify_ledger(request: Request, person: CurrentUser) -> dict[str, Any]:
    """Recompute chain, totals, permits, answers and limits, and compare the released domains with them."""
    require_all(person)
    house = get_app_state(request)
    async with house.room.hold_place(person.name):
        return await house.heavy.run_in_turn(person.name, None, verify)


@router.post("/ledger/checkpoints")
async def make_checkpoint(request: Request, person: CurrentUser) -> dict[str, Any]:
    """The ledger's head and totals, to keep where this machine cannot change them."""
    require_all(person)
    return await get_app_state(request).desk.run(
        None, lambda session: json.loads(session.ledger.create_checkpoint().to_json())
    )


@router.get("/spending")
async def list_spending(request: Request, person: CurrentUser) -> dict[str, Any]:
    """Spending by analyst and task, on the tables that the token is for; of a unit, if it is for all of its tables."""
    return build_spending_document(await list_spending_lines(get_app_state(request), person))


@router.get("/report")
async def show_report(
    request: Request, person: CurrentUser, table: Annotated[str | None, Query(max_length=64)] = None
) -> dict[str, Any]:
    """Report declarations, who may ask and what was spent, of one table or all, to a data protection officer."""
    return await build_report(request, person, table)


async def build_report(request: Request, person: Principal, table: str | None = None) -> dict[str, Any]:
    """Return the report as a document of kind ``siloquent/protection-report/1``.

    Raises:
        Refused: 404, there is no such table.
    """
    from siloquent.documents.reports.protection import build_report_document

    house = get_app_state(request)

    def work(session: Any) -> dict[str, Any]:
        names = session.list_tables()
        if table is not None and table not in names:
            raise build_not_found()
        return build_report_document(session, names if table is None else [table], house.tokens.list_people())

    async with house.room.hold_place(person.name):
        return await house.heavy.run_in_turn(person.name, None, work)


@router.get("/denials")
async def list_denials(
    request: Request, person: CurrentUser, before: Annotated[PlainInt | None, Query(ge=0, le=2**62)] = None
) -> dict[str, Any]:
    """Up to 500 refusals of what a person may do or has left, and failed logins, newest first, before ``before``."""
    require_all(person)
    found = await asyncio.to_thread(list_newest_denials, get_app_state(request), before=before)
    return build_denial_list_document(found)


@router.get("/acts")
async def list_acts(
    request: Request, person: CurrentUser, before: Annotated[PlainInt | None, Query(ge=0, le=2**62)] = None
) -> dict[str, Any]:
    """Up to 500 acts that concern others, newest first, before ``before``: tokens, tables, cancelled jobs, releases."""
    require_all(person)
    found = await asyncio.to_thread(read_acts, get_app_state(request), before=before)
    return build_act_list_document(found)


async def list_spending_lines(house: AppState, person: Principal) -> list[dict[str, Any]]:
    """Return the lines of ``list_spending``."""

    def work(session: Any) -> list[dict[str, Any]]:
        scope = AccountScope.of(session, person)
        return [one for one in house.spending.list_lines(session) if scope.shows_charges(one["account"])]

    async with house.room.hold_place(person.name):
        return await house.heavy.run_in_turn(person.name, None, work)


def list_newest_denials(house: AppState, *, before: int | None = None) -> list[dict[str, Any]]:
    """Return the newest denials, with their times in UTC."""
    found = house.watch.denials.newest(MAX_ENTRIES, before=before)
    return [{**one, "at": _format_utc(one["at"]), "last": _format_utc(one["last"])} for one in found]


def read_acts(house: AppState, *, before: int | None = None) -> list[dict[str, Any]]:
    """Return the newest acts, with their times in UTC."""
    return [{**one, "at": _format_utc(one["at"])} for one in list_newest_acts(house.store, MAX_ENTRIES, before=before)]


def _format_utc(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def list_visible_accounts(session: Any, person: Principal) -> list[Any]:
    """Return the accounts of the person's tables; an analyst gets those that pay for the analyst's own questions."""
    if person.role != "analyst":
        scope = AccountScope.of(session, person)
        return [one for one in session.list_accounts() if scope.shows(one.name)]
    own = set()
    for table in filter(person.may_see, session.list_tables()):
        with suppress(SiloquentError):  # a table that cannot be read, or in which this analyst has no share
            own.add(session.get_account(table).name)
    return [one for one in session.list_accounts() if one.name in own]


def require_all(person: Principal) -> None:
    """Refuse information about every table to a token that is for some.

    Raises:
        Refused: 403.
    """
    if not person.sees_all:
        raise _build_some_tables("This covers every table")


def _build_some_tables(reason: str) -> Refused:
    return Refused(403, "not_allowed", f"{reason}, but the token is limited to some tables.", fix="GET /v1/me")
