"""The commands with ``--server URL``: a workspace on a server, accessed with a token."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from siloquent.charts.text import clean_text
from siloquent.cli.base.consent import create_key
from siloquent.cli.base.screen import LEFT, RIGHT
from siloquent.cli.explore.prices import confirm_explained_price, show_price
from siloquent.cli.explore.questions import (
    TypedQuestion,
    build_typed_question,
    convert_fixes_to_commands,
    parse_question,
    read_question,
)
from siloquent.documents.ledger import format_significant, parse_amount
from siloquent.errors import RequestError
from siloquent.foreign import load_json, load_toml

if TYPE_CHECKING:
    from siloquent.cli.base.command import Options
    from siloquent.explore import Explanation, Query
    from siloquent.remote import RemoteSession

MAX_SPEC_BYTES = 2**20


def connect_to_server(options: Options) -> RemoteSession:
    """Return the session at ``--server``, with the token of ``--token-file`` or of the environment."""
    from siloquent.remote import connect

    assert options.server is not None
    return connect(options.server, token_file=options.token_file)


def explain(options: Options, question: str | None, file: Path | None) -> None:
    """Run ``siloquent explain``."""
    text = read_question(question, file)
    with connect_to_server(options) as session:
        asked, query = build_typed_question(options, text, file), parse_question(text)
        show_price(asked, _explain_query(asked, session, query), query, text)


def ask(
    options: Options,
    question: str | None,
    file: Path | None,
    key: str | None,
    yes: bool,
    max_cost: str | None,
    dry: bool,
    full: bool,
    all_rows: bool,
    chart: bool,
    chart_file: Path | None,
    save: bool,
) -> int | None:
    """Run ``siloquent ask``: the server keeps the release, whatever ``save`` says."""
    from siloquent.cli.explore.charts import check_drawable, show_charts, write_charts
    from siloquent.cli.explore.output import build_answer_document, show_answer

    text = read_question(question, file)
    asked = build_typed_question(options, text, file, key)
    with connect_to_server(options) as session:
        query = parse_question(text)
        if chart or chart_file is not None:
            check_drawable(query, chart_file, again=asked.format_ask(), on_screen=chart and options.as_json)
        if dry or query.explain:
            show_price(asked, _explain_query(asked, session, query), query, text)
            return None
        explain = partial(_explain_query, asked, session, query)
        if not confirm_explained_price(asked, explain, yes=yes, max_cost=max_cost):
            options.screen.note("Nothing was asked, nothing was spent.")
            return 2
        key = create_key() if key is None else key
        again = replace(asked, key=key).format_ask("--yes")
        with convert_fixes_to_commands(asked, query):
            answer = session.ask(query, key=key, max_cost=max_cost)
        if options.as_json:
            options.screen.write_document(build_answer_document(answer, key))
        else:
            show_answer(options.screen, answer, again=again, full=full, all_rows=all_rows)
        if chart:
            show_charts(options.screen, answer)
        if chart_file is not None:
            write_charts(options.screen, answer, chart_file)
    return None


def _explain_query(asked: TypedQuestion, session: RemoteSession, query: Query) -> Explanation:
    """Explain the query: the server's document has everything shown of an explanation, under the same names."""
    with convert_fixes_to_commands(asked, query):
        return cast("Explanation", session.explain(replace(query, explain=False)))


def list_tables(options: Options) -> None:
    """Run ``siloquent tables``."""
    with connect_to_server(options) as session:
        lines = [one.to_json() for one in session.list_table_lines()]
    if options.as_json:
        options.screen.write_document({"schema": "siloquent/table-list/1", "tables": lines})
        return
    columns = [("table", LEFT), ("attributes", RIGHT), ("unit", LEFT), ("left", LEFT)]
    rows = [
        (clean_text(one["name"]), str(one["attributes"]), clean_text(one["unit"]), _format_left(one)) for one in lines
    ]
    options.screen.write_table(columns, rows)


def show(options: Options, table: str) -> None:
    """Run ``siloquent show``."""
    with connect_to_server(options) as session:
        document = session.get_table_document(table).to_json()
    if options.as_json:
        options.screen.write_document(document)
        return
    names = ("name", "type", "values", "outside", "null")
    options.screen.write_table(
        [("attribute", LEFT), ("type", LEFT), ("values", LEFT), ("outside", LEFT), ("NULL", LEFT)],
        [tuple(clean_text(one[name]) for name in names) for one in document["attributes"]],
    )
    rules = [("always" if one["hard"] else "mostly", clean_text(one["text"])) for one in document["constraints"]]
    hidden = f"{clean_text(document['unit'])}, {clean_text(document['adjacency'])}"
    options.screen.write_facts([("hidden", hidden), *rules, ("left", _format_left(document["account"]))])


def show_history(options: Options, table: str, last: int) -> None:
    """Run ``siloquent history``."""
    with connect_to_server(options) as session:
        document = session.get_history(table).to_json()
    document = {**document, "questions": document["questions"][-last:]}
    if options.as_json:
        options.screen.write_document(document)
        return
    rows = [
        (
            str(one["seq"]),
            clean_text(one["account"]),
            _format_paid(one["cost"]),
            clean_text(one["label"]),
            clean_text(one["request"]),
        )
        for one in document["questions"]
    ]
    heads = [("entry", RIGHT), ("account", LEFT), ("cost", LEFT), ("holds", LEFT), ("question", LEFT)]
    options.screen.write_table(heads, rows)


def list_releases(options: Options) -> None:
    """Run ``siloquent release list``."""
    with connect_to_server(options) as session:
        found = [one.to_json() for one in session.list_releases()]
    if options.as_json:
        plain = [{name: value for name, value in one.items() if name not in ("shared", "deleted")} for one in found]
        options.screen.write_document({"schema": "siloquent/release-list/1", "releases": plain})
        return
    rows = [
        tuple(clean_text(text) for text in (one["id"], one["task"], one["table"], one["request"].get("query", "")))
        for one in found
    ]
    options.screen.write_table([("release", LEFT), ("task", LEFT), ("table", LEFT), ("request", LEFT)], rows)


def show_budget(options: Options, table: str | None, last: int) -> None:
    """Run ``siloquent ledger show``: the accounts, and the newest entries where the token may see them."""
    with connect_to_server(options) as session:
        every = [one.to_json() for one in session.list_accounts()]
        accounts = [one for one in every if table is None or one["name"].partition("@")[0] == table]
        kept = [session.list_account_entries(one["name"]) for one in accounts] if last else []
        ledger = session.get_ledger_id()
    newest = sorted((entry for found in kept for entry in found), key=lambda one: one.seq)[-last:]
    entries = [one.to_json() for one in newest]
    if options.as_json:
        options.screen.write_document(
            {"schema": "siloquent/ledger/1", "ledger": ledger, "accounts": accounts, "entries": entries}
        )
        return
    screen = options.screen
    screen.write_table(
        [("account", LEFT), ("limit", LEFT), ("spent", LEFT), ("left", LEFT)],
        [
            (clean_text(one["name"]), *(_format_amount(one, name) for name in ("limit", "spent", "left")))
            for one in accounts
        ],
    )
    screen.write_table(
        [("seq", RIGHT), ("at (UTC)", LEFT), ("kind", LEFT), ("account", LEFT), ("hash", LEFT)],
        [
            (
                str(one["seq"]),
                clean_text(one["at"]),
                clean_text(one["kind"]),
                clean_text(one["account"]),
                clean_text(one["hash"][:12]),
            )
            for one in entries
        ],
    )


def read_spec(path: Path) -> dict[str, Any]:
    """Return a task's spec from a TOML or JSON file.

    Raises:
        RequestError: the file is not a valid spec.
    """
    try:
        with path.open("rb") as opened:
            text = opened.read(MAX_SPEC_BYTES + 1).decode()
        found = load_json(text, most=MAX_SPEC_BYTES) if path.suffix == ".json" else load_toml(text, most=MAX_SPEC_BYTES)
    except OSError as failed:
        raise RequestError(f"{path} cannot be read: {failed.strerror}.", fix="name a file that is there") from None
    except ValueError as unreadable:
        raise RequestError(
            f"{path} is not valid TOML or JSON: {str(unreadable)[:200]}.", fix="correct that place"
        ) from None
    if len(text) > MAX_SPEC_BYTES:
        raise RequestError(f"{path} is longer than {MAX_SPEC_BYTES:,} bytes.", fix="a spec names columns, not rows")
    if not isinstance(found, dict):
        raise RequestError(f"{path} is not a spec: it is not a JSON object.", fix='{"table": "visits"}')
    return found


def _format_left(one: Mapping[str, Any]) -> str:
    return f"{one['symbol']} {format_significant(parse_amount(one['left']), 'down')}" if one["left"] else "?"


def _format_amount(one: Mapping[str, Any], name: str) -> str:
    return f"{one['symbol']} {format_significant(parse_amount(one[name]), 'up' if name == 'spent' else 'down')}"


def _format_paid(cost: Mapping[str, str]) -> str:
    ((symbol, amount),) = cost.items()
    return f"{symbol} {amount}" if parse_amount(amount) else "free"


SERVER_COMMANDS: Mapping[tuple[str, ...], Callable[..., int | None]] = MappingProxyType(
    {
        ("explain",): explain,
        ("ask",): ask,
        ("tables",): list_tables,
        ("show",): show,
        ("history",): show_history,
        ("release", "list"): list_releases,
        ("ledger", "show"): show_budget,
    }
)
"""The functions that replace commands with ``--server``; each takes the command's own arguments."""
