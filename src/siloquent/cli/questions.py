"""A question as it comes from a person: found, read, and pointed at where it cannot be read."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from siloquent.cli.commands import Options
from siloquent.cli.problems import pointed
from siloquent.errors import AccuracyUnreachable, BudgetExceeded, RequestError, SyntaxProblem, UnknownName

if TYPE_CHECKING:
    from collections.abc import Iterator

    from siloquent.explore import Query

MOST_BYTES = 64 * 2**10


def question_text(question: str | None, file: Path | None) -> str:
    """The question's text, from wherever it is.

    Raises:
        RequestError: none or two were given, or it cannot be read, or is longer than 64 KiB.
    """
    if (question is None) == (file is None):
        raise RequestError(
            "A question is given as text, as - for standard input, or with --file.",
            fix='siloquent explain "SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 200"',
        )
    try:
        if file is not None:
            with file.open("rb") as opened:
                data = opened.read(MOST_BYTES + 1)
        elif question == "-":
            data = sys.stdin.buffer.read(MOST_BYTES + 1)
        else:
            data = str(question).encode("utf-8", "surrogateescape")
    except OSError as failed:
        raise RequestError(
            f"The question cannot be read: {failed.strerror}.", fix="name a file that is there"
        ) from None
    if len(data) > MOST_BYTES:
        raise RequestError(f"A question is at most {MOST_BYTES // 2**10} KiB long.", fix="ask in parts")
    try:
        return data.decode("utf-8").strip()
    except UnicodeDecodeError:
        raise RequestError("The question is not UTF-8 text.", fix="save it as UTF-8") from None


def parsed(text: str) -> Query:
    """The question; where it cannot be read, the error shows the place."""
    from siloquent.explore import parse

    try:
        return parse(text)
    except SyntaxProblem as unreadable:
        for line in pointed(text, unreadable.position):
            unreadable.add_note(line)
        raise


def without_explain(query: Query, text: str) -> str:
    """``text`` as a question that asks: what is behind EXPLAIN PRIVACY, if that is where it begins."""
    from siloquent.explore.spec import render

    return render(replace(query, explain=False)) if query.explain else text


@contextmanager
def fixes_as_commands(options: Options, query: Query) -> Iterator[None]:
    """Turn "ask with ERROR 310" into the command that asks so; where nothing is said, show what can be asked about."""
    from siloquent.explore.spec import render
    from siloquent.explore.spec.query import Accuracy, Bound

    try:
        yield
    except (AccuracyUnreachable, BudgetExceeded) as refused:
        errors = [error.split() for error in refused.fix.partition("ERROR ")[2].split(", ") if error]
        if errors and isinstance(query.promise, Accuracy):
            bounds = [Bound(Decimal(number), bool(percent)) for number, *percent in errors]
            wider = replace(query.promise, error=bounds[0].error, percent=bounds[0].percent, more=tuple(bounds[1:]))
            refused.fix = options.shell("ask", render(replace(query, promise=wider)))
        raise
    except (RequestError, UnknownName) as refused:
        refused.fix = refused.fix or options.shell("show", query.table)
        raise
