"""Privacy budgets: limits as declared in the table file, and new epochs for new people."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Annotated

import typer

from siloquent.cli.base.command import Options, register_command
from siloquent.documents.ledger import build_account_document, format_amount, format_delta, format_exact_amount
from siloquent.ledger.rules import ADDS_UP, NEW_PEOPLE

if TYPE_CHECKING:
    from siloquent.ledger import Account
    from siloquent.privacy import Cost
    from siloquent.schema import TableBudget

TableArgument = Annotated[str, typer.Argument(metavar="TABLE", help="A declared table.")]


def register(app: typer.Typer) -> None:
    """Add this file's commands."""
    budget = typer.Typer(help="Manage the privacy budget of a table.")
    register_command(budget, "set", set_budget)
    app.add_typer(budget, name="budget", rich_help_panel="Budget and ledger")
    epoch = typer.Typer(help="Open a new budget for new people.")
    register_command(epoch, "open", open_epoch)
    app.add_typer(epoch, name="epoch", rich_help_panel="Budget and ledger")


def set_budget(
    options: Options,
    table: TableArgument,
    epsilon: Annotated[str | None, typer.Option("--epsilon", help="Declare this whole budget first.")] = None,
    rho: Annotated[str | None, typer.Option("--rho", help="The same, of a budget declared in rho.")] = None,
) -> None:
    """Apply the limits that schemas/TABLE.toml, or the file of its unit, declares to the ledger."""
    options.require_owner("Setting a budget")
    with options.open_session() as session:
        before = {account.name: account for account in session.ledger.list_accounts()}
        account = session.set_budget(table, epsilon=epsilon, rho=rho)
        shares, declared = session.share_limits(table), session.schema(session.find_table(table)).budget
    if options.as_json:
        options.screen.write_document(build_account_document(account, shares=shares))
        return
    for name, limit in {account.name: account.limit, **shares}.items():
        meaning = _describe_meaning(declared) if name == account.name else ""
        options.screen.write_line(_describe_change(name, before.get(name), account, limit, meaning))


def _describe_meaning(declared: TableBudget) -> str:
    """Return the epsilon that a limit in rho was declared as; "" if the account counts what was declared."""
    from siloquent.schema.table import format_fraction

    if declared.accountant != "zcdp" or declared.epsilon is None:
        return ""
    return f", which is the declared epsilon {format_fraction(declared.epsilon)}"


def _describe_change(name: str, was: Account | None, whole: Account, limit: Cost, meaning: str) -> str:
    """Describe the change of one limit. An analyst's share becomes an account at the first question."""
    now = _format_limit(whole, limit)
    if was is None and name != whole.name:
        return f"{name} will have the limit {now} from its first query on."
    if was is None or was.limit == limit:
        return f"{name} has the limit {now}, as declared{meaning}."
    return f"{name} had the limit {_format_limit(was, was.limit)} and now has {now}{meaning}."


def _format_limit(account: Account, limit: Cost) -> str:
    from siloquent.privacy import ATTO, get_accountant

    amount = f"{get_accountant(account.accountant).symbol} {format_exact_amount(account, limit.amount)}"
    return f"{amount} and delta {format_delta(Fraction(limit.delta, ATTO))}" if limit.delta else amount


def open_epoch(
    options: Options,
    table: TableArgument,
    statement: Annotated[str | None, typer.Option("--statement", help=f'"{ADDS_UP}", or "{NEW_PEOPLE}".')] = None,
) -> None:
    """Open a new budget, for new people or another promise; the old one is closed permanently."""
    options.require_owner("Opening an epoch")
    from siloquent.schema.files.epochs import declare_epoch

    with options.open_session() as session:
        schema = session.schema(session.find_table(table))
        if statement is None and options.screen.can_ask and session.is_charged(schema.account):
            statement = options.screen.ask_for(
                f"A new epoch gives {table} a new budget. For a person who was in the table before, it adds to\n"
                f'what was spent: write "{ADDS_UP}". If nobody was, write "{NEW_PEOPLE}"'
            )
        account = session.open_epoch(table, statement=statement or "")
        number = int(account.name.rpartition("@")[2])
        before = [one for one in session.ledger.list_accounts() if one.successor == account.name]
        written = declare_epoch(session.workspace.folder / schema.budget_file, number)
    if options.as_json:
        options.screen.write_document(build_account_document(account))
    else:
        closed = "".join(f"; {one.name} is closed" for one in before)
        options.screen.write_line(
            f"{account.name} is open with {format_exact_amount(account, account.limit.amount)}{closed}."
        )
        for one in before:
            spent = format_amount(one, one.spent.amount, "up")
            options.screen.note(f"It adds to the {spent} that {one.name} spent, for everybody who is in both.")
    if not written:
        options.screen.warn(f"Now write epoch = {number} under [budget] in {schema.budget_file}.")
