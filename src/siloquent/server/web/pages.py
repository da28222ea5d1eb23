"""Rendering of pages: the logged-in person, the template, and a page for every problem."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.staticfiles import StaticFiles

from siloquent.charts.text import draw_share_bar, format_label, format_number
from siloquent.documents.ledger import format_delta_left, format_significant
from siloquent.documents.problems import Problem
from siloquent.errors import SiloquentError
from siloquent.explore.answered_rows import format_minute
from siloquent.explore.spec.answers.text import describe_label
from siloquent.fixes import build_fix, parse_fix
from siloquent.server.access.guard import count_open, name_cookie, read_cookie, require_proof
from siloquent.server.access.tokens import Principal
from siloquent.server.failures.fixes import PAGE
from siloquent.server.failures.problems import Refused
from siloquent.server.state import AppState, get_app_state
from siloquent.version import VERSION

if TYPE_CHECKING:
    from fastapi import FastAPI

HERE = Path(__file__).parent
MAX_FIELDS = 3_000


class Pages:
    """Templates and their shared state."""

    def __init__(self, app: FastAPI) -> None:
        self._templates = Environment(
            loader=FileSystemLoader(HERE / "templates"),
            autoescape=select_autoescape(default=True, default_for_string=True),
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters |= {
            "label": format_label,
            "number": format_number,
            "url": lambda text: quote(text, safe=""),
        }
        self._templates.filters |= {"holds": describe_label, "fix": format_fix, "minute": format_minute}
        self._templates.filters |= {
            "four": _format_remaining,
            "four_up": lambda text: format_significant(Fraction(text), "up"),
        }
        self._templates.globals |= {
            "version": VERSION,
            "share": _draw_share,
            "fresh_key": _create_key,
            "delta_left": format_delta_left,
        }
        app.mount("/static", StaticFiles(directory=HERE / "static"), name="static")

    def render_page(self, request: Request, template: str, person: Principal | None, values: dict[str, Any]) -> str:
        """Return the text of a page."""
        made: str = self._templates.get_template(template).render(person=person, path=request.url.path, **values)
        return made

    @staticmethod
    def wants_page(request: Request) -> bool:
        """Return whether a browser sent the request, outside of the API."""
        return not request.url.path.startswith("/v1") and "text/html" in request.headers.get("accept", "")

    def render_problem(self, request: Request, problem: Problem, headers: dict[str, str]) -> Response:
        """Return the page of a problem; a visitor who is not logged in is sent to the login page."""
        if problem.http_status == 401:
            return RedirectResponse("/login", status_code=303)
        person, status = find_visitor(request), problem.http_status
        page = render(request, "problem.html", person, status=status, problem=problem)
        page.headers.update(headers)
        return page


def render(request: Request, template: str, person: Principal | None, *, status: int = 200, **values: Any) -> Response:
    """Return a page of ``template`` for ``person``."""
    pages: Pages = request.app.state.pages
    return HTMLResponse(pages.render_page(request, template, person, values), status_code=status)


def find_visitor(request: Request) -> Principal | None:
    """Return the logged-in person."""
    cookie = read_cookie(request)
    return get_app_state(request).tokens.find_by_cookie(cookie) if cookie else None


def require_visitor(request: Request, *roles: str) -> Principal:
    """Return the logged-in person, if the page is allowed for that person's role.

    Raises:
        Refused: 401 not logged in, 404 a page of another role, 429 too many requests.
    """
    person = find_visitor(request)
    if person is None:
        raise Refused(401, "unauthorised", "Log in first.", fix="/login")
    request.state.person = person
    get_app_state(request).rates.take(person.name)
    count_open(request, person)
    if roles and person.role not in roles:
        raise Refused(404, "not_found", "There is no such page for you.", fix="/")
    return person


async def read_form(request: Request, person: Principal | None) -> dict[str, str]:
    """Return the fields of a form sent by this server's own page; ``person`` None: the login form, without a session.

    Raises:
        Refused: the form comes from another origin.
    """
    if person is None and not _is_from_here(request):
        raise Refused(403, "forged", "The form was not sent by this server's page.", fix="reload the page")
    form = await request.form(max_files=0, max_fields=MAX_FIELDS)
    fields = {name: value for name, value in form.items() if isinstance(value, str)}
    if person is not None:
        require_proof(person, fields.get("csrf", ""))
    return fields


def _is_from_here(request: Request) -> bool:
    """Return whether the browser says that this server's own page sent the form; every current browser says so."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    origin = request.headers.get("origin")
    return origin is None or urlsplit(origin).netloc == request.headers.get("host")


def start_session(house: AppState, cookie: str) -> Response:
    """Return the first page, with the cookie of a new session."""
    response = RedirectResponse("/", status_code=303)
    response.set_cookie(
        name_cookie(house),
        cookie,
        max_age=house.settings.session_hours * 3_600,
        httponly=True,
        secure=house.settings.is_secure,
        samesite="strict",
        path="/",
    )
    return response


def format_fix(wrong: Problem | SiloquentError | Mapping[str, Any]) -> str:
    """Return the fix of a problem, or of a failed job's document, in the words of the pages."""
    if isinstance(wrong, Mapping):
        remedy = parse_fix(wrong["remedy"]) if "remedy" in wrong else build_fix(str(wrong.get("fix", "")))
    else:
        remedy = wrong.remedy or build_fix(wrong.fix)
    return remedy.render(PAGE)


def _format_remaining(text: str) -> str:
    """Return the amount in four digits, rounded down."""
    return format_significant(Fraction(text), "down")


def _create_key() -> str:
    """Return a key for one form: sent twice, it is charged once."""
    return f"page-{uuid.uuid4().hex[:20]}"


def _draw_share(spent: str, limit: str) -> str:
    return draw_share_bar(Fraction(spent), Fraction(limit))
