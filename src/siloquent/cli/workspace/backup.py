"""Backups of a workspace, verified as they are made, and restoring of a workspace from one."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from siloquent.charts.text import clean_text
from siloquent.cli.base.command import Options, register_command
from siloquent.documents.server import build_backup_document, build_restored_document
from siloquent.errors import LedgerError, RequestError, SchemaError, WorkspaceError
from siloquent.fixes import run

if TYPE_CHECKING:
    from siloquent.ledger import Checkpoint
    from siloquent.schema.workspace import Workspace

CHECKPOINT, DUMP = "checkpoint.json", "ledger.dump"
_NAME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{6}Z")
_SQLITE_ENDS = ("-wal", "-shm", "-journal", ".lock")
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
        "server.sqlite",
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
    try:
        building.mkdir(parents=True, mode=0o700)
        entries, left_out = _fill(building, workspace, with_rows=with_rows)
        building.rename(made)
    except OSError as failed:
        raise WorkspaceError(
            f"The backup failed: {failed.strerror}. No files were kept.",
            fix="free disk space, or name a writable folder",
        ) from None
    finally:
        shutil.rmtree(building, ignore_errors=True)
    with suppress(OSError):  # an invalid workspace is backed up all the same
        (workspace.folder / LAST_BACKUP).touch(mode=0o600)
    old = _list_older(folder, keep, of=made)
    for one in old:
        shutil.rmtree(one)
    if options.as_json:
        options.screen.write_document(build_backup_document(made, entries, left_out, [one.name for one in old]))
        return
    options.screen.write_line(
        f"{clean_text(str(made))} contains the workspace; verified the {entries:,} entries of its ledger."
    )
    if left_out:
        options.screen.note(
            f"Not copied, since they may contain rows: {', '.join(left_out)}. Include them with --with-rows"
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


def _fill(building: Path, workspace: Workspace, *, with_rows: bool) -> tuple[int, list[str]]:
    """Copy everything into ``building``; return the number of entries in the ledger's copy, and the names left out."""
    from siloquent.schema.workspace import LAST_BACKUP
    from siloquent.session import open_workspace_ledger

    with closing(open_workspace_ledger(workspace)) as ledger:
        # First: anything copied after the checkpoint holds at least its entries.
        checkpoint = ledger.create_checkpoint()
    (building / CHECKPOINT).write_text(checkpoint.to_json(), encoding="utf-8")
    left_out, passing = [], (workspace.head.name, f"{workspace.head.name}.lock", LAST_BACKUP)
    for one in sorted(workspace.folder.iterdir()):
        if one.name in passing or one.name.endswith(_SQLITE_ENDS):
            continue
        # The key of the source digests, which link entries to rows, is copied only with the rows.
        if one.name == PUBLIC and one.is_dir() and not with_rows:
            left_out += _copy_declarations(one, building / one.name)
        elif one.name not in KEPT and one.name != workspace.ledger and not with_rows:
            left_out.append(one.name)
        elif one.suffix == ".sqlite" or one.name == workspace.ledger:
            _copy_database(one, building / one.name)
        else:
            _copy(one, building / one.name)
    if not with_rows:
        _copy_public_rows(workspace, building)
    if "://" in workspace.ledger:
        _dump(workspace.ledger, building / DUMP)
        return checkpoint.seq, left_out
    if not (building / workspace.ledger).is_file():
        raise LedgerError("The ledger's file is not in the workspace.", fix=run("doctor"))
    return _verify_copy(building / workspace.ledger, checkpoint), left_out


def _copy_declarations(source: Path, target: Path) -> list[str]:
    """Copy the table files of ``source``; return the names of its other files, which may hold rows."""
    target.mkdir(mode=0o700)
    left_out = []
    for one in sorted(source.iterdir()):
        if one.suffix == ".toml" and one.is_file() and not one.is_symlink():
            _copy(one, target / one.name)
        else:
            left_out.append(f"{source.name}/{one.name}")
    return left_out


def _copy_public_rows(workspace: Workspace, building: Path) -> None:
    """Copy the rows of public tables, which are not private; but skip a file that a private table also names."""
    from siloquent.declaring import find_public_rows

    private = [one.read_text(encoding="utf-8", errors="replace") for one in workspace.schemas.glob("*.toml")]
    for declared in sorted((workspace.folder / PUBLIC).glob("*.toml")):
        with suppress(SchemaError, OSError, ValueError):  # questions report the fault
            for rows in find_public_rows(declared, workspace.folder):
                target = building / rows.relative_to(workspace.folder.resolve())
                if not target.exists() and not any(rows.name in words for words in private):
                    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                    _copy(rows, target)


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns(".building-*"))
    elif source.is_file() and not source.is_symlink():
        shutil.copy2(source, target)


def _copy_database(source: Path, target: Path) -> None:
    target.touch(mode=0o600)
    reading = sqlite3.connect(f"{source.resolve().as_uri()}?mode=ro", uri=True)
    with closing(reading) as live, closing(sqlite3.connect(target)) as copy:
        live.backup(copy)
        copy.execute("PRAGMA journal_mode = DELETE")


def _dump(url: str, target: Path) -> None:
    plain = url.replace("postgresql+psycopg:", "postgresql:", 1)
    try:
        done = subprocess.run(
            ["pg_dump", "--format=custom", f"--file={target}", plain], capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        raise LedgerError(
            "The ledger is in PostgreSQL, and pg_dump was not found.", fix="apt-get install postgresql-client"
        ) from None
    if done.returncode:
        raise LedgerError("pg_dump failed; no files of the backup were kept.", fix="run it manually to see why")


def _verify_copy(ledger: Path, checkpoint: Checkpoint) -> int:
    from siloquent.ledger import open_ledger

    with closing(open_ledger(ledger)) as copy:
        verdict = copy.verify(checkpoint)
    for ending in _SQLITE_ENDS:
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
    building = folder.with_name(f".building-{folder.name}")
    try:
        building.mkdir(parents=True, mode=0o700)
        for one in _list_kept(backup):
            _copy(one, building / one.name)
        # The copy, not the backup: opening a database writes beside it, and a backup may be on read-only media.
        entries = _verify_copy(building / workspace.ledger, checkpoint)
        if not keep_tokens:
            _revoke_all(building / "server.sqlite")
        building.rename(folder)
    except OSError as failed:
        raise WorkspaceError(f"Cannot create {folder}: {failed.strerror}.", fix="name a folder elsewhere") from None
    finally:
        shutil.rmtree(building, ignore_errors=True)
    if options.as_json:
        options.screen.write_document(build_restored_document(folder, entries, checkpoint.seq, tokens=keep_tokens))
        return
    options.screen.write_line(f"Restored the backup to {clean_text(str(folder))}: verified {entries:,} entries.")
    options.screen.note(f"It lacks charges made since the backup; follow {_HOW_TO} before adopting it.")
    if not keep_tokens:
        options.screen.note("All tokens are revoked: siloquent token create NAME")


def _list_kept(backup: Path) -> Iterator[Path]:
    return (one for one in sorted(backup.iterdir()) if one.name != CHECKPOINT)


def _revoke_all(store: Path) -> None:
    """Revoke all tokens; otherwise tokens revoked since the backup would be valid again."""
    if not store.is_file():
        return
    with closing(sqlite3.connect(store)) as db:
        db.execute("UPDATE token SET revoked = ? WHERE revoked IS NULL", (int(time.time()),))
        db.execute("DELETE FROM browser")
        db.execute("DELETE FROM login")
        db.commit()
