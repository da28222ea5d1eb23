"""The questions asked about a table, with their prices."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Annotated

import typer

from siloquent.charts.text import clean_text
from siloquent.cli.base.command import Options, register_command
from siloquent.cli.base.screen import LEFT, RIGHT

if TYPE_CHECKING:
    from siloquent.explore import HistoryEntry


def register(app: typer.Typer) -> None:
    """Add this file's commands."""
    register_command(app, "history", show_history, panel="Budget and ledger")


def show_history(
    options: Options,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="A declared table.")],
    last: Annotated[int, typer.Option("--last", min=1, help="How many of the newest questions to show.")] = 20,
) -> None:
    """Show the questions asked of a table, newest last, with what each cost and drew from."""
    from siloquent.explore import list_history as asked_of

    with options.open_session() as session:
        found = asked_of(session, table)[-last:]
    document = {"schema": "siloquent/history/1", "table": table, "questions": [one.to_json() for one in found]}
    if options.as_json:
        options.screen.write_document(document)
        return
    options.screen.write_table(
        [("entry", RIGHT), ("account", LEFT), ("cost", LEFT), ("holds", LEFT), ("question", LEFT)],
        [
            [str(one.seq), clean_text(one.account), _format_cost(one), one.label, clean_text(one.request)]
            for one in found
        ],
    )


def _format_cost(asked: HistoryEntry) -> str:
    from siloquent.documents.ledger import format_significant

    return f"{asked.symbol} {format_significant(Fraction(asked.paid), 'up')}" if asked.paid else "free"
