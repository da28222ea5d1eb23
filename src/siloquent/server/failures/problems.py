"""Conversion of every failure into a problem document (RFC 9457)."""

from __future__ import annotations

import logging
import re
import sqlite3
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from siloquent.documents.problems import Problem, build_problem, log_details
from siloquent.errors import PortableError, SiloquentError
from siloquent.fixes import FixLike, build_fix
from siloquent.server.access.hidden_tables import hide_other_tables
from siloquent.server.failures.files import BUSY_SECONDS, FileFailure, explain_file_failure
from siloquent.server.failures.fixes import HTTP, PAGE

if TYPE_CHECKING:
    from fastapi import FastAPI
    from fastapi.exceptions import RequestValidationError
    from starlette.requests import Request
    from starlette.responses import Response

MEDIA = "application/problem+json"
_log = logging.getLogger("siloquent.server")
_TOKEN_ID = re.compile(r"sq_[0-9a-f]{8}_")
DESCRIBED: dict[str, Any] = {
    "description": "A problem: what is wrong, what to do now, and what was spent.",
    "content": {MEDIA: {"schema": {"$ref": "#/components/schemas/Problem"}}},
}
"""Every failure in the API's description."""


PERHAPS = "perhaps the price of this request; sent again with the same key it costs no more"
"""The spent amount of a refusal whose request may have been charged before it failed."""


class Refused(PortableError):
    """A request refused by the server itself, before any task receives it."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        fix: FixLike = "",
        spent: str = "nothing",
        headers: dict[str, str] | None = None,
    ):
        remedy = build_fix(fix)
        self.problem = Problem(
            code, HTTPStatus(status).phrase, detail, 2, remedy.render(HTTP), spent, http_status=status, remedy=remedy
        )
        self.headers = headers or {}
        super().__init__(detail)


def build_not_found() -> Refused:
    """Return the refusal for what is unknown and for what belongs to another person: both look the same."""
    return Refused(404, "not_found", "Not found, or you have no access to it.", fix="GET /v1/me")


def too_dear_to_plan() -> Refused:
    """Return the refusal of a question whose price takes too much time or memory to compute."""
    return Refused(
        422,
        "plan_too_large",
        "Planning this request exceeds this server's limit on time or memory.",
        fix="use fewer conditions or fewer groups",
    )


def no_planner() -> Refused:
    """Return the refusal while no planner process is available: the machine is out of memory, or very busy."""
    return Refused(
        503,
        "too_slow",
        "The server is busy: the price was not computed in time.",
        fix="send it again in a minute",
        headers={"Retry-After": "60"},
    )


def build_response(problem: Problem, headers: dict[str, str] | None = None) -> Response:
    """Return ``problem`` as a response."""
    from starlette.responses import JSONResponse  # jobs and planners refuse, too, and answer no request

    return JSONResponse(problem.to_json(), problem.http_status, headers=headers, media_type=MEDIA)


def install_handlers(app: FastAPI) -> None:
    """Install handlers, so that no error page of the framework is returned."""
    from fastapi.exceptions import RequestValidationError
    from starlette.exceptions import HTTPException

    @app.exception_handler(Refused)
    async def refused(request: Request, error: Refused) -> Response:
        return _respond(request, error.problem, error.headers)

    @app.exception_handler(SiloquentError)
    async def known(request: Request, error: SiloquentError) -> Response:
        return _respond(request, build_problem(error), {})

    @app.exception_handler(RequestValidationError)
    async def unreadable(request: Request, error: RequestValidationError) -> Response:
        return _respond(
            request,
            Problem(
                "request_unreadable", "Unreadable", _describe_first_fault(error), 2, _readable(request), http_status=422
            ),
            {},
        )

    @app.exception_handler(HTTPException)
    async def framework(request: Request, error: HTTPException) -> Response:
        phrase = HTTPStatus(error.status_code).phrase
        code = phrase.lower().replace(" ", "_").replace("-", "_")
        problem = Problem(code, phrase, f"{phrase}.", 2, "GET /v1/me", http_status=error.status_code)
        return _respond(request, problem, dict(error.headers or {}))

    @app.exception_handler(sqlite3.Error)
    @app.exception_handler(OSError)
    async def file_failed(request: Request, error: Exception) -> Response:
        failure = explain_file_failure(error)
        return await unforeseen(request, error) if failure is None else _respond_to_failure(request, failure)

    @app.exception_handler(Exception)
    async def unforeseen(request: Request, error: Exception) -> Response:
        problem = build_problem(error)
        log_details(request.app.state.folder, problem, error)
        return _respond(request, problem, {})


def _respond_to_failure(request: Request, failure: FileFailure) -> Response:
    """Return the refusal while one of the server's files cannot be used: routes hide such failures after a charge."""
    _log.warning("a file of the server cannot be used: %s", failure.code)
    problem = Problem(
        failure.code, failure.title, failure.detail, 2, failure.fix, "nothing", http_status=failure.status
    )
    return _respond(request, problem, {"Retry-After": str(failure.retry_seconds)})


def _remember(request: Request, problem: Problem) -> None:
    """Record a refusal: of a person, of a stranger at the API, and of every failed login."""
    person = getattr(request.state, "person", None)
    route = getattr(request.scope.get("route"), "name", "none")
    is_page = not request.url.path.startswith("/v1/") and route not in ("log_in", "readyz", "metrics")
    if person is None and is_page:
        return  # a visitor who is not logged in is sent to the login
    add, address = request.app.state.house.watch.denials.add, request.client.host if request.client else ""
    if person is not None:
        add(person.name, person.role, route, problem.code, address=address, token=person.token)
    else:
        add("", "nobody", route, problem.code, address=address, token=_known_token(request))


def claimed_token(request: Request) -> str:
    """Return the id in the request's token, valid or not; the secret is not read."""
    text = request.headers.get("authorization", "").partition(" ")[2].strip()
    return text[3:11] if _TOKEN_ID.match(text) else ""


def _known_token(request: Request) -> str:
    """Return the id that a request claims, if that token exists: a stranger can invent any number of ids."""
    claimed = claimed_token(request)
    known = claimed and request.app.state.house.store.fetch_one("SELECT 1 FROM token WHERE id = ?", claimed)
    return claimed if known else ""


def _readable(request: Request) -> str:
    """Return a hint on how to send a readable body: most tools send a form unless told to send JSON."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    is_form = kind in ("application/x-www-form-urlencoded", "text/plain", "multipart/form-data")
    return "Content-Type: application/json" if is_form else "GET /openapi.json"


def _describe_first_fault(error: RequestValidationError) -> str:
    """Return the location of the first fault and what is expected there; the sent value is not repeated."""
    from fastapi.encoders import jsonable_encoder

    (first, *_) = jsonable_encoder([{"loc": e["loc"], "msg": e["msg"]} for e in error.errors()]) or [
        {"loc": (), "msg": ""}
    ]
    place: list[Any] = [str(part)[:40] for part in first["loc"]]
    return f"{'.'.join(place[:8])}: {str(first['msg'])[:200]}."


def _respond(request: Request, problem: Problem, headers: dict[str, str]) -> Response:
    """Return a page for a browser's form, and a document otherwise."""
    _remember(request, problem)
    if (person := getattr(request.state, "person", None)) is not None:
        problem = hide_other_tables(problem, person, request.app.state.folder)
    if problem.http_status == 503:
        headers = {"Retry-After": str(BUSY_SECONDS), **headers}
    pages = getattr(request.app.state, "pages", None)
    if pages is not None and pages.wants_page(request):
        page: Response = pages.render_problem(request, problem.translate(PAGE), headers)
        return page
    return build_response(problem.translate(HTTP), headers)
