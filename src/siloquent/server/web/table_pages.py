"""Pages about tables: declarations, and the owner's work on them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from siloquent.documents.tables import build_change_entries
from siloquent.errors import RequestError, SiloquentError
from siloquent.ledger.rules import ADDS_UP, NEW_PEOPLE
from siloquent.server.access.acts import write_act
from siloquent.server.access.scope import require_table
from siloquent.server.access.tokens import Principal
from siloquent.server.failures.fixes import PAGE
from siloquent.server.failures.problems import Refused, build_not_found
from siloquent.server.keeper import is_named, remove_upload
from siloquent.server.repeats import check_key
from siloquent.server.routes import tables
from siloquent.server.state import get_app_state
from siloquent.server.tables.declaring import EpochNeeded, Precondition, tag_of, write_declaration
from siloquent.server.tables.refreshing import refresh_rows
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
        return _render_declaration(request, person, "", "")
    fields = await read_form(request, person)
    return await _declare_table(request, person, fields.get("name", "").strip(), fields)


@router.api_route("/tables/{table}/edit", methods=["GET", "POST"])
async def edit_table(request: Request, table: str) -> Response:
    person = require_visitor(request, "owner")
    require_table(person, table)
    file = Path(request.app.state.folder) / "schemas" / f"{table}.toml"
    if request.method == "POST":
        fields = await read_form(request, person)
        return await _declare_table(request, person, table, fields)
    if table not in (await get_app_state(request).desk.run(None, lambda session: session.list_tables())):
        raise build_not_found()
    tag = await asyncio.to_thread(tag_of, file.parent.parent, table)  # a tag older than its text is safe
    text = await asyncio.to_thread(file.read_text, "utf-8")
    return _render_declaration(request, person, table, text, tag=tag)


def _render_declaration(
    request: Request, person: Principal, name: str, toml: str, *, status: int = 200, **values: Any
) -> Response:
    """Return the form for a table file; ``tag``: of the declaration that it was made from."""
    told = {"tag": "", "problem": None, "epoch": False, "statements": (ADDS_UP, NEW_PEOPLE), **values}
    return render(request, "declare.html", person, status=status, toml=toml, name=name, **told)


async def _declare_table(request: Request, person: Principal, name: str, fields: Mapping[str, str]) -> Response:
    """Write a form's declaration; its tag is that of the declaration it was made from, which must still be current."""
    toml, tag = fields.get("toml", "").replace("\r\n", "\n"), fields.get("tag", "")
    told: dict[str, Any] = {"status": 422}
    try:
        statement = fields.get("new_epoch") or None
        written = await write_declaration(request, name, toml, Precondition(match=tag or None), new_epoch=statement)
    except EpochNeeded as wrong:
        told |= {"problem": wrong.problem, "epoch": True, "tag": tag or wrong.tag, "status": 409}
    except Refused as wrong:
        if wrong.problem.http_status != 412:
            raise
        told |= {"problem": wrong.problem}  # an owner who has read it and saves again overwrites another owner's text
    except SiloquentError as wrong:
        told |= {"problem": wrong, "tag": tag}
    else:
        if not written.changes:
            return RedirectResponse(f"/tables/{name}", status_code=303)
        shown = await tables.build_table_reply(request, name, person)
        return _render_table(request, person, shown, changes=build_change_entries(written.changes))
    return _render_declaration(request, person, name, toml, **told)


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
    plain: dict[str, Any] = {
        "changes": None,
        "report": None,
        "refreshed": None,
        "problem": None,
        "new_rows": None,
        "asked": [],
    }
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
        await asyncio.to_thread(_discard, request, person, source)
        return RedirectResponse(f"/tables/{table}", status_code=303)
    told: dict[str, Any] = {}
    try:
        despite = fields.get("act") == "despite findings"
        told["refreshed"] = await refresh_rows(request, table, person, source, despite_findings=despite)
    except (SiloquentError, Refused) as wrong:
        told = {"problem": wrong.problem if isinstance(wrong, Refused) else wrong, "new_rows": source, "status": 422}
    else:
        await asyncio.to_thread(_discard, request, person, source)  # the table has its own copy
    return _render_table(request, person, await tables.build_table_reply(request, table, person), **told)


def _discard(request: Request, person: Principal, source: str | None) -> None:
    """Delete the upload that a form made for new rows, unless a table names it."""
    house, folder = get_app_state(request), Path(request.app.state.folder)
    known = next((one["id"] for one in tables.read_uploads(house) if one["source"] == source), None)
    if known is not None and not is_named(folder, known):
        write_act(house.store, person, "delete_upload", known)
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


@router.api_route("/tables/{table}/discover", methods=["GET", "POST"])
async def discover(request: Request, table: str) -> Response:
    """The price of a discovery first, then the job that makes it."""
    person = require_visitor(request, "owner", "analyst")
    shown = await tables.build_table_reply(request, table, person)
    told: dict[str, Any] = {"plan": None, "problem": None, "fields": {}}
    if request.method == "POST":
        fields = told["fields"] = await read_form(request, person)
        try:
            spec = compose_discovery(table, fields)
            house = get_app_state(request)
            if fields.get("act") == "discover":
                key, most = fields.get("key", ""), fields.get("max_cost") or None
                check_key(key)
                number, _ = await asyncio.to_thread(
                    house.jobs.add, person, task="discover", spec=spec, key=key, max_cost=most
                )
                return RedirectResponse(f"/jobs/{number}", status_code=303)
            async with house.room.hold_place(person.name):
                told["plan"] = await house.planners.price_job(person, "discover", spec)
        except SiloquentError as wrong:
            told |= {"problem": wrong, "status": 422}
    columns = [one for one in shown["attributes"] if one["type"] not in ("id", "boolean")]
    chosen = told["fields"].get("column") or request.query_params.get("column", "")
    return render(request, "discover.html", person, table=shown, columns=columns, chosen=chosen, **told)


def compose_discovery(table: str, fields: Mapping[str, str]) -> dict[str, Any]:
    """Return the spec of a form's discovery; what is left empty takes its default.

    >>> compose_discovery("visits", {"column": "note", "epsilon": "0.2", "at_least": "20", "name": " "})
    {'table': 'visits', 'column': 'note', 'budget': {'epsilon': '0.2'}, 'at_least': 20}

    Raises:
        RequestError: a number of persons or values is not a whole number.
    """
    said = {key: text for key, value in fields.items() if (text := value.strip())}
    spec: dict[str, Any] = {"table": table, "column": said.get("column", "")}
    spec["budget"] = {"epsilon": said.get("epsilon", "")}
    for key in ("at_least", "keys_each"):
        if key in said:
            if not (said[key].isascii() and said[key].isdigit() and len(said[key]) < 12):
                raise RequestError(f"{key.replace('_', ' ')} must be a whole number, not {said[key][:40]!r}.", fix="20")
            spec[key] = int(said[key])
    return spec | {key: said[key] for key in ("delta", "name") if key in said}
