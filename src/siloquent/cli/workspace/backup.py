"""Backups of a workspace, verified as they are made, and restoring of a workspace from one."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import time
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from siloquent.charts.text import clean_text
from siloquent.cli.base.command import Options, register_command
from siloquent.cli.workspace import backup_files
from siloquent.cli.workspace.backup_files import CHECKPOINT, CONTENTS, DUMP, SQLITE_ENDS
from siloquent.documents.server import build_backup_document, build_restored_document
from siloquent.errors import LedgerError, RequestError, WorkspaceError
from siloquent.fixes import run

if TYPE_CHECKING:
    from siloquent.ledger import Checkpoint
    from siloquent.schema.workspace import Workspace

STORE = "server.sqlite"
HALF_MADE_SECONDS = 24 * 3600
"""The age after which a folder that is still being filled is taken to be that of a killed process."""
_NAME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{6}Z")
KEPT = frozenset(
    (
        "siloquent.toml",
        "schemas",
        "domains",
        "units",
        "releases",
        "collections",
        "catalogue",
        "bundle",
        "prices.toml",
        STORE,
    )
)
"""The files and folders of every workspace. Others may hold rows, so they are copied only with ``--with-rows``."""
PUBLIC = "public"
"""The folder of public tables' declarations: without it and its rows, answers that joined one cannot be verified."""
_HOW_TO = "docs/how-to/restore-a-backup.md"


def register(app: typer.Typer) -> None:
    """Add this file's commands."""
    register_command(app, "backup", backup, panel="Server")
    register_command(app, "restore", restore, panel="Server")


def backup(
    options: Options,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder for backups.")],
    with_rows: Annotated[
        bool, typer.Option("--with-rows", help="Also copy all other files of the workspace, such as sources with rows.")
    ] = False,
    keep: Annotated[
        int | None, typer.Option("--keep", min=1, help="Keep only this many of the newest backups in FOLDER.")
    ] = None,
) -> None:
    """Copy the workspace, with its ledger up to a checkpoint, into a new folder in FOLDER, and verify the copy."""
    options.require_owner("A backup")
    from siloquent.schema.workspace import LAST_BACKUP, find_workspace, read_workspace

    workspace = read_workspace(options.workspace or find_workspace(Path.cwd()))
    if folder.resolve() == workspace.folder.resolve() or workspace.folder.resolve() in folder.resolve().parents:
        raise RequestError("A backup cannot be inside its workspace.", fix="name a folder elsewhere")
    made = folder / datetime.now(UTC).strftime("%Y-%m-%dT%H%M%SZ")
    if made.exists():
        raise WorkspaceError(f"{made} was created in the same second.", fix="try again")
    building = folder / f".building-{os.getpid()}-{time.monotonic_ns()}"
    _remove_half_made(folder)
    try:
        with backup_files.explain_failures("The backup", "free disk space, or name a writable folder"):
            building.mkdir(parents=True, mode=0o700)
            entries, left_out = _fill(building, workspace, with_rows=with_rows)
            files = backup_files.write_contents(building)
            building.rename(made)
            backup_files.make_durable(made.parent, deep=False)
    finally:
        shutil.rmtree(building, ignore_errors=True)
    with suppress(OSError):  # an invalid workspace is backed up all the same
        (workspace.folder / LAST_BACKUP).touch(mode=0o600)
    old = _list_older(folder, keep, of=made)
    for one in old:
        shutil.rmtree(one)
    if options.as_json:
        options.screen.write_document(build_backup_document(made, entries, files, left_out, [one.name for one in old]))
        return
    options.screen.write_line(
        f"{clean_text(str(made))} contains the workspace in {files:,} files; verified the {entries:,} entries of "
        "its ledger."
    )
    if left_out:
        options.screen.note(
            f"Not copied, since they may contain rows: {clean_text(', '.join(left_out))}."
            f"{'' if with_rows else ' Include them with --with-rows'}"
        )
    options.screen.note("Copy it to another machine.")


def _list_older(folder: Path, keep: int | None, *, of: Path) -> list[Path]:
    """Return all backups in ``folder`` of the same ledger as ``of`` except the ``keep`` newest; others stay."""
    ledger = _read_ledger_id(of)
    names = sorted(one for one in folder.iterdir() if _NAME.fullmatch(one.name) and one.is_dir())
    made = [one for one in names if _read_ledger_id(one) == ledger]
    return made[:-keep] if keep else []


def _read_ledger_id(backup: Path) -> str | None:
    from siloquent.ledger import Checkpoint

    try:
        return Checkpoint.from_json((backup / CHECKPOINT).read_text(encoding="utf-8")).ledger
    except (OSError, ValueError, LedgerError):
        return None


def _remove_half_made(folder: Path) -> None:
    """Remove what killed processes left of earlier backups."""
    for half in folder.glob(".building-*"):
        with suppress(OSError):  # its maker is still at work, or has just finished it
            newest = max([half.stat().st_mtime, *(one.stat().st_mtime for one in half.iterdir())])
            if time.time() - newest > HALF_MADE_SECONDS:
                shutil.rmtree(half)


def _fill(building: Path, workspace: Workspace, *, with_rows: bool) -> tuple[int, list[str]]:
    """Copy everything into ``building``; return the number of entries in the ledger's copy, and the names left out.

    The ledger is copied last, so that whatever the server's store or a release says was charged is in it. The store is
    copied first, so that whatever it names is there.
    """
    from siloquent.session import open_workspace_ledger

    with closing(open_workspace_ledger(workspace)) as ledger:
        # Before the ledger is copied: the copy then holds at least its entries.
        checkpoint = ledger.create_checkpoint()
    (building / CHECKPOINT).write_text(checkpoint.to_json(), encoding="utf-8")
    left_out: list[str] = []
    for one in _list_in_order(workspace):
        if one.name == PUBLIC and one.is_dir() and not with_rows:
            left_out += backup_files.copy_declarations(one, building / one.name)
        elif one.name not in KEPT and one.name != workspace.ledger and not with_rows:
            left_out.append(one.name)
        elif (one.suffix == ".sqlite" or one.name == workspace.ledger) and one.is_file():
            backup_files.copy_database(one, building / one.name)
        else:
            left_out += backup_files.copy_files(one, building / one.name)
    if not with_rows:
        backup_files.copy_public_rows(workspace.folder, workspace.schemas, workspace.folder / PUBLIC, building)
    if "://" in workspace.ledger:
        backup_files.dump_database(workspace.ledger, building / DUMP)
        return checkpoint.seq, left_out
    if not (building / workspace.ledger).is_file():
        raise LedgerError("The ledger's file is not in the workspace.", fix=run("doctor"))
    return _verify_copy(building / workspace.ledger, checkpoint), left_out


def _list_in_order(workspace: Workspace) -> list[Path]:
    """Return what is in the workspace, the server's store first and the ledger last.

    The head file stays behind: it shows that a copy is old. The key of the source digests, which link entries to rows,
    is copied only with the rows.
    """
    from siloquent.schema.workspace import LAST_BACKUP

    passing = (workspace.head.name, f"{workspace.head.name}.lock", LAST_BACKUP)
    found = [
        one for one in workspace.folder.iterdir() if one.name not in passing and not one.name.endswith(SQLITE_ENDS)
    ]
    return sorted(found, key=lambda one: (one.name == workspace.ledger, one.name != STORE, one.name))


def _verify_copy(ledger: Path, checkpoint: Checkpoint) -> int:
    from siloquent.ledger import open_ledger

    with closing(open_ledger(ledger)) as copy:
        verdict = copy.verify(checkpoint)
    for ending in SQLITE_ENDS:
        ledger.with_name(ledger.name + ending).unlink(missing_ok=True)
    if not verdict.ok:
        raise LedgerError(f"The copy is not valid: {verdict.problem}", fix="use another backup")
    return verdict.entries


def restore(
    options: Options,
    backup: Annotated[Path, typer.Argument(metavar="BACKUP", help="A folder created by `siloquent backup`.")],
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The workspace to create; it must not exist.")],
    keep_tokens: Annotated[
        bool, typer.Option("--keep-tokens", help="Keep tokens valid, including those revoked since the backup.")
    ] = False,
) -> None:
    """Create a workspace from a backup. It answers no queries until its owner adopts its ledger as the newest copy."""
    options.require_owner("Restoring")
    from siloquent.ledger import Checkpoint
    from siloquent.schema.workspace import read_workspace

    if folder.exists():
        raise WorkspaceError(f"{folder} already exists.", fix="name a new folder")
    try:
        checkpoint = Checkpoint.from_json((backup / CHECKPOINT).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        inside = sorted(backup.glob(f"*/{CHECKPOINT}"))
        fix = (
            options.format_command("restore", str(inside[-1].parent), str(folder))
            if inside
            else run("backup", "FOLDER")
        )
        raise WorkspaceError(f"{backup} is not a backup: it has no {CHECKPOINT}.", fix=fix) from None
    workspace = read_workspace(backup)
    if "://" in workspace.ledger:
        raise WorkspaceError(
            "The ledger of this backup is in PostgreSQL.",
            fix=f"pg_restore {DUMP}, then copy the other files: {_HOW_TO}",
        )
    building = folder.with_name(f".building-{folder.name}-{os.getpid()}-{time.monotonic_ns()}")
    try:
        with backup_files.explain_failures("Restoring", "free disk space, or name a folder elsewhere"):
            building.mkdir(parents=True, mode=0o700)
            for one in sorted(backup.iterdir()):
                if one.name != CONTENTS:
                    backup_files.copy_files(one, building / one.name)
            # The copy, not the backup: opening a database writes beside it, and a backup may be on read-only media.
            files = backup_files.verify_contents(building, backup / CONTENTS)
            (building / CHECKPOINT).unlink()
            entries = _verify_copy(building / workspace.ledger, checkpoint)
            if not keep_tokens:
                _revoke_all(building / STORE)
            backup_files.make_durable(building)
            building.rename(folder)
    finally:
        shutil.rmtree(building, ignore_errors=True)
    if options.as_json:
        options.screen.write_document(
            build_restored_document(folder, entries, files, checkpoint.seq, tokens=keep_tokens)
        )
        return
    seen = "" if files is None else f"{files:,} files and "
    options.screen.write_line(f"Restored the backup to {clean_text(str(folder))}: verified {seen}{entries:,} entries.")
    if files is None:
        options.screen.note(
            f"An earlier version made this backup: it has no {CONTENTS}, so only its ledger was verified."
        )
    options.screen.note(f"It lacks charges made since the backup; follow {_HOW_TO} before adopting it.")
    if not keep_tokens:
        options.screen.note("All tokens are revoked: siloquent token create NAME")


def _revoke_all(store: Path) -> None:
    """Revoke all tokens; otherwise tokens revoked since the backup would be valid again."""
    if not store.is_file():
        return
    with closing(sqlite3.connect(store)) as db:
        if not db.execute("PRAGMA user_version").fetchone()[0]:
            return  # no server has used it
        db.execute("UPDATE token SET revoked = ? WHERE revoked IS NULL", (int(time.time()),))
        db.execute("DELETE FROM browser")
        db.execute("DELETE FROM login")
        db.commit()
