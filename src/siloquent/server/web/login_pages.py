"""Pages for access: log in, log out, help, and the owner's tokens."""

from __future__ import annotations

import asyncio
from functools import partial

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from siloquent.foreign.addresses import network_of
from siloquent.server.access.acts import build_recorder
from siloquent.server.access.guard import name_cookie, read_cookie
from siloquent.server.access.tokens import ROLES
from siloquent.server.state import get_app_state
from siloquent.server.web.pages import find_visitor, read_form, render, require_visitor, start_session

router = APIRouter(include_in_schema=False)


@router.get("/login")
async def login_form(request: Request) -> Response:
    return render(request, "login.html", None)


@router.get("/login/{secret}")
async def login_link(request: Request, secret: str) -> Response:
    # The link only shows a button, so that a client that prefetches links does not use it up.
    return render(request, "login.html", None, secret=secret)


@router.post("/login")
async def log_in(request: Request) -> Response:
    house, fields = get_app_state(request), await read_form(request, None)
    house.rates.take(f"login {network_of(request.client.host) if request.client else ''}")
    log_in = partial(house.tokens.log_in, fields.get("token", "").strip(), hours=house.settings.session_hours)
    return start_session(house, await asyncio.to_thread(log_in))


@router.post("/logout")
async def log_out(request: Request) -> Response:
    person, house = find_visitor(request), get_app_state(request)
    if person is not None:
        await read_form(request, person)
        await asyncio.to_thread(house.tokens.log_out, read_cookie(request))
    response = RedirectResponse("/login", status_code=303)
    response.delete_cookie(name_cookie(house), path="/", secure=house.settings.is_secure, samesite="strict")
    return response


@router.get("/help")
async def help_page(request: Request) -> Response:
    return render(request, "help.html", find_visitor(request))


@router.api_route("/tokens", methods=["GET", "POST"])
async def list_tokens(request: Request) -> Response:
    person, made, house = require_visitor(request, "owner"), "", get_app_state(request)
    if request.method == "POST":
        fields = await read_form(request, person)
        days, wanted = fields.get("days", "90"), fields.get("tables", "").replace(",", " ").split()
        known = await house.desk.run(None, lambda session: session.list_tables()) if wanted else None
        made = await asyncio.to_thread(
            house.tokens.create,
            fields.get("name", "").strip(),
            fields.get("role", ""),
            tables=tuple(wanted),
            days=int(days) if days.isascii() and days.isdigit() and len(days) < 5 else 0,
            known=known,
            also=build_recorder(person, "create_token"),
        )
    tokens = await asyncio.to_thread(house.tokens.list)
    return render(request, "tokens.html", person, tokens=tokens, made=made, roles=ROLES)


@router.post("/tokens/{token}/revoke")
async def revoke_token(request: Request, token: str) -> Response:
    person = require_visitor(request, "owner")
    await read_form(request, person)
    await asyncio.to_thread(get_app_state(request).tokens.revoke, token, also=build_recorder(person, "revoke_token"))
    return RedirectResponse("/tokens", status_code=303)
