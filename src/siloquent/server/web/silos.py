"""Pages about other silos: dependencies, offers, and the sessions of a federation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastapi import APIRouter
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from siloquent.documents.dependencies import report_document, report_graph
from siloquent.server.guard import house_of
from siloquent.server.problems import Refused
from siloquent.server.routes import releases, silos
from siloquent.server.web.pages import form_of, render, visitor

router = APIRouter(include_in_schema=False)


@router.get("/dependencies")
async def list_dependencies(request: Request) -> Response:
    person = visitor(request, "owner", "analyst")
    found = await _seen(request, person, "profile")
    return render(request, "dependencies.html", person, releases=found)


@router.get("/dependencies/{release}")
async def show_dependencies(request: Request, release: str) -> Response:
    person = visitor(request, "owner", "analyst")
    report = silos.report_of(request, release, person)
    graph = report_graph(report)
    return render(
        request,
        "dependency.html",
        person,
        report=report_document(report, None),
        inside=[str(one) for one in report.only_inside],
        picture=None if graph is None else Markup(graph.svg()),  # our own SVG, whose texts are escaped
        tables=await house_of(request).desk.run(None, lambda session: session.tables()),
        release=releases.manifest_of(house_of(request), _folder(request), release, person),
    )


@router.post("/dependencies/{release}/adopt")
async def adopt(request: Request, release: str) -> Response:
    person = visitor(request, "owner")
    fields = await form_of(request, person)
    table, pick = fields.get("table", ""), [fields[name] for name in sorted(fields) if name.startswith("pick-")]
    await silos.adopted(request, release, person, table, pick)
    return RedirectResponse(f"/tables/{table}", status_code=303)


@router.get("/search")
async def search(request: Request) -> Response:
    person = visitor(request, "owner", "analyst")
    offers = await _seen(request, person, "search")
    catalogue = silos.catalogue_of(Path(request.app.state.folder))
    return render(request, "search.html", person, offers=offers, catalogue=catalogue)


@router.get("/sessions")
async def list_sessions(request: Request) -> Response:
    person, folder = visitor(request, "owner", "auditor"), Path(request.app.state.folder)
    try:
        found = await silos.federation_of(house_of(request), folder, person)
    except Refused as refused:
        if refused.problem.http_status != 404:
            raise
        found = None
    return render(request, "sessions.html", person, federation=found)


@router.get("/sessions/{session}")
async def show_session(request: Request, session: str) -> Response:
    person, folder = visitor(request, "owner", "auditor"), Path(request.app.state.folder)
    found = await silos.session_of(house_of(request), folder, person, session)
    return render(request, "session.html", person, session=found)


@router.post("/sessions/{session}/{decision}")
async def decide(request: Request, session: str, decision: str) -> Response:
    person, folder = visitor(request, "owner"), Path(request.app.state.folder)
    await form_of(request, person)
    if decision not in ("approved", "refused"):
        raise Refused(404, "not_found", "There is no such page.", fix="/sessions")
    await silos.decided(house_of(request), folder, person, session, decision)
    return RedirectResponse(f"/sessions/{session}", status_code=303)


async def _seen(request: Request, person: Any, task: str) -> list[dict[str, Any]]:
    return await releases.seen(house_of(request), _folder(request), person, task=task)


def _folder(request: Request) -> Path:
    return Path(request.app.state.folder) / "releases"
