"""Authentication, authorization and rate limiting of API requests, before their bodies are read."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import Depends
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from siloquent.server.access.roles import ROUTES
from siloquent.server.access.tokens import Principal
from siloquent.server.failures.problems import Refused
from siloquent.server.state import AppState, get_app_state

COOKIE = "siloquent"
SAFE = ("GET", "HEAD")


def find_person(request: Request) -> Principal | None:
    """Return the sender of the request, by token or by a page's cookie with its proof against forged forms."""
    house, heads = get_app_state(request), request.headers.getlist("authorization")
    if heads:
        kind, _, text = heads[0].partition(" ")
        is_one = len(heads) == 1 and kind.lower() == "bearer"  # of two, a proxy may have looked at the other
        return house.tokens.find_by_text(text.strip()) if is_one else None
    cookie = read_cookie(request)
    return house.tokens.find_by_cookie(cookie) if cookie else None


def name_cookie(house: AppState) -> str:
    """Return the name of a session's cookie; over TLS one that no other host of the domain can set."""
    return f"__Host-{COOKIE}" if house.settings.is_secure else COOKIE


def read_cookie(request: Request) -> str:
    """Return the cookie of the request's session; empty if there is none."""
    return request.cookies.get(name_cookie(get_app_state(request)), "")


def guard(request: Request) -> Principal:
    """Return the sender of an API request, if the route is allowed for the sender's role.

    Raises:
        Refused: 401 no valid token, 403 wrong role or a forged form, 429 too many requests.
    """
    person = find_person(request)
    route = request.scope["route"].name
    roles = " or ".join(sorted(ROUTES.get(route, frozenset())))
    if person is None:
        raise _build_unauthorised(roles)
    rates = get_app_state(request).rates
    request.state.rate_limit = {"RateLimit-Policy": rates.policy}
    request.state.rate_limit["RateLimit"] = rates.take(person.name)
    count_open(request, person)
    if person.role not in ROUTES.get(route, frozenset()):
        request.state.person = person  # the person under whom a refusal is recorded
        raise Refused(
            403, "not_allowed", f"A token of the role {person.role} may not do this.",
            fix=f"ask the workspace's owner for a token of the role {roles}" if roles else "GET /v1/me",
        )  # fmt: skip
    if person.csrf and request.method not in SAFE:
        require_proof(person, request.headers.get("x-csrf-token", ""))
    return person


def _build_unauthorised(roles: str) -> Refused:
    return Refused(
        401, "unauthorised", "This needs a token that is neither expired nor revoked.",
        fix=f"Authorization: Bearer TOKEN, where the workspace's owner makes a token of the role {roles}",
        headers={"WWW-Authenticate": "Bearer"},
    )  # fmt: skip


def require_open(house: AppState, person: Principal) -> None:
    """Check before a charge that the person's token was not revoked while the request waited.

    Raises:
        Refused: 401.
    """
    if not house.tokens.is_open(person.token):
        raise _build_unauthorised(person.role)


def count_open(request: Request, person: Principal) -> None:
    """Count a request among its person's open requests until it ends.

    Raises:
        Refused: 429, too many are open.
    """
    if getattr(request.state, "counted", None) is None:
        get_app_state(request).open.enter(person.name)
        request.state.counted = person.name  # read by ``Watched``


class GuardedRoute(APIRoute):
    """A route that authenticates before it reads the body: strangers cannot make the server parse anything."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the route's own handler, behind the guard."""
        handler = super().get_route_handler()
        known = {one.alias for one in self.dependant.query_params}

        async def guarded(request: Request) -> Response:
            request.state.person = guard(request)
            _check_query(request, known)
            return await handler(request)

        return guarded


def _check_query(request: Request, known: set[str]) -> None:
    """Refuse a misspelt query parameter, which would silently list everything, and a repeated one.

    Raises:
        Refused: 422.
    """
    names = [name for name, _ in request.query_params.multi_items()]
    for name in names:
        if name not in known:
            told = f"Known: {', '.join(sorted(known))}." if known else "This route takes none."
            detail = f"query: unknown parameter {name[:40]!r}. {told}"
        elif names.count(name) > 1:
            detail = f"query: {name} is given more than once."
        else:
            continue
        raise Refused(422, "request_unreadable", detail, fix="GET /openapi.json, which says what an address takes")


async def get_admitted(request: Request) -> Principal:
    """Return the person admitted by the guard."""
    person: Principal = request.state.person
    return person


CurrentUser = Annotated[Principal, Depends(get_admitted)]


def require_proof(person: Principal, given: str) -> None:
    """Refuse a request that a page of another origin made a browser send.

    Raises:
        Refused: the proof does not belong to the session.
    """
    if not hmac.compare_digest(given.encode("utf-8", "replace"), person.csrf.encode()):
        raise Refused(403, "forged", "The form was not sent by this server's page.", fix="reload the page")
