"""The files of a backup: copied while a server runs, listed with their digests, and compared with that list."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from siloquent.charts.text import clean_text
from siloquent.errors import LedgerError, SchemaError, WorkspaceError
from siloquent.foreign.documents import MAX_JSON_BYTES, load_json, read_bounded

CONTENTS = "contents.json"
CHECKPOINT, DUMP = "checkpoint.json", "ledger.dump"
SQLITE_ENDS = ("-wal", "-shm", "-journal", ".lock")
_BUILDING = ".building-"
_PIECE = 2**20


@contextmanager
def explain_failures(what: str, fix: str) -> Iterator[None]:
    """Turn a failure of a file or a database within the block into a refusal: ``what`` failed, why, and ``fix``.

    Raises:
        WorkspaceError: a file could not be read or written.
    """
    try:
        yield
    except (OSError, sqlite3.Error) as failed:
        reason = getattr(failed, "strerror", None) or str(failed)
        name = getattr(failed, "filename", None)
        place = f" ({clean_text(str(name))})" if name else ""
        raise WorkspaceError(f"{what} failed: {reason}{place}. No files were kept.", fix=fix) from None


def copy_files(source: Path, target: Path) -> list[str]:
    """Copy a file or folder; return the names within it that were left out.

    Links to table files are followed. Other links may lead to rows and are left out, as are devices and sockets.
    A file that is deleted during the copy is not part of the backup.
    """
    if source.is_file():
        shutil.copy2(source, target)
        return []
    if not source.is_dir():
        return [source.name]
    target.mkdir(mode=0o700)
    left_out: list[str] = []
    for one in sorted(source.iterdir()):
        if one.name.startswith(_BUILDING) or not os.path.lexists(one):
            continue
        is_followed = one.suffix == ".toml" or not one.is_symlink()
        try:
            inside = copy_files(one, target / one.name) if is_followed else [one.name]
        except FileNotFoundError:
            if target.is_dir() and not one.exists():
                continue
            raise
        left_out += [f"{source.name}/{name}" for name in inside]
    shutil.copystat(source, target)
    return left_out


def copy_declarations(source: Path, target: Path) -> list[str]:
    """Copy the table files of ``source``; return the names of its other files, which may hold rows."""
    target.mkdir(mode=0o700)
    left_out = []
    for one in sorted(source.iterdir()):
        if one.suffix == ".toml" and one.is_file():
            copy_files(one, target / one.name)
        else:
            left_out.append(f"{source.name}/{one.name}")
    return left_out


def copy_public_rows(folder: Path, schemas: Path, public: Path, building: Path) -> None:
    """Copy the rows of public tables, which are not private; but skip a file that a private table also names."""
    from siloquent.declaring import find_public_rows

    private = [one.read_text(encoding="utf-8", errors="replace") for one in schemas.glob("*.toml")]
    for declared in sorted(public.glob("*.toml")):
        try:
            found = find_public_rows(declared, folder)
        except (SchemaError, OSError, ValueError):  # questions report the fault
            continue
        for rows in found:
            target = building / rows.relative_to(folder.resolve())
            if rows.is_file() and not target.exists() and not any(rows.name in words for words in private):
                target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                copy_files(rows, target)


def copy_database(source: Path, target: Path) -> None:
    """Copy a SQLite database that may be in use.

    Raises:
        WorkspaceError: it is damaged or locked.
    """
    target.touch(mode=0o600)
    try:
        reading = sqlite3.connect(f"{source.resolve().as_uri()}?mode=ro", uri=True)
        with closing(reading) as live, closing(sqlite3.connect(target)) as copy:
            live.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")
            faults = [str(row[0]) for row in copy.execute("PRAGMA quick_check(1)")]
    except sqlite3.DatabaseError as failed:
        if failed.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise
        faults = [str(failed)]
    if faults != ["ok"]:
        raise WorkspaceError(
            f"{source.name} is damaged: {clean_text(faults[0])}.",
            fix=f"put {source.name} back from an earlier backup, or move it away if it is not the ledger",
        )


def dump_database(url: str, target: Path) -> None:
    """Dump a ledger in PostgreSQL, and read the dump's table of contents.

    Raises:
        LedgerError: pg_dump or pg_restore is missing or fails.
    """
    plain = url.replace("postgresql+psycopg:", "postgresql:", 1)
    for words in (
        ["pg_dump", "--format=custom", f"--file={target}", plain],
        ["pg_restore", "--list", str(target)],
    ):
        try:
            done = subprocess.run(words, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            raise LedgerError(
                f"The ledger is in PostgreSQL, and {words[0]} was not found.",
                fix="apt-get install postgresql-client",
            ) from None
        if done.returncode:
            raise LedgerError(f"{words[0]} failed; no files of the backup were kept.", fix="run it manually to see why")


def write_contents(folder: Path) -> int:
    """List every file of ``folder`` with its size and digest, and make all of it durable; return how many there are."""
    found = {name: _describe_file(folder / name) for name in list_names(folder)}
    (folder / CONTENTS).write_text(json.dumps({"format": 1, "files": found}, indent=1), encoding="utf-8")
    make_durable(folder)
    return len(found)


def list_names(folder: Path) -> list[str]:
    """Return the names of all files in ``folder``, those in its folders as paths, without the list itself."""
    names = (str(one.relative_to(folder)) for one in folder.rglob("*") if one.is_symlink() or not one.is_dir())
    return sorted(name for name in names if name != CONTENTS)


def verify_contents(folder: Path, contents: Path) -> int | None:
    """Compare the files of ``folder`` with a backup's list.

    Returns:
        The number of files; None for a backup of an earlier version, which has no list.

    Raises:
        WorkspaceError: a file is missing, is another, or is one too many.
    """
    if not contents.exists():
        return None
    try:
        listed = load_json(read_bounded(contents, MAX_JSON_BYTES))["files"]
        expected = {str(name): (int(one["bytes"]), str(one["sha256"])) for name, one in listed.items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise _build_not_whole(f"{CONTENTS} cannot be read") from None
    names = list_names(folder)
    for name in [*sorted(set(expected) - set(names)), *sorted(set(names) - set(expected))]:
        raise _build_not_whole(f"{name[:200]} is {'missing' if name in expected else 'not one of its files'}")
    for name in names:
        found = _describe_file(folder / name)
        if (found["bytes"], found["sha256"]) != expected[name]:
            raise _build_not_whole(f"{name[:200]} is not as it was copied")
    return len(names)


def _build_not_whole(why: str) -> WorkspaceError:
    return WorkspaceError(f"The backup is not whole: {clean_text(why)}.", fix="use another backup")


def _describe_file(path: Path) -> dict[str, str | int]:
    if path.is_symlink() or not path.is_file():
        raise _build_not_whole(f"{path.name} is not a plain file")
    seen, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            seen.update(piece)
            size += len(piece)
    return {"bytes": size, "sha256": seen.hexdigest()}


def make_durable(folder: Path, *, deep: bool = True) -> None:
    """Write a folder to the disk, with all that is in it if ``deep``, so that a power cut leaves it whole."""
    for one in (*(folder.rglob("*") if deep else ()), folder):
        if not one.is_symlink() and (one.is_file() or one.is_dir()):
            handle = os.open(one, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
