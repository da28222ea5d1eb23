"""A form for a table's declaration, column by column. It knows the columns' names and nothing about their rows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from siloquent.errors import SchemaError, SiloquentError
from siloquent.schema.declaring import ColumnHeader, parse_meaning
from siloquent.schema.declaring.names import HINTS, find_topic, is_person_like, propose_meaning
from siloquent.schema.files.toml import quote_text
from siloquent.server.declaring import write_declaration
from siloquent.server.problems import Refused
from siloquent.server.routes import tables
from siloquent.server.state import get_app_state
from siloquent.server.upload_inspection import read_parquet_columns
from siloquent.server.web.pages import read_form, render, require_visitor
from siloquent.server.web.uploading import take_file

router = APIRouter(include_in_schema=False)
TYPES = ("category", "integer", "real", "boolean", "date", "id", "text")
MAX_COLUMNS = 300
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")


@router.get("/declare")
async def begin(request: Request) -> Response:
    person = require_visitor(request, "owner")
    return render(request, "wizard.html", person, uploads=tables.read_uploads(get_app_state(request)))


@router.post("/declare/upload")
async def upload(request: Request) -> Response:
    person = require_visitor(request, "owner")
    made, _ = await take_file(request, person)
    if made is None:
        raise Refused(422, "request_unreadable", "No file was selected.", fix="select a CSV or Parquet file")
    return RedirectResponse(f"/declare/{made['id']}", status_code=303)


@router.api_route("/declare/{upload}", methods=["GET", "POST"])
async def columns(request: Request, upload: str) -> Response:
    person, house = require_visitor(request, "owner"), get_app_state(request)
    found = next((one for one in tables.read_uploads(house) if one["id"] == upload), None)
    if found is None:
        raise Refused(404, "not_found", "There is no such upload.", fix="/declare")
    fields, problem = await read_form(request, person) if request.method == "POST" else {}, None
    names = await read_column_names(
        Path(request.app.state.folder) / str(found["source"]).partition(":")[2], str(found["form"])
    )
    if request.method != "POST":
        fields = propose_fields(names)
    if request.method == "POST":
        try:
            name, toml = fields.get("name", "").strip(), compose_table_file(fields, names, source=str(found["source"]))
            await write_declaration(request, name, toml)
            return RedirectResponse(f"/tables/{name}", status_code=303)
        except SiloquentError as wrong:
            problem = wrong
    return render(
        request,
        "wizard_columns.html",
        person,
        status=422 if problem else 200,
        names=list(enumerate(names)),
        types=TYPES,
        fields=fields,
        hints={place: HINTS.get(find_topic(name), "") for place, name in enumerate(names)},
        problem=problem,
        upload=found,
    )


async def read_column_names(file: Path, form: str) -> list[str]:
    """Return the column names: the first line of a CSV file, the footer of a Parquet file; no row is unpacked.

    Raises:
        SchemaError: the names cannot be read, or are more than a form holds.
    """
    from siloquent.api import read_csv_header

    if form == "csv":
        names, _, _ = read_csv_header(file)
    else:
        names = await read_parquet_columns(file)
    if not 1 <= len(names) <= MAX_COLUMNS:
        raise SchemaError(
            f"The form takes 1 to {MAX_COLUMNS} columns, not {len(names)}.", fix="write the table file by hand"
        )
    return list(names)


def propose_fields(names: list[str]) -> dict[str, str]:
    """Return the form's fields as the columns' names suggest them, for the owner to correct; no row is read.

    >>> propose_fields(["age"])["hi-0"], propose_fields(["patient"])["unit"], propose_fields(["x"])
    ('120', 'patient', {})
    """
    fields: dict[str, str] = {}
    for place, name in enumerate(names):
        column = ColumnHeader(name)
        proposal = propose_meaning(column) if column.is_declarable else None
        meaning = parse_meaning(proposal.meaning, column) if proposal else None
        if meaning is None or meaning.type not in TYPES:
            continue
        limit = str(meaning.max_bytes) if meaning.type == "text" else meaning.hi
        said = {"type": meaning.type, "lo": meaning.lo, "hi": limit, "grid": meaning.grid}
        said["outside"] = meaning.outside if meaning.lo else ""
        fields |= {f"{key}-{place}": value for key, value in said.items() if value}
        if meaning.type == "id" and is_person_like(name):
            fields.setdefault("unit", name)
    return fields


def compose_table_file(fields: Mapping[str, str], names: list[str], *, source: str) -> str:
    """Return the table file for the form's fields. Empty fields are left out, so that their absence is an error.

    >>> fields = {"name": "t", "type-0": "integer", "lo-0": "0", "hi-0": "9", "epsilon": "1"}
    >>> '{ name = "age", type = "integer", lo = 0, hi = 9 }' in compose_table_file(fields, ["age"], source="csv:t.csv")
    True
    """
    attributes = [line for place, name in enumerate(names) if (line := _compose_attribute(fields, place, name))]
    unit = '{ kind = "row" }'
    if fields.get("unit"):
        max_rows = _format_number(fields.get("max_rows", ""))
        unit = f'{{ kind = "user", column = {quote_text(fields["unit"])}, max_rows = {max_rows} }}'
    given = {name: fields.get(name, "").strip() for name in ("size_hint", "epsilon", "delta")}
    lines = [
        "format = 1",
        "attribute = [",
        *(f"  {one}," for one in attributes),
        "]",
        "",
        "[table]",
        f"name = {quote_text(fields.get('name', '').strip())}",
        f"source = {quote_text(source)}",
        f"adjacency = {quote_text(fields.get('adjacency', 'add-remove'))}",
        *([f"size_hint = {_format_number(given['size_hint'])}"] if given["size_hint"] else []),
        f"unit = {unit}",
        "",
        "[budget]",
        f"accountant = {quote_text('zcdp' if given['delta'] else 'pure')}",
        *(f"{name} = {quote_text(given[name])}" for name in ("epsilon", "delta") if given[name]),
    ]
    return "\n".join(lines) + "\n"


def _compose_attribute(fields: Mapping[str, str], place: int, name: str) -> str:
    """Return one column's line; empty if the column is left out."""
    kind = fields.get(f"type-{place}", "")
    if not kind:
        return ""
    said = {key: fields.get(f"{key}-{place}", "").strip() for key in ("lo", "hi", "grid", "values", "null", "outside")}
    parts = [f"name = {quote_text(name)}", f"type = {quote_text(kind)}"]
    if kind == "category":
        values = [quote_text(one.strip()) for one in said["values"].splitlines() if one.strip()]
        parts.append(f"values = [{', '.join(values)}]")
    if kind in ("integer", "real", "date"):
        parts += [f"{key} = {_format_number(said[key])}" for key in ("lo", "hi", "grid") if said[key]]
        parts += [f"outside = {quote_text(said['outside'])}"] if said["outside"] else []
    if kind == "text":
        parts.append(f"max_bytes = {_format_number(said['hi'])}")
    if kind not in ("id", "text") and said["null"]:
        parts.append(f"null = {quote_text(said['null'])}")
    return f"{{ {', '.join(parts)} }}"


def _format_number(text: str) -> str:
    """Return a number unchanged and anything else as quoted text, which the table file's reader then rejects."""
    return text.strip() if _NUMBER.fullmatch(text.strip()) else quote_text(text.strip())
