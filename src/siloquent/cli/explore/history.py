"""The questions asked about a table, with their prices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import typer

from siloquent.charts.text import clean_text
from siloquent.cli.base.command import Options, register_command
from siloquent.cli.base.screen import LEFT, RIGHT
from siloquent.documents.ledger import format_significant, parse_amount


def register(app: typer.Typer) -> None:
    """Add this file's commands."""
    register_command(app, "history", show_history, panel="Budget and ledger")


def show_history(
    options: Options,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="A declared table.")],
    last: Annotated[int, typer.Option("--last", min=1, help="The number of newest queries to show.")] = 20,
) -> None:
    """Show the queries to a table, newest last, with the cost of each and the earlier answers that it used."""
    with options.open_queries() as session:
        document = session.get_history(table)
    document = {**document, "questions": document["questions"][-last:]}
    if options.as_json:
        options.screen.write_document(document)
        return
    options.screen.write_table(
        [("entry", RIGHT), ("account", LEFT), ("cost", LEFT), ("holds", LEFT), ("question", LEFT)],
        [
            [
                str(one["seq"]),
                clean_text(one["account"]),
                _format_cost(one["cost"]),
                clean_text(one["label"]),
                clean_text(one["request"]),
            ]
            for one in document["questions"]
        ],
    )


def _format_cost(cost: Mapping[str, str]) -> str:
    ((symbol, amount),) = cost.items()
    paid = parse_amount(amount)
    return f"{clean_text(symbol)} {format_significant(paid, 'up')}" if paid else "free"
