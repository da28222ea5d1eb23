"""The ledger in one SQLite file: the default, for one machine and its local disk."""

from __future__ import annotations

import errno
import os
import secrets  # allowed: names of keys and ledgers, never noise
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from siloquent.errors import LedgerError
from siloquent.fixes import FixLike, build_fix, run
from siloquent.ledger.backends.database import DatabaseLedger
from siloquent.ledger.backends.sql import run_in_driver
from siloquent.ledger.backends.tables import fill, is_current, rebuild
from siloquent.ledger.base_ledger import CrashPoints
from siloquent.ledger.head import hold_exclusive_lock

BUSY_SECONDS = 30


class SQLiteLedger(DatabaseLedger):
    """A ledger with a write-ahead log; every commit is synced to disk, one writer at a time.

    Args:
        path: The database file; created for its owner only, if ``create`` is set and it does not exist.
        head: The head file, or None.
    Raises:
        LedgerError: missing, unreadable, not a database, of another format, or the disk is full.
        LedgerRolledBack: older than its head file, or with entries and without its head file.
    """

    head_required = True

    def __init__(
        self,
        path: Path,
        *,
        head: Path | None = None,
        create: bool = False,
        crash_points: CrashPoints | None = None,
        busy_seconds: float = BUSY_SECONDS,
    ) -> None:
        self._path, self._busy_seconds = path, busy_seconds
        if not path.is_file() and not create:
            raise LedgerError(
                f"The ledger {path.name} is missing from {path.parent}. A new one would lose all recorded charges.",
                fix=build_fix(
                    "restore the newest copy as described in docs/how-to/restore-a-backup.md, then: ",
                    run("ledger verify"),
                ),
            )
        engine = _create_engine(path, busy_seconds)
        make = partial(_make, path) if create and not path.exists() else None
        super().__init__(engine, head=head, make=make, crash_points=crash_points)

    @contextmanager
    def _wait_for_turn(self) -> Iterator[None]:
        # SQLite polls a busy file with growing pauses; a kernel lock wakes the next writer at once.
        try:
            with hold_exclusive_lock(self._path.with_name(f"{self._path.name}.lock"), seconds=self._busy_seconds):
                yield
        except TimeoutError:
            _, what, fix, status = _FAILURES[0]
            raise LedgerError(
                f"The ledger {self._path.name} {what}. Nothing was charged.", fix=fix, http_status=status
            ) from None
        except OSError as failed:
            raise LedgerError(
                f"The ledger {self._path.name} cannot be written: {failed.strerror}. Nothing was charged.",
                fix="correct the permissions of its folder, or free disk space",
                http_status=507 if failed.errno in (errno.ENOSPC, errno.EDQUOT) else 503,
            ) from None

    def _begin_write(self, connection: Connection) -> None:
        run_in_driver(connection, "BEGIN IMMEDIATE")

    def _begin_snapshot(self, connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN")

    def _rebuild(self) -> bool:
        connection = self._get_connection()
        if is_current(connection):
            return False
        rebuild(connection)
        return True

    def _explain(self, failed: DBAPIError) -> tuple[str, FixLike, int]:
        words = str(failed.orig).lower()
        _, what, fix, status = next((one for one in _FAILURES if one[0] in words), _UNKNOWN)
        return f"The ledger {self._path.name} {what}.", fix, status

    def _may_stand(self, failed: DBAPIError) -> bool:
        # A write that the disk did not confirm may still be there after the next start.
        return "disk i/o" in str(failed.orig).lower()


_VERIFY = build_fix("restore the newest copy, then: ", run("ledger verify"))
_PERMISSIONS = "correct the permissions of the file and its folder"
_UNKNOWN: tuple[str, str, FixLike, int] = ("", "cannot be used", run("doctor"), 500)
_FAILURES: tuple[tuple[str, str, FixLike, int], ...] = (
    ("locked", "was busy for too long", "try again; if that fails, find the process that locks it", 503),
    ("full", "has no disk space left", "free disk space, then try again", 507),
    ("disk i/o", "cannot be read or written: disk error", "free disk space or repair the disk, then try again", 503),
    ("readonly", "cannot be written", _PERMISSIONS, 503),
    ("unable to open", "cannot be opened", _PERMISSIONS, 503),
    ("not a database", "is not a ledger", _VERIFY, 500),
    ("malformed", "is damaged", _VERIFY, 500),
    ("no such table", "is not a ledger", _VERIFY, 500),
)
"""By a sign in SQLite's message: what is wrong, the fix, and a server's status."""


def _create_engine(path: Path, busy_seconds: float) -> Engine:
    url = sa.URL.create("sqlite", database=str(path))
    engine = sa.create_engine(url, poolclass=NullPool, connect_args={"timeout": busy_seconds})

    @event.listens_for(engine, "connect")
    def _settle_in(connection: Any, _: object) -> None:
        connection.isolation_level = None  # this module begins transactions, not the driver
        for setting in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "trusted_schema=OFF"):
            connection.execute(f"PRAGMA {setting}").fetchall()

    return engine


def _make(path: Path) -> None:
    """Create the file under another name and move it into place, so that a crash leaves no partial ledger."""
    building = path.with_name(f".{path.name}.{secrets.token_hex(4)}")  # allowed: a name
    try:
        os.close(os.open(building, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError as failed:
        raise LedgerError(
            f"Cannot create a ledger in {path.parent}: {failed.strerror}.", fix="choose a writable folder"
        ) from None
    try:
        _fill(building)
        os.link(building, path)  # fails if another process was first; its file is then the ledger
        _sync_folder(path.parent)
    except FileExistsError:
        pass
    except OSError as failed:
        raise LedgerError(
            f"Cannot create a ledger in {path.parent}: {failed.strerror}.", fix="choose a folder on a local disk"
        ) from None
    finally:
        for ending in ("", "-wal", "-shm"):
            building.with_name(building.name + ending).unlink(missing_ok=True)


def _fill(building: Path) -> None:
    maker = _create_engine(building, BUSY_SECONDS)
    try:
        with maker.connect() as connection:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            fill(connection)
            connection.commit()
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        maker.dispose()


def _sync_folder(folder: Path) -> None:
    """Sync the folder; otherwise a power cut may remove the new file's name, and with it every charge."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
