"""Tables: what is declared, what is left, and the owner's own work on them."""

from __future__ import annotations

import asyncio
import os
import re
import secrets  # allowed: file names, no noise
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from siloquent.documents.money import account_document, exact
from siloquent.documents.tables import check_report, table_document, table_line
from siloquent.errors import SchemaError
from siloquent.server.arrived import parquet_columns
from siloquent.server.guard import Guarded, House, Who, house_of, require_table
from siloquent.server.keeper import is_named, remove_upload
from siloquent.server.problems import Refused, not_found
from siloquent.server.routes.bodies import TableBody

router = APIRouter(route_class=Guarded)
_TABLE = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,62}")
MOST_QUESTIONS = 1_000
_PARQUET = b"PAR1"
_FILES = ("csv", "csv-records", "parquet", "duckdb")
_OTHERS = (b"PK", b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ", b"BZh", b"7z\xbc\xaf", b"\x7fELF", b"%PDF", b"ARROW1")


@router.get("/me")
async def me(request: Request, person: Who) -> dict[str, Any]:
    """Who the token is for, what it may do, and on which tables."""
    return {
        "schema": "siloquent/person/1",
        "name": person.name,
        "role": person.role,
        "tables": list(person.tables),
        "expires": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(person.expires)),
    }


@router.get("/tables")
async def list_tables(request: Request, person: Who) -> dict[str, Any]:
    """The declared tables that the token is for, and what is left of their budgets."""

    def work(session: Any) -> list[dict[str, Any]]:
        return [table_line(session, name) for name in session.tables() if person.may_see(name)]

    return {"schema": "siloquent/table-list/1", "tables": await house_of(request).desk.run(person.analyst, work)}


@router.get("/tables/{table}")
async def show_table(request: Request, table: str, person: Who) -> dict[str, Any]:
    """What is declared about a table: attributes, unit, constraints, budget. No row is read."""
    require_table(person, table)

    def work(session: Any) -> dict[str, Any]:
        if table not in session.tables():
            raise not_found()
        schema, account = session.schema(table), session.account(table)
        left = exact(account, session.left(table).amount)
        return table_document(schema, {**account_document(account), "left": left})

    return await house_of(request).desk.run(person.analyst, work)


@router.get("/tables/{table}/history")
async def table_history(request: Request, table: str, person: Who) -> dict[str, Any]:
    """The newest 1,000 questions asked of a table, oldest first, as far as the person may see them."""
    require_table(person, table)

    def work(session: Any) -> list[dict[str, Any]]:
        from siloquent.explore import history

        if table not in session.tables():
            raise not_found()
        return [one.to_json() for one in history(session, table)[-MOST_QUESTIONS:]]

    house = house_of(request)
    async with house.room.place(person.token):
        questions = await house.heavy.run_in_turn(person.name, person.analyst, work)
    return {"schema": "siloquent/history/1", "table": table, "questions": questions}


@router.put("/tables/{table}", status_code=200)
async def put_table(request: Request, table: str, body: TableBody, person: Who) -> dict[str, Any]:
    """Declare a table, or declare it anew. What was spent stays spent; no bound is ever guessed from its rows."""
    require_table(person, table)
    await declared(request, table, body.toml)
    return await show_table(request, table, person)


async def declared(request: Request, table: str, toml: str) -> None:
    """Write a table file, if the ledger can go on with it.

    Raises:
        Refused: 409, the account was opened for another unit, adjacency or accountant; SchemaError: it cannot be read.
    """
    from siloquent.schema.build import parse_schema

    schema = parse_schema(toml)

    def work(session: Any) -> bool:
        known = [one for one in session.ledger.accounts() if one.name == schema.account]
        ours = (schema.budget.accountant, schema.unit.code, schema.adjacency)
        return all((one.accountant, one.unit, one.adjacency) == ours for one in known)

    require_source(house_of(request).settings.sources, schema.source, Path(request.app.state.folder), table)
    if not await house_of(request).desk.run(None, work):
        detail = "What was spent on this table was counted for another unit, adjacency or accountant."
        raise Refused(409, "conflict", detail, fix=f"siloquent epoch open {table}")
    declare(Path(request.app.state.folder), table, toml)


def require_source(allowed: tuple[str, ...], source: str, folder: Path, table: str) -> None:
    """Refuse a source outside of what ``[server] sources`` names, unless the table's file names it already.

    An owner of tables is not the host's administrator: over HTTP no file of the machine is within reach.

    Raises:
        Refused: 422.
    """
    if not source or any(_is_within(source, one) for one in allowed) or source == _source_now(folder, table):
        return
    raise Refused(
        422,
        "source_not_allowed",
        f"Over HTTP a table's source is in one of these places: {', '.join(allowed)}.",
        fix="POST /v1/uploads, or the administrator adds a place: sources = [..] under [server] in siloquent.toml",
    )


def _is_within(source: str, place: str) -> bool:
    kind, _, where = source.partition(":")
    if ":" in place:
        return source == place or source.startswith(place if place.endswith(":") else (f"{place}#", f"{place}."))
    parts = where.split("#")[0].split("/")
    is_plain = kind in _FILES and not {"", ".", ".."} & set(parts)
    return is_plain and where.startswith(place)


def _source_now(folder: Path, table: str) -> str | None:
    """The source in the table's file, which somebody on this machine may have written."""
    from siloquent.schema.build import parse_schema

    if not _TABLE.fullmatch(table):
        return None
    with suppress(OSError, SchemaError, UnicodeDecodeError):
        return parse_schema((folder / "schemas" / f"{table}.toml").read_text("utf-8")).source
    return None


def declare(folder: Path, table: str, toml: str) -> None:
    """Write a table file that can be read, whole or not at all.

    Raises:
        SchemaError: the text declares no table of that name.
    """
    from siloquent.schema.build import parse_schema

    if not _TABLE.fullmatch(table):
        raise SchemaError("A table's name is 1 to 63 letters, digits and '_', a letter first.", fix='name = "visits"')
    if parse_schema(toml).name != table:
        raise SchemaError(f"The text declares another table than {table!r}.", fix=f'name = "{table}"')
    building = folder / "schemas" / f".{table}.{secrets.token_hex(4)}"  # allowed: a name or a key, no noise
    building.write_text(toml, encoding="utf-8")
    os.replace(building, folder / "schemas" / f"{table}.toml")


@router.post("/tables/{table}/check")
async def check_table(request: Request, table: str, person: Who) -> dict[str, Any]:
    """What is wrong with a table's rows, in exact counts: for its owner's eyes only."""
    require_table(person, table)

    def work(session: Any) -> dict[str, Any]:
        if table not in session.tables():
            raise not_found()
        report = check_report(session, table, alone=False)
        return {"schema": "siloquent/check/1", "clean": report["clean"], "tables": [report]}

    house = house_of(request)
    async with house.room.place(person.token):
        return await house.rows.run_in_turn(person.name, None, work)


@router.post("/uploads", status_code=201)
async def upload(request: Request, person: Who) -> Response:
    """Take a data file into the workspace, as it arrives; its kind is read off its first bytes, its name is ours."""
    return JSONResponse(await kept(request, request.stream()), status_code=201)


@router.get("/uploads")
async def list_uploads(request: Request, person: Who) -> dict[str, Any]:
    """The newest 100 files that were uploaded, each with the source that a table file names."""
    return {"schema": "siloquent/upload-list/1", "uploads": uploads(house_of(request))}


@router.delete("/uploads/{upload}", status_code=204)
async def delete_upload(request: Request, upload: str, person: Who) -> Response:
    """Delete an uploaded file that no table names."""
    house, folder = house_of(request), Path(request.app.state.folder)
    if house.store.one("SELECT id FROM upload WHERE id = ?", upload) is None:
        raise not_found()
    if await asyncio.to_thread(is_named, folder, upload):
        raise Refused(409, "conflict", "A table names this file as its source.", fix="PUT /v1/tables/TABLE")
    await asyncio.to_thread(remove_upload, folder, house.store, upload)
    return Response(status_code=204)


async def kept(request: Request, chunks: AsyncIterator[bytes]) -> dict[str, Any]:
    """Write an upload as it arrives, whole or not at all; its document.

    Raises:
        Refused: 415, it is of no kind that is read here; 422, as ``parquet_columns``.
    """
    house, folder = house_of(request), Path(request.app.state.folder) / "uploads"
    folder.mkdir(mode=0o700, exist_ok=True)
    number = f"u-{secrets.token_hex(8)}"  # allowed: a name or a key, no noise
    building, first, size = folder / f".{number}", b"", 0
    try:
        with os.fdopen(os.open(building, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            async for chunk in chunks:
                first = (first + chunk)[:8]
                size += len(chunk)
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
        form = form_of(first)
        if form == "parquet":
            await parquet_columns(building)
        os.replace(building, folder / f"{number}.{form}")
    finally:
        building.unlink(missing_ok=True)
    house.store.write("INSERT INTO upload VALUES (?, ?, ?, ?)", number, form, size, int(time.time()))
    made = {"schema": "siloquent/upload/1", "id": number, "format": form, "source": f"{form}:uploads/{number}.{form}"}
    return {**made, "bytes": size}


def uploads(house: House) -> list[dict[str, Any]]:
    """The files that were uploaded, newest first, each with the source that a table file names."""
    found = house.store.all("SELECT id, form, size, created FROM upload ORDER BY created DESC, id LIMIT 100")
    return [
        {
            **one,
            "source": f"{one['form']}:uploads/{one['id']}.{one['form']}",
            "created": time.strftime("%Y-%m-%d %H:%M", time.gmtime(one["created"])),
        }
        for one in found
    ]


def form_of(first: bytes) -> str:
    """The kind of file that begins with ``first``.

    Raises:
        Refused: 415, no kind that is read here.
    """
    if first.startswith(_PARQUET):
        return "parquet"
    if first and b"\x00" not in first and not first.startswith(_OTHERS):
        return "csv"
    raise Refused(415, "unsupported_media_type", "This is no CSV or Parquet file.", fix="send one of them, as it is")
