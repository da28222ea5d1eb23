"""``siloquent schema``: JSON Schemas of the documents that ``--json`` prints, and of the files that people write."""

from __future__ import annotations

from typing import Annotated

import typer

from siloquent.cli.commands import Options, command
from siloquent.documents.kinds import TABLE_FILE, json_schema, kinds

__all__ = ["TABLE_FILE", "json_schema", "kinds", "register", "schema"]


def register(app: typer.Typer) -> None:
    """Add this file's commands."""
    command(app, "schema", schema, panel="Help")


def schema(
    options: Options,
    kind: Annotated[
        str, typer.Argument(metavar="KIND", help="answer, explanation, problem, ..; table-file for editors of TOML.")
    ],
) -> None:
    """Print the JSON Schema of a kind of document, or of table files."""
    options.screen.document(json_schema(kind))
