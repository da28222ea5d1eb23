"""Pages about budgets and releases: accounts, the chain, releases."""

from __future__ import annotations

import asyncio
from itertools import islice
from pathlib import Path
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from siloquent.documents.ledger import build_entry_document
from siloquent.documents.releases import build_release_verdict_document
from siloquent.server.access.scope import AccountScope
from siloquent.server.access.tokens import Principal
from siloquent.server.routes import ledger, releases
from siloquent.server.state import get_app_state
from siloquent.server.web.pages import read_form, render, require_visitor

LEDGER_READERS = ("owner", "auditor")

router = APIRouter(include_in_schema=False)


@router.get("/budget")
async def budget(request: Request) -> Response:
    person = require_visitor(request)
    accounts = (await ledger.list_accounts(request, person))["accounts"]
    sees_all = person.role in LEDGER_READERS
    spending = await ledger.list_spending_lines(get_app_state(request), person) if sees_all else []
    sees_denials = sees_all and person.sees_all
    denials = (await asyncio.to_thread(ledger.list_newest_denials, get_app_state(request)))[:50] if sees_denials else []
    done = (await asyncio.to_thread(ledger.read_acts, get_app_state(request)))[:50] if sees_denials else []
    return render(request, "budget.html", person, accounts=accounts, spending=spending, denials=denials, acts=done)


@router.get("/report")
async def show_report(request: Request) -> Response:
    """The report for a data protection officer; with ``?print`` as a file of its own."""
    from markupsafe import Markup

    from siloquent.documents.reports.html import render_report_body, render_report_page

    person = require_visitor(request, "owner")
    document = await ledger.build_report(request, person)
    if "print" in request.query_params:
        headers = {"Content-Disposition": 'attachment; filename="siloquent-report.html"'}
        return Response(render_report_page(document), media_type="text/html; charset=utf-8", headers=headers)
    return render(request, "report.html", person, report=Markup(render_report_body(document)))  # texts are escaped


@router.get("/ledger")
async def show_ledger(request: Request) -> Response:
    person = require_visitor(request, *LEDGER_READERS)
    entries, verdict = await _list_newest_entries(request, person), None
    return render(request, "ledger.html", person, entries=entries, verdict=verdict)


@router.post("/ledger/verify")
async def verify_ledger(request: Request) -> Response:
    person = require_visitor(request, *LEDGER_READERS)
    await read_form(request, person)
    ledger.require_all(person)
    verdict = await get_app_state(request).heavy.run_in_turn(person.name, None, ledger.verify)
    return render(request, "ledger.html", person, entries=await _list_newest_entries(request, person), verdict=verdict)


@router.post("/ledger/checkpoint")
async def download_checkpoint(request: Request) -> Response:
    person = require_visitor(request, *LEDGER_READERS)
    await read_form(request, person)
    ledger.require_all(person)
    made = await get_app_state(request).desk.run(None, lambda session: session.ledger.create_checkpoint())
    name = f"checkpoint-{made.seq}.json"
    return Response(
        made.to_json() + "\n",
        media_type="application/json",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


async def _list_newest_entries(request: Request, person: Principal) -> list[dict[str, Any]]:
    """Return the newest entries, newest first."""

    def work(session: Any) -> list[dict[str, Any]]:
        after = max(0, session.ledger.read_head().seq - 100)
        newest = islice(session.ledger.iter_entries(after=after), 100)
        scope = AccountScope.of(session, person)
        seen = [one for one in newest if scope.shows_charges(str(one.body.get("account", "")))]
        return [build_entry_document(entry) for entry in seen][::-1]

    return await get_app_state(request).desk.run(None, work)


@router.get("/releases")
async def list_releases(request: Request) -> Response:
    person = require_visitor(request)
    found = await releases.list_visible_releases(get_app_state(request), person)
    return render(request, "releases.html", person, releases=[one.load() for one in found])


@router.get("/releases/{release}")
async def show_release(request: Request, release: str) -> Response:
    person = require_visitor(request)
    found = await releases.find_release(get_app_state(request), release, person)
    return render(request, "release.html", person, release=found.load(), verdict=None)


@router.post("/releases/{release}/verify")
async def verify_release(request: Request, release: str) -> Response:
    person = require_visitor(request, *LEDGER_READERS)
    await read_form(request, person)
    found = await releases.find_release(get_app_state(request), release, person)
    path = _get_folder(request) / release
    verdict = await get_app_state(request).heavy.run_in_turn(
        person.name, None, lambda session: build_release_verdict_document(session.verify(path))
    )
    return render(request, "release.html", person, release=found.load(), verdict=verdict)


@router.post("/releases/{release}/share")
async def share(request: Request, release: str) -> Response:
    person = require_visitor(request, "owner")
    await read_form(request, person)
    await releases.share_release(request, release, person)
    return RedirectResponse(f"/releases/{release}", status_code=303)


@router.get("/releases/{release}/files/{file}")
async def download(request: Request, release: str, file: str) -> Response:
    person = require_visitor(request, "owner", "analyst")
    return await releases.release_file(request, release, file, person)


def _get_folder(request: Request) -> Path:
    return Path(request.app.state.folder) / "releases"
