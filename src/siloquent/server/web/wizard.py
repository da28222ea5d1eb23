"""The questions of ``siloquent declare`` in the browser: they know the columns' names and types, and read no row.

The answers so far are kept in the file that the command keeps them in, so either can go on where the other stopped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urlencode

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from siloquent.errors import RequestError, SiloquentError
from siloquent.schema.declaring import ColumnHeader, DeclarationQuestion, GivenAnswers, TableDraft, find_next_question
from siloquent.schema.declaring.draft import apply_answers
from siloquent.schema.declaring.kept_files import DeclarationFiles, require_table_name
from siloquent.schema.declaring.questions import answer_question, list_open_questions, list_settings
from siloquent.schema.declaring.summary import describe_columns, describe_table
from siloquent.server.access.tokens import Principal
from siloquent.server.failures.problems import Refused, build_not_found
from siloquent.server.routes import tables
from siloquent.server.state import get_app_state
from siloquent.server.tables.declaring import Precondition, require_source, write_declaration
from siloquent.server.web import wizard_forms as forms
from siloquent.server.web.pages import read_form, render, require_visitor
from siloquent.server.web.uploading import take_file

if TYPE_CHECKING:
    from siloquent.api import Session

router = APIRouter(include_in_schema=False)
T = TypeVar("T")
WHOLE = ("empty", "days", "decimal", "person", "max_rows", "rows", "epsilon", "delta_events")
"""The questions about the whole table, which may be answered again."""
_COLUMNS = ("accept", "columns")


@dataclass(frozen=True, slots=True)
class DeclarationState:
    """A declaration in the making, as its file has it, with the answers that no longer fit."""

    place: DeclarationFiles
    draft: TableDraft
    header: bool = False
    faults: tuple[RequestError, ...] = ()

    def keep(self, draft: TableDraft) -> None:
        """Keep the answers of ``draft``."""
        self.place.keep(draft, header=self.header)


@router.get("/declare")
async def begin(request: Request) -> Response:
    person = require_visitor(request, "owner")
    begun = await asyncio.to_thread(_list_begun, Path(request.app.state.folder) / "schemas")
    return render(request, "wizard.html", person, uploads=tables.read_uploads(get_app_state(request)), begun=begun)


def _list_begun(folder: Path) -> list[str]:
    return sorted(one.name.removesuffix(".answers") for one in folder.glob("[!.]*.answers"))


@router.post("/declare/upload")
async def upload(request: Request) -> Response:
    person = require_visitor(request, "owner")
    made, _ = await take_file(request, person)
    if made is None:
        raise Refused(422, "request_unreadable", "No file was selected.", fix="select a CSV or Parquet file")
    return RedirectResponse(f"/declare/source?{urlencode({'source': made['source']})}", status_code=303)


@router.api_route("/declare/source", methods=["GET", "POST"])
async def describe_source(request: Request) -> Response:
    """The table's name, and how its file is read; of a file whose first line may be a row, whether it is a header."""
    person = require_visitor(request, "owner")
    told: dict[str, Any] = {"problem": None, "doubt": "", "status": 200}
    if request.method == "GET":
        fields = await _propose_source(request, person, request.query_params.get("source", "")[:1_000])
    else:
        fields = await read_form(request, person)
        try:
            told["doubt"] = await _start(request, person, fields)
            if not told["doubt"]:
                return RedirectResponse(f"/declare/table/{quote(fields['name'].strip())}", status_code=303)
        except (SiloquentError, Refused) as wrong:
            told |= {"problem": wrong.problem if isinstance(wrong, Refused) else wrong}
        told["status"] = 422
    return render(request, "wizard_source.html", person, fields=fields, **told)


async def _propose_source(request: Request, person: Principal, source: str) -> dict[str, str]:
    """Return the fields for a source; of a declaration in the making, as they were."""
    name = request.query_params.get("table", "")[:63]
    if not name:
        return {"source": source}
    state = await _load(request, person, name)
    fields = {"name": name, "source": state.draft.source.address, "again": "yes"}
    return {**fields, **forms.read_reading(state.draft.source.reading)}


async def _start(request: Request, person: Principal, fields: Mapping[str, str]) -> str:
    """Begin a declaration, or read its source in another way; return a doubt about its first line, if there is one.

    Raises:
        SiloquentError, Refused: the source is not one that an owner may name, or cannot be read; the name is taken.
    """
    source, name = fields.get("source", "").strip(), fields.get("name", "").strip()
    allowed, folder = get_app_state(request).settings.sources, Path(request.app.state.folder)
    require_table_name(name, fix="visits")
    if not source:
        raise RequestError("No source is named.", fix="csv:data/visits.csv")
    await asyncio.to_thread(require_source, allowed, source, folder, name)

    def work(session: Session) -> str:
        from siloquent.declaring import read_source
        from siloquent.schema.declaring.header import describe_header_doubt

        place = DeclarationFiles(session.workspace, name)
        _require_free(place, again=fields.get("again") == "yes")
        found = read_source(source, session.workspace, forms.compose_reading(fields))
        header = fields.get("header") == "yes" or bool(fields.get("names", "").strip())
        doubt = "" if header else describe_header_doubt(found, source.partition(":")[2])
        if not doubt:
            answers = place.load().answers if place.kept.is_file() else GivenAnswers()
            place.keep(TableDraft(name, found, {}, answers=answers), header=header)
        return doubt

    return await _read(request, person, work)


def _require_free(place: DeclarationFiles, *, again: bool) -> None:
    """Refuse the name of a table that is declared, or being declared unless that goes on.

    Raises:
        RequestError: the name is taken.
    """
    if place.file.exists():
        raise RequestError(f"A table {place.table!r} is already declared.", fix="another name, or edit its declaration")
    if place.kept.exists() and not again:
        raise RequestError(f"A table {place.table!r} is being declared.", fix="another name, or continue that one")


async def _read(request: Request, person: Principal, work: Callable[[Session], T]) -> T:
    """Return the result of work that reads a source's names and types."""
    house = get_app_state(request)
    async with house.room.hold_place(person.name):
        return await house.heavy.run_in_turn(person.name, None, work)


async def _load(request: Request, person: Principal, table: str) -> DeclarationState:
    """Load a declaration in the making.

    Raises:
        Refused: 404, there is none. SiloquentError: its source cannot be read any more.
    """

    def work(session: Session) -> DeclarationState:
        from siloquent.declaring import read_source
        from siloquent.schema.declaring import start_draft
        from siloquent.schema.declaring.copying.lists import build_list_finder, list_declared_columns

        place = DeclarationFiles(session.workspace, table)
        if not place.kept.is_file():
            raise build_not_found()
        kept = place.load()
        require_source(get_app_state(request).settings.sources, kept.source, session.workspace.folder, table)
        found = read_source(kept.source, session.workspace, kept.reading)
        draft = start_draft(
            found,
            name=table,
            find_list=build_list_finder(session.workspace, found.address),
            declared=list_declared_columns(session.workspace, table),
        )
        draft, faults = apply_answers(draft, kept.answers)
        return DeclarationState(place, draft, kept.header, tuple(faults))

    try:
        require_table_name(table, fix="visits")
    except RequestError:
        raise build_not_found() from None
    return await _read(request, person, work)


@router.api_route("/declare/table/{table}", methods=["GET", "POST"])
async def ask(request: Request, table: str) -> Response:
    """The next open question, or the one that is asked for again; at the end everything, to be confirmed."""
    person = require_visitor(request, "owner")
    fields = await read_form(request, person) if request.method == "POST" else {}
    state = await _load(request, person, table)
    if fields.get("act") == "discard":
        await asyncio.to_thread(state.place.kept.unlink)
        return RedirectResponse("/declare", status_code=303)
    if fields.get("act") == "declare":
        return await _declare(request, person, state)
    question = _find_question(state.draft, fields or request.query_params)
    if question is None:
        return _render_summary(request, person, state)
    if not fields or (fields.get("question", "") in _COLUMNS) != (question.key in _COLUMNS):
        return _render_question(request, person, state, question)  # also if another page has answered that one
    draft, problem, faults = _answer(state.draft, question, fields)
    if draft is not state.draft:
        await asyncio.to_thread(state.keep, draft)
    if problem or faults:
        kept = replace(state, draft=draft)
        return _render_question(request, person, kept, question, fields=fields, problem=problem, faults=faults)
    return RedirectResponse(f"/declare/table/{quote(table)}", status_code=303)


def _find_question(draft: TableDraft, asked: Mapping[str, str]) -> DeclarationQuestion | None:
    """Return the question that ``asked`` names, although it was answered before; otherwise the next open one."""
    number, key = asked.get("column", ""), asked.get("question", "")
    if number.isascii() and number.isdigit() and int(number[:6]) < len(draft.columns):
        column = draft.columns[int(number[:6])]
        if column.is_declarable:
            text = f"What values are possible in {column.shown}?"
            return DeclarationQuestion("columns", text, columns=(column,))
    if (setting := next((one for one in list_settings(draft) if one.key == key), None)) is not None:
        return setting
    if key in WHOLE and getattr(draft.answers, key) is not None:
        cleared: dict[str, Any] = {key: None}
        reopened = replace(draft, answers=replace(draft.answers, **cleared))
        return next((one for one in list_open_questions(reopened) if one.key == key), None)
    return find_next_question(draft)


def _answer(
    draft: TableDraft, question: DeclarationQuestion, fields: Mapping[str, str]
) -> tuple[TableDraft, RequestError | None, dict[int, RequestError]]:
    """Return the draft with the form's answer, and what is wrong with it: in all, or of each column."""
    try:
        if question.key not in _COLUMNS:
            if question.key == "empty":
                draft = replace(draft, nulls={})
            return answer_question(draft, question, forms.compose_answer(question, draft, fields)), None, {}
        if fields.get("act") == "accept all":
            return answer_question(draft, question, "yes"), None, {}
        shown = _list_shown(draft, question, fields)
        draft, faults = forms.say_fields(draft, shown, fields)
        return draft, None, faults
    except RequestError as wrong:
        return draft, wrong, {}


def _list_shown(
    draft: TableDraft, question: DeclarationQuestion, fields: Mapping[str, str]
) -> tuple[ColumnHeader, ...]:
    """Return the columns that the form had: those that it names, so that a page sent twice says the same twice."""
    named = [int(one) for one in fields.get("places", "").split(",") if one.isascii() and one.isdigit()]
    known = [draft.columns[place] for place in named[: forms.COLUMNS_A_PAGE] if place < len(draft.columns)]
    return tuple(one for one in known if one.is_declarable) or question.columns[: forms.COLUMNS_A_PAGE]


def _render_question(
    request: Request,
    person: Principal,
    state: DeclarationState,
    question: DeclarationQuestion,
    *,
    fields: Mapping[str, str] | None = None,
    problem: RequestError | None = None,
    faults: Mapping[int, RequestError] | None = None,
) -> Response:
    """Return the page of one question; ``faults``: of its columns, by their place on the page."""
    draft = state.draft
    is_columns = question.key in _COLUMNS
    shown = _list_shown(draft, question, fields or {}) if is_columns else ()
    numbers = {column.name: place for place, column in enumerate(draft.columns)}
    decided = sum(column.name in draft.meanings for column in draft.columns)
    current = draft.answers.person if question.key == "person" else getattr(draft.answers, question.key, None)
    return render(
        request,
        "wizard_question.html",
        person,
        status=422 if problem or faults else 200,
        table=draft.name,
        question=question,
        columns=forms.describe_columns(draft, shown),
        places=",".join(str(numbers[column.name]) for column in shown),
        column=numbers[shown[0].name] if is_columns and len(question.columns) == 1 == len(shown) else "",
        more=len(question.columns) - len(shown),
        fields=dict(fields) if fields is not None else forms.propose_fields(draft, shown),
        kinds=forms.KINDS,
        empty=forms.list_empty(draft) if question.key == "empty" else [],
        names=[column.name for column in draft.columns if column.is_declarable],
        current=current if isinstance(current, str) else "",
        problem=problem,
        faults=faults or {},
        left_out=state.faults if fields is None else (),
        done=decided,
        total=len(draft.columns),
    )


def _render_summary(
    request: Request, person: Principal, state: DeclarationState, problem: Any = None, status: int = 200
) -> Response:
    """Return the page with everything that was said."""
    draft = state.draft
    return render(
        request,
        "wizard_summary.html",
        person,
        status=status,
        table=draft.name,
        columns=describe_columns(draft),
        declarable=[column.is_declarable for column in draft.columns],
        rest=describe_table(draft),
        answers=[(key, said) for key in WHOLE if (said := getattr(draft.answers, key)) is not None],
        settings=[(one.key, getattr(draft.answers, one.key) or one.default) for one in list_settings(draft)],
        source=draft.source,
        problem=problem,
    )


async def _declare(request: Request, person: Principal, state: DeclarationState) -> Response:
    """Write the table file of a finished declaration, unless there is one by now."""
    from siloquent.schema.declaring import compose_table_file

    draft = state.draft
    if find_next_question(draft) is not None:
        return RedirectResponse(f"/declare/table/{quote(draft.name)}", status_code=303)
    try:
        toml = compose_table_file(draft, origin=draft.source.address.partition(":")[2])
        await write_declaration(request, draft.name, toml, Precondition(none_match="*"))
    except (SiloquentError, Refused) as wrong:
        problem = wrong.problem if isinstance(wrong, Refused) else wrong
        return _render_summary(request, person, state, problem, status=422)
    await asyncio.to_thread(state.place.kept.unlink, missing_ok=True)
    return RedirectResponse(f"/declare/done/{quote(draft.name)}", status_code=303)


@router.get("/declare/done/{table}")
async def finish(request: Request, table: str) -> Response:
    """The new declaration and the price of a first query; no row is read."""
    person = require_visitor(request, "owner")

    def work(session: Session) -> tuple[Any, ...]:
        from siloquent.documents.prices.first_query import price_first_query

        if table not in session.list_tables():
            raise build_not_found()
        schema = session.schema(table)
        return schema, price_first_query(session.workspace, schema)

    schema, first = await _read(request, person, work)
    unknown = [one.name for one in schema.domain if one.kind == "text"]
    return render(request, "wizard_done.html", person, schema=schema, first=first, unknown=unknown)
