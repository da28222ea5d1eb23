"""Pages for analysts: ask, see the price first, and start jobs."""

from __future__ import annotations

import asyncio
import re
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from siloquent.documents.ledger import parse_amount
from siloquent.explore.spec.answers.labels import parse_labels
from siloquent.explore.spec.answers.text import build_document_lines, describe_label, format_cells
from siloquent.foreign import load_json
from siloquent.server.access.scope import require_table
from siloquent.server.failures.problems import Refused
from siloquent.server.repeats import build_ledger_key, check_key
from siloquent.server.routes import answers, jobs, tables
from siloquent.server.state import get_app_state
from siloquent.server.web.pages import read_form, render, require_visitor

MAX_ROWS = 200
_ERROR = re.compile(r"\s+(ERROR|CONFIDENCE|BUDGET)\s+\S+", re.IGNORECASE)

router = APIRouter(include_in_schema=False)


@router.get("/")
async def start(request: Request) -> Response:
    person = require_visitor(request)
    if person.role != "analyst":
        return RedirectResponse("/budget", status_code=303)
    listed = await tables.list_tables(request, person)
    return render(request, "ask.html", person, tables=listed["tables"], fields={}, plan=None, answer=None)


@router.post("/ask")
async def ask(request: Request) -> Response:
    person, house, plan, answer = require_visitor(request, "analyst"), get_app_state(request), None, None
    fields = await read_form(request, person)
    sql = add_accuracy(fields.get("sql", ""), fields.get("error", ""), fields.get("confidence", ""))
    if fields.get("act") == "ask":
        key, most = fields.get("key", ""), fields.get("max_cost") or None
        check_key(key)
        document, replayed = await answers.build_answer(house, person, sql, key=key, max_cost=most)
        request.state.spent = None if replayed else answers.extract_spent(document)
        # Not on a thread that reads rows: this page has no slot, and would reveal how long others' answers took.
        drawn = await house.heavy.run_in_turn(
            person.name, person.analyst, lambda session: _draw_charts(session, person, sql, key, most)
        )
        answer = {
            **document,
            "free": replayed,
            "pictures": drawn,
            "paid": _format_paid(document["cost"]),
            **_format_answer(document),
        }
    else:
        plan = await answers.build_explanation(house, person, sql)
        plan["holds"] = describe_label(plan["label"], plan["sources"])
    known = (await tables.list_tables(request, person))["tables"]  # after the answer: the current remainder
    return render(request, "ask.html", person, tables=known, fields={"sql": "", **fields}, plan=plan, answer=answer)


def _format_answer(document: dict[str, Any]) -> dict[str, Any]:
    """Return the answer's headings, first rows and lines as in every interface, also for answers kept long ago."""
    labels = parse_labels(document.get("labels", ()))
    headings, rows = format_cells(document["columns"], document["rows"][:MAX_ROWS], labels=labels)
    return {"headings": headings, "shown": rows, "lines": build_document_lines(document)}


def _format_paid(cost: dict[str, str]) -> str:
    """Return the answer's charge in words; empty if it was free."""
    amounts = [f"{name} {cost[name]}" for name in ("rho", "epsilon", "delta") if name in cost]
    return ", ".join(amounts) if parse_amount(cost.get("rho", cost.get("epsilon"))) else ""


def _draw_charts(session: Any, person: Any, sql: str, key: str, most: str | None) -> list[str]:
    """Return the answer's charts: repeated with its key, the question is free and its answer the same."""
    from markupsafe import Markup

    found = session.ask(sql, key=build_ledger_key(person.name, key), max_cost=most)
    return [Markup(picture.svg()) for picture in found.pictures()]  # our own SVG, whose texts are escaped


def add_accuracy(sql: str, error: str, confidence: str) -> str:
    """Return the question with the form's accuracy fields added, unless it already has them.

    >>> add_accuracy("SELECT COUNT(*) FROM t", "100", "0.99")
    'SELECT COUNT(*) FROM t ERROR 100 CONFIDENCE 0.99'
    """
    sql = sql.strip().rstrip(";").strip()
    if _ERROR.search(sql) or not error.strip():
        return sql
    sure = f" CONFIDENCE {confidence.strip()}" if confidence.strip() else ""
    return f"{sql} ERROR {error.strip()}{sure}"


@router.get("/jobs")
async def list_jobs(request: Request) -> Response:
    person = require_visitor(request, "owner", "analyst")
    return render(request, "jobs.html", person, jobs=(await jobs.list_jobs(request, person))["jobs"])


@router.post("/jobs")
async def create_job(request: Request) -> Response:
    person = require_visitor(request, "analyst")
    fields = await read_form(request, person)
    try:
        spec = load_json(fields.get("spec", ""))
    except ValueError:
        raise Refused(422, "syntax", "The spec is not valid JSON.", fix='{"table": "vitals"}') from None
    if not isinstance(spec, dict):
        raise Refused(422, "syntax", "The spec must be a JSON object.", fix='{"table": "vitals"}')
    if isinstance(spec.get("table"), str):
        require_table(person, spec["table"])
    check_key(fields.get("key", ""))
    number, _ = await asyncio.to_thread(
        get_app_state(request).jobs.add,
        person,
        task=fields.get("task", ""),
        spec=spec,
        key=fields["key"],
        max_cost=fields.get("max_cost") or None,
    )
    return RedirectResponse(f"/jobs/{number}", status_code=303)


@router.get("/jobs/{job}")
async def show_job(request: Request, job: str) -> Response:
    person = require_visitor(request, "owner", "analyst")
    found = await jobs.get_job(get_app_state(request), job, person)
    ranked = ((found["result"] or {}).get("found") or {}).get("ranked", [])
    rows = [
        [one["offer"], _describe_addition(one), *(round(one[part], 3) for part in ("gain", "low", "high"))]
        for one in ranked
    ]
    return render(request, "job.html", person, job=found, ranked=rows[:MAX_ROWS])


def _describe_addition(one: dict[str, Any]) -> str:
    """Describe the addition of an offer briefly."""
    return f"rows of {one['table']}" if one["kind"] == "union" else f"{one['table']}.{one['feature']} by {one['key']}"


@router.post("/jobs/{job}/cancel")
async def cancel_job(request: Request, job: str) -> Response:
    person = require_visitor(request, "owner", "analyst")
    await read_form(request, person)
    jobs.row_of(get_app_state(request), job, person)
    await asyncio.to_thread(get_app_state(request).jobs.cancel, job, by=person)
    return RedirectResponse(f"/jobs/{job}", status_code=303)
