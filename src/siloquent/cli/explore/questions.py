"""Questions as typed: found, parsed, and with a pointer to the position of a syntax error."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from siloquent.cli.base.command import Options
from siloquent.cli.base.problems import point_at_error
from siloquent.errors import RequestError, SyntaxProblem
from siloquent.fixes import AskWith

if TYPE_CHECKING:
    from siloquent.cli.base.query_session import QuerySession
    from siloquent.explore import Query

MAX_BYTES = 64 * 2**10


def read_question(question: str | None, file: Path | None) -> str:
    """Return the question's text from the argument, the file or standard input.

    Raises:
        RequestError: none or two were given, or the text cannot be read, or is longer than 64 KiB.
    """
    if (question is None) == (file is None):
        raise RequestError(
            "Pass a query as text, as - for standard input, or with --file.",
            fix=AskWith("SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 200"),
        )
    try:
        if file is not None:
            with file.open("rb") as opened:
                data = opened.read(MAX_BYTES + 1)
        elif question == "-":
            data = sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            data = str(question).encode("utf-8", "surrogateescape")
    except OSError as failed:
        raise RequestError(f"The query cannot be read: {failed.strerror}.", fix="name an existing file") from None
    if len(data) > MAX_BYTES:
        raise RequestError(f"A query can have at most {MAX_BYTES // 2**10} KiB.", fix="split the query into parts")
    try:
        return data.decode("utf-8").strip()
    except UnicodeDecodeError:
        raise RequestError("The query is not UTF-8 text.", fix="save it as UTF-8") from None


def parse_question(text: str, session: QuerySession) -> Query:
    """Parse the question; a syntax error shows its position, and what can be asked instead."""
    try:
        return session.parse(text)
    except RequestError as unreadable:
        if isinstance(unreadable, SyntaxProblem):
            for line in point_at_error(text, unreadable.position):
                unreadable.add_note(line)
        raise


def strip_explain(query: Query, text: str) -> str:
    """Return ``text`` as a plain question: without EXPLAIN PRIVACY if it begins with that."""
    from siloquent.explore.spec import render

    return render(replace(query, explain=False)) if query.explain else text


@dataclass(frozen=True, slots=True)
class TypedQuestion:
    """A question as typed, so that a fix repeats all of it: ``words`` are its text or ``--file FILE``."""

    options: Options
    words: tuple[str, ...]
    key: str | None = None

    def format_ask(self, *consent: str) -> str:
        """Return the command that asks it, under the same key."""
        return self.options.format_command("ask", *self.words, *self._named, *consent)

    @property
    def _named(self) -> tuple[str, ...]:
        return () if self.key is None else ("--key", self.key)


def build_typed_question(options: Options, text: str, file: Path | None, key: str | None = None) -> TypedQuestion:
    """Return the question ``text``, with the ``file`` it came from, if any."""
    return TypedQuestion(options, (text,) if file is None else ("--file", str(file)), key)
