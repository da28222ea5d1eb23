"""Common parts of all commands: global options on either side, exit handling, and the session of the workspace."""

from __future__ import annotations

import functools
import inspect
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from siloquent.cli.base.fixes import SERVED, CommandLanguage, is_served
from siloquent.cli.base.number_options import restrict_number
from siloquent.cli.base.problems import report_problem
from siloquent.cli.base.screen import Screen
from siloquent.documents.problems import OwnerLog, build_problem, log_details
from siloquent.errors import MissingExtra, NotAllowed, RequestError, SiloquentError, UnknownName
from siloquent.fixes import AskWith, BeOwner, Fix, run

if TYPE_CHECKING:
    from siloquent.api import Session
    from siloquent.cli.base.query_session import QuerySession
    from siloquent.remote import RemoteSession

NO_PLACE = "name an existing, writable location"
BROKEN_PIPE = 141  # the shell's exit status for a program ended by a closed pipe


@dataclass(frozen=True, slots=True)
class Options:
    """The global options, given before or after the command's name; those after it win."""

    workspace: Path | None = None
    analyst: str | None = None
    as_json: bool = False
    quiet: bool = False
    no_color: bool = False
    server: str | None = None
    token_file: Path | None = None
    typed: tuple[str, ...] = ()
    """The command and its own arguments, without the global options."""
    path: tuple[str, ...] = ()
    """The command without its arguments."""
    own_options: frozenset[str] = frozenset()
    """The names of the command's own options."""

    @property
    def screen(self) -> Screen:
        """The screen for this command's output."""
        return Screen(as_json=self.as_json, quiet=self.quiet)

    def find_folder(self) -> Path | None:
        """Return the workspace's folder, if there is one; nothing is read."""
        from siloquent.schema.workspace import find_workspace

        with suppress(SiloquentError, OSError):
            return self.workspace or find_workspace(Path.cwd())
        return None

    @contextmanager
    def open_session(self) -> Iterator[Session]:
        """Open the workspace for this analyst; meanwhile details of failing sources go to the owner's log."""
        import logging

        from siloquent.api import open_session

        with closing(open_session(self.workspace, analyst=self.analyst)) as session:
            log = OwnerLog(session.workspace.folder)
            logger = logging.getLogger("siloquent.owner")
            logger.addHandler(log)
            try:
                yield session
            finally:
                logger.removeHandler(log)
                log.close()

    @contextmanager
    def open_queries(self) -> Iterator[QuerySession]:
        """Open the workspace, or with ``--server`` a session at that server, for the commands of ``SERVED``."""
        if self.server is not None:
            with self.connect() as served:
                yield served
            return
        from siloquent.cli.base.query_session import WorkspaceQueries

        with self.open_session() as session:
            yield WorkspaceQueries(session)

    def connect(self) -> RemoteSession:
        """Return the session at ``--server``, with the token of ``--token-file`` or of the environment."""
        from siloquent.remote import connect

        assert self.server is not None
        return connect(self.server, token_file=self.token_file)

    def format_command(self, *words: str) -> str:
        """Return a command line to paste: the same workspace and analyst, then ``words``."""
        return shlex.join(["siloquent", *self._place, *self._analyst, *words])

    @property
    def _place(self) -> tuple[str, ...]:
        named = {"--workspace": self.workspace, "--server": self.server, "--token-file": self.token_file}
        return tuple(word for name, value in named.items() if value for word in (name, str(value)))

    @property
    def _analyst(self) -> tuple[str, ...]:
        return ("--analyst", self.analyst) if self.analyst else ()

    @property
    def language(self) -> CommandLanguage:
        """The language of fixes for this command."""
        return CommandLanguage(self._place, self._analyst, self.typed, self.own_options)

    def format_rerun(self, *more: str) -> str:
        """Return the current command, to paste, with ``more`` appended."""
        return self.format_command(*self.typed, *more)

    def require_owner(self, what: str) -> None:
        """Refuse an analyst.

        Raises:
            NotAllowed: ``--analyst`` was given.
        """
        if self.analyst is not None:
            raise NotAllowed(f"{what} is reserved for the owner.", fix=BeOwner())


EVERYWHERE = "Global options"  # the help panel of global options
WorkspaceOption = Annotated[
    Path | None,
    typer.Option("--workspace", help="The workspace's folder (default: the nearest one).", rich_help_panel=EVERYWHERE),
]
AnalystOption = Annotated[
    str | None,
    typer.Option("--analyst", help="The analyst whose share of the budget is charged.", rich_help_panel=EVERYWHERE),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print one JSON document instead of text.", rich_help_panel=EVERYWHERE)
]
QuietOption = Annotated[
    bool, typer.Option("--quiet", help="Print no notes on standard error.", rich_help_panel=EVERYWHERE)
]
NoColorOption = Annotated[
    bool, typer.Option("--no-color", help="Print no colours, as with NO_COLOR.", rich_help_panel=EVERYWHERE)
]
ServerOption = Annotated[
    str | None,
    typer.Option("--server", metavar="URL", help="Use a server, with a token.", rich_help_panel=EVERYWHERE),
]
TokenOption = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        metavar="FILE",
        help="The token for --server (default: SILOQUENT_TOKEN, or SILOQUENT_TOKEN_FILE names a file).",
        rich_help_panel=EVERYWHERE,
    ),
]
_GLOBAL: dict[str, tuple[Any, Any]] = {
    "workspace": (WorkspaceOption, None),
    "analyst": (AnalystOption, None),
    "as_json": (JsonOption, False),
    "quiet": (QuietOption, False),
    "no_color": (NoColorOption, False),
    "server": (ServerOption, None),
    "token_file": (TokenOption, None),
}

CommandBody = Callable[..., int | None]


def register_command(
    group: typer.Typer, name: str, body: CommandBody, *, panel: str = "", at_server: bool = False
) -> None:
    """Register ``body(options, ...)`` as the command ``name``; it returns an exit status, or None for 0.

    Args:
        at_server: Whether the command works only with servers; those of ``SERVED`` work with and without.
    """
    own = inspect.signature(body, eval_str=True)

    @functools.wraps(body)
    def walk(context: typer.Context, **given: Any) -> None:
        options = merge_options(context.obj or Options(), {key: given.pop(key) for key in _GLOBAL})
        options = replace(
            options,
            typed=collect_words(context),
            path=tuple(context.command_path.split()[1:]),
            own_options=frozenset(name for one in context.command.params for name in one.opts),
        )

        def guarded() -> int | None:
            _require_place(options, at_server=at_server)
            return body(options, **given)

        raise typer.Exit(run_guarded(options, guarded))

    here = inspect.Parameter
    parameters = [
        here("context", here.POSITIONAL_OR_KEYWORD, annotation=typer.Context),
        *[
            restrict_number(parameter).replace(kind=here.KEYWORD_ONLY)
            for parameter in list(own.parameters.values())[1:]
        ],
        *[here(key, here.KEYWORD_ONLY, default=off, annotation=kind) for key, (kind, off) in _GLOBAL.items()],
    ]
    # Typer reads options from a function's signature: the body's own, then the global ones.
    walk.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    walk.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    group.command(name, rich_help_panel=panel or None)(walk)


def _require_place(options: Options, *, at_server: bool) -> None:
    """Refuse a command that does not work where the options say.

    Raises:
        RequestError: a server was named and the command does not work there, or none was named and it needs one.
    """
    if options.server is None:
        if at_server:
            raise RequestError("This command requires --server.", fix=options.format_rerun("--server", "https://..."))
        return
    if options.workspace is not None or options.analyst is not None:
        raise RequestError(
            "--workspace and --analyst cannot be combined with --server.",
            fix=replace(options, workspace=None, analyst=None).format_rerun(),
        )
    if not at_server and not is_served(" ".join(options.path)):
        raise RequestError(
            f"This command requires a workspace on this machine. With --server: job, {', '.join(SERVED)}.",
            fix=run("job list"),
        )


def collect_words(context: typer.Context) -> tuple[str, ...]:
    """Return the command of ``context`` in canonical form: its name, arguments, and options with non-default values."""
    arguments: list[str] = []
    options: list[str] = []
    for parameter in context.command.params:
        value = context.params.get(str(parameter.name))
        if parameter.name in _GLOBAL or value is None or value == parameter.default:
            continue
        values = [str(one) for one in (value if isinstance(value, (list, tuple)) else [value])]
        if parameter.param_type_name == "argument":
            arguments += values
            continue
        name = max(parameter.opts, key=len)
        if isinstance(value, bool):
            options.append(name if value else parameter.secondary_opts[0])
        else:
            options += [word for one in values for word in (name, one)]
    return (*context.command_path.split()[1:], *arguments, *options)


def merge_options(before: Options, behind: dict[str, Any]) -> Options:
    """Return the options before the command's name, overridden by those after it."""
    options = replace(before, **{key: value for key, value in behind.items() if value != _GLOBAL[key][1]})
    if options.no_color:
        os.environ["NO_COLOR"] = "1"
    return options


def run_guarded(options: Options, body: Callable[[], int | None]) -> int:
    """Run ``body``; every outcome becomes an exit status and at most one problem."""
    try:
        return body() or 0
    except BrokenPipeError:
        # The reader has closed the pipe; without this, Python would report it again when it closes the stream.
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - open until the process ends
        return BROKEN_PIPE
    except (SiloquentError, KeyboardInterrupt) as refused:
        problem = build_problem(refused)
        # For a task's command, its help is more useful than the general fix, the list of tables.
        is_bare = isinstance(refused, RequestError) and not refused.remedy and refused.code == RequestError.code
        if is_bare and len(options.path) > 1:
            problem = replace(problem, remedy=Fix((run(" ".join(options.path), "--help"),)))
        problem = problem.translate(options.language)
        if corrected := correct_words(options.typed, refused):
            problem = replace(problem, fix=options.format_command(*corrected))
        return report_problem(options.screen, problem)
    except (typer.Exit, typer.Abort):
        raise
    except Exception as unforeseen:  # allowed: the last door: no trace, no values on the screen, details to the owner
        if extra := _find_extra(unforeseen):
            return report_problem(
                options.screen, build_problem(MissingExtra(extra, f"siloquent {' '.join(options.path)}"))
            )
        problem = build_problem(unforeseen)
        log_details(options.find_folder(), problem, unforeseen)
        if isinstance(unforeseen, OSError) and (place := _find_typed_path(options, unforeseen)):
            told = RequestError(f"{place} cannot be used: {unforeseen.strerror}.", fix=NO_PLACE, spent=problem.spent)
            return report_problem(options.screen, build_problem(told))
        return report_problem(options.screen, problem)


_EXTRAS = {
    **dict.fromkeys(("cryptography", "nacl", "httpx", "starlette"), "federation"),
    **dict.fromkeys(("fastapi", "jinja2", "multipart", "python_multipart", "uvicorn"), "server"),
    "psycopg": "postgres",
    "pyspark": "spark",
}


_ODD_NUMBER = r"[0-9]+([,_][0-9]+)+"


def correct_words(typed: Sequence[str], refused: BaseException) -> tuple[str, ...]:
    """Return the typed command with the word that was refused as it is meant; empty if it is not among the words.

    A name that nothing declares becomes the nearest one, and 0,1 or 1_000 a number with a decimal point.
    """
    if isinstance(refused, UnknownName) and refused.near and not refused.remedy.find(AskWith):
        meant = [_replace_name(word, refused.name, refused.near) for word in typed]
        return tuple(meant) if meant != list(typed) else ()
    if not isinstance(refused, RequestError) or not any(re.fullmatch(_ODD_NUMBER, word) for word in typed):
        return ()
    from siloquent.schema.files.amounts import mend_amount

    numbers = {word: mend_amount(word) for word in typed if re.fullmatch(_ODD_NUMBER, word)}
    meant = [numbers[word] if numbers.get(word) and repr(word) in refused.detail else word for word in typed]
    return tuple(meant) if meant != list(typed) else ()


def _replace_name(word: str, name: str, near: str) -> str:
    """Return ``word``, a name or a list of names with commas, with one name replaced."""
    return ",".join(near if part.strip() == name else part for part in word.split(",")) if len(word) < 4_096 else word


def _find_extra(failed: Exception) -> str:
    """Return the extra whose missing package caused ``failed``; empty for any other failure."""
    name = failed.name or "" if isinstance(failed, ModuleNotFoundError) else ""
    return _EXTRAS.get(name.partition(".")[0], "")


def _find_typed_path(options: Options, failed: OSError) -> str:
    """Return the typed path that ``failed`` concerns: the path itself, a file inside it, or a file beside it."""
    if not isinstance(failed.filename, (str, Path)):
        return ""
    about = Path(failed.filename)
    for word in options.typed:
        typed = Path(word)
        if "/" in word and (about in (typed, typed.parent) or typed in about.parents or typed.parent in about.parents):
            return word
    return ""
