"""Releases: list, files, verification, and questions to sketches. All of it is free."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import FileResponse, Response

from siloquent.documents.releases import (
    build_release_document,
    build_release_list_document,
    build_release_verdict_document,
)
from siloquent.documents.sketch import build_answer_document
from siloquent.errors import ReleaseError, UnknownName
from siloquent.releases.manifest import MANIFEST
from siloquent.server.access.acts import record
from siloquent.server.access.guard import CurrentUser, GuardedRoute
from siloquent.server.access.tokens import Principal
from siloquent.server.described import MEDIA_OF
from siloquent.server.keeper import remove_files
from siloquent.server.problems import Refused, build_not_found
from siloquent.server.routes.bodies import ReleaseQuestion
from siloquent.server.state import AppState, get_app_state
from siloquent.server.store import ADD_RELEASE

router = APIRouter(route_class=GuardedRoute)
MAX_LISTED = 200
_SHARE = """
INSERT INTO release (id, name, shared, created) VALUES (?, ?, 1, ?) ON CONFLICT (id) DO UPDATE SET shared = 1
"""


@router.get("/releases")
async def list_releases(
    request: Request,
    person: CurrentUser,
    limit: Annotated[int, Query(ge=1, le=MAX_LISTED)] = MAX_LISTED,
    after: Annotated[str | None, Query(max_length=200)] = None,
    task: Annotated[str, Query(max_length=64)] = "",
    table: Annotated[str, Query(max_length=64)] = "",
) -> dict[str, Any]:
    """The releases that the person may see, newest first, older than release ``after`` if it is named."""
    found = await list_visible_releases(
        get_app_state(request), _get_folder(request), person, limit=limit, after=after, task=task, table=table
    )
    return build_release_list_document(found)


@router.get("/releases/{release}")
async def show_release(request: Request, release: str, person: CurrentUser) -> dict[str, Any]:
    """A release's manifest: its table, what was promised, what it cost. Its values are in its files."""
    return load_manifest(get_app_state(request), _get_folder(request), release, person)


@router.get("/releases/{release}/files/{file}")
async def release_file(request: Request, release: str, file: str, person: CurrentUser) -> Response:
    """One file of a release, as it was written: those that its manifest names, and ``manifest.json`` itself."""
    found = load_manifest(get_app_state(request), _get_folder(request), release, person)
    if (
        file not in {MANIFEST, *(one["name"] for one in found["files"])}
        or not (_get_folder(request) / release / file).is_file()
    ):
        raise build_not_found()
    # Whatever its ending says: one media type, as described, so that generated clients take every file as bytes.
    return FileResponse(
        _get_folder(request) / release / file, filename=f"{release}-{file}", media_type=MEDIA_OF["release_file"]
    )


@router.post("/releases/{release}/verify")
async def verify_release(request: Request, release: str, person: CurrentUser) -> dict[str, Any]:
    """Compare a release with what the ledger keeps, and its receipt with the chain."""
    load_manifest(get_app_state(request), _get_folder(request), release, person)
    path = _get_folder(request) / release
    house = get_app_state(request)
    async with house.room.hold_place(person.name):
        return await house.heavy.run_in_turn(
            person.name, person.analyst, lambda session: build_release_verdict_document(session.verify(path))
        )


@router.post("/releases/{release}/share")
async def share_release(request: Request, release: str, person: CurrentUser) -> dict[str, Any]:
    """Let every analyst of the release's table see it: the owner's approval."""
    found = load_manifest(get_app_state(request), _get_folder(request), release, person)
    share = (_SHARE, (release, person.name, int(time.time())))
    await asyncio.to_thread(_write_with_act, get_app_state(request), share, person, "share_release", release)
    return {**found, "shared": True}


@router.delete("/releases/{release}")
async def delete_release(request: Request, release: str, person: CurrentUser) -> dict[str, Any]:
    """Delete a release's values. Its manifest stays: what was given to whom at which price is on record for good."""
    house, folder = get_app_state(request), _get_folder(request)
    found = load_manifest(house, folder, release, person)
    add = (ADD_RELEASE, (release, _find_payer(found), int(time.time())))
    await asyncio.to_thread(_write_with_act, house, add, person, "delete_release", release)
    await asyncio.to_thread(remove_files, folder.parent, house.store, release)
    return {**found, "deleted": True}


def _write_with_act(
    house: AppState, write: tuple[str, tuple[Any, ...]], person: Principal, what: str, release: str
) -> None:
    with house.store.open_transaction() as db:
        db.execute(*write)
        record(db, person, what, release)


@router.post("/releases/{release}/questions")
async def ask_release(request: Request, release: str, body: ReleaseQuestion, person: CurrentUser) -> dict[str, Any]:
    """Query a sketch, from its release only: free, any number of times."""
    load_manifest(get_app_state(request), _get_folder(request), release, person)
    path = _get_folder(request) / release
    house = get_app_state(request)
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
    folder: Path,
    person: Principal,
    *,
    limit: int = MAX_LISTED,
    after: str | None = None,
    task: str = "",
    table: str = "",
) -> list[dict[str, Any]]:
    """Return up to ``limit`` manifests visible to ``person``, newest first, of one ``task`` or ``table`` if given."""
    async with house.room.hold_place(person.name):
        return await house.heavy.run_in_turn(
            person.name, None, lambda _: _list_visible(house, folder, person, limit, after, (task, table))
        )


def _list_visible(
    house: AppState, folder: Path, person: Principal, limit: int, after: str | None, of: tuple[str, str]
) -> list[dict[str, Any]]:
    from siloquent.releases import list_folders

    # Releases that are not visible need no reading of their manifests.
    others = house.store.fetch_all("SELECT id FROM release WHERE shared = 0 AND name != ?", person.name)
    hidden = {row["id"] for row in others} if person.role == "analyst" else set()
    listed = list_folders(folder)[::-1]
    if after is not None and after not in listed:
        raise build_not_found()  # a list that started over would never end for a client that reads page by page
    found: list[dict[str, Any]] = []
    for name in listed[listed.index(after) + 1 if after else 0 :]:
        if name in hidden:
            continue
        with suppress(Refused):
            manifest = load_manifest(house, folder, name, person)
            wanted = zip(of, (manifest["task"], manifest["table"]), strict=True)
            found += [manifest] if all(asked in ("", told) for asked, told in wanted) else []
        if len(found) == limit:
            break
    return found


def load_manifest(house: AppState, folder: Path, release: str, person: Principal) -> dict[str, Any]:
    """Return a release's manifest as a document, if the person may see it.

    Owners and auditors see every manifest of their tables; analysts see their own and those that the owner shared.

    Raises:
        Refused: 404, it is unknown or not visible to this person.
    """
    from siloquent.releases import get_release_folder, read_manifest

    try:
        manifest = read_manifest(get_release_folder(folder, release))
    except (ReleaseError, UnknownName):  # whose text would list the releases of others
        raise build_not_found() from None
    row = house.store.fetch_one("SELECT name, shared, deleted FROM release WHERE id = ?", release)
    shared, deleted = (bool(row and row[name]) for name in ("shared", "deleted"))
    document = build_release_document(manifest, shared=shared, deleted=deleted)
    own = _find_payer(document) == person.name if row is None else row["name"] == person.name
    sees_every = person.role in ("owner", "auditor")
    if not person.may_see(manifest.table) or not (sees_every or own or shared):
        raise build_not_found()
    return document


def _find_payer(document: dict[str, Any]) -> str:
    """Return the analyst whose account paid for a release; "" if no analyst's share did."""
    return str(document["guarantee"].get("account", "")).partition("/")[2]


def _get_folder(request: Request) -> Path:
    return Path(request.app.state.folder) / "releases"
