"""Workspaces and declarations: create a workspace, list its tables, show one."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from siloquent.charts.chart import remove_unprintable
from siloquent.charts.text import clean_text, draw_share_bar
from siloquent.cli.base.command import Options, register_command
from siloquent.cli.base.screen import LEFT, RIGHT
from siloquent.documents.ledger import (
    format_account_share,
    format_delta,
    format_delta_left,
    format_share,
    format_significant,
    format_told_amount,
    parse_amount,
    read_epsilon_limit,
)
from siloquent.documents.tables import build_table_list_document, build_workspace_document

Full = Annotated[bool, typer.Option("--full", help="Print amounts in the accounts' units.")]
Table = Annotated[str, typer.Argument(metavar="TABLE", help="A declared table.")]


def register(app: typer.Typer) -> None:
    """Add this file's commands."""
    register_command(app, "init", init, panel="Owner")
    register_command(app, "tables", list_tables, panel="Ask")
    register_command(app, "show", show, panel="Ask")


def init(
    options: Options,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder for the workspace.")],
    ledger: Annotated[str, typer.Option("--ledger", help="A file in it, or a PostgreSQL URL.")] = "ledger.sqlite",
) -> None:
    """Make a folder a workspace: settings, schemas/, releases/ and a new ledger."""
    from siloquent.session import create_workspace

    made = create_workspace(folder, ledger=ledger)
    if options.as_json:
        options.screen.write_document(build_workspace_document(made))
        return
    options.screen.write_line(f"Created a workspace in {folder}.")
    there = shlex.join(["siloquent", "--workspace", str(folder)])
    options.screen.note(
        "Next: declare a table; guided questions, no row is read:\n"
        f"  {there} declare ROWS.csv\n"
        f"then let the owner check it:\n  {there} check NAME"
    )


def list_tables(options: Options, full: Full = False) -> None:
    """List the declared tables and their remaining budgets."""
    with options.open_queries() as session:
        listed = [dict(one) for one in session.list_table_lines()]
    if options.as_json:
        options.screen.write_document(build_table_list_document(listed))
        return
    options.screen.write_table(
        [("table", LEFT), ("source", LEFT), ("attributes", RIGHT), ("unit", LEFT), ("left", LEFT)],
        [
            (
                clean_text(one["name"]),
                clean_text(one["source"]),
                str(one["attributes"]),
                clean_text(one["unit"]),
                _format_left(one, full=full) if one["left"] else "?",
            )
            for one in listed
        ],
    )
    for one in listed:
        if one["problem"]:
            options.screen.warn(f"{clean_text(one['name'])}: {remove_unprintable(one['problem'])}")
    if not listed:
        options.screen.note(f"No tables are declared. Next: {options.format_command('declare', 'ROWS.csv')}")


def show(options: Options, table: Table, full: Full = False) -> None:
    """Show what is declared about a table: attributes, unit, constraints, budget. No row is read."""
    from siloquent.explore.answered_rows import describe_current_rows

    with options.open_queries() as session:
        document = dict(session.get_table_document(table))
    if options.as_json:
        options.screen.write_document(document)
        return
    screen, rows = options.screen, document.get("rows")
    screen.write_table(
        [("attribute", LEFT), ("type", LEFT), ("values", LEFT), ("outside", LEFT), ("NULL", LEFT)],
        [
            tuple(clean_text(entry[key]) for key in ("name", "type", "values", "outside", "null"))
            for entry in document["attributes"]
        ],
    )
    screen.write_facts(
        [
            ("source", clean_text(document["source"] or "a frame in Python")),
            *([("rows", clean_text(describe_current_rows(rows["version"], rows["since"])))] if rows else []),
            ("hidden", f"{clean_text(_describe_unit(document['unit']))}, {_describe_changes(document)}"),
            *[("always" if rule["hard"] else "mostly", clean_text(rule["text"])) for rule in document["constraints"]],
            ("budget", _format_budget(document["account"], ascii_only=screen.ascii_only, full=full)),
        ]
    )
    screen.note(f"\nNext: {options.format_command('explain', f'SELECT COUNT(*) FROM {table} ERROR 100')}")


def _format_left(line: Mapping[str, Any], *, full: bool) -> str:
    """Return what is left of a table's budget, with the delta of its events if it has one."""
    limit = None if full else read_epsilon_limit(line)
    amount = f"{line['symbol']} {format_significant(parse_amount(line['left']), 'down')}"
    if limit:
        share = format_share(parse_amount(line["left"]), limit, "down")
        amount = f"{share} of {clean_text(line['declared'].partition(' at ')[0])}"
    delta = parse_amount(line.get("delta_left") or "0")
    return f"{amount}, delta {format_delta(delta)}" if delta else amount


def _describe_unit(code: str) -> str:
    from siloquent.schema import Unit

    return Unit.from_code(code).description


def _describe_changes(document: Mapping[str, Any]) -> str:
    return "replaced" if document["adjacency"] == "replace-one" else "added or removed"


def _format_budget(account: Mapping[str, Any], *, ascii_only: bool, full: bool) -> str:
    """Describe an account's spending; the remainder may be less than limit minus spending if a parent has less."""
    spent, limit = parse_amount(account["spent"]), parse_amount(account["limit"])
    part, whole = draw_share_bar(spent, limit, ascii_only=ascii_only), format_told_amount(account, "limit")
    if not full and read_epsilon_limit(account) and not account["parent"]:
        whole = clean_text(account["declared"])
    elif not full and read_epsilon_limit(account):
        whole = "a share of the budget"
    left = ", ".join(filter(None, (format_account_share(account, "left", full=full), format_delta_left(account))))
    return f"{part} of {whole} spent by {clean_text(account['name'])}; left {left}"
