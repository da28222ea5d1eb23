"""The same commands with ``--server URL``: a workspace that somebody else serves, asked with a token."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from siloquent.cli.paying import new_key
from siloquent.cli.prices import agreed, show_price
from siloquent.cli.questions import Typed, fixes_as_commands, parsed, question_text, typed
from siloquent.cli.screen import LEFT, RIGHT
from siloquent.documents.money import four_digits, told_amount
from siloquent.errors import RequestError
from siloquent.foreign import load_json, load_toml
from siloquent.pictures.plain import clean

if TYPE_CHECKING:
    from siloquent.cli.commands import Options
    from siloquent.explore import Explanation, Query
    from siloquent.remote import RemoteSession

MOST_SPEC_BYTES = 2**20


def connected(options: Options) -> RemoteSession:
    """The session at ``--server``, with the token of ``--token-file`` or of the environment."""
    from siloquent.remote import connect

    assert options.server is not None
    return connect(options.server, token_file=options.token_file)


def explain(options: Options, question: str | None, file: Path | None) -> None:
    """``siloquent explain``."""
    text = question_text(question, file)
    with connected(options) as session:
        asked, query = typed(options, text, file), parsed(text)
        show_price(asked, _told(asked, session, query), query, text)


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
    """``siloquent ask``: the server keeps the release, whatever ``save`` says."""
    from siloquent.cli.answers import answer_document, show_answer
    from siloquent.cli.charts import check_drawable, show_charts, write_charts

    text = question_text(question, file)
    asked = typed(options, text, file, key)
    with connected(options) as session:
        query = parsed(text)
        if chart or chart_file is not None:
            check_drawable(query, chart_file, again=asked.ask(), on_screen=chart and options.as_json)
        if dry or query.explain:
            show_price(asked, _told(asked, session, query), query, text)
            return None
        told = _told(asked, session, query)
        if not agreed(asked, told, yes=yes, max_cost=max_cost):
            options.screen.note("Nothing was asked, nothing was spent.")
            return 2
        key = new_key() if key is None else key
        again = replace(asked, key=key).ask("--yes")
        with fixes_as_commands(asked, query):
            answer = session.ask(query, key=key, max_cost=max_cost)
        if options.as_json:
            options.screen.document(answer_document(answer, key))
        else:
            show_answer(options.screen, answer, again=again, full=full, all_rows=all_rows)
        if chart:
            show_charts(options.screen, answer)
        if chart_file is not None:
            write_charts(options.screen, answer, chart_file)
    return None


def _told(asked: Typed, session: RemoteSession, query: Query) -> Explanation:
    """All that is shown of an explanation is in the server's document, under the same names."""
    with fixes_as_commands(asked, query):
        return cast("Explanation", session.explain(replace(query, explain=False)))


def tables(options: Options) -> None:
    """``siloquent tables``."""
    with connected(options) as session:
        lines = [one.to_json() for one in session.table_lines()]
    if options.as_json:
        options.screen.document({"schema": "siloquent/table-list/1", "tables": lines})
        return
    columns = [("table", LEFT), ("attributes", RIGHT), ("unit", LEFT), ("left", LEFT)]
    rows = [(clean(one["name"]), str(one["attributes"]), clean(one["unit"]), _left(one)) for one in lines]
    options.screen.table(columns, rows)


def show(options: Options, table: str) -> None:
    """``siloquent show``."""
    with connected(options) as session:
        document = session.table_document(table).to_json()
    if options.as_json:
        options.screen.document(document)
        return
    names = ("name", "type", "values", "outside", "null")
    options.screen.table(
        [("attribute", LEFT), ("type", LEFT), ("values", LEFT), ("outside", LEFT), ("NULL", LEFT)],
        [tuple(clean(one[name]) for name in names) for one in document["attributes"]],
    )
    rules = [("always" if one["hard"] else "mostly", clean(one["text"])) for one in document["constraints"]]
    hidden = f"{clean(document['unit'])}, {clean(document['adjacency'])}"
    options.screen.facts([("hidden", hidden), *rules, ("left", _left(document["account"]))])


def history(options: Options, table: str, last: int) -> None:
    """``siloquent history``."""
    with connected(options) as session:
        document = session.history(table).to_json()
    document = {**document, "questions": document["questions"][-last:]}
    if options.as_json:
        options.screen.document(document)
        return
    rows = [
        (str(one["seq"]), clean(one["account"]), _paid(one["cost"]), clean(one["label"]), clean(one["request"]))
        for one in document["questions"]
    ]
    heads = [("entry", RIGHT), ("account", LEFT), ("cost", LEFT), ("holds", LEFT), ("question", LEFT)]
    options.screen.table(heads, rows)


def releases(options: Options) -> None:
    """``siloquent release list``."""
    with connected(options) as session:
        found = [one.to_json() for one in session.releases()]
    if options.as_json:
        plain = [{name: value for name, value in one.items() if name not in ("shared", "deleted")} for one in found]
        options.screen.document({"schema": "siloquent/release-list/1", "releases": plain})
        return
    rows = [
        tuple(clean(text) for text in (one["id"], one["task"], one["table"], one["request"].get("query", "")))
        for one in found
    ]
    options.screen.table([("release", LEFT), ("task", LEFT), ("table", LEFT), ("request", LEFT)], rows)


def budget(options: Options, table: str | None, last: int) -> None:
    """``siloquent ledger show``: the accounts, and the newest entries where the token may see them."""
    with connected(options) as session:
        every = [one.to_json() for one in session.accounts()]
        accounts = [one for one in every if table is None or one["name"].partition("@")[0] == table]
        kept = [session.account_entries(one["name"]) for one in accounts] if last else []
        ledger = session.ledger_id()
    newest = sorted((entry for found in kept for entry in found), key=lambda one: one.seq)[-last:]
    entries = [one.to_json() for one in newest]
    if options.as_json:
        options.screen.document(
            {"schema": "siloquent/ledger/1", "ledger": ledger, "accounts": accounts, "entries": entries}
        )
        return
    screen = options.screen
    screen.table(
        [("account", LEFT), ("limit", LEFT), ("spent", LEFT), ("left", LEFT)],
        [(clean(one["name"]), *(_amount(one, name) for name in ("limit", "spent", "left"))) for one in accounts],
    )
    screen.table(
        [("seq", RIGHT), ("at (UTC)", LEFT), ("kind", LEFT), ("account", LEFT), ("hash", LEFT)],
        [
            (str(one["seq"]), clean(one["at"]), clean(one["kind"]), clean(one["account"]), clean(one["hash"][:12]))
            for one in entries
        ],
    )


def spec_at(path: Path) -> dict[str, Any]:
    """A task's spec from a TOML or JSON file.

    Raises:
        RequestError: it cannot be read as one.
    """
    try:
        with path.open("rb") as opened:
            text = opened.read(MOST_SPEC_BYTES + 1).decode()
        found = (
            load_json(text, most=MOST_SPEC_BYTES) if path.suffix == ".json" else load_toml(text, most=MOST_SPEC_BYTES)
        )
    except OSError as failed:
        raise RequestError(f"{path} cannot be read: {failed.strerror}.", fix="name a file that is there") from None
    except ValueError as unreadable:
        raise RequestError(f"{path} is no TOML or JSON: {str(unreadable)[:200]}.", fix="mend that place") from None
    if not isinstance(found, dict) or len(text) > MOST_SPEC_BYTES:
        raise RequestError(f"{path} is no spec.", fix='{"table": "visits", ..}')
    return found


def _left(one: Mapping[str, Any]) -> str:
    return f"{one['symbol']} {four_digits(told_amount(one['left']), 'down')}" if one["left"] else "?"


def _amount(one: Mapping[str, Any], name: str) -> str:
    return f"{one['symbol']} {four_digits(told_amount(one[name]), 'up' if name == 'spent' else 'down')}"


def _paid(cost: Mapping[str, str]) -> str:
    ((symbol, amount),) = cost.items()
    return f"{symbol} {amount}" if told_amount(amount) else "free"


BODIES: Mapping[tuple[str, ...], Callable[..., int | None]] = MappingProxyType(
    {
        ("explain",): explain,
        ("ask",): ask,
        ("tables",): tables,
        ("show",): show,
        ("history",): history,
        ("release", "list"): releases,
        ("ledger", "show"): budget,
    }
)
"""What each command does with ``--server``; it is given the same words as the command itself."""
