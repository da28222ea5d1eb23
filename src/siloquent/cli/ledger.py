"""What was asked, paid and refused: the ledger's accounts and entries."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Annotated

import typer

from siloquent.cli.checkpoints import adopt, checkpoint, verify
from siloquent.cli.commands import Options, command
from siloquent.cli.screen import LEFT, RIGHT
from siloquent.documents.money import account_document, entry_document, short
from siloquent.pictures.plain import clean, share

if TYPE_CHECKING:
    from siloquent.ledger import Account, Entry, Ledger


def register(app: typer.Typer) -> None:
    """Add this file's commands."""
    group = typer.Typer(help="What was asked, paid and refused, in a chain that cannot be changed unseen.")
    command(group, "show", show)
    command(group, "verify", verify)
    command(group, "checkpoint", checkpoint)
    command(group, "adopt", adopt)
    app.add_typer(group, name="ledger", rich_help_panel="Money")


def show(
    options: Options,
    table: Annotated[str | None, typer.Argument(metavar="[TABLE]", help="One table's accounts and entries.")] = None,
    last: Annotated[int, typer.Option("--last", min=0, help="How many of the newest entries to show.")] = 20,
) -> None:
    """Show accounts, and the newest entries of the ledger."""
    with options.session() as session:
        names = [session.schema(table).account] if table else []
        if options.analyst:
            names = [session.account(name).name for name in ([table] if table else session.tables())]
        accounts = [one for one in session.ledger.accounts() if not names or _is_under(one.name, names)]
        entries = _newest(session.ledger, names, last)
    document = {
        "schema": "siloquent/ledger/1",
        "ledger": session.ledger.id,
        "accounts": [account_document(account) for account in accounts],
        "entries": [entry_document(entry) for entry in entries],
    }
    if options.as_json:
        options.screen.document(document)
        return
    _show_accounts(options, accounts)
    known = {account.name: account for account in accounts}
    options.screen.table(
        [("seq", RIGHT), ("at (UTC)", LEFT), ("kind", LEFT), ("account", LEFT), ("cost", LEFT), ("hash", LEFT)],
        [
            (
                str(entry.seq),
                clean(entry.at)[:19].replace("T", " "),
                clean(entry.kind),
                clean(entry.body.get("account", "")),
                _cost(entry, known),
                entry.hash[:12],
            )
            for entry in entries
        ],
    )


def _show_accounts(options: Options, accounts: list[Account]) -> None:
    ascii_only = options.screen.ascii_only
    options.screen.table(
        [("account", LEFT), ("limit", LEFT), ("spent", LEFT), ("left", LEFT), ("", LEFT)],
        [
            (
                clean(account.name),
                short(account, account.limit.amount, "down"),
                short(account, account.spent.amount, "up"),
                short(account, account.left.amount, "down"),
                "closed"
                if account.successor
                else share(
                    Fraction(account.spent.amount), Fraction(account.limit.amount), width=10, ascii_only=ascii_only
                ),
            )
            for account in accounts
        ],
    )


def _is_under(name: str, roots: list[str]) -> bool:
    return any(f"{name}/".startswith(f"{root}/") for root in roots)


def _newest(ledger: Ledger, names: list[str], last: int) -> list[Entry]:
    """The ``last`` newest entries of these accounts, in order; of all accounts if none is named."""
    if not last:
        return []
    if not names:
        return list(ledger.entries(after=max(0, ledger.head().seq - last)))
    found = [entry for name in names for entry in ledger.entries(account=name)]
    return sorted(found, key=lambda entry: entry.seq)[-last:]


def _cost(entry: Entry, accounts: dict[str, Account]) -> str:
    """What an entry charged; of a settling one nothing, since its reserve has; of a refusal in parentheses."""
    account, cost = accounts.get(str(entry.body.get("account", ""))), entry.body.get("cost")
    if account is None or not cost or entry.kind not in ("reserve", "deny"):
        return ""
    text = short(account, int(cost[0]), "up")
    shown = f"{text}; discloses" if '"event":"disclosure/' in str(entry.body.get("event", "")) else text
    return shown if entry.kind == "reserve" else f"({text} refused)"
