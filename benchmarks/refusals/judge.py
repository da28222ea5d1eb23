"""Wrong questions, declarations and command lines, made from right ones: what each refusal offers is pasted and tried.

A fix is a command, a question, lines of a table file or a Python expression. It is parsed as what it says it is,
applied, and must not be refused for the same reason.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import random
import re
import shlex
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import siloquent as sq
from benchmarks.refusals.declarations import WrongDeclaration, list_wrong_declarations
from benchmarks.refusals.questions import TABLES, list_wrong_questions
from siloquent.errors import SiloquentError
from siloquent.fixes import WriteLines

SEED, QUESTIONS, DECLARATIONS, COMMANDS = 20261130, 2_400, 1_200, 60
WITHOUT = ("A user unit needs the column",)
"""Refusals that say why there is no fix: no column of the table can name a person."""
_QUESTION = re.compile(r"\s*(EXPLAIN\s+PRIVACY\s+)?(SELECT|BIN|DISCOVER)\b", re.IGNORECASE)
_OWNER = re.compile(r"^(the owner runs:? |the workspace's owner runs: )")
_POSITION = re.compile(r"at character \d+")
_FILES = re.compile(r"^in (\S+), write: ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a refusal offered: the interface, the mutation, the reason, the fix, and its fault, if it has one."""

    interface: str
    mutation: str
    asked: str
    reason: str
    fix: str
    fault: str = ""


def judge_all(seed: int = SEED, *, every: int = 1) -> Iterator[Verdict]:
    """Yield a verdict for each refusal of each interface; what is not refused gives none."""
    with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
        folder = Path(place) / "w"
        build_workspace(folder)
        with sq.open(folder) as session:
            for number, (mutation, text) in enumerate(
                list_wrong_questions(random.Random(seed), QUESTIONS)
            ):  # allowed: inputs
                if number % every:
                    continue
                yield from judge_question(session, mutation, text)
                if number % (every * 4) == 0:  # a command takes as long as ten questions of a session
                    yield from judge_command(folder, mutation, ("explain", text))
        for number, wrong in enumerate(list_wrong_declarations(random.Random(seed), DECLARATIONS)):  # allowed: inputs
            if number % every == 0:
                yield from judge_declaration(folder, wrong)
        for number, words in enumerate(list_wrong_commands()):
            if number % every == 0:
                yield from judge_command(folder, "command line", words)


def build_workspace(folder: Path) -> None:
    """Create a workspace with the tables of ``wrong_questions``, each of a few rows."""
    sq.create_workspace(folder)
    for name, (declared, rows) in TABLES.items():
        (folder / "schemas" / f"{name}.toml").write_text(declared, encoding="utf-8")
        (folder / f"{name}.csv").write_text(rows, encoding="utf-8")


def judge_question(session: sq.Session, mutation: str, text: str) -> Iterator[Verdict]:
    """Ask in Python, and try what is offered."""
    refused = _refuse(lambda: session.explain(text))
    if refused is None:
        return
    fault = try_python(session, refused, lambda question: session.explain(question))
    yield Verdict("python", mutation, text, refused.detail, refused.fix, fault)


def try_python(session: sq.Session, refused: SiloquentError, ask: Callable[[str], object]) -> str:
    """Return what is wrong with the fix of ``refused`` in Python; "" if nothing is."""
    fix = _OWNER.sub("", refused.fix)
    if not fix:
        return "no fix"
    if fix.startswith("on the command line: "):
        return _require_parsed(lambda: shlex.split(fix.removeprefix("on the command line: ")))
    if _QUESTION.match(fix):
        again = _refuse(lambda: ask(fix))
        return "" if again is None or not is_same(refused, again) else f"refused again: {again.detail}"
    if _require_parsed(lambda: ast.parse(f"f({fix})")):
        return "not Python"
    try:
        eval(fix, {"session": session, "siloquent": sq})  # noqa: S307 - a fix that we wrote, in a workspace of ours
    except SiloquentError as again:
        return f"refused again: {again.detail}" if is_same(refused, again) else ""
    except (NameError, SyntaxError, TypeError):
        return "" if re.fullmatch(r"\w+=.*", fix) else "not Python that runs"
    return ""


def is_same(first: SiloquentError, again: SiloquentError) -> bool:
    """Return whether two refusals are for the same reason at the same place."""
    return _strip(first.code, first.detail) == _strip(again.code, again.detail)


def _strip(code: str, detail: str) -> tuple[str, str]:
    return code, _POSITION.sub("", detail)


def judge_command(folder: Path, mutation: str, words: Sequence[str]) -> Iterator[Verdict]:
    """Type a command, and paste what is offered."""
    status, problem = type_command(folder, words)
    if status == 0 or problem is None:
        return
    asked = shlex.join(words)
    yield Verdict("command line", mutation, asked, problem["detail"], problem["fix"], try_command(folder, problem))


def try_command(folder: Path, problem: dict[str, str]) -> str:
    """Return what is wrong with the fix of a problem document at the command line; "" if nothing is."""
    fix = _OWNER.sub("", problem["fix"])
    if not fix:
        return "no fix"
    if written := _FILES.split(fix)[1:]:
        return "" if all(_is_toml(one) for one in written[1::2]) else "not TOML"
    for line in fix.split("\n"):  # each is enough
        try:
            words = shlex.split(line)
        except ValueError:
            return "not a shell line"
        if not words or words[0] not in ("siloquent", "pip"):
            return "not a command"
        if words[0] == "pip" or any(word in words for word in ("serve", "demo")):
            continue
        _, again = type_command(folder, words[1:])
        if again is not None and _strip(again["code"], again["detail"]) == _strip(problem["code"], problem["detail"]):
            return f"refused again: {again['detail']}"
    return ""


def type_command(folder: Path, words: Sequence[str]) -> tuple[int, dict[str, str] | None]:
    """Run a command line; return its status and its problem, if it has one."""
    from siloquent.cli.app import run

    place = () if {"--workspace", "--server"} & set(words) else ("--workspace", str(folder))
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = run([*place, *words, *([] if "--json" in words else ["--json"])])
    with contextlib.suppress(ValueError):
        document = json.loads(out.getvalue())
        if document.get("schema") == "siloquent/problem/1":
            return status, document
    return status, None


def judge_declaration(folder: Path, wrong: WrongDeclaration) -> Iterator[Verdict]:
    """Read a wrong declaration in Python and by a command; write what is offered into the file, and read it again."""
    refused = _refuse(lambda: sq.read_schema(wrong.text))
    if refused is None:
        return
    yield Verdict("python", wrong.mutation, wrong.text, refused.detail, refused.fix, try_lines(wrong.text, refused))
    file = folder / "schemas" / "declared.toml"
    file.write_text(wrong.text, encoding="utf-8")
    status, problem = type_command(folder, ("show", "declared"))
    if status and problem is not None:
        written = _FILES.split(problem["fix"])[1:]
        fault = "" if written else try_command(folder, problem)
        if not all(_is_toml(one) for one in written[1::2]):
            fault = "not TOML"
        yield Verdict("command line", wrong.mutation, wrong.text, problem["detail"], problem["fix"], fault)
    file.unlink()


def try_lines(text: str, refused: SiloquentError) -> str:
    """Return what is wrong with the lines that a refused declaration is offered; "" if nothing is."""
    writes = [part for part in refused.remedy.parts if isinstance(part, WriteLines)]
    if not writes and refused.detail.startswith(WITHOUT):
        return ""
    if not writes:
        return "no fix" if not refused.fix else "not TOML"
    mended = text
    for one in writes:
        if not _is_toml(one.text):
            return "not TOML"
        mended = one.apply(mended)
    if mended == text:
        return "changes nothing"
    again = _refuse(lambda: sq.read_schema(mended))
    return "" if again is None or not is_same(refused, again) else f"refused again: {again.detail}"


def list_wrong_commands() -> Iterator[tuple[str, ...]]:
    """Command lines with a slip: misspelt commands and options, options of other commands, missing arguments."""
    question = "SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 200"
    yield from (
        ("explan", question),
        ("aks", question),
        ("ask", question, "-o", "out.csv"),
        ("ask", question, "--output", "out.csv"),
        ("ask", question, "--maxcost", "0.1"),
        ("ask", question, "--max-cost", "0,1"),
        ("ask", question, "--epsilon", "0.1"),
        ("ask",),
        ("explain",),
        ("explain", question, "--yes"),
        ("show",),
        ("show", "vists"),
        ("tabels",),
        ("ledger", "shwo"),
        ("ledger", "adopt"),
        ("release", "show"),
        ("release", "show", "r-9"),
        ("release", "export", "r-000001"),
        ("synth", "rows", "r-000001", "-n", "100"),
        ("synth", "plan", "visits"),
        ("synth", "plan", "visits", "--epsilon", "2,0"),
        ("synth", "run", "vists", "--epsilon", "1"),
        ("synth", "plan", "visits", "--epsilon", "1_000"),
        ("sketch", "plan", "visits", "--features", "agee", "--epsilon", "1"),
        ("sketch", "plan", "visits", "--features", "age"),
        ("search", "offer", "visits", "--features", "age"),
        ("share", "release", "visits", "--label", "smoker"),
        ("discover", "visits"),
        ("discover", "visits", "ward", "--epsilon", "0,1"),
        ("discover", "visits", "wrd", "--epsilon", "0.1"),
        ("discover", "visits", "note", "--epsilon", "0"),
        ("check", "vists"),
        ("budget", "set", "vists"),
        ("budget", "set"),
        ("history", "vists"),
        ("init",),
        ("declare", "no-such-file.csv"),
        ("schema", "answr"),
        ("verify", "r-000009"),
        ("--analyst", "ana", "check"),
        ("--analyst", "a b", "tables"),
        ("--server", "https://x", "check"),
    )


def _is_toml(text: str) -> bool:
    import tomllib

    for wrapped in (
        text,
        f"entry = {text}",
        f"attribute = [{text}]",
        f"attribute = [{text}",
        f"{text}]",
    ):  # the last: a line that opens a list
        with contextlib.suppress(tomllib.TOMLDecodeError):
            tomllib.loads(wrapped)
            return True
    return False


def _require_parsed(parse: Callable[[], object]) -> str:
    try:
        parse()
    except (SyntaxError, ValueError):
        return "cannot be parsed"
    return ""


def _refuse(act: Callable[[], object]) -> SiloquentError | None:
    try:
        act()
    except SiloquentError as refused:
        return refused
    return None
