"""Authentication, authorization and rate limiting of API requests, before their bodies are read."""

from __future__ import annotations

import hmac
import string
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Depends
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from siloquent.server.access.limits import ConcurrencyLimit, Open, RequestRates, Slots
from siloquent.server.access.roles import ROUTES
from siloquent.server.access.tokens import Principal, Tokens
from siloquent.server.keeper import Keeper
from siloquent.server.observability import Metrics
from siloquent.server.problems import Refused, build_not_found
from siloquent.server.session_pool import SessionPool
from siloquent.server.settings import Settings
from siloquent.server.spending import Spending
from siloquent.server.store import Store

if TYPE_CHECKING:
    from siloquent.server.jobs.queue import Jobs
    from siloquent.server.planning.planners import Planners

COOKIE = "siloquent"
SAFE = ("GET", "HEAD")
_PRINTABLE = frozenset(string.printable[:95])


@dataclass(frozen=True, slots=True)
class AppState:
    """The state that every route receives: ``app.state.house``.

    Attributes:
        rows: Threads that read rows, whose work leaves by slots or goes to the table's owner. Nothing else runs there:
            the time that other work waits for an answer would reveal how long the answer took.
        heavy: Threads for work that may take long and reads no row.
        desk: Threads for work that takes milliseconds and reads no row.
        planners: Processes that price questions and jobs.
    """

    settings: Settings
    store: Store
    tokens: Tokens
    rows: SessionPool
    heavy: SessionPool
    desk: SessionPool
    planners: Planners
    rates: RequestRates
    open: Open
    room: ConcurrencyLimit
    slots: Slots
    jobs: Jobs
    watch: Metrics
    keeper: Keeper
    spending: Spending

    @property
    def waiting(self) -> int:
        """The number of accepted pieces of work that are not done."""
        return self.planners.waiting + sum(desk.waiting for desk in (self.rows, self.heavy, self.desk))

    def close(self) -> None:
        """Stop everything started here except jobs, whose runner is closed first."""
        self.keeper.close()
        self.planners.close()
        for desk in (self.rows, self.heavy, self.desk):
            desk.close()
        self.store.close()


def get_app_state(request: Request) -> AppState:
    """Return the server's state."""
    house: AppState = request.app.state.house
    return house


def find_person(request: Request) -> Principal | None:
    """Return the sender of the request, by token or by a page's cookie with its proof against forged forms."""
    house, head = get_app_state(request), request.headers.get("authorization", "")
    if head:
        kind, _, text = head.partition(" ")
        return house.tokens.find_by_text(text.strip()) if kind.lower() == "bearer" else None
    cookie = request.cookies.get(COOKIE)
    return house.tokens.find_by_cookie(cookie) if cookie else None


def guard(request: Request) -> Principal:
    """Return the sender of an API request, if the route is allowed for the sender's role.

    Raises:
        Refused: 401 no valid token, 403 wrong role or a forged form, 429 too many requests.
    """
    person = find_person(request)
    route = request.scope["route"].name
    roles = " or ".join(sorted(ROUTES.get(route, frozenset())))
    if person is None:
        raise Refused(
            401, "unauthorised", "This needs a token that is neither expired nor revoked.",
            fix=f"Authorization: Bearer TOKEN, where the workspace's owner makes a token of the role {roles}",
            headers={"WWW-Authenticate": "Bearer"},
        )  # fmt: skip
    rates = get_app_state(request).rates
    request.state.rate_limit = {"RateLimit-Policy": rates.policy}
    request.state.rate_limit["RateLimit"] = rates.take(person.token)
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


def count_open(request: Request, person: Principal) -> None:
    """Count a request among its token's open requests until it ends.

    Raises:
        Refused: 429, too many are open.
    """
    if getattr(request.state, "counted", None) is None:
        get_app_state(request).open.enter(person.token)
        request.state.counted = person.token  # read by ``Watched``


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
            told = f"Known: {', '.join(sorted(known))}." if known else "This address takes none."
            detail = f"query: there is no parameter {name[:40]!r}. {told}"
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
        raise Refused(403, "forged", "The form is not from this server's page.", fix="load the page again")


def require_table(person: Principal, table: str) -> None:
    """Refuse a table outside the token's scope, as if it did not exist.

    Raises:
        Refused: 404.
    """
    if not person.may_see(table):
        raise build_not_found()


def require_declared(session: Any, person: Principal, table: str) -> None:
    """Refuse a table outside the token's scope; a token for some tables is not told the names of others.

    Raises:
        Refused: 404.
    """
    require_table(person, table)
    if not person.sees_all and table not in session.list_tables():
        raise build_not_found()


def read_key(request: Request) -> str:
    """Return the idempotency key of a request that spends.

    Raises:
        Refused: the key is missing or invalid.
    """
    key = request.headers.get("idempotency-key", "")
    check_key(key)
    return key


def check_key(key: str) -> None:
    """Refuse an invalid key.

    Raises:
        Refused: 400.
    """
    if not 1 <= len(key) <= 64 or not set(key) <= _PRINTABLE:
        raise Refused(
            400,
            "idempotency_key_missing",
            "What spends needs the header Idempotency-Key with 1 to 64 printable characters; sending it again is safe.",
            fix="Idempotency-Key: monday-report",
        )
