"""Tokens: the owner's management of accounts."""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from siloquent.documents.server import build_token_list_document
from siloquent.server.access.acts import build_recorder, record
from siloquent.server.access.guard import CurrentUser, GuardedRoute
from siloquent.server.failures.problems import Refused, build_not_found
from siloquent.server.repeats import KeyTaken, Repeat, find_reply, keep, repeat_of
from siloquent.server.routes.bodies import TokenBody
from siloquent.server.state import AppState, get_app_state

router = APIRouter(route_class=GuardedRoute)
MAX_LISTED = 1_000


@router.post("/tokens", status_code=201)
async def create_token(request: Request, body: TokenBody, person: CurrentUser) -> Response:
    """Create a token. Its text is only in this response: a repeat with the same key is refused."""
    house, repeat = get_app_state(request), repeat_of(request, person)
    sent = hashlib.sha256(body.model_dump_json().encode()).digest()
    if repeat is not None:
        _refuse_known(house, repeat, sent)
    known = await house.desk.run(None, lambda session: session.list_tables()) if body.tables else None

    def also(db: sqlite3.Connection, number: str) -> None:
        record(db, person, "create_token", number)
        if repeat is not None:
            keep(db, repeat, sent, {"id": number})

    def create() -> str:
        return house.tokens.create(
            body.name, body.role, tables=tuple(body.tables), days=body.days, known=known, also=also
        )

    try:
        text = await asyncio.to_thread(create)
    except KeyTaken:
        assert repeat is not None, "a key that was taken is there"
        _refuse_known(house, repeat, sent)
        raise
    return JSONResponse(house.tokens.document(text), status_code=201)


def _refuse_known(house: AppState, repeat: Repeat, sent: bytes) -> None:
    """Refuse a key that created a token: the text was shown once, and the server does not have it.

    Raises:
        Refused: 409.
    """
    made = find_reply(house.store, repeat, sent)
    if made is None:
        return
    raise Refused(
        409, "already_made", f"This key made the token {made['id']}, whose text was shown once and is kept nowhere.",
        fix=f"if that text did not arrive: DELETE /v1/tokens/{made['id']}, then POST /v1/tokens with a new key",
    )  # fmt: skip


@router.get("/tokens")
async def list_tokens(
    request: Request,
    person: CurrentUser,
    limit: Annotated[int, Query(ge=1, le=MAX_LISTED)] = MAX_LISTED,
    after: Annotated[str | None, Query(max_length=64)] = None,
) -> dict[str, Any]:
    """Tokens without their secrets, oldest first, made after token ``after`` if it is named."""
    found = await asyncio.to_thread(get_app_state(request).tokens.list)
    ids = [one["id"] for one in found]
    if after is not None and after not in ids:
        raise build_not_found()
    begin = ids.index(after) + 1 if after is not None else 0
    return build_token_list_document(found[begin : begin + limit])


@router.delete("/tokens/{token}", status_code=204)
async def revoke_token(request: Request, token: str, person: CurrentUser) -> Response:
    """End a token, and the browser sessions that it opened, at once."""
    revoke = get_app_state(request).tokens.revoke
    await asyncio.to_thread(revoke, token, also=build_recorder(person, "revoke_token"))
    return Response(status_code=204)
