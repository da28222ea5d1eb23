"""``siloquent schema``: JSON Schemas of the documents that ``--json`` prints, and of hand-written files."""

from __future__ import annotations

from typing import Annotated

import typer

from siloquent.cli.base.command import Options, register_command
from siloquent.documents.kinds import TABLE_FILE, json_schema, kinds

__all__ = ["TABLE_FILE", "json_schema", "kinds", "print_schema", "register"]


def register(app: typer.Typer) -> None:
    """Add this file's commands."""
    register_command(app, "schema", print_schema, panel="Help")


def print_schema(
    options: Options,
    kind: Annotated[
        str, typer.Argument(metavar="KIND", help="answer, explanation, problem, ...; table-file is for TOML editors.")
    ],
) -> None:
    """Print the JSON Schema of a kind of document, or of table files."""
    options.screen.write_document(json_schema(kind))
