"""Tables: declarations, remaining budgets, and the owner's work on them."""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets  # allowed: file names, no noise
import time
from collections.abc import AsyncIterator
from io import FileIO
from pathlib import Path
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from siloquent.documents.ledger import build_history_document
from siloquent.documents.server import build_person_document, build_upload_document, build_upload_list_document
from siloquent.documents.tables import (
    build_change_entries,
    build_check_document,
    build_check_report,
    build_shown_table,
    build_table_line,
    build_table_list_document,
)
from siloquent.fixes import FixLanguage
from siloquent.server.access.acts import record, write_act
from siloquent.server.access.guard import CurrentUser, GuardedRoute
from siloquent.server.access.hidden_tables import INVALID
from siloquent.server.access.scope import require_table
from siloquent.server.access.tokens import Principal
from siloquent.server.failures.fixes import HTTP
from siloquent.server.failures.problems import Refused, build_not_found
from siloquent.server.keeper import is_named, remove_upload
from siloquent.server.repeats import REPLAYED, KeyTaken, Repeat, find_reply, is_known, keep, repeat_of
from siloquent.server.routes.bodies import RefreshBody, TableBody
from siloquent.server.state import AppState, get_app_state
from siloquent.server.tables.declaring import Precondition, tag_of, write_declaration
from siloquent.server.tables.inspection import read_parquet_columns
from siloquent.server.tables.refreshing import refresh_rows

router = APIRouter(route_class=GuardedRoute)
MAX_QUESTIONS = 1_000
WRITTEN_BYTES = 2**20
_PARQUET = b"PAR1"
_OTHERS = (b"PK", b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ", b"BZh", b"7z\xbc\xaf", b"\x7fELF", b"%PDF", b"ARROW1")


@router.get("/me")
async def me(request: Request, person: CurrentUser) -> dict[str, Any]:
    """The token's person, role and tables."""
    return build_person_document(person)


@router.get("/tables")
async def list_tables(request: Request, person: CurrentUser) -> dict[str, Any]:
    """The declared tables that the token is for, and what is left of their budgets."""

    def work(session: Any) -> list[dict[str, Any]]:
        lines = [build_table_line(session, name) for name in session.list_tables() if person.may_see(name)]
        return [line if person.sees_all or not line["problem"] else {**line, "problem": INVALID} for line in lines]

    return build_table_list_document(await get_app_state(request).desk.run(person.analyst, work))


@router.get("/tables/{table}")
async def show_table(request: Request, table: str, person: CurrentUser) -> Response:
    """A table's declaration: attributes, unit, constraints, budget. No row is read.

    To an owner the header ETag names the declaration, for If-Match; it does not change with what is left of the budget.
    """
    tag = await asyncio.to_thread(
        tag_of, Path(request.app.state.folder), table
    )  # before the rest: a tag older than its document is safe
    found = await build_table_reply(request, table, person)
    return JSONResponse(found, headers={"ETag": tag} if tag and person.role == "owner" else None)


async def build_table_reply(request: Request, table: str, person: Principal) -> dict[str, Any]:
    """Return a table as a document of kind ``siloquent/table/1``, if the token is for it.

    Raises:
        Refused: 404.
    """
    require_table(person, table)

    def work(session: Any) -> dict[str, Any]:
        if table not in session.list_tables():
            raise build_not_found()
        return build_shown_table(session, table)

    return await get_app_state(request).desk.run(person.analyst, work)


@router.get("/tables/{table}/history")
async def table_history(request: Request, table: str, person: CurrentUser) -> dict[str, Any]:
    """The newest 1,000 questions asked of a table, oldest first, those that the person may see."""
    require_table(person, table)

    def work(session: Any) -> dict[str, Any]:
        if table not in session.list_tables():
            raise build_not_found()
        return build_history_document(table, session.list_history(table)[-MAX_QUESTIONS:])

    house = get_app_state(request)
    async with house.room.hold_place(person.name):
        return await house.heavy.run_in_turn(person.name, person.analyst, work)


@router.put("/tables/{table}", status_code=200)
async def put_table(request: Request, table: str, body: TableBody, person: CurrentUser) -> Response:
    """Declare a table, or declare it anew. What was spent stays spent; no bound is ever guessed from its rows.

    With If-Match it replaces only that declaration, with If-None-Match: * none; 412 otherwise.
    ``changes`` says what each change means for what was charged before, as ``siloquent check`` does: the ledger's
    limits follow a new budget. Another unit, adjacency or accountant is 409 without ``new_epoch``, the owner's
    statement: "the budgets add up" if persons may have been in the table before, or "these are new people". It closes
    the old account for good and opens a new budget, and needs If-Match (428 otherwise).
    """
    require_table(person, table)
    written = await write_declaration(request, table, body.toml, Precondition.of(request), new_epoch=body.new_epoch)
    document = await build_table_reply(request, table, person)
    return JSONResponse({**document, "changes": build_change_entries(written.changes)}, headers={"ETag": written.tag})


@router.post("/tables/{table}/check")
async def check_table(request: Request, table: str, person: CurrentUser) -> dict[str, Any]:
    """Check a table's rows against its declaration, in exact counts: for its owner only."""
    return await check_rows(request, table, person, HTTP)


async def check_rows(request: Request, table: str, person: Principal, language: FixLanguage) -> dict[str, Any]:
    """Return the owner's check as a document of kind ``siloquent/check/1``, its fixes in ``language``."""
    require_table(person, table)

    def work(session: Any) -> dict[str, Any]:
        if table not in session.list_tables():
            raise build_not_found()
        return build_check_document([build_check_report(session, table, alone=False, language=language)])

    house = get_app_state(request)
    async with house.room.hold_place(person.name):
        return await house.rows.run_in_turn(person.name, None, work)


@router.post("/tables/{table}/refresh")
async def refresh_table(request: Request, table: str, body: RefreshBody, person: CurrentUser) -> dict[str, Any]:
    """Replace a table's rows with those of an uploaded file, which is checked first: for its owner only.

    Without ``source`` the table's own source holds the new rows already. What was spent stays spent.
    """
    require_table(person, table)
    return await refresh_rows(request, table, person, body.source, despite_findings=body.despite_findings)


@router.post("/uploads", status_code=201)
async def upload(request: Request, person: CurrentUser) -> Response:
    """Upload a data file to the workspace; its format is detected from its first bytes, and the server names it."""
    repeat = repeat_of(request, person)
    if repeat is not None and is_known(get_app_state(request).store, repeat):
        return JSONResponse(await _replay_upload(request, repeat), status_code=201, headers=REPLAYED)
    made, is_new = await take(request, request.stream(), repeat)
    return JSONResponse(made, status_code=201, headers=None if is_new else REPLAYED)


async def _replay_upload(request: Request, repeat: Repeat) -> dict[str, Any]:
    """Return the reply to the same upload: the bytes are read to compare them, and not kept.

    Raises:
        Refused: 409, the bytes differ.
    """
    seen = hashlib.sha256()
    async for chunk in request.stream():
        seen.update(chunk)
    found = find_reply(get_app_state(request).store, repeat, seen.digest())
    if found is None:
        raise build_not_found()  # deleted while it arrived
    return found


@router.get("/uploads")
async def list_uploads(request: Request, person: CurrentUser) -> dict[str, Any]:
    """The newest 100 files that were uploaded, each with the source that a table file names."""
    return build_upload_list_document(read_uploads(get_app_state(request)))


@router.delete("/uploads/{upload}", status_code=204)
async def delete_upload(request: Request, upload: str, person: CurrentUser) -> Response:
    """Delete an uploaded file that no table names."""
    house, folder = get_app_state(request), Path(request.app.state.folder)
    if house.store.fetch_one("SELECT id FROM upload WHERE id = ?", upload) is None:
        raise build_not_found()
    if await asyncio.to_thread(is_named, folder, upload):
        raise Refused(409, "conflict", "The file is in use as the source of a table.", fix="PUT /v1/tables/TABLE")
    await asyncio.to_thread(write_act, house.store, person, "delete_upload", upload)
    await asyncio.to_thread(remove_upload, folder, house.store, upload)
    return Response(status_code=204)


async def take(
    request: Request, chunks: AsyncIterator[bytes], repeat: Repeat | None = None
) -> tuple[dict[str, Any], bool]:
    """Write an upload atomically as it arrives; return its document, and whether it is new.

    Raises:
        Refused: 409, the key belongs to another request; 415, the file type is not supported; 422, as
            ``read_parquet_columns``.
    """
    house, folder = get_app_state(request), Path(request.app.state.folder) / "uploads"
    await asyncio.to_thread(folder.mkdir, mode=0o700, exist_ok=True)
    number = f"u-{secrets.token_hex(8)}"  # allowed: a name or a key, no noise
    building = folder / f".{number}"
    try:
        first, size, digest = await _write_chunks(building, chunks)
        form = detect_form(first)
        if form == "parquet":
            await read_parquet_columns(building)
        os.replace(building, folder / f"{number}.{form}")
    finally:
        building.unlink(missing_ok=True)
    source = f"{form}:uploads/{number}.{form}"
    made = build_upload_document(number, form, source, size)

    def write() -> None:
        with house.store.open_transaction() as db:
            db.execute("INSERT INTO upload VALUES (?, ?, ?, ?)", (number, form, size, int(time.time())))
            record(db, request.state.person, "upload", number)
            if repeat is not None:
                keep(db, repeat, digest, made)

    try:
        await asyncio.to_thread(write)
    except asyncio.CancelledError:  # the write continues: its file stays
        raise
    except BaseException as failed:  # allowed: a file that the store does not know is nobody's, and it is raised again
        (folder / f"{number}.{form}").unlink(missing_ok=True)
        earlier = find_reply(house.store, repeat, digest) if repeat and isinstance(failed, KeyTaken) else None
        if earlier is None:
            raise
        return earlier, False
    return made, True


async def _write_chunks(path: Path, chunks: AsyncIterator[bytes]) -> tuple[bytes, int, bytes]:
    """Write a new file beside the event loop; return its first bytes, its size and its SHA-256."""
    first, size, seen, pending = b"", 0, hashlib.sha256(), bytearray()
    file = await asyncio.to_thread(_create_private, path)
    try:
        async for chunk in chunks:
            first, size = (first + chunk)[:8], size + len(chunk)
            pending += chunk
            if len(pending) >= WRITTEN_BYTES:
                await asyncio.to_thread(_write_piece, file, seen, pending)
        await asyncio.to_thread(_write_piece, file, seen, pending)
        await asyncio.to_thread(os.fsync, file.fileno())
    finally:
        await asyncio.to_thread(file.close)
    return first, size, seen.digest()


def _create_private(path: Path) -> FileIO:
    return FileIO(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


def _write_piece(file: FileIO, seen: Any, pending: bytearray) -> None:
    """Write ``pending``, add it to the hash ``seen``, and empty it."""
    seen.update(pending)
    rest = memoryview(pending)
    while rest:  # a write to a disk that is almost full may take a part only
        rest = rest[file.write(rest) :]
    rest.release()
    pending.clear()


def read_uploads(house: AppState) -> list[dict[str, Any]]:
    """Return the uploaded files, newest first, each with the source that a table file names."""
    found = house.store.fetch_all("SELECT id, form, size, created FROM upload ORDER BY created DESC, id LIMIT 100")
    return [
        {
            **one,
            "source": f"{one['form']}:uploads/{one['id']}.{one['form']}",
            "created": time.strftime("%Y-%m-%d %H:%M", time.gmtime(one["created"])),
        }
        for one in found
    ]


def detect_form(first: bytes) -> str:
    """Return the type of a file that begins with ``first``.

    Raises:
        Refused: 415, the type is not supported.
    """
    if first.startswith(_PARQUET):
        return "parquet"
    if first and b"\x00" not in first and not first.startswith(_OTHERS):
        return "csv"
    raise Refused(
        415, "unsupported_media_type", "The file is neither CSV nor Parquet.", fix="send one of these, uncompressed"
    )
