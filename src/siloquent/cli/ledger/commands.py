"""The ledger's accounts and entries: questions, charges and refusals."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Annotated

import typer

from siloquent.charts.text import clean_text, draw_share_bar
from siloquent.cli.base.command import Options, register_command
from siloquent.cli.base.screen import LEFT, RIGHT
from siloquent.cli.ledger.checkpoints import adopt, verify, write_checkpoint
from siloquent.documents.ledger import build_account_document, build_entry_document, format_amount

if TYPE_CHECKING:
    from siloquent.ledger import Account, Entry, Ledger


def register(app: typer.Typer) -> None:
    """Add this file's commands."""
    group = typer.Typer(help="What was asked, paid and refused, in a chain that cannot be changed unseen.")
    register_command(group, "show", show)
    register_command(group, "verify", verify)
    register_command(group, "checkpoint", write_checkpoint)
    register_command(group, "adopt", adopt)
    app.add_typer(group, name="ledger", rich_help_panel="Budget and ledger")


def show(
    options: Options,
    table: Annotated[str | None, typer.Argument(metavar="[TABLE]", help="One table's accounts and entries.")] = None,
    last: Annotated[int, typer.Option("--last", min=0, help="How many of the newest entries to show.")] = 20,
) -> None:
    """Show accounts, and the newest entries of the ledger."""
    with options.open_session() as session:
        names = [session.schema(table).account] if table else []
        if options.analyst:
            names = [session.get_account(name).name for name in ([table] if table else session.list_tables())]
        accounts = [one for one in session.ledger.list_accounts() if not names or _is_under(one.name, names)]
        entries = _list_newest(session.ledger, names, last)
    document = {
        "schema": "siloquent/ledger/1",
        "ledger": session.ledger.id,
        "accounts": [build_account_document(account) for account in accounts],
        "entries": [build_entry_document(entry) for entry in entries],
    }
    if options.as_json:
        options.screen.write_document(document)
        return
    _show_accounts(options, accounts)
    known = {account.name: account for account in accounts}
    options.screen.write_table(
        [("seq", RIGHT), ("at (UTC)", LEFT), ("kind", LEFT), ("account", LEFT), ("cost", LEFT), ("hash", LEFT)],
        [
            (
                str(entry.seq),
                clean_text(entry.at)[:19].replace("T", " "),
                clean_text(entry.kind),
                clean_text(entry.body.get("account", "")),
                _format_cost(entry, known),
                entry.hash[:12],
            )
            for entry in entries
        ],
    )


def _show_accounts(options: Options, accounts: list[Account]) -> None:
    ascii_only = options.screen.ascii_only
    options.screen.write_table(
        [("account", LEFT), ("limit", LEFT), ("spent", LEFT), ("left", LEFT), ("", LEFT)],
        [
            (
                clean_text(account.name),
                format_amount(account, account.limit.amount, "down"),
                format_amount(account, account.spent.amount, "up"),
                format_amount(account, account.left.amount, "down"),
                "closed"
                if account.successor
                else draw_share_bar(
                    Fraction(account.spent.amount), Fraction(account.limit.amount), width=10, ascii_only=ascii_only
                ),
            )
            for account in accounts
        ],
    )


def _is_under(name: str, roots: list[str]) -> bool:
    return any(f"{name}/".startswith(f"{root}/") for root in roots)


def _list_newest(ledger: Ledger, names: list[str], last: int) -> list[Entry]:
    """Return the ``last`` newest entries of these accounts, in order; of all accounts if none is named."""
    if not last:
        return []
    if not names:
        return list(ledger.iter_entries(after=max(0, ledger.read_head().seq - last)))
    found = [entry for name in names for entry in ledger.iter_entries(account=name)]
    return sorted(found, key=lambda entry: entry.seq)[-last:]


def _format_cost(entry: Entry, accounts: dict[str, Account]) -> str:
    """Return an entry's charge: none for a settlement, since its reservation has it; in parentheses for a refusal."""
    account, cost = accounts.get(str(entry.body.get("account", ""))), entry.body.get("cost")
    if account is None or not cost or entry.kind not in ("reserve", "deny"):
        return ""
    text = format_amount(account, int(cost[0]), "up")
    shown = f"{text}; discloses" if '"event":"disclosure/' in str(entry.body.get("event", "")) else text
    return shown if entry.kind == "reserve" else f"({text} refused)"
