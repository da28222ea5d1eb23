"""The application: routes behind a guard, limits around them, one form of error."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from siloquent.documents.money import exact
from siloquent.server import problems
from siloquent.server.desk import Desk
from siloquent.server.guard import House
from siloquent.server.jobs import Jobs
from siloquent.server.limits import BodyLimit, Rates, Room, Slots
from siloquent.server.routes import answers, collections, jobs, money, releases, silos, tables, tokens
from siloquent.server.settings import Settings
from siloquent.server.spending import Spending
from siloquent.server.store import Store
from siloquent.server.tokens import Tokens
from siloquent.server.watch import Watch, Watched
from siloquent.server.web import access, asking, books, declared, gathered, wizard
from siloquent.server.web import silos as silo_pages
from siloquent.server.web.pages import Pages
from siloquent.version import VERSION

if TYPE_CHECKING:
    from siloquent.door import Session

OPERATOR = "operator"  # no token's id, so its places in the room are its own
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def make_app(folder: Path, settings: Settings) -> Any:
    """The ASGI application that serves the workspace in ``folder``.

    Raises:
        SchemaError, LedgerError: as opening the workspace does; a server that cannot answer does not start.
    """
    from siloquent.door import open_session

    open_session(folder).close()  # what is wrong with it is said now, not to the first person who asks
    store = Store(folder / "server.sqlite")
    house = House(
        settings=settings,
        store=store,
        tokens=Tokens(store),
        desk=Desk(folder, workers=settings.workers),
        rates=Rates(rate=settings.rate_per_second, burst=settings.burst),
        room=Room(each=settings.running, all_=settings.queue),
        slots=Slots(),
        jobs=Jobs(folder, store, most=settings.jobs, most_bytes=settings.job_bytes),
        watch=Watch(store, log=settings.access_log),
        spending=Spending(folder, store),
    )

    @asynccontextmanager
    async def alive(_: FastAPI) -> AsyncIterator[None]:
        house.jobs.start()
        try:
            yield
        finally:
            house.jobs.close()
            house.desk.close()
            store.close()

    app = FastAPI(
        title="siloquent",
        version=VERSION,
        description="Learn from data that you may not see.",
        lifespan=alive,
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
        responses={"4XX": problems.DESCRIBED, "5XX": problems.DESCRIBED},
    )
    app.state.house, app.state.folder = house, folder
    problems.install(app)
    for part in (tables, answers, jobs, releases, collections, silos, money, tokens):
        app.include_router(part.router, prefix="/v1")
    _watchers(app)
    app.state.pages = Pages(app)
    for part in (access, asking, wizard, declared, gathered, silo_pages, books):
        app.include_router(part.router)
    headers = {**HEADERS, **({"Strict-Transport-Security": "max-age=31536000"} if settings.is_secure else {})}
    app.add_middleware(BodyLimit, settings=settings, headers=headers)
    app.add_middleware(Watched, watch=house.watch)
    return app


def _watchers(app: FastAPI) -> None:
    """What an operator's machines ask: no label comes from data."""

    @app.get("/healthz", include_in_schema=False)
    async def healthz() -> Response:
        return PlainTextResponse("ok\n")

    @app.get("/readyz", include_in_schema=False)
    async def readyz(request: Request) -> Response:
        _require_operator(request)
        async with app.state.house.room.place(OPERATOR):
            await app.state.house.desk.run(None, lambda session: session.ledger.head())
        return PlainTextResponse("ready\n")

    @app.get("/metrics", include_in_schema=False)
    async def metrics(request: Request) -> Response:
        _require_operator(request)
        house: House = app.state.house
        async with house.room.place(OPERATOR):
            books = await house.desk.run(None, _books)
        states = house.store.all("SELECT state, count(*) AS n FROM job GROUP BY state ORDER BY state")
        lines = [
            *house.watch.lines(),
            *books,
            "# TYPE siloquent_waiting gauge",
            f"siloquent_waiting {house.desk.waiting}",
            "# TYPE siloquent_slot_overruns_total counter",
            f"siloquent_slot_overruns_total {house.slots.overruns}",
            "# TYPE siloquent_jobs gauge",
            *(f'siloquent_jobs{{state="{row["state"]}"}} {row["n"]}' for row in states),
        ]
        return PlainTextResponse("\n".join(lines) + "\n")


def _require_operator(request: Request) -> None:
    """Refuse whoever is not on this machine.

    Raises:
        Refused: 404.
    """
    if request.client is None or request.client.host not in ("127.0.0.1", "::1", "testclient"):
        raise problems.not_found()


def _books(session: Session) -> list[str]:
    """How far the ledger is, and what is left of each account, in its epsilon or rho."""
    return [
        "# TYPE siloquent_ledger_entries gauge",
        f"siloquent_ledger_entries {session.ledger.head().seq}",
        "# TYPE siloquent_budget_left gauge",
        *(
            f'siloquent_budget_left{{account="{one.name}"}} {exact(one, one.left.amount)}'
            for one in session.ledger.accounts()
            if one.successor is None
        ),
    ]
