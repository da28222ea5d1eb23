"""The questions that were asked of a table, with their prices."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Annotated

import typer

from siloquent.cli.commands import Options, command
from siloquent.cli.screen import LEFT, RIGHT
from siloquent.pictures.plain import clean

if TYPE_CHECKING:
    from siloquent.explore import Asked


def register(app: typer.Typer) -> None:
    """Add this file's commands."""
    command(app, "history", history, panel="Money")


def history(
    options: Options,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="A declared table.")],
    last: Annotated[int, typer.Option("--last", min=1, help="How many of the newest questions to show.")] = 20,
) -> None:
    """Show the questions asked of a table, newest last, with what each cost and drew from."""
    from siloquent.explore import history as asked_of

    with options.session() as session:
        found = asked_of(session, table)[-last:]
    document = {"schema": "siloquent/history/1", "table": table, "questions": [one.to_json() for one in found]}
    if options.as_json:
        options.screen.document(document)
        return
    options.screen.table(
        [("entry", RIGHT), ("account", LEFT), ("cost", LEFT), ("holds", LEFT), ("question", LEFT)],
        [[str(one.seq), clean(one.account), _cost(one), one.label, clean(one.request)] for one in found],
    )


def _cost(asked: Asked) -> str:
    from siloquent.documents.money import four_digits

    return f"{asked.symbol} {four_digits(Fraction(asked.paid), 'up')}" if asked.paid else "free"
