"""The demo: the commands that a person would type, run one after another through the real ledger."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from siloquent.cli.commands import Options, command
from siloquent.errors import RequestError, SiloquentError

if TYPE_CHECKING:
    from rich.rule import Rule

FOLDER = Path("demo-clinic")


def register(app: typer.Typer) -> None:
    """Add this file's command."""
    command(app, "demo", demo, panel="Start")


def demo(
    options: Options,
    folder: Annotated[Path, typer.Option("--folder", metavar="DIR", help="Where the demo's workspace goes.")] = FOLDER,
    quick: Annotated[bool, typer.Option("--quick", help="Only the first answer and its free repeat.")] = False,
) -> int:
    """Make a clinic that does not exist, and ask it questions: prices, answers, refusals, the ledger."""
    from siloquent.cli.app import run
    from siloquent.demo import create_clinic, story

    screen = options.screen
    if options.as_json:
        raise RequestError("The demo is a story for people.", fix="siloquent demo, or --json with one of its commands")
    create_clinic(folder)
    screen.line(f"A clinic that does not exist is in {folder}: 20,000 visits of 6,000 invented patients.")
    for number, step in enumerate(story(quick=quick), start=1):
        screen.show(_rule(number))
        screen.line(step.says)
        screen.line(f"\n$ {shlex.join(['siloquent', '--workspace', str(folder), *step.command])}\n")
        status = run(["--workspace", str(folder), *step.command])
        if status != step.ends:
            raise SiloquentError(f"Step {number} of the demo ended with {status}, not {step.ends}.", spent="as shown")
    screen.show(_rule(0))
    screen.line(_NEXT.format(folder=shlex.quote(str(folder))))
    return 0


def _rule(number: int) -> Rule:
    from rich.rule import Rule

    return Rule(f"step {number}" if number else "what to type next", align="left", style="dim")


_NEXT = """\
  cd {folder}
  siloquent tables
  siloquent --analyst ana explain "SELECT outcome, COUNT(*) FROM visits WHERE age > 75 GROUP BY outcome ERROR 150"
  siloquent --analyst ana ask "SELECT insurer, COUNT(*) FROM visits GROUP BY insurer ERROR 250"
  siloquent release list
  siloquent ledger checkpoint -o ../checkpoint.json

Your own data: siloquent init DIR, declare a table in DIR/schemas/NAME.toml, then siloquent --workspace DIR check."""
