"""The demo: ordinary commands, run one after another through the real ledger."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from siloquent.cli.base.command import Options, register_command
from siloquent.errors import RequestError, SiloquentError
from siloquent.fixes import build_fix, run

if TYPE_CHECKING:
    from rich.rule import Rule

LINK_SECONDS = 900  # synthetic data, so the link may stay valid for long
FOLDER, PORT = Path("demo-clinic"), 8642


@dataclass(frozen=True, slots=True)
class _Demo:
    """The demo's command; ``run`` runs a command line and returns its exit status."""

    run: Callable[[Sequence[str]], int]

    def tell(
        self,
        options: Options,
        folder: Annotated[
            Path, typer.Option("--folder", metavar="DIR", help="The folder for the demo's workspace.")
        ] = FOLDER,
        quick: Annotated[bool, typer.Option("--quick", help="Show only the first answer and its free repeat.")] = False,
        processes: Annotated[
            bool | None,
            typer.Option(
                "--processes/--no-processes",
                help="Run the profile's relay, clinics and hosts as processes (default: if the extra federation "
                "is installed).",
            ),
        ] = None,
        serve: Annotated[
            bool | None,
            typer.Option(
                "--serve/--no-serve",
                help="Keep its pages running (default: in an interactive terminal, not with --quick).",
            ),
        ] = None,
        port: Annotated[int, typer.Option("--port", help="The port of its pages.")] = PORT,
    ) -> int:
        """Create a synthetic clinic and query it: prices, answers, refusals and the ledger."""
        from siloquent.demo import create_clinic, profiling_roles, story

        screen = options.screen
        if options.as_json:
            raise RequestError(
                "The demo is interactive and has no JSON output.",
                fix=build_fix(run("demo"), ", or --json with one of its commands"),
            )
        create_clinic(folder)
        with_roles = not quick and _decide_roles(processes)
        screen.write_line(
            f"Created a demo workspace with synthetic data in {folder}: 20,000 visits of 6,000 invented patients."
        )
        with ExitStack() as roles:
            if with_roles:
                profiling_roles.describe(folder)
            for number, step in enumerate(story(quick=quick, roles_in=folder if with_roles else None), start=1):
                screen.show(_draw_rule(number))
                screen.write_line(step.says)
                screen.write_line(f"\n$ {shlex.join(['siloquent', '--workspace', str(folder), *step.command])}\n")
                status = self.run(["--workspace", str(folder), *step.command])
                if status != step.ends:
                    told = f"Step {number} of the demo ended with {status}, not {step.ends}."
                    raise SiloquentError(told, spent="as shown")
                if with_roles and step.command[:2] == profiling_roles.STARTS_BEHIND:
                    roles.enter_context(profiling_roles.running(folder))
        screen.show(_draw_rule(0))
        screen.write_line(_NEXT.format(folder=shlex.quote(str(folder))))
        if serve or (serve is None and not quick and screen.can_ask and find_spec("fastapi") is not None):
            _serve(options, folder, port)
        return 0


def register(app: typer.Typer, run: Callable[[Sequence[str]], int]) -> None:
    """Add this file's command, which runs others with ``run``."""
    register_command(app, "demo", _Demo(run).tell, panel="Getting started")


def _decide_roles(asked: bool | None) -> bool:
    """Return whether roles run as processes: as requested, otherwise where that is possible."""
    from siloquent.federation.extra import PACKAGES, require_extra

    if asked:
        require_extra("The demo's federation")
    return asked or (asked is None and all(find_spec(package) is not None for package in PACKAGES))


def _serve(options: Options, folder: Path, port: int) -> None:
    """Serve the demo's pages for Ana and for the owner until stopped."""
    from siloquent.cli.server import serve
    from siloquent.server.access.tokens import Tokens
    from siloquent.server.store import Store

    store = Store(folder / "server.sqlite")
    tokens = Tokens(store)
    roles = (("owner", "owner"), ("ana", "analyst"))
    links = [tokens.create_login_link(tokens.create(*one, days=1)[3:11], seconds=LINK_SECONDS) for one in roles]
    store.close()
    within = f"within {LINK_SECONDS // 60} minutes"
    options.screen.write_line(f"\nTo view this in a browser (each link opens one session, {within}), as the owner:")
    options.screen.write_line(f"http://127.0.0.1:{port}/login/{links[0]}")
    options.screen.write_line("As Ana, best in another browser or a private window:")
    options.screen.write_line(f"http://127.0.0.1:{port}/login/{links[1]}")
    serve.serve(replace(options, workspace=folder), port=port)


def _draw_rule(number: int) -> Rule:
    from rich.rule import Rule

    return Rule(f"step {number}" if number else "what to type next", align="left", style="dim")


_NEXT = """\
  cd {folder}
  siloquent tables
  siloquent --analyst ana explain "SELECT outcome, COUNT(*) FROM visits WHERE age > 75 GROUP BY outcome ERROR 150"
  siloquent --analyst ana ask "SELECT insurer, COUNT(*) FROM visits GROUP BY insurer ERROR 250"
  siloquent release list
  siloquent ledger checkpoint -o ../checkpoint.json

Your own data: siloquent init DIR, then siloquent --workspace DIR declare FILE; it asks about each column."""
