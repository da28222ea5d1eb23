"""Workspaces and declarations: create a workspace, list its tables, show one."""

from __future__ import annotations

import shlex
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from siloquent.charts.chart import remove_unprintable
from siloquent.charts.text import clean_text, draw_share_bar
from siloquent.cli.base.command import Options, register_command
from siloquent.cli.base.screen import LEFT, RIGHT
from siloquent.documents.ledger import build_account_document, format_amount, format_exact_amount, format_significant
from siloquent.documents.tables import build_table_document, build_table_line

if TYPE_CHECKING:
    from siloquent.ledger import Account
    from siloquent.schema import TableSchema

Table = Annotated[str, typer.Argument(metavar="TABLE", help="A declared table.")]


def register(app: typer.Typer) -> None:
    """Add this file's commands."""
    register_command(app, "init", init, panel="Owner")
    register_command(app, "tables", list_tables, panel="Ask")
    register_command(app, "show", show, panel="Ask")


def init(
    options: Options,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to make a workspace of.")],
    ledger: Annotated[str, typer.Option("--ledger", help="A file in it, or a PostgreSQL URL.")] = "ledger.sqlite",
) -> None:
    """Make a folder a workspace: settings, schemas/, releases/ and a new ledger."""
    from siloquent.session import create_workspace

    made = create_workspace(folder, ledger=ledger)
    if options.as_json:
        options.screen.write_document(
            {"schema": "siloquent/workspace/1", "folder": str(made.folder), "ledger": made.ledger, "tables": []}
        )
        return
    options.screen.write_line(f"{folder} is a workspace.")
    declaration = shlex.quote(f"{folder}/schemas/NAME.toml")
    options.screen.note(
        f"Next: declare a table in {folder}/schemas/NAME.toml, by hand or from public rows with\n"
        f"  siloquent draft ROWS.csv --public -o {declaration}\n"
        f"then let the owner check it:\n  siloquent --workspace {shlex.quote(str(folder))} check NAME"
    )


def list_tables(options: Options) -> None:
    """List the declared tables and what is left of their budgets."""
    with options.open_session() as session:
        listed = [build_table_line(session, name) for name in session.list_tables()]
    if options.as_json:
        options.screen.write_document({"schema": "siloquent/table-list/1", "tables": listed})
        return
    options.screen.write_table(
        [("table", LEFT), ("source", LEFT), ("attributes", RIGHT), ("unit", LEFT), ("left", LEFT)],
        [
            (
                clean_text(one["name"]),
                clean_text(one["source"]),
                str(one["attributes"]),
                clean_text(one["unit"]),
                f"{one['symbol']} {format_significant(Fraction(one['left']), 'down')}" if one["left"] else "?",
            )
            for one in listed
        ],
    )
    for one in listed:
        if one["problem"]:
            options.screen.warn(f"{clean_text(one['name'])}: {remove_unprintable(one['problem'])}")
    if not listed:
        options.screen.note("No table is declared. Next: write schemas/NAME.toml, or siloquent draft FILE --public")


def show(options: Options, table: Table) -> None:
    """Show what is declared about a table: attributes, unit, constraints, budget. No row is read."""
    with options.open_session() as session:
        schema = session.schema(table)
        account, left = session.get_account(table), session.get_remaining(table).amount
    document = build_table_document(
        schema, {**build_account_document(account), "left": format_exact_amount(account, left)}
    )
    if options.as_json:
        options.screen.write_document(document)
        return
    screen = options.screen
    screen.write_table(
        [("attribute", LEFT), ("type", LEFT), ("values", LEFT), ("outside", LEFT), ("NULL", LEFT)],
        [
            tuple(clean_text(entry[key]) for key in ("name", "type", "values", "outside", "null"))
            for entry in document["attributes"]
        ],
    )
    screen.write_facts(
        [
            ("source", clean_text(schema.source or "a frame in Python")),
            ("hidden", f"{clean_text(schema.unit.description)}, {_describe_changes(schema)}"),
            *[("always" if rule["hard"] else "mostly", clean_text(rule["text"])) for rule in document["constraints"]],
            ("budget", _format_budget(account, left, ascii_only=screen.ascii_only)),
        ]
    )
    screen.note(f"\nNext: {options.format_command('explain', f'SELECT COUNT(*) FROM {table} ERROR 100')}")


def _describe_changes(schema: TableSchema) -> str:
    return "replaced" if schema.replace_one else "added or removed"


def _format_budget(account: Account, left: int, *, ascii_only: bool) -> str:
    """Describe an account's spending; the remainder may be less than limit minus spending if a parent has less."""
    spent = draw_share_bar(Fraction(account.spent.amount), Fraction(account.limit.amount), ascii_only=ascii_only)
    whole = format_amount(account, account.limit.amount, "down")
    return f"{spent} of {whole} spent by {clean_text(account.name)}; left {format_amount(account, left, 'down')}"
