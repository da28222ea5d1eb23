"""What was asked, paid and refused: the ledger's accounts and entries, its verification, checkpoints."""

from __future__ import annotations

import os
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from siloquent.cli.amounts import account_document, short
from siloquent.cli.commands import Options, command
from siloquent.cli.plain import clean, share
from siloquent.cli.screen import LEFT, RIGHT
from siloquent.errors import RequestError

if TYPE_CHECKING:
    from siloquent.ledger import Account, Entry, Ledger


def register(app: typer.Typer) -> None:
    """Add this file's commands."""
    group = typer.Typer(help="What was asked, paid and refused, in a chain that cannot be changed unseen.")
    command(group, "show", show)
    command(group, "verify", verify)
    command(group, "checkpoint", checkpoint)
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
    return text if entry.kind == "reserve" else f"({text} refused)"


def entry_document(entry: Entry) -> dict[str, Any]:
    """An entry of the chain as a document of kind ``siloquent/entry/1``; ``body`` is what the hash covers."""
    return {
        "schema": "siloquent/entry/1",
        "seq": entry.seq,
        "at": entry.at,
        "kind": entry.kind,
        "account": str(entry.body.get("account", "")),
        "prev": entry.prev,
        "hash": entry.hash,
        "body": entry.body,
    }


def verify(
    options: Options,
    checkpoint: Annotated[
        Path | None, typer.Option("--checkpoint", metavar="FILE", help="A checkpoint kept elsewhere.")
    ] = None,
) -> int:
    """Recompute chain, totals, permits, answers and limits; exit 1 if something is wrong."""
    from siloquent.ledger import Checkpoint

    kept = Checkpoint.from_json(_read(checkpoint)) if checkpoint else None
    with options.session() as session:
        verdict = session.ledger.verify(kept)
    if options.as_json:
        options.screen.document(
            {
                "schema": "siloquent/verdict/1",
                "ok": verdict.ok,
                "entries": verdict.entries,
                "first_bad_seq": verdict.first_bad_seq,
                "problem": verdict.problem,
                "checkpoint": kept.seq if kept else None,
            }
        )
        return 0 if verdict.ok else 1
    if verdict.ok:
        against = f", and nothing is lost since checkpoint {kept.seq}" if kept else ""
        options.screen.line(f"All {verdict.entries} entries are as they were written{against}.")
        if not kept:
            options.screen.note("A cut tail shows only against a checkpoint: siloquent ledger checkpoint -o FILE")
        return 0
    where = "" if verdict.first_bad_seq is None else f" The first bad entry is {verdict.first_bad_seq}."
    options.screen.line(f"The ledger is not as it was written. {clean(verdict.problem)}{where}")
    options.screen.note("Stop asking, keep all files as they are, and compare with your last checkpoint and backup.")
    return 1


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(2**22).decode("utf-8", "replace")
    except OSError as failed:
        raise RequestError(f"{path} cannot be read: {failed.strerror}.", fix="name a file that is there") from None


def checkpoint(
    options: Options,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="Where to keep it: another machine.")],
) -> None:
    """Write down the ledger's head and totals, to keep elsewhere."""
    options.require_owner("A checkpoint")
    if output.exists():
        raise RequestError(f"{output} is there already.", fix="name a new file: old checkpoints stay useful")
    with options.session() as session:
        made = session.ledger.checkpoint()
    _write_new(output, made.to_json() + "\n")
    if options.as_json:
        options.screen.document(
            {
                "schema": "siloquent/checkpoint/1",
                "ledger": made.ledger,
                "seq": made.seq,
                "hash": made.hash,
                "file": str(output),
            }
        )
        return
    options.screen.line(f"Checkpoint {made.seq} ({made.hash[:12]}) is in {output}.")
    later = options.shell("ledger", "verify", "--checkpoint", str(output))
    options.screen.note(f"Keep it where the ledger's machine cannot change it. Later: {later}")


def _write_new(path: Path, text: str) -> None:
    """Write a file that is not there yet, whole or not at all."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except OSError as failed:
        if not isinstance(failed, FileExistsError):
            path.unlink(missing_ok=True)
        raise RequestError(f"{path} cannot be written: {failed.strerror}.", fix="name a new file elsewhere") from None
