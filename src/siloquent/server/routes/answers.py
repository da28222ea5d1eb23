"""Routes that explain and answer questions: the price first, then the answer at its slot."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from siloquent.documents.releases import build_answer_document
from siloquent.errors import ReleaseError, SiloquentError
from siloquent.explore.answered_rows import build_rows_entry
from siloquent.schema import AccuracyDefaults
from siloquent.server.access.guard import CurrentUser, GuardedRoute, require_open
from siloquent.server.access.scope import require_declared
from siloquent.server.access.tokens import Principal
from siloquent.server.failures.problems import PERHAPS, Refused
from siloquent.server.repeats import REPLAYED, build_ledger_key, key_reused, read_key
from siloquent.server.routes.bodies import AnswerBody, QuestionBody
from siloquent.server.state import AppState, get_app_state
from siloquent.server.store import ADD_RELEASE

router = APIRouter(route_class=GuardedRoute)
SMALL_CELLS = 10_000


@router.post("/explanations")
async def explain(request: Request, body: QuestionBody, person: CurrentUser) -> dict[str, Any]:
    """Explain a question: its price, its mechanism, and what would be left. Does not read data; free."""
    found: dict[str, Any] = await build_explanation(
        get_app_state(request), person, body.sql, defaults=body.build_defaults()
    )
    return found


@router.post("/answers")
async def answer(request: Request, body: AnswerBody, person: CurrentUser) -> Response:
    """The answer, charged to the analyst's account; the same key and body return the same bytes at no cost."""
    house, key = get_app_state(request), read_key(request)
    document, replayed = await build_answer(
        house, person, body.sql, key=key, max_cost=body.max_cost, defaults=body.build_defaults()
    )
    request.state.spent = None if replayed else extract_spent(document)
    return JSONResponse(document, headers=REPLAYED if replayed else None)


async def build_explanation(
    house: AppState, person: Principal, sql: str, *, defaults: AccuracyDefaults | None = None
) -> dict[str, Any]:
    """Return the explanation of ``sql`` for ``person``, as a document."""
    _check_text(house, sql)
    async with house.room.hold_place(person.name):
        return await house.planners.price_question(person, sql, defaults=defaults)


async def build_answer(
    house: AppState,
    person: Principal,
    sql: str,
    *,
    key: str,
    max_cost: str | None,
    defaults: AccuracyDefaults | None = None,
) -> tuple[dict[str, Any], bool]:
    """Return the answer's document, and whether it was given before.

    Raises:
        Refused: the key was used for something else, too many answers are running, or it takes too long.
    """
    # A token for fewer tables must not read answers given to another token of the same name.
    told = [] if defaults is None else [defaults.to_dict()]
    body = _digest([sql, max_cost, person.tables, *told])
    if kept := _find_reply(house, person, key, body, older=_digest([sql, max_cost])):
        return await house.desk.run(None, lambda session: _tell_rows(session, kept)), True
    _check_text(house, sql)

    async with house.room.hold_place(person.name):
        # Planned under limits, and once: a question too large to plan never reaches a thread that reads rows.
        ledger_key = build_ledger_key(person.name, key)
        explanation, plan = await house.planners.plan_question(person, sql, key=ledger_key, defaults=defaults)

        def work(session: Any) -> dict[str, Any]:
            from siloquent.explore import answer_planned

            require_declared(session, person, plan.course.query.table)
            require_open(house, person)
            found = answer_planned(session, plan, key=ledger_key, max_cost=max_cost)
            _save_reply(house, session, person, found)
            return _tell_rows(session, build_answer_document(found, key, replayed=False))

        document = await _run_in_slot(house, person, _compute_slot_length(house, explanation), work)
        # The answer is in the ledger: if the store is locked or full, its key still finds it.
        with suppress(sqlite3.Error):
            await asyncio.to_thread(
                house.store.write,
                "INSERT OR IGNORE INTO reply (name, key, body, document, created) VALUES (?, ?, ?, ?, ?)",
                *(person.name, key, body, json.dumps(document), int(time.time())),
            )
        with suppress(sqlite3.Error):  # of two at once, both get what was kept first
            return _find_reply(house, person, key, body) or document, False
    return document, False


def _tell_rows(session: Any, document: dict[str, Any]) -> dict[str, Any]:
    """Return an answer's document with which rows it is about, as of now: they may have been replaced since."""
    told, plain = None, {name: value for name, value in document.items() if name != "about_rows"}
    with suppress(SiloquentError):  # the table is no longer declared, so the answer says nothing more
        told = build_rows_entry(
            session, document["cost"]["account"], document["receipt"]["seq"], table=document["table"]
        )
    return plain if told is None else {**plain, "about_rows": told}


async def _run_in_slot(
    house: AppState, person: Principal, length_ms: int, work: Callable[[Any], dict[str, Any]]
) -> dict[str, Any]:
    async with house.slots.hold_slot() as slot:
        slot.length_ms = length_ms
        try:
            return await asyncio.wait_for(
                house.rows.run_in_turn(person.name, person.analyst, work), timeout=house.settings.answer_seconds
            )
        except TimeoutError:
            raise Refused(
                503, "too_slow", "The answer exceeded this server's time limit; its charge stands.",
                fix="send the same request with the same key again: it costs no more", spent=PERHAPS,
                headers={"Retry-After": "30"},
            ) from None  # fmt: skip


def _compute_slot_length(house: AppState, plan: dict[str, Any]) -> int:
    small = plan.get("cells", SMALL_CELLS + 1) <= SMALL_CELLS and plan.get("unit") == "rows"
    return house.settings.slot_counts_ms if small else house.settings.slot_answers_ms


def extract_spent(document: dict[str, Any]) -> dict[str, str]:
    """Return the cost of an answer for the log: the account and the amount, no value."""
    return {name: amount for name, amount in document["cost"].items() if name != "left"}


def _digest(request: list[Any]) -> bytes:
    return hashlib.sha256(json.dumps(request).encode()).digest()


def _find_reply(
    house: AppState, person: Principal, key: str, body: bytes, *, older: bytes = b""
) -> dict[str, Any] | None:
    """Return the reply stored under the key; ``older`` is the request as the earliest servers stored it."""
    row = house.store.fetch_one("SELECT body, document FROM reply WHERE name = ? AND key = ?", person.name, key)
    if row is None:
        return None
    found: dict[str, Any] = json.loads(row["document"])
    is_older = bytes(row["body"]) == older and person.may_see(found["table"])
    if bytes(row["body"]) != body and not is_older:
        raise key_reused()
    return found


def _save_reply(house: AppState, session: Any, person: Principal, found: Any) -> None:
    try:
        session.save(found)
    except ReleaseError:
        return  # the answer is in the ledger; a repeat with its key writes it when there is room
    with suppress(sqlite3.Error):  # the manifest shows it to the owner, with the account that paid
        house.store.write(ADD_RELEASE, found.id, person.name, int(time.time()))


def _check_text(house: AppState, sql: str) -> None:
    most = house.settings.text_bytes
    if len(sql.encode("utf-8", "replace")) > most:
        raise Refused(
            413, "text_too_long", f"The query is too long: the limit is {most} bytes.", fix="ask for less at once"
        )
