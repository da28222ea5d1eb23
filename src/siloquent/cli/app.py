"""The application: groups of commands, global options, and the exit status."""

from __future__ import annotations

import copy
import shlex
import sys
from collections.abc import Sequence
from contextlib import suppress
from difflib import get_close_matches
from typing import Annotated, Any, NoReturn

import typer

from siloquent.cli import demo
from siloquent.cli.base.command import (
    EVERYWHERE,
    AnalystOption,
    JsonOption,
    NoColorOption,
    Options,
    QuietOption,
    ServerOption,
    TokenOption,
    WorkspaceOption,
    merge_options,
)
from siloquent.cli.base.problems import build_usage_problem, report_problem
from siloquent.cli.base.screen import Screen
from siloquent.cli.collect import commands as collect
from siloquent.cli.explore import commands as explore
from siloquent.cli.explore import history
from siloquent.cli.federation import commands as federation
from siloquent.cli.federation import roles as federation_roles
from siloquent.cli.ledger import budgets, releases
from siloquent.cli.ledger import commands as ledger
from siloquent.cli.profile import commands as profile
from siloquent.cli.search import commands as search
from siloquent.cli.server import jobs, serve
from siloquent.cli.share import commands as share
from siloquent.cli.sketch import commands as sketch
from siloquent.cli.synth import commands as synth
from siloquent.cli.workspace import backup, declaration, declare, discover, doctor, document_kinds, migrate, report
from siloquent.cli.workspace import commands as workspace
from siloquent.documents.problems import build_problem
from siloquent.version import VERSION

# typer's exception for an invalid command line; its location differs between releases.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]

app = typer.Typer(name="siloquent", add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"siloquent {VERSION}")
        raise typer.Exit


@app.callback()
def set_global_options(
    context: typer.Context,
    workspace: WorkspaceOption = None,
    analyst: AnalystOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    no_color: NoColorOption = False,
    server: ServerOption = None,
    token_file: TokenOption = None,
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Show the version.", callback=_show_version, is_eager=True, rich_help_panel=EVERYWHERE
        ),
    ] = False,
) -> None:
    """Query data that you may not see: private answers within the error bound that you request.

    First: siloquent demo. Then: siloquent init DIR, siloquent declare ROWS.csv, siloquent explain "SELECT ...".
    """
    context.obj = merge_options(Options(workspace, analyst, as_json, quiet, no_color, server, token_file), {})


def _select_named(words: Sequence[str]) -> typer.Typer:
    """Return the application with only the commands and groups named in ``words``; all of it for help or if none is.

    To build all commands takes as long as a question to a small table.
    """
    named = copy.copy(app)
    named.registered_groups = [one for one in app.registered_groups if one.name in words]
    named.registered_commands = [one for one in app.registered_commands if one.name in words]
    is_enough = (named.registered_groups or named.registered_commands) and "--help" not in words
    return named if is_enough else app


def _invoke(words: list[str]) -> Any:
    named = _select_named(words)
    if named is not app:
        # Errors of a command line are raised before a command starts; they list all commands, so it is parsed again.
        with suppress(UsageError):
            return typer.main.get_command(named)(args=list(words), prog_name="siloquent", standalone_mode=False)
    return typer.main.get_command(app)(args=words, prog_name="siloquent", standalone_mode=False)


def run(arguments: Sequence[str]) -> int:
    """Run one command line, given as the words after ``siloquent``; return the exit status of the error's class."""
    words = list(arguments) or ["--help"]
    screen = Screen(as_json="--json" in words)
    try:
        status = _invoke(words)
    except UsageError as unreadable:
        return report_problem(screen, build_usage_problem(*_describe_usage_error(unreadable, words)))
    except (typer.Abort, KeyboardInterrupt):
        return report_problem(screen, build_problem(KeyboardInterrupt()))
    return int(status or 0)


demo.register(app, run)
for _module in (
    explore,
    sketch,
    synth,
    profile,
    search,
    share,
    collect,
    federation,
    federation_roles,
    workspace,
    declare,
    declaration,
    discover,
    report,
    ledger,
    history,
    budgets,
    releases,
    serve,
    migrate,
    backup,
    jobs,
    doctor,
    document_kinds,
):
    _module.register(app)


def main() -> NoReturn:
    """Run the console script."""
    sys.exit(run(sys.argv[1:]))


_OPTIONS = {
    **dict.fromkeys(("-n", "--n", "--count", "--size"), "--rows"),
    **dict.fromkeys(("-o", "--out", "--file", "--output-file"), "--output"),
    **dict.fromkeys(("--eps", "-e", "--budget"), "--epsilon"),
    **dict.fromkeys(("--columns", "--features", "--cols"), "--columns"),
    **dict.fromkeys(("-y", "--force"), "--yes"),
    **dict.fromkeys(("--dry-run", "--explain"), "--dry"),
}
"""Options of other programs, and ours."""


def _suggest_option(error: Any, words: Sequence[str]) -> tuple[str, str] | None:
    """Return the message and the command for an option that the command does not have: corrected, or left out."""
    option, context = getattr(error, "option_name", None), getattr(error, "ctx", None)
    if option is None or context is None:
        return None
    places = [place for place, word in enumerate(words) if word.partition("=")[0] == option]
    if not places:
        return None
    known = [name for one in context.command.params for name in getattr(one, "opts", ()) if name.startswith("-")]
    near = [_OPTIONS[option]] if _OPTIONS.get(option) in known else get_close_matches(option, known, n=1, cutoff=0.7)
    (place, *_), path = places, context.command_path
    if near:
        corrected = [*words[:place], words[place].replace(option, near[0], 1), *words[place + 1 :]]
        return f"{path} has no option {option}. Did you mean {near[0]}?", shlex.join(["siloquent", *corrected])
    has_value = "=" not in words[place] and len(words) > place + 1 and not words[place + 1].startswith("-")
    corrected = [*words[:place], *words[place + 1 + has_value :]]
    hint = ""
    if path.endswith(" ask") and _OPTIONS.get(option, option) == "--output":
        hint = " The answer is kept as a release, which `siloquent release export RELEASE -o FILE` writes to a file."
    return f"{path} has no option {option}.{hint}", shlex.join(["siloquent", *corrected])


def _describe_usage_error(error: Any, words: Sequence[str]) -> tuple[str, str]:
    """Return the fault in a command line, and the command that is meant or shows its correct form."""
    if suggested := _suggest_option(error, words):
        return suggested
    message = str(error.format_message()).rstrip(".")
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "siloquent"
    known = sorted(getattr(context.command, "commands", {})) if context is not None else []
    if known:
        # Some releases of typer suggest names, others do not: the message is always ours.
        asked = message.partition("'")[2].partition("'")[0]
        near = get_close_matches(asked, known, n=1)
        if near:
            meant = shlex.join(["siloquent", *(near[0] if word == asked else word for word in words)])
            return f"No command {asked!r}. Did you mean {near[0]!r}?", meant if asked in words else f"{path} {near[0]}"
        message = f"{message}. Commands: {', '.join(known)}"
    return f"{message}.", f"{path} --help"
