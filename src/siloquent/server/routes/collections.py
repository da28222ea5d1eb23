"""Collections: devices send reports that are already private; authorized persons get estimates at no cost."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from siloquent.documents.collect import (
    build_collection_list_document,
    build_counters_document,
    build_estimates_document,
    build_taken_document,
)
from siloquent.server.access.guard import CurrentUser, GuardedRoute
from siloquent.server.access.limits import MAX_REPORT_BYTES
from siloquent.server.access.tokens import Principal
from siloquent.server.failures.problems import Refused, build_not_found
from siloquent.server.repeats import REPLAYED, KeyTaken, Repeat, find_reply, keep, repeat_of
from siloquent.server.routes.bodies import QuestionBody
from siloquent.server.state import AppState, get_app_state

router = APIRouter(route_class=GuardedRoute)
MAX_DOCUMENT = 64 * 2**20
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_busy: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
"""A lock for each collection, one batch at a time in this process; the store's file has a lock against others."""


@router.get("/collections")
async def list_collections(request: Request, person: CurrentUser) -> dict[str, Any]:
    """The collections whose documents lie in the workspace."""
    names = await asyncio.to_thread(list_collection_names, Path(request.app.state.folder))
    return build_collection_list_document(names)


@router.get("/collections/{collection}")
async def show_collection(request: Request, collection: str, person: CurrentUser) -> dict[str, Any]:
    """Counts of the reports so far, by outcome and by layer."""
    made = await find_collection(request, collection)

    def work(session: Any) -> dict[str, Any]:
        with session.collect.store(made) as store:
            return build_counters_document(made, store.counters, store)

    return await get_app_state(request).heavy.run_in_turn(person.name, None, work)


@router.post("/collections/{collection}/reports")
async def send_reports(request: Request, collection: str, person: CurrentUser) -> Response:
    """Take up to 4 MiB of reports in. A report that came before is refused and counted, so sending again is safe."""
    repeat, house = repeat_of(request, person), get_app_state(request)
    made = await find_collection(request, collection)
    async with house.room.hold_place(person.name):  # before the body is in memory
        data = await request.body()
        if not data or len(data) > MAX_REPORT_BYTES:
            detail = f"Between 1 and {MAX_REPORT_BYTES} bytes of reports are accepted per request."
            raise Refused(413, "body_too_large", detail)
        told, is_known = await _take_in(request, person, made, data, repeat)
    return JSONResponse(told, headers=REPLAYED if is_known else None)


async def _take_in(
    request: Request, person: Principal, made: Any, data: bytes, repeat: Repeat | None
) -> tuple[dict[str, Any], bool]:
    """Ingest reports after those that came before; return their document, and whether it is the one of before."""
    house, sent = get_app_state(request), hashlib.sha256(data).digest()
    async with _busy[f"{request.app.state.folder}/{request.path_params['collection']}"]:
        if repeat is not None and (known := find_reply(house.store, repeat, sent)):
            return known, True
        told = await house.heavy.run_in_turn(
            person.name, None, lambda session: build_taken_document(made, session.collect.ingest(made, data))
        )
        if repeat is not None:
            await asyncio.to_thread(_keep, house, repeat, sent, told)
    return told, False


def _keep(house: AppState, repeat: Repeat, sent: bytes, told: dict[str, Any]) -> None:
    with (
        suppress(KeyTaken),
        house.store.open_transaction() as db,
    ):  # another server received the same report: each is counted once
        keep(db, repeat, sent, told)


@router.post("/collections/{collection}/estimates")
async def estimate(request: Request, collection: str, body: QuestionBody, person: CurrentUser) -> dict[str, Any]:
    """Answer an SQL query from the reports, with standard errors. Free, any number of times."""
    made = await find_collection(request, collection)
    house = get_app_state(request)
    async with house.room.hold_place(person.name):
        return await house.heavy.run_in_turn(
            person.name, None, lambda session: build_estimates_document(made, session.collect.estimate(made, body.sql))
        )


async def find_collection(request: Request, name: str) -> Any:
    """Return a collection, read beside the event loop; raises as ``load_collection``."""
    return await asyncio.to_thread(load_collection, Path(request.app.state.folder), name)


def list_collection_names(folder: Path) -> list[str]:
    """Return the names of a workspace's collections."""
    return sorted(one.stem for one in (folder / "collections").glob("*.json"))


def load_collection(folder: Path, name: str) -> Any:
    """Return the collection ``name``.

    Raises:
        Refused: 404; SchemaError: its document was changed.
    """
    from siloquent.collect import read_collection

    path = folder / "collections" / f"{name}.json"
    if not _NAME.fullmatch(name) or not path.is_file() or path.stat().st_size > MAX_DOCUMENT:
        raise build_not_found()
    return read_collection(path.read_text("utf-8"))
