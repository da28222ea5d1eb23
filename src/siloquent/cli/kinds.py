"""JSON Schemas of the documents that ``--json`` prints, and of the files that people write."""

from __future__ import annotations

import json
from importlib import resources
from typing import Annotated, Any

import typer

from siloquent.cli.commands import Options, command
from siloquent.errors import UnknownName

TABLE_FILE = "table-file"


def register(app: typer.Typer) -> None:
    """Add this file's commands."""
    command(app, "schema", schema, panel="Help")


def kinds() -> list[str]:
    """The kinds of documents, in alphabetical order; ``siloquent/KIND/1`` is the first value of each."""
    folder = resources.files("siloquent.cli") / "schemas"
    return sorted(file.name.removesuffix(".json") for file in folder.iterdir() if file.name.endswith(".json"))


def json_schema(kind: str) -> dict[str, Any]:
    """The JSON Schema of ``kind``.

    Raises:
        UnknownName: there is no such kind.
    """
    if kind == TABLE_FILE:
        from siloquent.schema.toml import json_schema as of_table_files

        return of_table_files()
    if kind not in kinds():
        raise UnknownName("kind of document", kind, [*kinds(), TABLE_FILE], fix="siloquent schema answer")
    text = (resources.files("siloquent.cli") / "schemas" / f"{kind}.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def schema(
    options: Options,
    kind: Annotated[
        str, typer.Argument(metavar="KIND", help="answer, explanation, problem, ..; table-file for editors of TOML.")
    ],
) -> None:
    """Print the JSON Schema of a kind of document, or of table files."""
    options.screen.document(json_schema(kind))
