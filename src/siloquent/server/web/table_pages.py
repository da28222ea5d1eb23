"""Pages about tables: declarations, and the owner's work on them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from siloquent.errors import SiloquentError
from siloquent.server.access.scope import require_table
from siloquent.server.access.tokens import Principal
from siloquent.server.declaring import Precondition, tag_of, write_declaration
from siloquent.server.fixes import PAGE
from siloquent.server.keeper import is_named, remove_upload
from siloquent.server.problems import Refused, build_not_found
from siloquent.server.refreshing import refresh_rows
from siloquent.server.routes import tables
from siloquent.server.state import get_app_state
from siloquent.server.web.pages import read_form, render, require_visitor
from siloquent.server.web.uploading import take_file

MAX_ASKED = 20

router = APIRouter(include_in_schema=False)


@router.get("/tables")
async def list_tables(request: Request) -> Response:
    person = require_visitor(request)
    listed = await tables.list_tables(request, person)
    return render(request, "tables.html", person, tables=listed["tables"])


@router.api_route("/declare/file", methods=["GET", "POST"])
async def declare_table(request: Request) -> Response:
    person = require_visitor(request, "owner")
    if request.method == "GET":
        return render(request, "declare.html", person, toml="", name="", tag="", problem=None)
    fields = await read_form(request, person)
    return await _declare_table(request, person, fields.get("name", "").strip(), fields.get("toml", ""))


@router.api_route("/tables/{table}/edit", methods=["GET", "POST"])
async def edit_table(request: Request, table: str) -> Response:
    person = require_visitor(request, "owner")
    require_table(person, table)
    file = Path(request.app.state.folder) / "schemas" / f"{table}.toml"
    if request.method == "POST":
        fields = await read_form(request, person)
        return await _declare_table(request, person, table, fields.get("toml", ""), fields.get("tag", ""))
    if table not in (await get_app_state(request).desk.run(None, lambda session: session.list_tables())):
        raise build_not_found()
    tag = tag_of(file.parent.parent, table)
    return render(request, "declare.html", person, toml=file.read_text("utf-8"), name=table, tag=tag, problem=None)


async def _declare_table(request: Request, person: Principal, name: str, toml: str, tag: str = "") -> Response:
    """Write a form's declaration; ``tag`` is that of the declaration it was made from, which must still be current."""
    try:
        await write_declaration(request, name, toml.replace("\r\n", "\n"), Precondition(match=tag or None))
    except (SiloquentError, Refused) as wrong:
        if not isinstance(wrong, SiloquentError):
            if wrong.problem.http_status != 412:
                raise
            tag = ""  # an owner who has read it and saves again overwrites another owner's text
        problem = wrong if isinstance(wrong, SiloquentError) else wrong.problem
        return render(request, "declare.html", person, status=422, toml=toml, name=name, tag=tag, problem=problem)
    return RedirectResponse(f"/tables/{name}", status_code=303)


@router.get("/tables/{table}")
async def show_table(request: Request, table: str) -> Response:
    person = require_visitor(request)
    shown = await tables.build_table_reply(request, table, person)
    asked = (await tables.table_history(request, table, person))["questions"][-MAX_ASKED:][::-1]
    return _render_table(request, person, shown, asked=asked)


def _render_table(
    request: Request, person: Principal, table: dict[str, Any] | None, *, status: int = 200, **values: Any
) -> Response:
    """Return a table's page; ``values``: the card that tells what was just done."""
    plain: dict[str, Any] = {"report": None, "refreshed": None, "problem": None, "new_rows": None, "asked": []}
    return render(request, "table.html", person, status=status, table=table, **{**plain, **values})


@router.post("/tables/{table}/refresh")
async def refresh_table(request: Request, table: str) -> Response:
    """Take new rows from a file of the form, from an earlier one despite its findings, or as the source holds them."""
    person = require_visitor(request, "owner")
    require_table(person, table)
    made, fields = await take_file(request, person)
    source = made["source"] if made else fields.get("source") or None
    if made is None and source is None and fields.get("act") != "in place":
        raise Refused(422, "request_unreadable", "No file was selected.", fix="select a CSV or Parquet file")
    if fields.get("act") == "discard":
        await asyncio.to_thread(_discard, request, source)
        return RedirectResponse(f"/tables/{table}", status_code=303)
    told: dict[str, Any] = {}
    try:
        despite = fields.get("act") == "despite findings"
        told["refreshed"] = await refresh_rows(request, table, person, source, despite_findings=despite)
    except (SiloquentError, Refused) as wrong:
        told = {"problem": wrong.problem if isinstance(wrong, Refused) else wrong, "new_rows": source, "status": 422}
    else:
        await asyncio.to_thread(_discard, request, source)  # the table has its own copy
    return _render_table(request, person, await tables.build_table_reply(request, table, person), **told)


def _discard(request: Request, source: str | None) -> None:
    """Delete the upload that a form made for new rows, unless a table names it."""
    house, folder = get_app_state(request), Path(request.app.state.folder)
    known = next((one["id"] for one in tables.read_uploads(house) if one["source"] == source), None)
    if known is not None and not is_named(folder, known):
        remove_upload(folder, house.store, known)


@router.post("/tables/{table}/check")
async def check_table(request: Request, table: str) -> Response:
    person = require_visitor(request, "owner")
    await read_form(request, person)
    report = (await tables.check_rows(request, table, person, PAGE))["tables"][0]
    try:
        shown = await tables.build_table_reply(request, table, person)
    except SiloquentError:
        shown = None
    return _render_table(request, person, shown, report=report)
