"""The pages' frame: who is logged in, which template, and a page for every problem."""

from __future__ import annotations

import uuid
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.staticfiles import StaticFiles

from siloquent.documents.money import four_digits
from siloquent.documents.problems import Problem
from siloquent.explore.spec.shown import how_it_holds
from siloquent.pictures.plain import label, number, share
from siloquent.server.guard import COOKIE, House, count_open, house_of, require_proof
from siloquent.server.problems import Refused
from siloquent.server.tokens import Person
from siloquent.version import VERSION

if TYPE_CHECKING:
    from fastapi import FastAPI

HERE = Path(__file__).parent
MOST_FIELDS = 3_000


class Pages:
    """Templates and what they share."""

    def __init__(self, app: FastAPI) -> None:
        self._templates = Environment(
            loader=FileSystemLoader(HERE / "templates"),
            autoescape=select_autoescape(default=True, default_for_string=True),
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters |= {"label": label, "number": number, "url": lambda text: quote(text, safe="")}
        self._templates.filters |= {"holds": how_it_holds}
        self._templates.filters |= {"four": _four, "four_up": lambda text: four_digits(Fraction(text), "up")}
        self._templates.globals |= {"version": VERSION, "share": _share, "fresh_key": _fresh_key}
        app.mount("/static", StaticFiles(directory=HERE / "static"), name="static")

    def page(self, request: Request, template: str, person: Person | None, values: dict[str, Any]) -> str:
        """The text of a page."""
        made: str = self._templates.get_template(template).render(person=person, path=request.url.path, **values)
        return made

    @staticmethod
    def wants_page(request: Request) -> bool:
        """Whether a browser asks, outside of the API."""
        return not request.url.path.startswith("/v1") and "text/html" in request.headers.get("accept", "")

    def problem(self, request: Request, problem: Problem, headers: dict[str, str]) -> Response:
        """The page of a problem; who is not logged in is sent to the door."""
        if problem.http_status == 401:
            return RedirectResponse("/login", status_code=303)
        person, status = person_or_none(request), problem.http_status
        page = render(request, "problem.html", person, status=status, problem=problem)
        page.headers.update(headers)
        return page


def render(request: Request, template: str, person: Person | None, *, status: int = 200, **values: Any) -> Response:
    """A page of ``template`` for ``person``."""
    pages: Pages = request.app.state.pages
    return HTMLResponse(pages.page(request, template, person, values), status_code=status)


def person_or_none(request: Request) -> Person | None:
    """Who is logged in."""
    cookie = request.cookies.get(COOKIE)
    return house_of(request).tokens.browser(cookie) if cookie else None


def visitor(request: Request, *roles: str) -> Person:
    """Who is logged in, if the page is theirs.

    Raises:
        Refused: 401 nobody, 404 another role's page, 429 too often.
    """
    person = person_or_none(request)
    if person is None:
        raise Refused(401, "unauthorised", "Log in first.", fix="/login")
    request.state.person = person
    house_of(request).rates.take(person.token)
    count_open(request, person)
    if roles and person.role not in roles:
        raise Refused(404, "not_found", "There is no such page for you.", fix="/")
    return person


async def form_of(request: Request, person: Person | None) -> dict[str, str]:
    """The fields of a form that this server's own page sent; ``person`` None: the login form, which has no session yet.

    Raises:
        Refused: it is another origin's.
    """
    if person is None and not _is_from_here(request):
        raise Refused(403, "forged", "The form is not from this server's page.", fix="load the page again")
    form = await request.form(max_files=0, max_fields=MOST_FIELDS)
    fields = {name: value for name, value in form.items() if isinstance(value, str)}
    if person is not None:
        require_proof(person, fields.get("csrf", ""))
    return fields


def _is_from_here(request: Request) -> bool:
    """Whether the browser says that this server's own page sent the form; what says nothing is no browser of today."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    origin = request.headers.get("origin")
    return origin is None or urlsplit(origin).netloc == request.headers.get("host")


def start_session(house: House, cookie: str) -> Response:
    """The first page, with the cookie of a new session."""
    response = RedirectResponse("/", status_code=303)
    response.set_cookie(
        COOKIE,
        cookie,
        max_age=house.settings.session_hours * 3_600,
        httponly=True,
        secure=house.settings.is_secure,
        samesite="strict",
        path="/",
    )
    return response


def _four(text: str) -> str:
    """What is left or may be spent, in four digits, rounded down."""
    return four_digits(Fraction(text), "down")


def _fresh_key() -> str:
    """The key of one form: sent twice, it is charged once."""
    return f"page-{uuid.uuid4().hex[:20]}"


def _share(spent: str, limit: str) -> str:
    return share(Fraction(spent), Fraction(limit))
