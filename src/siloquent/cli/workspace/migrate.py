"""Upgrades of a workspace: the format of each part, and the migration of older ones."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import typer

from siloquent.cli.base.command import Options, register_command
from siloquent.cli.base.screen import LEFT, RIGHT
from siloquent.documents.server import build_migration_document


def register(app: typer.Typer) -> None:
    """Add this file's commands."""
    register_command(app, "migrate", migrate, panel="Server")


def migrate(options: Options) -> None:
    """Upgrade a workspace of an older version. Stop its server and make a backup first."""
    options.require_owner("Migrating")
    from siloquent.ledger.backends.sql import FORMAT
    from siloquent.schema.workspace import find_workspace, read_workspace
    from siloquent.server.store import migrate as led
    from siloquent.session import open_workspace_ledger

    workspace = read_workspace(options.workspace or find_workspace(Path.cwd()))
    # A settings file or ledger of another format is refused by its own reader, which gives the fix.
    ledger = open_workspace_ledger(workspace)
    with closing(ledger):
        if ledger.upgrade():
            options.screen.note("Upgraded the ledger's tables to this version; its entries are unchanged.")
    parts = [("siloquent.toml", 1, 1, ""), ("ledger", FORMAT, FORMAT, "")]
    store = workspace.folder / "server.sqlite"
    if store.is_file():
        done = led(store)
        parts.append((store.name, done.found, done.now, "" if done.copy is None else done.copy.name))
    if options.as_json:
        options.screen.write_document(build_migration_document(parts))
        return
    columns = [("part", LEFT), ("format", RIGHT), ("now", RIGHT), ("copy of the old one", LEFT)]
    options.screen.write_table(columns, [(name, str(found), str(now), copy) for name, found, now, copy in parts])
