"""Who is this, may they, and not too often: asked of every request to the API before its body is read."""

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

from siloquent.server.keeper import Keeper
from siloquent.server.limits import ConcurrencyLimit, Open, RequestRates, Slots
from siloquent.server.observability import Metrics
from siloquent.server.problems import Refused, build_not_found
from siloquent.server.roles import ROUTES
from siloquent.server.session_pool import SessionPool
from siloquent.server.settings import Settings
from siloquent.server.spending import Spending
from siloquent.server.store import Store
from siloquent.server.tokens import Principal, Tokens

if TYPE_CHECKING:
    from siloquent.server.jobs import Jobs
    from siloquent.server.planners import Planners

COOKIE = "siloquent"
SAFE = ("GET", "HEAD")
_PRINTABLE = frozenset(string.printable[:95])


@dataclass(frozen=True, slots=True)
class AppState:
    """What every route is handed: ``app.state.house``.

    Attributes:
        rows: Threads that read rows, whose work leaves by slots or goes to the table's owner. Nothing else runs there:
            what waits behind an answer tells how long it took.
        heavy: Threads for what may take long and reads no row.
        desk: Threads for what takes milliseconds and reads no row.
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
        """How many pieces of work are taken and not done."""
        return self.planners.waiting + sum(desk.waiting for desk in (self.rows, self.heavy, self.desk))

    def close(self) -> None:
        """End what was begun here, but for jobs, whose runner is closed first."""
        self.keeper.close()
        self.planners.close()
        for desk in (self.rows, self.heavy, self.desk):
            desk.close()
        self.store.close()


def get_app_state(request: Request) -> AppState:
    """The parts of the server."""
    house: AppState = request.app.state.house
    return house


def find_person(request: Request) -> Principal | None:
    """Who sent the request: by token, or by a page's cookie with its proof against forged forms."""
    house, head = get_app_state(request), request.headers.get("authorization", "")
    if head:
        kind, _, text = head.partition(" ")
        return house.tokens.find_by_text(text.strip()) if kind.lower() == "bearer" else None
    cookie = request.cookies.get(COOKIE)
    return house.tokens.find_by_cookie(cookie) if cookie else None


def guard(request: Request) -> Principal:
    """The person behind a request to the API, if the route is theirs.

    Raises:
        Refused: 401 nobody, 403 not this role or a forged form, 429 too often.
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
        request.state.person = person  # whom the refusal is remembered for
        raise Refused(
            403, "not_allowed", f"A token of the role {person.role} may not do this.",
            fix=f"ask the workspace's owner for a token of the role {roles}" if roles else "GET /v1/me",
        )  # fmt: skip
    if person.csrf and request.method not in SAFE:
        require_proof(person, request.headers.get("x-csrf-token", ""))
    return person


def count_open(request: Request, person: Principal) -> None:
    """Count a request among those of its token that are open, until it has ended.

    Raises:
        Refused: 429, there are too many.
    """
    if getattr(request.state, "counted", None) is None:
        get_app_state(request).open.enter(person.token)
        request.state.counted = person.token  # where ``Watched`` finds it


class GuardedRoute(APIRoute):
    """A route that knows who asks before it reads what is asked: strangers cannot make the server parse anything."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The route's own handler, behind the guard."""
        handler = super().get_route_handler()
        known = {one.alias for one in self.dependant.query_params}

        async def guarded(request: Request) -> Response:
            request.state.person = guard(request)
            _check_query(request, known)
            return await handler(request)

        return guarded


def _check_query(request: Request, known: set[str]) -> None:
    """Refuse a misspelt parameter of an address, which would silently list everything, and one that is said twice.

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
    """The person whom the guard let in."""
    person: Principal = request.state.person
    return person


CurrentUser = Annotated[Principal, Depends(get_admitted)]


def require_proof(person: Principal, given: str) -> None:
    """Refuse what a page of another origin made a browser send.

    Raises:
        Refused: the proof is not the session's.
    """
    if not hmac.compare_digest(given.encode("utf-8", "replace"), person.csrf.encode()):
        raise Refused(403, "forged", "The form is not from this server's page.", fix="load the page again")


def require_table(person: Principal, table: str) -> None:
    """Refuse a table that the token is not for, as if it were not there.

    Raises:
        Refused: 404.
    """
    if not person.may_see(table):
        raise build_not_found()


def require_declared(session: Any, person: Principal, table: str) -> None:
    """Refuse a table that is not for this token; one for some tables is not told the names of others.

    Raises:
        Refused: 404.
    """
    require_table(person, table)
    if not person.sees_all and table not in session.list_tables():
        raise build_not_found()


def read_key(request: Request) -> str:
    """The idempotency key of a request that spends.

    Raises:
        Refused: there is none, or it cannot be one.
    """
    key = request.headers.get("idempotency-key", "")
    check_key(key)
    return key


def check_key(key: str) -> None:
    """Refuse what cannot be a key.

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
