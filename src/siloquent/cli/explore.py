"""Ask and explain: accuracy first, the price as its consequence, and one yes before anything is spent."""

from __future__ import annotations

import sys
import uuid
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from siloquent.cli.commands import Options, command
from siloquent.cli.problems import Interrupted, pointed
from siloquent.errors import (
    AccuracyUnreachable,
    BudgetExceeded,
    ReleaseError,
    RequestError,
    SiloquentError,
    SyntaxProblem,
    UnknownName,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from siloquent.door import Session
    from siloquent.explore import Answer, Explanation, Query

MOST_BYTES = 64 * 2**10
CHARGED = "the price is charged; asking again with the same --key costs no more"
Question = Annotated[
    str | None,
    typer.Argument(metavar="[QUESTION]", help="SQL or BIN text; - reads standard input.", show_default=False),
]
File = Annotated[Path | None, typer.Option("--file", metavar="FILE", help="Read the question from a file.")]


def register(app: typer.Typer) -> None:
    """Add this file's commands."""
    command(app, "explain", explain, panel="Ask")
    command(app, "ask", ask, panel="Ask")


def explain(options: Options, question: Question = None, file: File = None) -> None:
    """Say what a question would cost and how it would be answered. Touches no data, costs nothing."""
    text = _text(question, file)
    with options.session() as session:
        _explain(options, session, _parsed(text), text)


def ask(
    options: Options,
    question: Question = None,
    file: File = None,
    key: Annotated[
        str | None, typer.Option("--key", help="A name for this question: asking again with it is free.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Pay the price without being asked.")] = False,
    max_cost: Annotated[
        str | None, typer.Option("--max-cost", metavar="X", help="Pay up to X in the account's epsilon or rho.")
    ] = None,
    dry: Annotated[bool, typer.Option("--explain", help="Only say what it would cost.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Values with all their digits.")] = False,
    all_rows: Annotated[bool, typer.Option("--all", help="Every row, however many.")] = False,
    save: Annotated[bool, typer.Option("--save/--no-save", help="Keep the answer as a release.")] = True,
) -> int | None:
    """Answer a question within the error that it names, or for the budget that it names."""
    from siloquent.cli.answers import answer_document, show_answer

    text = _text(question, file)
    with options.session() as session:
        query = _parsed(text)
        if dry or query.explain:
            _explain(options, session, query, text)
            return None
        explanation = _explained(options, session, query)
        if not _agreed(options, explanation, text, yes=yes, max_cost=max_cost, key=key):
            options.screen.note("Nothing was asked, nothing was spent.")
            return 2
        key = f"cli-{uuid.uuid4().hex[:12]}" if key is None else key
        answer = _asked(options, session, query, text, key=key, max_cost=max_cost)
        again = options.shell("ask", text, "--key", key, "--yes")
        if save:
            _save(options, session, answer, again)
        try:
            if options.as_json:
                options.screen.document(answer_document(answer, key))
            else:
                show_answer(options.screen, answer, again=again, full=full, all_rows=all_rows)
        except RequestError as unwritable:
            unwritable.fix, unwritable.spent = f"{unwritable.fix}, then: {again}", CHARGED
            raise
    return None


def _text(question: str | None, file: Path | None) -> str:
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


def _parsed(text: str) -> Query:
    """The question; where it cannot be read, the error shows the place."""
    from siloquent.explore import parse

    try:
        return parse(text)
    except SyntaxProblem as unreadable:
        for line in pointed(text, unreadable.position):
            unreadable.add_note(line)
        raise


def _explain(options: Options, session: Session, query: Query, text: str) -> None:
    from siloquent.cli.answers import show_explanation

    explanation = _explained(options, session, query)
    if options.as_json:
        options.screen.document(explanation.to_json())
    else:
        show_explanation(options.screen, explanation, ask=options.shell("ask", text))


def _explained(options: Options, session: Session, query: Query) -> Explanation:
    with _fixes_as_commands(options, query):
        return session.explain(replace(query, explain=False))


def _agreed(
    options: Options, explanation: Explanation, text: str, *, yes: bool, max_cost: str | None, key: str | None
) -> bool:
    """Whether the price may be paid: said beforehand, or now by somebody at the terminal.

    Raises:
        RequestError: nobody said so, and nobody is there to ask.
    """
    from siloquent.cli.answers import price_words
    from siloquent.privacy import digits

    if yes or max_cost is not None or explanation.left_after is None:
        # What does not fit is refused by the ledger itself, which names what would.
        return True
    price = price_words(explanation)
    if not options.screen.can_ask:
        raise RequestError(
            f"This costs {price}, and nobody is here to agree to it.",
            fix=f"{options.shell('ask', text, '--yes')}, or --max-cost {digits(explanation.price)}",
        )
    options.screen.warn(f"{explanation.promise}\nIt costs {price}.")
    if key is not None:
        options.screen.warn("If this key was answered before, it costs nothing.")
    return options.screen.confirm("Ask?")


def _asked(options: Options, session: Session, query: Query, text: str, *, key: str, max_cost: str | None) -> Answer:
    """The answer; whatever goes wrong after the charge says how to get it without paying again."""
    before = session.ledger.head().seq
    again = options.shell("ask", text, "--key", key, "--yes")
    try:
        with _fixes_as_commands(options, query):
            return session.ask(query, key=key, max_cost=max_cost)
    except KeyboardInterrupt:
        if _is_charged(session, key, before):
            raise Interrupted(CHARGED, again) from None
        raise Interrupted("nothing") from None
    except Exception as failed:  # allowed: adds what was spent and how to ask again, and raises on
        if _is_charged(session, key, before):
            failed.add_note(f"Again, without paying twice: {again}")
            if isinstance(failed, SiloquentError):
                failed.spent = CHARGED
        raise


def _is_charged(session: Session, key: str, before: int) -> bool:
    entries = session.ledger.entries(after=before)
    return any(entry.kind == "reserve" and str(entry.body.get("key", "")).endswith(f":{key}") for entry in entries)


@contextmanager
def _fixes_as_commands(options: Options, query: Query) -> Iterator[None]:
    """Turn "ask with ERROR 310" into the command that asks so; where nothing is said, show what can be asked about."""
    from siloquent.explore.spec import render
    from siloquent.explore.spec.query import Accuracy

    try:
        yield
    except (AccuracyUnreachable, BudgetExceeded) as refused:
        error = refused.fix.partition("ERROR ")[2].split()[:1]
        if error and isinstance(query.promise, Accuracy):
            wider = replace(query.promise, error=Decimal(error[0]), percent=False)
            refused.fix = options.shell("ask", render(replace(query, promise=wider)))
        raise
    except (RequestError, UnknownName) as refused:
        refused.fix = refused.fix or options.shell("show", query.table)
        raise


def _save(options: Options, session: Session, answer: Answer, again: str) -> None:
    """Keep the answer as a release; it is given already, so a full disk is a warning."""
    try:
        session.save(answer)
    except (ReleaseError, OSError) as failed:
        why = failed.detail if isinstance(failed, ReleaseError) else f"{failed.strerror}."
        options.screen.warn(f"The answer stands, but its release does not: {why} Later, for free: {again}")
