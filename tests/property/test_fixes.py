"""A fix speaks the language of the interface that shows it, and of no other; its commands are those of the program."""

from __future__ import annotations

import ast
import json
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st

import siloquent
from journeys.test_fixes_work import KINDS, opened, texts
from siloquent.api import Session
from siloquent.cli.app import app
from siloquent.cli.base.fixes import CommandLanguage
from siloquent.documents.problems import FIXES, build_problem
from siloquent.errors import CAUSES, SiloquentError
from siloquent.fixes import (
    CALLS,
    PYTHON,
    AskWith,
    BeOwner,
    Fix,
    FixLanguage,
    RunCommand,
    UseOption,
    build_fix,
    parse_fix,
    use_budget,
)
from siloquent.remote.replies import parse_error
from siloquent.server.failures.fixes import HTTP, PAGE

SOURCE = Path(siloquent.__file__).parent
SHELL = re.compile(r"\bsiloquent (?!again|that)[a-z]|(?<![\w-])--(?!upgrade)[a-z]")
CALL = re.compile(r"\bsession\.|\bsiloquent\.\w+\(|\bBudget\(|\bhelp\(|(?<![\w\s])\b[a-z_]+=[\"\d(]")
REQUEST = re.compile(r"\b(GET|POST|PUT|DELETE) /")
# Commands that an interface lacks are named with the place where they run, which is no invitation to type them here.
ELSEWHERE = re.compile(r"(on the command line|the workspace's owner runs): siloquent (?:[^,;]|,(?! ))*")
# What only Python reaches: frames, the builder of queries, and the session itself.
PYTHON_ONLY = {
    "data/column_reader.py",
    "data/sources/frames.py",
    "data/sources/pandas.py",
    "explore/spec/builder.py",
    "session/workspace_session.py",
}
PYTHON_ONLY |= {"remote/clients.py", "remote/verbs/tables.py", "sketch/task.py", "ledger/rules.py"}
PYTHON_ONLY |= {"schema/declaring/attributes.py"}

OTHER_PROGRAMS = {"data/sources/encodings.py"}  # createdb and its options


def faults(fix: Fix) -> Iterator[str]:
    """Words of one interface in the fix of another."""
    languages: dict[str, tuple[FixLanguage, tuple[re.Pattern[str], ...]]] = {
        "Python": (PYTHON, (SHELL, REQUEST)),
        "the command line": (CommandLanguage(), (CALL, REQUEST)),
        "HTTP": (HTTP, (SHELL, CALL)),
        "a page": (PAGE, (SHELL, CALL, REQUEST)),
    }
    for name, (language, others) in languages.items():
        text = ELSEWHERE.sub("", fix.render(language))
        # A question may hold anything in its texts.
        text = text.replace(json.dumps(fix_question(fix))[1:-1], "").replace(fix_question(fix), "")
        yield from (f"{name}: {text!r}" for other in others if other.search(text))


def fix_question(fix: Fix) -> str:
    asked = fix.find(AskWith)
    return asked.question if asked is not None and asked.question else "\0"


def parses(words: tuple[str, ...]) -> None:
    """Parse a command line as the program does, without running it."""
    command: Any = typer.main.get_command(app)
    context = command.make_context("siloquent", list(words))
    while hasattr(command, "commands"):
        rest = [*getattr(context, "_protected_args", ()), *context.args]
        name, command, rest = command.resolve_command(context, rest)
        context = command.make_context(name, rest, parent=context)


def calls_of(name: str) -> Iterator[tuple[Path, ast.Call]]:
    for file in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
                yield file, node


def commands() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Every command of a fix in the source; arguments that are known only when it runs are the word 1."""
    for name in ("run", "let_owner_run"):
        for file, call in calls_of(name):
            if "siloquent.fixes import" not in file.read_text() or not call.args:
                continue
            words = [one.value if isinstance(one, ast.Constant) else "1" for one in call.args]
            if isinstance(words[0], str) and isinstance(call.args[0], ast.Constant):
                yield f"{file.relative_to(SOURCE)}:{call.lineno}", tuple(map(str, words))


COMMANDS = dict(commands())


def test_the_source_has_many_commands_in_its_fixes() -> None:
    assert len(COMMANDS) > 90
    assert {"ledger verify", "show", "check", "budget set", "federation renew"} <= {one[0] for one in COMMANDS.values()}


@pytest.mark.parametrize("place", COMMANDS)
def test_every_command_of_a_fix_is_one_that_the_program_parses(place: str) -> None:
    verb, *args = COMMANDS[place]
    if "--help" in args:
        args.remove("--help")
    text = CommandLanguage().format_command(RunCommand(verb, tuple(args)))
    known = subcommands()
    assert any(" ".join((*verb.split(), *args)).startswith(one) for one in known), text
    if args or verb in NEEDS_NOTHING:
        parses(tuple(shlex.split(text)[1:]))


# These run as they are; the others are named without the arguments that only the reader knows.
NEEDS_NOTHING = {
    "tables",
    "check",
    "doctor",
    "ledger show",
    "ledger verify",
    "ledger adopt",
    "release list",
    "job list",
}


def subcommands() -> set[str]:
    def below(command: Any, path: tuple[str, ...] = ()) -> Iterator[str]:
        for name, one in getattr(command, "commands", {}).items():
            yield " ".join((*path, name))
            yield from below(one, (*path, name))

    return set(below(typer.main.get_command(app)))


def test_a_command_that_is_misspelled_would_be_seen() -> None:
    with pytest.raises(Exception, match="No such command"):
        parses(("ledger", "verifi"))
    with pytest.raises(Exception, match="No such option"):
        parses(("ledger", "verify", "--chekpoint", "c.json"))


def test_python_has_calls_for_commands_that_exist() -> None:
    assert set(CALLS) <= subcommands()


PARTS = st.one_of(
    st.sampled_from(["put it back, then: ", ", or ", "ask again"]),
    st.builds(
        lambda call, by_owner: RunCommand(call[0], call[1:], by_owner),
        st.sampled_from(sorted(COMMANDS.values())),
        st.booleans(),
    ),
    st.builds(
        AskWith, st.sampled_from(["SELECT COUNT(*) FROM t ERROR 5", "BIN t ON COUNT(*) WHERE W = {a > 3} ERROR 5"])
    ),
    st.builds(AskWith, st.just("SELECT COUNT(*) FROM t ERROR 310"), st.just("ERROR 310"), st.just("ask")),
    st.builds(UseOption, st.sampled_from(["rows", "max_cost", "width"]), st.integers(1, 9) | st.text(max_size=9)),
    st.builds(use_budget, st.sampled_from(["epsilon", "rho"]), st.just("0.5")),
    st.just(BeOwner()),
)


@settings(deadline=None)
@given(st.lists(PARTS, max_size=5))
def test_any_fix_is_said_in_the_words_of_one_interface_and_survives_its_way_over_http(parts: list[Any]) -> None:
    fix = build_fix(*parts)
    if not any(isinstance(one, UseOption) and isinstance(one.value, str) for one in parts):
        assert not list(faults(fix))
    assert parse_fix(json.loads(json.dumps(fix.to_json()))) == fix
    problem = build_problem(SiloquentError("no", fix=fix)).translate(HTTP)
    again = parse_error(400, json.dumps(problem.to_json()).encode())
    assert again.remedy == (fix or build_fix(FIXES.get("internal", "")))


@pytest.mark.parametrize("place", [FIXES[code] for code in FIXES] + [fix for _, fix in CAUSES.values()], ids=str)
def test_fixes_of_codes_and_causes_are_said_in_the_words_of_one_interface(place: Any) -> None:
    assert not list(faults(build_fix(place)))


def asking(folder: Path) -> Iterator[SiloquentError]:
    session = opened(folder, dict.fromkeys(("t", "stays", "visits"), KINDS))
    for number, text in enumerate(texts({})):
        try:
            (session.explain, session.ask)[number % 2](text)
        except SiloquentError as refused:
            yield refused
    yield from with_nothing(session)
    session.close()


def with_nothing(session: Session) -> Iterator[SiloquentError]:
    """Refusals of sessions, tables, keys and accounts."""
    tries: list[Callable[[], object]] = [
        lambda: session.schema("vists"),
        lambda: session.ask("SELECT COUNT(*) FROM t ERROR 5", key=""),
        lambda: session.ask("SELECT COUNT(*) FROM t ERROR 5", max_cost="0.0000001"),
        lambda: session.ledger.get_account("nobody"),
        lambda: session.verify("nowhere"),
        lambda: siloquent.open("/nowhere"),
        lambda: siloquent.open(session.workspace.folder, analyst="a b"),
        lambda: siloquent.create_workspace(session.workspace.folder),
        lambda: siloquent.open(session.workspace.folder, analyst="bo").check("t"),
    ]
    yield from refusals(tries)


def refusals(tries: list[Callable[[], object]]) -> Iterator[SiloquentError]:
    for one in tries:
        try:
            one()
        except SiloquentError as refused:
            yield refused


@pytest.mark.slow
def test_refusals_of_questions_are_said_in_the_words_of_one_interface(tmp_path: Path) -> None:
    tried, wrong = 0, []
    for refused in asking(tmp_path / "w"):
        tried += bool(refused.remedy)
        wrong += [f"{refused.detail} {one}" for one in faults(build_problem(refused).remedy)]
    assert not wrong, "\n".join(wrong)
    assert tried > 100


VALUES = st.one_of(
    st.none(), st.integers(-3, 5_000), st.floats(-2, 3, allow_nan=False), st.booleans(),
    st.sampled_from(["x", "0", "tree", "chain", "sum", "platform", "local", "sparse", "gram"]),
    st.lists(st.sampled_from(["age", "cost", "ward", "nobody"]), max_size=4),
    st.just({"epsilon": "1"}), st.just({"epsilon": "1", "rho": "1"}), st.just({"rho": "-1"}),
    st.just({"kind": "surrogate", "bits": 40}), st.just({"kind": "p-stable", "order": 3, "bandwidth": -1}),
)  # fmt: skip
NAMES = st.sampled_from(
    [
        "budget",
        "rows",
        "width",
        "hits",
        "mode",
        "kernel",
        "features",
        "label",
        "engine",
        "chain",
        "columns",
        "rates",
        "weights",
        "report",
        "method",
        "trust",
        "agents",
        "honest",
        "overlap",
        "shares",
        "keys",
        "order",
        "second_moments",
        "scoring",
        "kinds",
        "target",
        "range",
        "accuracy",
        "measure_rates",
        "colluding",
    ]
)


@settings(deadline=None)
@given(st.sampled_from(["sketch", "synth", "share", "search", "request"]), st.dictionaries(NAMES, VALUES, max_size=6))
def test_refusals_of_specs_are_said_in_the_words_of_one_interface(task: str, plain: dict[str, Any]) -> None:
    from siloquent import search, share, sketch, synth

    parse: dict[str, Callable[[dict[str, Any]], object]] = {
        "sketch": sketch.parse_spec,
        "synth": synth.parse_spec,
        "share": share.parse_spec,
        "search": search.parse_spec,
        "request": search.parse_request,
    }
    whole = {"table": "t", "features": ["age"], "budget": {"epsilon": "1"}, **plain}
    for refused in refusals([lambda: parse[task](whole)]):
        assert not list(faults(build_problem(refused).remedy)), refused.detail


def plain_texts() -> Iterator[tuple[str, str]]:
    """The plain texts of fixes outside of the interfaces, which every interface shows as they are."""
    for file in sorted(SOURCE.rglob("*.py")):
        place = str(file.relative_to(SOURCE))
        if place.startswith(("cli/", "server/")) or place in {*PYTHON_ONLY, *OTHER_PROGRAMS} or place == "fixes.py":
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            named = [one.value for one in node.keywords if one.arg == "fix"] if isinstance(node, ast.Call) else []
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "build_fix":
                named += node.args
            for one in named:
                if isinstance(one, ast.Constant | ast.JoinedStr | ast.IfExp):
                    words = [c.value for c in ast.walk(one) if isinstance(c, ast.Constant) and isinstance(c.value, str)]
                    yield f"{place}:{one.lineno}", "".join(words)


def test_plain_texts_of_fixes_hold_no_words_of_one_interface() -> None:
    found = list(plain_texts())
    assert len(found) > 300
    wrong = [(place, text) for place, text in found if SHELL.search(text) or CALL.search(text) or REQUEST.search(text)]
    assert not wrong, "\n".join(map(str, wrong))
