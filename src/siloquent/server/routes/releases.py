"""Releases: list, files, verification, and questions to sketches. All of it is free."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response

from siloquent.documents.releases import build_release_verdict_document, write_release_list_document
from siloquent.documents.sketch import build_answer_document
from siloquent.releases.manifest import MANIFEST
from siloquent.server.access.acts import record
from siloquent.server.access.guard import CurrentUser, GuardedRoute
from siloquent.server.access.tokens import Principal
from siloquent.server.described import MEDIA_OF
from siloquent.server.failures.problems import build_not_found
from siloquent.server.keeper import remove_files
from siloquent.server.release_index import VisibleRelease
from siloquent.server.routes.bodies import ReleaseQuestion
from siloquent.server.state import AppState, get_app_state
from siloquent.server.store import ADD_RELEASE

router = APIRouter(route_class=GuardedRoute)
MAX_LISTED = 200
_SHARE = """
INSERT INTO release (id, name, shared, created) VALUES (?, ?, 1, ?) ON CONFLICT (id) DO UPDATE SET shared = 1
"""


@router.get("/releases", response_class=JSONResponse)
async def list_releases(
    request: Request,
    person: CurrentUser,
    limit: Annotated[int, Query(ge=1, le=MAX_LISTED)] = MAX_LISTED,
    after: Annotated[str | None, Query(max_length=200)] = None,
    task: Annotated[str, Query(max_length=64)] = "",
    table: Annotated[str, Query(max_length=64)] = "",
) -> Response:
    """The releases that the person may see, newest first, older than release ``after`` if it is named."""
    found = await list_visible_releases(
        get_app_state(request), person, limit=limit, after=after, task=task, table=table
    )
    return _respond(write_release_list_document([one.text for one in found]))


@router.get("/releases/{release}", response_class=JSONResponse)
async def show_release(request: Request, release: str, person: CurrentUser) -> Response:
    """A release's manifest: its table, what was promised, what it cost. Its values are in its files."""
    return _respond((await find_release(get_app_state(request), release, person)).text)


def _respond(text: str) -> Response:
    return Response(text, media_type="application/json")


@router.get("/releases/{release}/files/{file}")
async def release_file(request: Request, release: str, file: str, person: CurrentUser) -> Response:
    """One file of a release, as it was written: those that its manifest names, and ``manifest.json`` itself."""
    found = (await find_release(get_app_state(request), release, person)).load()
    path = _get_folder(request) / release / file
    if file not in {MANIFEST, *(one["name"] for one in found["files"])} or not path.is_file():
        raise build_not_found()
    # Whatever its ending says: one media type, as described, so that generated clients take every file as bytes.
    return FileResponse(path, filename=f"{release}-{file}", media_type=MEDIA_OF["release_file"])


@router.post("/releases/{release}/verify")
async def verify_release(request: Request, release: str, person: CurrentUser) -> dict[str, Any]:
    """Compare a release with what the ledger keeps, and its receipt with the chain."""
    house = get_app_state(request)
    await find_release(house, release, person)
    path = _get_folder(request) / release
    async with house.room.hold_place(person.name):
        return await house.heavy.run_in_turn(
            person.name, person.analyst, lambda session: build_release_verdict_document(session.verify(path))
        )


@router.post("/releases/{release}/share")
async def share_release(request: Request, release: str, person: CurrentUser) -> dict[str, Any]:
    """Let every analyst of the release's table see it: the owner's approval."""
    house = get_app_state(request)
    found = await find_release(house, release, person)
    share = (_SHARE, (release, person.name, int(time.time())))
    await asyncio.to_thread(_write_with_act, house, share, person, "share_release", release)
    return {**found.load(), "shared": True}


@router.delete("/releases/{release}")
async def delete_release(request: Request, release: str, person: CurrentUser) -> dict[str, Any]:
    """Delete a release's values. Its manifest stays: what was given to whom at which price is on record for good."""
    house = get_app_state(request)
    found = await find_release(house, release, person)
    payer = await asyncio.to_thread(house.releases.find_payer, release)
    add = (ADD_RELEASE, (release, payer, int(time.time())))
    await asyncio.to_thread(_write_with_act, house, add, person, "delete_release", release)
    await asyncio.to_thread(remove_files, Path(request.app.state.folder), house.store, release)
    return {**found.load(), "deleted": True}


def _write_with_act(
    house: AppState, write: tuple[str, tuple[Any, ...]], person: Principal, what: str, release: str
) -> None:
    with house.store.open_transaction() as db:
        db.execute(*write)
        record(db, person, what, release)


@router.post("/releases/{release}/questions")
async def ask_release(request: Request, release: str, body: ReleaseQuestion, person: CurrentUser) -> dict[str, Any]:
    """Query a sketch, from its release only: free, any number of times."""
    house = get_app_state(request)
    await find_release(house, release, person)
    path = _get_folder(request) / release
    async with house.room.hold_place(person.name):
        return await house.heavy.run_in_turn(
            person.name, person.analyst, lambda session: answer_question(session, path, body)
        )


def answer_question(session: Any, path: Path, body: ReleaseQuestion) -> dict[str, Any]:
    """Return the answer of the sketch in ``path``, as a document of kind ``siloquent/sketch-answer/2``.

    Raises:
        ReleaseError: there is no sketch; RequestError: the question does not fit it.
    """
    import numpy as np

    from siloquent import sketch as sq

    made, points = session.sketch.load(path), np.array(body.points, dtype=np.float64)
    question: sq.Density | sq.Classify | sq.Anomaly | sq.Modes
    if body.kind == "density":
        question = sq.Density(points)
    elif body.kind == "classify":
        question = sq.Classify(points)
    elif body.kind == "anomaly":
        question = sq.Anomaly(points, share=body.share)
    else:
        question = sq.Modes(count=body.count)
    return build_answer_document(made, question, session.sketch.ask(made, question))


async def list_visible_releases(
    house: AppState,
    person: Principal,
    *,
    limit: int = MAX_LISTED,
    after: str | None = None,
    task: str = "",
    table: str = "",
) -> list[VisibleRelease]:
    """Return up to ``limit`` releases visible to ``person``, newest first, of one ``task`` or ``table`` if given."""
    async with house.room.hold_place(person.name):
        return await house.heavy.run_in_turn(
            person.name,
            None,
            lambda _: house.releases.list_visible(person, limit=limit, after=after, task=task, table=table),
        )


async def find_release(house: AppState, release: str, person: Principal) -> VisibleRelease:
    """Return a release, if the person may see it; its manifest is read beside the event loop.

    Raises:
        Refused: 404, it is unknown or not visible to this person.
    """
    return await asyncio.to_thread(house.releases.find, release, person)


def _get_folder(request: Request) -> Path:
    return Path(request.app.state.folder) / "releases"
