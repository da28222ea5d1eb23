"""Ask and explain: accuracy first, then the resulting price, and one confirmation before any charge."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from siloquent.cli.base.command import Options, register_command
from siloquent.cli.base.consent import Dry, Key, MaxCost, Yes, create_key, report_charge_on_failure
from siloquent.cli.base.query_session import WorkspaceQueries, prepare_question
from siloquent.cli.explore.prices import confirm_explained_price, find_limit, show_price
from siloquent.cli.explore.questions import (
    build_typed_question,
    parse_question,
    read_question,
)
from siloquent.documents.releases import build_answer_document
from siloquent.errors import ReleaseError

if TYPE_CHECKING:
    from siloquent.cli.base.query_session import PreparedQuestion, QuerySession
    from siloquent.explore import Answer, Query

Question = Annotated[
    str | None,
    typer.Argument(metavar="[QUESTION]", help="A query in SQL or BIN; - reads standard input.", show_default=False),
]
Full = Annotated[
    bool, typer.Option("--full", help="Print values with all their digits, and amounts in the account's unit.")
]
File = Annotated[Path | None, typer.Option("--file", metavar="FILE", help="Read the query from a file.")]


def register(app: typer.Typer) -> None:
    """Add this file's commands."""
    register_command(app, "explain", explain, panel="Ask")
    register_command(app, "ask", ask, panel="Ask")


def explain(options: Options, question: Question = None, file: File = None, full: Full = False) -> None:
    """Show what a query would cost and how it would be answered. Reads no rows; free."""
    text = read_question(question, file)
    with options.open_queries() as session:
        asked, query = build_typed_question(options, text, file), parse_question(text, session)
        limit = None if options.as_json else find_limit(session, query.table, full=full)
        show_price(asked, _prepare(session, query).explanation, query, text, limit=limit)


def ask(
    options: Options,
    question: Question = None,
    file: File = None,
    key: Key = None,
    yes: Yes = False,
    max_cost: MaxCost = None,
    dry: Dry = False,
    full: Full = False,
    all_rows: Annotated[bool, typer.Option("--all", help="Print all rows.")] = False,
    chart: Annotated[bool, typer.Option("--chart", help="Also draw the values with their intervals.")] = False,
    chart_file: Annotated[
        Path | None, typer.Option("--chart-file", metavar="FILE", help="Write the picture as SVG.")
    ] = None,
    save: Annotated[bool, typer.Option("--save/--no-save", help="Keep the answer as a release.")] = True,
) -> int | None:
    """Answer a query within the error that it requests, or for the budget that it offers."""
    from siloquent.cli.explore.charts import check_drawable, show_charts, write_charts
    from siloquent.cli.explore.output import show_answer
    from siloquent.cli.workspace.discover import discover_text
    from siloquent.discover.language import is_discovery

    text = read_question(question, file)
    if options.server is None and is_discovery(text):
        return discover_text(options, text, key=key, yes=yes, max_cost=max_cost, dry=dry)
    asked = build_typed_question(options, text, file, key)
    with options.open_queries() as session:
        query = parse_question(text, session)
        if chart or chart_file is not None:
            check_drawable(query, chart_file, again=asked.format_ask(), on_screen=chart and options.as_json)
        if dry or query.explain:
            limit = None if options.as_json else find_limit(session, query.table, full=full)
            show_price(asked, _prepare(session, query).explanation, query, text, limit=limit)
            return None
        prepared = _prepare(session, query, key)
        limit = None if options.as_json else find_limit(session, query.table, full=full)
        told = cache(lambda: prepared.explanation)
        if not confirm_explained_price(asked, told, yes=yes, max_cost=max_cost, limit=limit):
            options.screen.note("The query was not run; nothing was spent.")
            return 2
        if not yes and max_cost is None and not told().price:
            max_cost = "0"  # nothing was agreed to, should a saving no longer apply
        key = create_key() if key is None else key
        again = replace(asked, key=key).format_ask("--yes")
        with _report_charge(session, key, again):
            answer = prepared.run(key=key, max_cost=max_cost)
            if save:
                _save_release(options, session, answer, again)
            if options.as_json:
                options.screen.write_document(build_answer_document(answer, key))
            else:
                shown = {"full": full, "all_rows": all_rows}
                show_answer(options.screen, answer, again=again, **shown, limit=limit)
            if chart:
                show_charts(options.screen, answer)
            if chart_file is not None:
                write_charts(options.screen, answer, chart_file)
    return None


def _report_charge(session: QuerySession, key: str, again: str) -> AbstractContextManager[object]:
    """Make a failure say what was charged: from the ledger here, while a server's refusals say it themselves."""
    if isinstance(session, WorkspaceQueries):
        return report_charge_on_failure(session.session, key, again)
    return nullcontext()


def _prepare(session: QuerySession, query: Query, key: str | None = None) -> PreparedQuestion:
    return prepare_question(session, replace(query, explain=False), key=key)


def _save_release(options: Options, session: QuerySession, answer: Answer, again: str) -> None:
    """Save the answer as a release; it is already charged, so a full disk causes only a warning."""
    try:
        session.save(answer)
    except (ReleaseError, OSError) as failed:
        why = failed.detail if isinstance(failed, ReleaseError) else f"{failed.strerror}."
        options.screen.warn(
            f"The answer is stored, but its release was not written: {why} To write it later at no cost: {again}"
        )
