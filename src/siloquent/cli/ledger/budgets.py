"""Privacy budgets: limits as declared in the table file, and new epochs for new people."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Annotated

import typer

from siloquent.cli.base.command import Options, register_command
from siloquent.documents.ledger import build_account_document, format_delta, format_exact_amount
from siloquent.errors import RequestError

if TYPE_CHECKING:
    from siloquent.ledger import Account
    from siloquent.privacy import Cost

TableArgument = Annotated[str, typer.Argument(metavar="TABLE", help="A declared table.")]
NEW_PEOPLE = "these are new people"


def register(app: typer.Typer) -> None:
    """Add this file's commands."""
    budget = typer.Typer(help="Manage the privacy budget of a table.")
    register_command(budget, "set", set_budget)
    app.add_typer(budget, name="budget", rich_help_panel="Budget and ledger")
    epoch = typer.Typer(help="Open a new budget for new people.")
    register_command(epoch, "open", open_epoch)
    app.add_typer(epoch, name="epoch", rich_help_panel="Budget and ledger")


def set_budget(options: Options, table: TableArgument) -> None:
    """Apply the limits that schemas/TABLE.toml declares to the ledger."""
    options.require_owner("Setting a budget")
    with options.open_session() as session:
        before = {account.name: account for account in session.ledger.list_accounts()}
        account = session.set_budget(table)
        shares = session.share_limits(table)
    if options.as_json:
        options.screen.write_document(build_account_document(account, shares=shares))
        return
    for name, limit in {account.name: account.limit, **shares}.items():
        options.screen.write_line(_changed(name, before.get(name), account, limit))


def _changed(name: str, was: Account | None, whole: Account, limit: Cost) -> str:
    """Describe the change of one limit. An analyst's share becomes an account at the first question."""
    now = _format_limit(whole, limit)
    if was is None and name != whole.name:
        return f"{name} will have the limit {now} from its first query on."
    if was is None or was.limit == limit:
        return f"{name} has the limit {now}, as declared."
    return f"{name} had the limit {_format_limit(was, was.limit)} and now has {now}."


def _format_limit(account: Account, limit: Cost) -> str:
    from siloquent.privacy import ATTO

    amount = format_exact_amount(account, limit.amount)
    return f"{amount} and delta {format_delta(Fraction(limit.delta, ATTO))}" if limit.delta else amount


def open_epoch(
    options: Options,
    table: TableArgument,
    statement: Annotated[str | None, typer.Option("--statement", help=f'The sentence "{NEW_PEOPLE}".')] = None,
) -> None:
    """Open a new budget for a table whose people are all new; the old one is closed permanently."""
    options.require_owner("Opening an epoch")
    from siloquent.cli.ledger.epochs import declare_epoch

    with options.open_session() as session:
        schema = session.schema(table)
        old, number = schema.account, schema.budget.epoch + 1
        if statement is None and options.screen.can_ask:
            statement = options.screen.ask_for(
                f"A new epoch resets the budget of {table}. Open one only if no person in the table\n"
                f'was in the previous epoch. If so, write "{NEW_PEOPLE}"'
            )
        if (statement or "").strip().rstrip(".").casefold() != NEW_PEOPLE:
            raise RequestError(
                f"A new epoch is the owner's statement that the people are new: {NEW_PEOPLE!r}.",
                fix=options.format_command("epoch", "open", table, "--statement", NEW_PEOPLE),
            )
        session.get_account(table)
        account = session.ledger.open_epoch(old, f"{table}@{number}", statement=NEW_PEOPLE)
        written = declare_epoch(session.workspace.get_schema_file(table), number)
    if options.as_json:
        options.screen.write_document(build_account_document(account))
    else:
        options.screen.write_line(
            f"{account.name} is open with {format_exact_amount(account, account.limit.amount)}; {old} is closed."
        )
    if not written:
        options.screen.warn(f"Now write epoch = {number} under [budget] in schemas/{table}.toml.")
