"""Work with other silos: discovered dependencies, catalogues of offers, sessions of a federation."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request

from siloquent.documents.federation import (
    build_decision_document,
    build_federation_document,
    build_session_document,
    build_status_document,
)
from siloquent.documents.profile import build_adoption_document, build_report_document
from siloquent.documents.search import build_catalogue_document
from siloquent.errors import ReleaseError, WorkspaceError
from siloquent.server.access.acts import write_act
from siloquent.server.access.guard import CurrentUser, GuardedRoute
from siloquent.server.access.tokens import Principal
from siloquent.server.failures.fixes import HTTP
from siloquent.server.failures.problems import Refused, build_not_found
from siloquent.server.release_index import VisibleRelease
from siloquent.server.routes.bodies import AdoptionBody, ApprovalBody
from siloquent.server.routes.releases import find_release
from siloquent.server.settings import CATALOGUE
from siloquent.server.state import AppState, get_app_state
from siloquent.server.tables.declaring import hold_declarations

router = APIRouter(route_class=GuardedRoute)


@router.get("/releases/{release}/dependencies")
async def show_dependencies(request: Request, release: str, person: CurrentUser) -> dict[str, Any]:
    """The dependencies that a profile over silos found, with what its protocol told whom."""
    _, report = await require_report(request, release, person)
    return await asyncio.to_thread(build_report_document, report, None)


@router.post("/releases/{release}/adoption")
async def adopt_dependencies(request: Request, release: str, body: AdoptionBody, person: CurrentUser) -> dict[str, Any]:
    """Write dependencies that hold over all rows into a table's declaration."""
    changed = await adopt_picked(request, release, person, body.table, body.pick)
    return build_adoption_document(release, body.table, body.pick, changed=changed)


@router.get("/catalogue")
async def show_catalogue(request: Request, person: CurrentUser) -> dict[str, Any]:
    """The offers in the workspace's catalogue, built only from declarations."""
    return await asyncio.to_thread(load_catalogue, Path(request.app.state.folder))


@router.get("/sessions")
async def list_sessions(request: Request, person: CurrentUser) -> dict[str, Any]:
    """The federation that the workspace's bundle is a role of: its roles, its certificate's days, its sessions."""
    return await describe_federation(get_app_state(request), Path(request.app.state.folder), person)


@router.get("/sessions/{session}")
async def show_session(request: Request, session: str, person: CurrentUser) -> dict[str, Any]:
    """One session: what is asked, and who is where and waited for since when, as the relay tells it now."""
    return await describe_session(get_app_state(request), Path(request.app.state.folder), person, session)


@router.post("/sessions/{session}/approval")
async def decide_session(request: Request, session: str, body: ApprovalBody, person: CurrentUser) -> dict[str, Any]:
    """Approve or refuse a session that waits for its owner's word."""
    return await apply_decision(get_app_state(request), Path(request.app.state.folder), person, session, body.decision)


async def require_report(request: Request, release: str, person: Principal) -> tuple[VisibleRelease, Any]:
    """Return a release and the report in it, if the person may see it and it is a report.

    Raises:
        Refused: 404.
    """
    from siloquent.profile.release import load_report

    found = await find_release(get_app_state(request), release, person)
    if found.task != "profile":
        raise build_not_found()
    try:
        return found, await asyncio.to_thread(load_report, Path(request.app.state.folder) / "releases" / release)
    except ReleaseError:
        raise build_not_found() from None


async def adopt_picked(request: Request, release: str, person: Principal, table: str, pick: list[str]) -> bool:
    """Adopt the picked dependencies; return whether the declaration of ``table`` changed.

    Raises:
        SiloquentError: the report holds no such dependency over all rows, or the table no such column.
    """
    house, folder = get_app_state(request), Path(request.app.state.folder)
    _, report = await require_report(request, release, person)

    def work(session: Any) -> bool:
        with hold_declarations(folder):
            return bool(session.profile.adopt(report, table, pick))

    changed = await house.desk.run(None, work)
    if changed:
        await asyncio.to_thread(write_act, house.store, person, "adopt_dependencies", table)
    return changed


def load_catalogue(folder: Path) -> dict[str, Any]:
    """Return the workspace's catalogue as a document, empty if there is none."""
    from siloquent.search import Catalogue, open_catalogue

    found = open_catalogue(folder / CATALOGUE) if (folder / CATALOGUE).is_dir() else Catalogue(())
    return build_catalogue_document(found, Path(CATALOGUE), [])


async def describe_federation(house: AppState, folder: Path, person: Principal) -> dict[str, Any]:
    """Return the contents of this role's own bundle and journal; the relay is not contacted."""

    def work(_: Any) -> dict[str, Any]:
        from siloquent.federation.connection_check import check_certificate_days
        from siloquent.federation.role_process import open_journal

        role = _load_bundle(folder, house.settings.bundle)
        with open_journal(role) as journal:
            sessions = sorted(journal.list_sessions(), key=lambda known: known.state != "invited")
        return build_federation_document(role, check_certificate_days(role), sessions, language=HTTP)

    async with house.room.hold_place(person.name):
        return await house.heavy.run_in_turn(person.name, None, work)


async def describe_session(house: AppState, folder: Path, person: Principal, session: str) -> dict[str, Any]:
    """Return a session of this role's journal with the relay's status, or the reason why it is unavailable."""

    def work(_: Any) -> dict[str, Any]:
        from contextlib import closing

        from siloquent.errors import ProtocolError
        from siloquent.federation.role_process import open_journal
        from siloquent.federation.transport import HttpTransport

        role = _load_bundle(folder, house.settings.bundle)
        with open_journal(role) as journal:
            known = _find_session(journal, session)
        status, silent = None, ""
        try:
            with closing(HttpTransport(role)) as transport:
                status = build_status_document(transport.look(session), role.roster)
        except ProtocolError as refused:
            silent = refused.detail
        return build_session_document(role, known, status, silent)

    async with house.room.hold_place(person.name):
        return await house.heavy.run_in_turn(person.name, None, work)


async def apply_decision(
    house: AppState, folder: Path, person: Principal, session: str, decision: str
) -> dict[str, Any]:
    """Apply an owner's decision; return the session's line.

    Raises:
        Refused: 409, the session does not wait for one.
    """

    def work(_: Any) -> dict[str, Any]:
        from siloquent.federation.role_process import open_journal

        role = _load_bundle(folder, house.settings.bundle)
        with open_journal(role) as journal:
            known = _find_session(journal, session)
            if not journal.decide(session, decision):
                raise Refused(409, "conflict", f"This session is {known.state} already.", fix="GET /v1/sessions")
        write_act(house.store, person, "decide_session", session)
        return build_decision_document(session, decision)

    async with house.room.hold_place(person.name):
        return await house.heavy.run_in_turn(person.name, None, work)


def _load_bundle(folder: Path, bundle: str) -> Any:
    from siloquent.federation.identity.bundle import read_bundle

    try:
        return read_bundle(folder / bundle)
    except WorkspaceError:
        detail = "This workspace is not part of a federation: it has no bundle."
        raise Refused(404, "not_found", detail, fix='bundle = "DIR" in [server]') from None


def _find_session(journal: Any, session: str) -> Any:
    known = next((one for one in journal.list_sessions() if one.id == session), None)
    if known is None:
        raise build_not_found()
    return known
