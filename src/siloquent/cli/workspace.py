"""What is declared: make a workspace, list its tables, show one."""

from __future__ import annotations

import shlex
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from siloquent.cli.commands import Options, command
from siloquent.cli.screen import LEFT, RIGHT
from siloquent.documents.money import account_document, exact, four_digits, short
from siloquent.documents.tables import table_document, table_line
from siloquent.pictures.picture import printable
from siloquent.pictures.plain import clean, share

if TYPE_CHECKING:
    from siloquent.ledger import Account
    from siloquent.schema import TableSchema

Table = Annotated[str, typer.Argument(metavar="TABLE", help="A declared table.")]


def register(app: typer.Typer) -> None:
    """Add this file's commands."""
    command(app, "init", init, panel="Owner")
    command(app, "tables", tables, panel="Ask")
    command(app, "show", show, panel="Ask")


def init(
    options: Options,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to make a workspace of.")],
    ledger: Annotated[str, typer.Option("--ledger", help="A file in it, or a PostgreSQL URL.")] = "ledger.sqlite",
) -> None:
    """Make a folder a workspace: settings, schemas/, releases/ and a new ledger."""
    from siloquent.session import create_workspace

    made = create_workspace(folder, ledger=ledger)
    if options.as_json:
        options.screen.document(
            {"schema": "siloquent/workspace/1", "folder": str(made.folder), "ledger": made.ledger, "tables": []}
        )
        return
    options.screen.line(f"{folder} is a workspace.")
    declaration = shlex.quote(f"{folder}/schemas/NAME.toml")
    options.screen.note(
        f"Next: declare a table in {folder}/schemas/NAME.toml, by hand or from public rows with\n"
        f"  siloquent draft ROWS.csv --public -o {declaration}\n"
        f"then let the owner check it:\n  siloquent --workspace {shlex.quote(str(folder))} check NAME"
    )


def tables(options: Options) -> None:
    """List the declared tables and what is left of their budgets."""
    with options.session() as session:
        listed = [table_line(session, name) for name in session.tables()]
    if options.as_json:
        options.screen.document({"schema": "siloquent/table-list/1", "tables": listed})
        return
    options.screen.table(
        [("table", LEFT), ("source", LEFT), ("attributes", RIGHT), ("unit", LEFT), ("left", LEFT)],
        [
            (
                clean(one["name"]),
                clean(one["source"]),
                str(one["attributes"]),
                clean(one["unit"]),
                f"{one['symbol']} {four_digits(Fraction(one['left']), 'down')}" if one["left"] else "?",
            )
            for one in listed
        ],
    )
    for one in listed:
        if one["problem"]:
            options.screen.warn(f"{clean(one['name'])}: {printable(one['problem'])}")
    if not listed:
        options.screen.note("No table is declared. Next: write schemas/NAME.toml, or siloquent draft FILE --public")


def show(options: Options, table: Table) -> None:
    """Show what is declared about a table: attributes, unit, constraints, budget. No row is read."""
    with options.session() as session:
        schema = session.schema(table)
        account, left = session.account(table), session.left(table).amount
    document = table_document(schema, {**account_document(account), "left": exact(account, left)})
    if options.as_json:
        options.screen.document(document)
        return
    screen = options.screen
    screen.table(
        [("attribute", LEFT), ("type", LEFT), ("values", LEFT), ("outside", LEFT), ("NULL", LEFT)],
        [
            tuple(clean(entry[key]) for key in ("name", "type", "values", "outside", "null"))
            for entry in document["attributes"]
        ],
    )
    screen.facts(
        [
            ("source", clean(schema.source or "a frame in Python")),
            ("hidden", f"{clean(schema.unit.words)}, {_changes(schema)}"),
            *[("always" if rule["hard"] else "mostly", clean(rule["text"])) for rule in document["constraints"]],
            ("budget", _budget(account, left, ascii_only=screen.ascii_only)),
        ]
    )
    screen.note(f"\nNext: {options.shell('explain', f'SELECT COUNT(*) FROM {table} ERROR 100')}")


def _changes(schema: TableSchema) -> str:
    return "replaced" if schema.replace_one else "added or removed"


def _budget(account: Account, left: int, *, ascii_only: bool) -> str:
    """How much of an account is spent; what is left may be less than the rest, where a parent has less."""
    spent = share(Fraction(account.spent.amount), Fraction(account.limit.amount), ascii_only=ascii_only)
    whole = short(account, account.limit.amount, "down")
    return f"{spent} of {whole} spent by {clean(account.name)}; left {short(account, left, 'down')}"
