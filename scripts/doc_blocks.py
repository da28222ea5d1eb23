"""Run what a page of the docs shows, in order, in a folder of its own.

- ``python`` blocks of a page share one namespace; blocks with ``>>>`` are doctests.
- ``console`` blocks: lines with ``$`` are commands; ``<!-- exit: 3 -->`` before a block says how its last one ends.
  Lines below a command are its output: each must appear, in order, up to numbers, rules and spaces; ``...`` skips.
- A block with ``title="clinic/schemas/visits.toml"`` is a file and is written there. TOML that declares a table must
  be accepted.
- ``<!-- no-run: reason -->`` before a block leaves it out. ``<!-- needs: postgres -->`` anywhere on a page gives its
  commands the address of a throw-away server in the variable ``CLINIC_DSN``.

``python scripts/doc_blocks.py PAGE ...`` follows pages, each in a folder of its own, with the packages of that Python.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,})(?P<language>[\w+-]*)(?P<rest>.*)$")
TITLE = re.compile(r'title="([^"]+)"')
COMMENT = re.compile(r"<!--\s*(no-run|exit|needs):\s*(.*?)\s*-->")
COMMAND_SECONDS = 120
RUNNABLE = ("siloquent", "cat", "cd", "cp", "ls", "mkdir", "mv", "python", "rm", "sed")
NUMBER = re.compile(r"\b[0-9a-f]{8,}\b|[0-9]+([.,:/-][0-9]+)*")
RULES = re.compile(r"[\s\u2500-\u257f|+=_-]+")


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block with the comments that stand right before it."""

    line: int  # of the first line inside the fence
    language: str
    title: str
    text: str
    notes: Mapping[str, str] = field(default_factory=dict)


class PageFailure(AssertionError):
    """A block does not do what the page says; the message names the page and the line."""


def blocks(text: str) -> Iterator[Block]:
    """The fenced blocks of a Markdown page in order."""
    lines = text.splitlines()
    notes: dict[str, str] = {}
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        if opening := FENCE.match(line):
            first = number
            while number < len(lines) and lines[number].strip() != opening["ticks"]:
                number += 1
            body = [inside.removeprefix(opening["indent"]) for inside in lines[first:number]]
            title = TITLE.search(opening["rest"])
            yield Block(first + 1, opening["language"], title[1] if title else "", "\n".join(body), dict(notes))
            number += 1
            notes.clear()
        elif line.strip():
            # A comment counts for the block right below it; any other text ends it.
            found = COMMENT.findall(line)
            notes = {**notes, **dict(found)} if found else {}


def needs(text: str) -> set[str]:
    """The servers that a page asks for."""
    return {value for kind, value in COMMENT.findall(text) if kind == "needs"}


def unrun(text: str) -> list[Block]:
    """The blocks of a page that say why they are not run."""
    return [block for block in blocks(text) if "no-run" in block.notes]


class Page:
    """A page that is being followed: its folder, where a reader's shell stands, and the names defined so far."""

    def __init__(self, name: str, folder: Path, environment: Mapping[str, str]) -> None:
        self.name, self.folder, self.here = name, folder, folder
        self.names: dict[str, Any] = {"__name__": "__main__"}
        beside = Path(sys.executable).parent
        self.environment = {
            **os.environ,
            "PATH": f"{beside}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(folder),
            "NO_COLOR": "1",
            "COLUMNS": "120",
            "TERM": "dumb",
            **environment,
        }

    def follow(self, text: str) -> None:
        """Run every block of the page.

        Raises:
            PageFailure: At the first block that does not do what the page says.
        """
        for block in blocks(text):
            if "no-run" in block.notes:
                if not block.notes["no-run"]:
                    raise PageFailure(f"{self.name}:{block.line}: no-run needs a reason")
            else:
                self._run(block)

    def _run(self, block: Block) -> None:
        if block.title:
            file = self.folder / block.title
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block.text + "\n", encoding="utf-8")
        if block.language == "python":
            self._python(block)
        elif block.language in ("console", "sh", "bash", "shell"):
            self._console(block)
        elif block.language == "toml" and "[table]" in block.text:
            self._toml(block)

    def _toml(self, block: Block) -> None:
        from siloquent.errors import SiloquentError
        from siloquent.schema.build import parse_schema
        from siloquent.schema.domains import DomainFolder

        # A table file shows its workspace, whose units it may share.
        is_file = block.title.endswith(".toml") and Path(block.title).parent.name == "schemas"
        workspace = DomainFolder((self.folder / block.title).parents[1]) if is_file else None
        try:
            parse_schema(block.text, workspace)
        except SiloquentError as problem:
            raise PageFailure(f"{self.name}:{block.line}: {problem}") from None

    def _python(self, block: Block) -> None:
        place = f"{self.name}:{block.line}"
        with contextlib.chdir(self.here), _environment(self.environment):
            if ">>>" in block.text:
                self._doctest(block, place)
                return
            # Empty lines in front keep the page's line numbers in tracebacks.
            code = compile("\n" * (block.line - 1) + block.text, self.name, "exec")
            try:
                with contextlib.redirect_stdout(io.StringIO()):
                    exec(code, self.names)  # allowed: the page's own code, in a test
            except Exception as problem:  # allowed: whatever a page's code raises is the page's failure
                raise PageFailure(f"{place}: {type(problem).__name__}: {problem}") from problem

    def _doctest(self, block: Block, place: str) -> None:
        said = io.StringIO()
        examples = doctest.DocTestParser().get_doctest(block.text, self.names, place, self.name, block.line - 1)
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS, verbose=False)
        if runner.run(examples, out=said.write, clear_globs=False).failed:
            raise PageFailure(f"{place}: {said.getvalue()}")
        self.names.update(examples.globs)

    def _console(self, block: Block) -> None:
        steps = list(_steps(block.text))
        for place, (command, expected) in enumerate(steps):
            line = f"{self.name}:{block.line}: `{command}`"
            if command.split()[0] not in RUNNABLE:
                raise PageFailure(f"{line} is not run by tests. Fix: <!-- no-run: reason --> before the block")
            status, said = self._shell(command)
            wanted = int(block.notes.get("exit", "0")) if place == len(steps) - 1 else 0
            if status != wanted:
                raise PageFailure(f"{line} ended with {status}, not {wanted}:\n{said}")
            if missing := first_missing(expected, said):
                raise PageFailure(f"{line} did not print {missing!r}:\n{said}")

    def _shell(self, command: str) -> tuple[int, str]:
        """Exit status and output; ``cd`` moves the reader for all later commands."""
        if command.split()[0] == "cd":
            self.here = (self.here / command.split(maxsplit=1)[1]).resolve()
            return int(not self.here.is_dir()), ""
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.here,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        return done.returncode, done.stdout


def _steps(text: str) -> Iterator[tuple[str, list[str]]]:
    """(command, lines of output) for each ``$``; a command goes on after a backslash or on lines with ``>``."""
    command, output = "", list[str]()
    for line in text.splitlines():
        if line.startswith("$ "):
            if command:
                yield command, output
            command, output = line[2:], []
        elif command.endswith("\\") or line.startswith("> "):
            command = f"{command}\n{line.removeprefix('> ')}"
        else:
            output.append(line)
    if command:
        yield command, output


def mask(line: str) -> str:
    """``line`` with every number, hash, rule and run of spaces made alike: noise differs from run to run."""
    return NUMBER.sub("#", RULES.sub(" ", line)).strip()


def first_missing(expected: list[str], said: str) -> str:
    """The first expected line that does not follow in ``said``; empty if all do."""
    printed = iter([mask(line) for line in said.splitlines()])
    for line in expected:
        if mask(line) and line.strip() != "..." and mask(line) not in printed:
            return line
    return ""


@contextlib.contextmanager
def _environment(wanted: Mapping[str, str]) -> Iterator[None]:
    """``wanted`` as the process's environment, for as long as a page's Python runs."""
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(wanted)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def main(pages: list[str]) -> int:
    """Follow each of ``pages``; return 1 if one does not do what it says."""
    failed = 0
    for name in pages:
        with tempfile.TemporaryDirectory() as folder:
            try:
                Page(name, Path(folder), {"XDG_STATE_HOME": folder}).follow(Path(name).read_text(encoding="utf-8"))
                print(f"{name}: as it says")
            except PageFailure as problem:
                failed = 1
                print(problem, file=sys.stderr)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
