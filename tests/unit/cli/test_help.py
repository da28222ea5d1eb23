"""Every command explains itself, at once, and loads nothing heavy for it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from rich.text import Text

from siloquent.cli.app import UsageError, app, run
from siloquent.version import VERSION

HEAVY = ("numpy", "opendp", "duckdb", "numba", "scipy", "pyarrow", "sqlalchemy", "sqlglot")


def paths(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    for name, below in getattr(command, "commands", {}).items():
        yield from paths(below, (*path, name))


ALL = list(paths(typer.main.get_command(app)))


def test_the_commands_of_the_first_task_are_there() -> None:
    wanted = {
        *(
            "init",
            "declare",
            "draft",
            "check",
            "tables",
            "show",
            "doctor",
            "demo",
            "ask",
            "explain",
            "verify",
            "schema",
        ),
        *("ledger show", "ledger verify", "ledger checkpoint", "budget set", "epoch open"),
        *("release list", "release show", "release export", "release verify"),
    }
    assert wanted <= {" ".join(path) for path in ALL}


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_every_command_has_help_and_every_option_too(path: tuple[str, ...], capfd: pytest.CaptureFixture[str]) -> None:
    assert run([*path, "--help"]) == 0
    assert "Usage" in capfd.readouterr().out
    command = typer.main.get_command(app)
    for name in path:
        command = command.commands[name]  # type: ignore[attr-defined]
    assert command.help
    assert [parameter.name for parameter in command.params if not getattr(parameter, "help", "")] == []
    for text in (command.help, *(parameter.help for parameter in command.params if hasattr(parameter, "help"))):
        assert Text.from_markup(text).plain == text  # such as [reading], which would not be shown


@pytest.mark.parametrize("path", [path for path in ALL if path], ids=" ".join)
def test_every_command_takes_the_global_options_behind_its_name(path: tuple[str, ...]) -> None:
    command = typer.main.get_command(app)
    for name in path:
        command = command.commands[name]  # type: ignore[attr-defined]
    options = {option for parameter in command.params for option in parameter.opts}
    is_group = hasattr(command, "commands")
    assert is_group or {"--workspace", "--analyst", "--json", "--quiet", "--no-color"} <= options


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; from siloquent.cli.app import run; run(['--help']); run(['ask', '--help'])\n"
        f"sys.exit(','.join(name for name in {HEAVY!r} if name in sys.modules) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == ""
    assert done.returncode == 0


def test_without_words_it_helps(capfd: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 0
    assert "demo" in capfd.readouterr().out


def test_it_says_its_version(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capfd.readouterr().out == f"siloquent {VERSION}\n"


def test_the_class_of_unreadable_command_lines_is_the_right_one() -> None:
    assert UsageError.__name__ == "UsageError"
    assert issubclass(typer.BadParameter, UsageError)


@pytest.mark.parametrize(
    ("words", "said", "fix"),
    [
        (["doctr"], "Did you mean 'doctor'?", "siloquent doctor"),
        (["ledger", "shwo"], "Did you mean 'show'?", "siloquent ledger show"),
        (["ledger"], "checkpoint, show, verify", "siloquent ledger --help"),
        (["show"], "TABLE", "siloquent show --help"),
        (["tables", "--jsn"], "--json", "siloquent tables --json"),
        (["ledger", "show", "--last", "many"], "--last", "siloquent ledger show --help"),
        (["tables", "extra"], "extra", "siloquent tables --help"),
    ],
)
def test_a_slip_in_the_command_line_is_explained(
    words: list[str], said: str, fix: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(words) == 2
    told = capfd.readouterr()
    assert told.out == ""
    assert said in told.err
    assert f"Fix: {fix}" in told.err
    assert "Spent: nothing." in told.err
