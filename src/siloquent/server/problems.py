"""Every failure as one problem document (RFC 9457), whoever raised it."""

from __future__ import annotations

import re
import sqlite3
from dataclasses import replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from fastapi.encoders import jsonable_encoder
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from siloquent.documents.problems import Problem, build_problem, log_details
from siloquent.errors import PortableError, SiloquentError
from siloquent.server.fixes import over_http

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.requests import Request
    from starlette.responses import Response

MEDIA = "application/problem+json"
_TOKEN_ID = re.compile(r"sq_[0-9a-f]{8}_")
DESCRIBED: dict[str, Any] = {
    "description": "A problem: what is wrong, what to do now, and what was spent.",
    "content": {MEDIA: {"schema": {"$ref": "#/components/schemas/Problem"}}},
}
"""Every failure in the API's description."""


PERHAPS = "perhaps the price of this request; sent again with the same key it costs no more"
"""What a refusal says was spent where the request may have been charged before it failed."""


class Refused(PortableError):
    """A request that the server itself refuses, before any task hears of it."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        fix: str = "",
        spent: str = "nothing",
        headers: dict[str, str] | None = None,
    ):
        self.problem = Problem(code, HTTPStatus(status).phrase, detail, 2, fix, spent, http_status=status)
        self.headers = headers or {}
        super().__init__(detail)


def build_not_found() -> Refused:
    """The answer for what is unknown and for what is somebody else's: they look the same."""
    return Refused(404, "not_found", "There is no such thing, or it is not yours.", fix="GET /v1/me")


def too_dear_to_plan() -> Refused:
    """The answer to a question whose price takes too long, or too much memory, to find."""
    return Refused(
        422,
        "plan_too_large",
        "To plan this takes longer, or more memory, than this server lets a plan take.",
        fix="ask fewer conditions or fewer groups at once",
    )


def no_planner() -> Refused:
    """The answer while no process finds a price: the machine is out of memory, or very busy."""
    return Refused(
        503,
        "too_slow",
        "The server is busy: the price was not found in time.",
        fix="send it again in a minute",
        headers={"Retry-After": "60"},
    )


def build_response(problem: Problem, headers: dict[str, str] | None = None) -> Response:
    """``problem`` as a response."""
    return JSONResponse(problem.to_json(), problem.http_status, headers=headers, media_type=MEDIA)


def install_handlers(app: FastAPI) -> None:
    """Let no framework's own error page through."""

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

    @app.exception_handler(sqlite3.OperationalError)
    async def store_busy(request: Request, error: sqlite3.OperationalError) -> Response:
        detail = "The server's own file is locked, or its disk is full. What was charged stays, under its key."
        problem = Problem("store_busy", "Busy", detail, 2, "send it again with the same key", PERHAPS, 503)
        return _respond(request, problem, {"Retry-After": "10"})

    @app.exception_handler(Exception)
    async def unforeseen(request: Request, error: Exception) -> Response:
        problem = build_problem(error)
        log_details(request.app.state.folder, problem, error)
        return _respond(request, problem, {})


def _remember(request: Request, problem: Problem) -> None:
    """Put a refusal on record: of a person, of a stranger at the API, and of everybody who fails to log in."""
    person = getattr(request.state, "person", None)
    route = getattr(request.scope.get("route"), "name", "none")
    is_page = not request.url.path.startswith("/v1/") and route not in ("log_in", "readyz", "metrics")
    if person is None and is_page:
        return  # whoever opens a page without being logged in is sent to the login
    add, address = request.app.state.house.watch.denials.add, request.client.host if request.client else ""
    if person is not None:
        add(person.name, person.role, route, problem.code, address=address, token=person.token)
    else:
        add("", "nobody", route, problem.code, address=address, token=_known_token(request))


def claimed_token(request: Request) -> str:
    """The id in the token that a request was sent with, whether or not it is a good one: its secret is not read."""
    text = request.headers.get("authorization", "").partition(" ")[2].strip()
    return text[3:11] if _TOKEN_ID.match(text) else ""


def _known_token(request: Request) -> str:
    """The id that a request claims, if there is such a token: of made-up ones a stranger has as many as he likes."""
    claimed = claimed_token(request)
    known = claimed and request.app.state.house.store.fetch_one("SELECT 1 FROM token WHERE id = ?", claimed)
    return claimed if known else ""


def _readable(request: Request) -> str:
    """What makes a body readable: most tools send a form unless they are told that it is JSON."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    is_form = kind in ("application/x-www-form-urlencoded", "text/plain", "multipart/form-data")
    return "Content-Type: application/json" if is_form else "GET /openapi.json"


def _describe_first_fault(error: RequestValidationError) -> str:
    """Where the first fault is and what is expected there; what was sent is not repeated."""
    (first, *_) = jsonable_encoder([{"loc": e["loc"], "msg": e["msg"]} for e in error.errors()]) or [
        {"loc": (), "msg": ""}
    ]
    place: list[Any] = [str(part)[:40] for part in first["loc"]]
    return f"{'.'.join(place[:8])}: {str(first['msg'])[:200]}."


def _respond(request: Request, problem: Problem, headers: dict[str, str]) -> Response:
    """A page for a browser's form, a document for everybody else."""
    problem = replace(problem, fix=over_http(problem.fix))
    _remember(request, problem)
    pages = getattr(request.app.state, "pages", None)
    if pages is not None and pages.wants_page(request):
        page: Response = pages.render_problem(request, problem, headers)
        return page
    return build_response(problem, headers)
