"""Pages about other silos: dependencies, offers, and the sessions of a federation."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from fastapi import APIRouter
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from siloquent.documents.profile import build_report_document, build_report_graph
from siloquent.server.failures.problems import Refused
from siloquent.server.routes import releases, silos
from siloquent.server.state import get_app_state
from siloquent.server.web.pages import read_form, render, require_visitor

router = APIRouter(include_in_schema=False)


@router.get("/dependencies")
async def list_dependencies(request: Request) -> Response:
    person = require_visitor(request, "owner", "analyst")
    found = await _list_visible(request, person, "profile")
    return render(request, "dependencies.html", person, releases=found)


@router.get("/dependencies/{release}")
async def show_dependencies(request: Request, release: str) -> Response:
    person = require_visitor(request, "owner", "analyst")
    found, report = await silos.require_report(request, release, person)
    graph = build_report_graph(report)
    return render(
        request,
        "dependency.html",
        person,
        report=build_report_document(report, None),
        inside=[str(one) for one in report.only_inside],
        picture=None if graph is None else Markup(graph.svg()),  # our own SVG, whose texts are escaped
        tables=await get_app_state(request).desk.run(None, lambda session: session.list_tables()),
        release=found.load(),
    )


@router.post("/dependencies/{release}/adopt")
async def adopt(request: Request, release: str) -> Response:
    person = require_visitor(request, "owner")
    fields = await read_form(request, person)
    table, pick = fields.get("table", ""), [fields[name] for name in sorted(fields) if name.startswith("pick-")]
    await silos.adopt_picked(request, release, person, table, pick)
    return RedirectResponse(f"/tables/{table}", status_code=303)


@router.get("/search")
async def search(request: Request) -> Response:
    person = require_visitor(request, "owner", "analyst")
    offers = await _list_visible(request, person, "search")
    catalogue = await asyncio.to_thread(silos.load_catalogue, Path(request.app.state.folder))
    return render(request, "search.html", person, offers=offers, catalogue=catalogue)


@router.get("/sessions")
async def list_sessions(request: Request) -> Response:
    person, folder = require_visitor(request, "owner", "auditor"), Path(request.app.state.folder)
    try:
        found = await silos.describe_federation(get_app_state(request), folder, person)
    except Refused as refused:
        if refused.problem.http_status != 404:
            raise
        found = None
    return render(request, "sessions.html", person, federation=found)


@router.get("/sessions/{session}")
async def show_session(request: Request, session: str) -> Response:
    person, folder = require_visitor(request, "owner", "auditor"), Path(request.app.state.folder)
    found = await silos.describe_session(get_app_state(request), folder, person, session)
    return render(request, "session.html", person, session=found)


@router.post("/sessions/{session}/{decision}")
async def decide(request: Request, session: str, decision: str) -> Response:
    person, folder = require_visitor(request, "owner"), Path(request.app.state.folder)
    await read_form(request, person)
    if decision not in ("approved", "refused"):
        raise Refused(404, "not_found", "There is no such page.", fix="/sessions")
    await silos.apply_decision(get_app_state(request), folder, person, session, decision)
    return RedirectResponse(f"/sessions/{session}", status_code=303)


async def _list_visible(request: Request, person: Any, task: str) -> list[dict[str, Any]]:
    found = await releases.list_visible_releases(get_app_state(request), person, task=task)
    return [one.load() for one in found]
