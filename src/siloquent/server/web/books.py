"""Pages about money and releases: accounts, the chain, what was given."""

from __future__ import annotations

import asyncio
from itertools import islice
from pathlib import Path
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from siloquent.documents.money import entry_document, verdict_document
from siloquent.documents.releases import release_verdict_document
from siloquent.server.guard import house_of
from siloquent.server.routes import money, releases
from siloquent.server.tokens import Person
from siloquent.server.web.pages import form_of, render, visitor

BOOKS = ("owner", "auditor")

router = APIRouter(include_in_schema=False)


@router.get("/budget")
async def budget(request: Request) -> Response:
    person = visitor(request)
    accounts = (await money.list_accounts(request, person))["accounts"]
    sees_all = person.role in BOOKS
    spending = await money.spending(house_of(request), person) if sees_all else []
    sees_denials = sees_all and person.sees_all
    denials = (await asyncio.to_thread(money.denials, house_of(request)))[:50] if sees_denials else []
    done = (await asyncio.to_thread(money.acts, house_of(request)))[:50] if sees_denials else []
    return render(request, "budget.html", person, accounts=accounts, spending=spending, denials=denials, acts=done)


@router.get("/ledger")
async def show_ledger(request: Request) -> Response:
    person = visitor(request, *BOOKS)
    entries, verdict = await _entries(request, person), None
    return render(request, "ledger.html", person, entries=entries, verdict=verdict)


@router.post("/ledger/verify")
async def verify_ledger(request: Request) -> Response:
    person = visitor(request, *BOOKS)
    await form_of(request, person)
    money.require_all(person)
    verdict = await house_of(request).heavy.run_in_turn(
        person.name, None, lambda session: verdict_document(session.ledger.verify(None), None)
    )
    return render(request, "ledger.html", person, entries=await _entries(request, person), verdict=verdict)


@router.post("/ledger/checkpoint")
async def download_checkpoint(request: Request) -> Response:
    person = visitor(request, *BOOKS)
    await form_of(request, person)
    money.require_all(person)
    made = await house_of(request).desk.run(None, lambda session: session.ledger.checkpoint())
    name = f"checkpoint-{made.seq}.json"
    return Response(
        made.to_json() + "\n",
        media_type="application/json",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


async def _entries(request: Request, person: Person) -> list[dict[str, Any]]:
    """The newest entries, newest first."""

    def work(session: Any) -> list[dict[str, Any]]:
        after = max(0, session.ledger.head().seq - 100)
        newest = islice(session.ledger.entries(after=after), 100)
        seen = [one for one in newest if person.may_see(str(one.body.get("account", "")).partition("@")[0])]
        return [entry_document(entry) for entry in seen][::-1]

    return await house_of(request).desk.run(None, work)


@router.get("/releases")
async def list_releases(request: Request) -> Response:
    person = visitor(request)
    found = await releases.seen(house_of(request), _folder(request), person)
    return render(request, "releases.html", person, releases=found)


@router.get("/releases/{release}")
async def show_release(request: Request, release: str) -> Response:
    person = visitor(request)
    found = releases.manifest_of(house_of(request), _folder(request), release, person)
    return render(request, "release.html", person, release=found, verdict=None)


@router.post("/releases/{release}/verify")
async def verify_release(request: Request, release: str) -> Response:
    person = visitor(request, *BOOKS)
    await form_of(request, person)
    found, path = (
        releases.manifest_of(house_of(request), _folder(request), release, person),
        _folder(request) / release,
    )
    verdict = await house_of(request).heavy.run_in_turn(
        person.name, None, lambda session: release_verdict_document(session.verify(path))
    )
    return render(request, "release.html", person, release=found, verdict=verdict)


@router.post("/releases/{release}/share")
async def share(request: Request, release: str) -> Response:
    person = visitor(request, "owner")
    await form_of(request, person)
    await releases.share_release(request, release, person)
    return RedirectResponse(f"/releases/{release}", status_code=303)


@router.get("/releases/{release}/files/{file}")
async def download(request: Request, release: str, file: str) -> Response:
    person = visitor(request, "owner", "analyst")
    return await releases.release_file(request, release, file, person)


def _folder(request: Request) -> Path:
    return Path(request.app.state.folder) / "releases"
