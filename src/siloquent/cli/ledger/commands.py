"""The ledger's accounts and entries: questions, charges and refusals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Annotated, Any

import typer

from siloquent.charts.text import clean_text, draw_share_bar
from siloquent.cli.base.command import Options, register_command
from siloquent.cli.base.screen import LEFT, RIGHT
from siloquent.cli.ledger.checkpoints import adopt, verify, write_checkpoint
from siloquent.documents.ledger import (
    format_account_share,
    format_delta_left,
    format_share,
    format_significant,
    format_told_amount,
    parse_amount,
    read_epsilon_limit,
)


def register(app: typer.Typer) -> None:
    """Add this file's commands."""
    group = typer.Typer(help="Show and verify the tamper-evident record of queries, charges and refusals.")
    register_command(group, "show", show)
    register_command(group, "verify", verify)
    register_command(group, "checkpoint", write_checkpoint)
    register_command(group, "adopt", adopt)
    app.add_typer(group, name="ledger", rich_help_panel="Budget and ledger")


def show(
    options: Options,
    table: Annotated[str | None, typer.Argument(metavar="[TABLE]", help="One table's accounts and entries.")] = None,
    last: Annotated[int, typer.Option("--last", min=0, help="The number of newest entries to show.")] = 20,
    full: Annotated[bool, typer.Option("--full", help="Print amounts in the accounts' units.")] = False,
) -> None:
    """Show the accounts and the newest entries of the ledger."""
    with options.open_queries() as session:
        document = session.get_ledger_document(table, last=last)
    if options.as_json:
        options.screen.write_document(dict(document))
        return
    _show_accounts(options, document["accounts"], full=full)
    known = {account["name"]: account for account in document["accounts"]}
    options.screen.write_table(
        [("seq", RIGHT), ("at (UTC)", LEFT), ("kind", LEFT), ("account", LEFT), ("cost", LEFT), ("hash", LEFT)],
        [
            (
                str(entry["seq"]),
                clean_text(entry["at"])[:19].replace("T", " "),
                clean_text(entry["kind"]),
                clean_text(entry["account"]),
                _format_cost(entry, known, full=full),
                clean_text(entry["hash"][:12]),
            )
            for entry in document["entries"]
        ],
    )


def _show_accounts(options: Options, accounts: Sequence[Mapping[str, Any]], *, full: bool) -> None:
    known = {account["name"]: account for account in accounts}
    options.screen.write_table(
        [("account", LEFT), ("limit", LEFT), ("spent", LEFT), ("left", LEFT), ("", LEFT)],
        [
            (
                clean_text(account["name"]),
                _format_limit(account, known, full=full),
                format_account_share(account, "spent", full=full),
                ", ".join(filter(None, (format_account_share(account, "left", full=full), format_delta_left(account)))),
                "closed"
                if account["successor"]
                else draw_share_bar(
                    parse_amount(account["spent"]),
                    parse_amount(account["limit"]),
                    width=10,
                    ascii_only=options.screen.ascii_only,
                ),
            )
            for account in accounts
        ],
    )


def _format_limit(account: Mapping[str, Any], known: Mapping[str, Mapping[str, Any]], *, full: bool) -> str:
    """Return the declared budget; of an analyst's share, its part of the table's."""
    limit, above = read_epsilon_limit(account), known.get(account["parent"] or "")
    if full or not limit or (account["parent"] and above is None):
        return format_told_amount(account, "limit")
    if above is None:
        return clean_text(account["declared"])
    return f"{format_share(limit, parse_amount(above['limit']), 'down')} of {clean_text(above['name'])}"


def _format_cost(entry: Mapping[str, Any], accounts: Mapping[str, Mapping[str, Any]], *, full: bool) -> str:
    """Return an entry's charge: none for a settlement, since its reservation has it; in parentheses for a refusal."""
    from siloquent.privacy import get_accountant

    account, cost = accounts.get(entry["account"]), entry["body"].get("cost")
    if account is None or not cost or entry["kind"] not in ("reserve", "deny"):
        return ""
    amount = Fraction(int(cost[0]), get_accountant(account["accountant"]).scale)
    limit = None if full else read_epsilon_limit(account)
    text = f"{clean_text(account['symbol'])} {format_significant(amount, 'up')}"
    text = format_share(amount, limit, "up") if limit else text
    shown = f"{text}; discloses" if '"event":"disclosure/' in str(entry["body"].get("event", "")) else text
    return shown if entry["kind"] == "reserve" else f"({text} refused)"
