"""Tokens: the owner's accounts for people."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from siloquent.server.guard import Guarded, Who, house_of
from siloquent.server.problems import not_found
from siloquent.server.routes.bodies import TokenBody

router = APIRouter(route_class=Guarded)
MAX_LISTED = 1_000


@router.post("/tokens", status_code=201)
async def create_token(request: Request, body: TokenBody, person: Who) -> Response:
    """A token for somebody. Its text is in this answer and nowhere else."""
    house = house_of(request)
    known = await house.desk.run(None, lambda session: session.tables()) if body.tables else None
    text = house.tokens.create(body.name, body.role, tables=tuple(body.tables), days=body.days, known=known)
    return JSONResponse(house.tokens.document(text), status_code=201)


@router.get("/tokens")
async def list_tokens(
    request: Request,
    person: Who,
    limit: Annotated[int, Query(ge=1, le=MAX_LISTED)] = MAX_LISTED,
    after: Annotated[str | None, Query(max_length=64)] = None,
) -> dict[str, Any]:
    """Tokens without their secrets, oldest first, made after token ``after`` if it is named."""
    found = house_of(request).tokens.list()
    ids = [one["id"] for one in found]
    if after is not None and after not in ids:
        raise not_found()
    begin = ids.index(after) + 1 if after is not None else 0
    return {"schema": "siloquent/token-list/1", "tokens": found[begin : begin + limit]}


@router.delete("/tokens/{token}", status_code=204)
async def revoke_token(request: Request, token: str, person: Who) -> Response:
    """End a token, and the browser sessions that it opened, at once."""
    house_of(request).tokens.revoke(token)
    return Response(status_code=204)
