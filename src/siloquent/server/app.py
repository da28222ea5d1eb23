"""The application: guarded routes, request limits and a uniform error format."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from siloquent.errors import InstallationError
from siloquent.privacy.samplers import require_samplers
from siloquent.server.access.limits import BodyLimit, Places, RequestRates, Slots
from siloquent.server.access.tokens import Tokens
from siloquent.server.described import Description, describe
from siloquent.server.failures import problems
from siloquent.server.jobs.queue import Jobs
from siloquent.server.jobs.runner import Runner
from siloquent.server.keeper import Keeper
from siloquent.server.observability import Metrics, MetricsMiddleware
from siloquent.server.planning.planners import Planners
from siloquent.server.release_index import ReleaseIndex
from siloquent.server.routes import answers, collections, health, jobs, ledger, releases, silos, tables, tokens
from siloquent.server.session_pool import SessionPool
from siloquent.server.settings import Settings
from siloquent.server.spending import Spending
from siloquent.server.state import AppState
from siloquent.server.store import Store
from siloquent.server.web import collection_pages, ledger_pages, login_pages, question_pages, table_pages, wizard
from siloquent.server.web import silos as silo_pages
from siloquent.server.web.pages import Pages
from siloquent.version import VERSION

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
    """Return the ASGI application that serves the workspace in ``folder``.

    Raises:
        SchemaError, LedgerError: the workspace cannot be opened; the server then does not start.
    """
    from siloquent.api import open_session

    open_session(folder).close()  # report a faulty workspace at startup, not at the first request
    store = Store(folder / "server.sqlite")
    runner = Runner(
        folder,
        store,
        max_processes=settings.jobs,
        max_bytes=settings.job_bytes,
        max_seconds=settings.job_seconds,
    )
    watch = Metrics(store, log=settings.access_log)
    house = AppState(
        settings=settings,
        store=store,
        releases=ReleaseIndex(folder, store),
        tokens=Tokens(store),
        rows=SessionPool(folder, workers=settings.workers, name="rows"),
        heavy=SessionPool(folder, workers=settings.workers, name="heavy"),
        desk=SessionPool(folder, workers=settings.workers),
        planners=Planners(
            folder, count=settings.planners, seconds=settings.plan_seconds, max_bytes=settings.plan_bytes
        ),
        rates=RequestRates(rate=settings.rate_per_second, burst=settings.burst),
        open=Places(each=settings.connections_each, all_=settings.connections),
        room=Places(
            each=settings.running,
            all_=settings.queue,
            what="answers, prices and checks",
        ),
        slots=Slots(),
        jobs=Jobs(store, runner, max_open=2 * settings.jobs, max_text=settings.text_bytes),
        watch=watch,
        keeper=Keeper(folder, store, watch.denials, settings),
        spending=Spending(folder, store),
    )

    @asynccontextmanager
    async def alive(_: FastAPI) -> AsyncIterator[None]:
        runner.start()
        house.keeper.start()
        threading.Thread(target=_load_samplers, name="siloquent-samplers").start()
        try:
            yield
        finally:
            runner.close()
            house.close()

    app = FastAPI(
        title="siloquent",
        version=VERSION,
        description="Learn from data that you may not see.",
        lifespan=alive,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # a redirect would repeat the request's Host header
        openapi_url=None,  # ``Description``
        generate_unique_id_function=lambda route: route.name,
        responses={"4XX": problems.DESCRIBED, "5XX": problems.DESCRIBED},
    )
    app.state.house, app.state.folder = house, folder
    problems.install_handlers(app)
    for part in (tables, answers, jobs, releases, collections, silos, ledger, tokens):
        app.include_router(part.router, prefix="/v1", tags=[part.__name__.rpartition(".")[2]])
    app.include_router(health.alive)
    app.include_router(health.router)
    app.openapi = describe(app)  # type: ignore[method-assign]
    app.state.description = Description(app)
    app.state.pages = Pages(app)
    for part in (login_pages, question_pages, table_pages, wizard, collection_pages, silo_pages, ledger_pages):
        app.include_router(part.router)
    headers = {**HEADERS, **({"Strict-Transport-Security": "max-age=31536000"} if settings.is_secure else {})}
    app.add_middleware(BodyLimit, settings=settings, rates=house.rates, headers=headers)
    app.add_middleware(MetricsMiddleware, watch=house.watch, open_=house.open)
    return app


def _load_samplers() -> None:
    """Load the samplers in the background, so that no request waits for it and memory does not grow hours later."""
    with suppress(InstallationError):  # every charge reports it
        require_samplers(compiled=True)
