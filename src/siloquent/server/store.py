"""The server's store: tokens, browser sessions, jobs, owners of releases. It never holds a row or a password.

Only the ledger decides what was spent; losing this file costs no budget, only logins.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from siloquent.errors import LedgerError
from siloquent.fixes import run
from siloquent.server.failures.files import BUSY_SECONDS, DAMAGED, explain_file_failure

STEPS = (
    """
CREATE TABLE token (id TEXT PRIMARY KEY, digest BLOB NOT NULL, name TEXT NOT NULL, role TEXT NOT NULL,
    tables TEXT NOT NULL, created INTEGER NOT NULL, expires INTEGER NOT NULL, revoked INTEGER);
CREATE TABLE browser (digest BLOB PRIMARY KEY, token TEXT NOT NULL, csrf TEXT NOT NULL, expires INTEGER NOT NULL);
CREATE TABLE login (digest BLOB PRIMARY KEY, token TEXT NOT NULL, expires INTEGER NOT NULL);
CREATE TABLE reply (name TEXT NOT NULL, key TEXT NOT NULL, body BLOB NOT NULL, document TEXT NOT NULL,
    PRIMARY KEY (name, key));
CREATE TABLE release (id TEXT PRIMARY KEY, name TEXT NOT NULL, shared INTEGER NOT NULL DEFAULT 0);
CREATE TABLE job (id TEXT PRIMARY KEY, name TEXT NOT NULL, token TEXT NOT NULL, task TEXT NOT NULL,
    spec TEXT NOT NULL, key TEXT NOT NULL,
    max_cost TEXT, state TEXT NOT NULL, done INTEGER NOT NULL DEFAULT 0, steps INTEGER NOT NULL DEFAULT 0,
    result TEXT, created INTEGER NOT NULL, changed INTEGER NOT NULL, UNIQUE (name, key));
CREATE TABLE upload (id TEXT PRIMARY KEY, form TEXT NOT NULL, size INTEGER NOT NULL, created INTEGER NOT NULL);
""",
    """
CREATE TABLE denial (id INTEGER PRIMARY KEY, at INTEGER NOT NULL, name TEXT NOT NULL, role TEXT NOT NULL,
    route TEXT NOT NULL, code TEXT NOT NULL);
""",
    """
ALTER TABLE job ADD COLUMN holder TEXT NOT NULL DEFAULT '';
ALTER TABLE job ADD COLUMN held_until INTEGER NOT NULL DEFAULT 0;
ALTER TABLE job ADD COLUMN tries INTEGER NOT NULL DEFAULT 0;
CREATE INDEX job_by_state ON job (state, created, id);
CREATE INDEX job_by_name ON job (name, created, id);
CREATE TABLE server (id TEXT PRIMARY KEY, beat INTEGER NOT NULL);
""",
    """
ALTER TABLE denial ADD COLUMN address TEXT NOT NULL DEFAULT '';
ALTER TABLE denial ADD COLUMN token TEXT NOT NULL DEFAULT '';
ALTER TABLE denial ADD COLUMN times INTEGER NOT NULL DEFAULT 1;
ALTER TABLE denial ADD COLUMN last INTEGER NOT NULL DEFAULT 0;
UPDATE denial SET last = at;
CREATE INDEX denial_by_kind ON denial (name, code, id);
ALTER TABLE reply ADD COLUMN created INTEGER NOT NULL DEFAULT 0;
UPDATE reply SET created = CAST(strftime('%s', 'now') AS INTEGER);
ALTER TABLE release ADD COLUMN created INTEGER NOT NULL DEFAULT 0;
ALTER TABLE release ADD COLUMN deleted INTEGER NOT NULL DEFAULT 0;
UPDATE release SET created = CAST(strftime('%s', 'now') AS INTEGER);
""",
    """
ALTER TABLE job ADD COLUMN account TEXT NOT NULL DEFAULT '';
ALTER TABLE job ADD COLUMN cost TEXT;
ALTER TABLE job ADD COLUMN cancelled_by TEXT;
CREATE TABLE act (id INTEGER PRIMARY KEY, at INTEGER NOT NULL, name TEXT NOT NULL, role TEXT NOT NULL,
    token TEXT NOT NULL, what TEXT NOT NULL, subject TEXT NOT NULL);
CREATE TABLE made (name TEXT NOT NULL, key TEXT NOT NULL, body BLOB NOT NULL, document TEXT NOT NULL,
    created INTEGER NOT NULL, PRIMARY KEY (name, key));
""",
)
"""The migrations, each from one format to the next; a released one is never changed."""
VERSION = len(STEPS)
ADD_RELEASE = "INSERT OR IGNORE INTO release (id, name, created) VALUES (?, ?, ?)"


class Store:
    """One SQLite file, mode 600, used from every thread: its statements take microseconds.

    Each thread reads by its own connection, so that reads wait neither for a write nor for one another.

    Raises:
        LedgerError: another version of this package wrote it (``migrate`` upgrades an older one), or it cannot be used.
    """

    def __init__(self, path: Path) -> None:
        self._lock, self._opening, self._path = threading.Lock(), threading.Lock(), path
        self._own, self._readers, self._closed = threading.local(), list[_Reader](), False
        try:
            path.touch(mode=0o600, exist_ok=True)
            self._db = _connect(path)
        except (OSError, sqlite3.Error) as failed:
            raise _build_failure(path, failed) from None
        try:
            with self.open_transaction() as db:
                found = _read_version(db)
                if found not in (0, VERSION):
                    raise _build_version_error(path, found)
                if not found:
                    _apply_steps(db, 0)
            self._get_reader()
        except (LedgerError, sqlite3.Error) as failed:
            self._db.close()
            raise failed if isinstance(failed, LedgerError) else _build_failure(path, failed) from None

    @contextmanager
    def open_transaction(self) -> Iterator[sqlite3.Connection]:
        """Open a transaction: durable when the block ends normally, rolled back otherwise."""
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
            except BaseException:  # allowed: nothing half-written stays, and it is raised again
                _roll_back(self._db)
                raise
            try:
                self._db.execute("COMMIT")
            except sqlite3.Error:  # a full disk: an open transaction would refuse every later one
                _roll_back(self._db)
                raise

    def write(self, statement: str, *values: Any) -> int:
        """Run one statement durably; return the number of rows changed."""
        with self.open_transaction() as db:
            return db.execute(statement, values).rowcount

    def fetch_one(self, query: str, *values: Any) -> Mapping[str, Any] | None:
        """Return the first row, by column names."""
        with self._get_reader() as db:
            row = db.execute(query, values).fetchone()
        return None if row is None else dict(row)

    def fetch_all(self, query: str, *values: Any) -> list[dict[str, Any]]:
        """Return every row, by column names."""
        with self._get_reader() as db:
            return [dict(row) for row in db.execute(query, values)]

    def fetch_column(self, query: str, *values: Any) -> list[Any]:
        """Return the first column of every row."""
        with self._get_reader() as db:
            return [row[0] for row in db.execute(query, values)]

    def fetch_named(self, query: str, values: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return every row, by column names, of a query with named parameters."""
        with self._get_reader() as db:
            return [dict(row) for row in db.execute(query, values)]

    def close(self) -> None:
        """Close the file."""
        with self._lock, self._opening:
            self._closed = True
            self._db.close()
            for reader in self._readers:
                reader.close()

    def _get_reader(self) -> _Reader:
        reader: _Reader | None = getattr(self._own, "reader", None)
        if reader is None:
            with self._opening:
                if self._closed:
                    raise sqlite3.ProgrammingError("the store is closed")
                reader = self._own.reader = _Reader(_connect(self._path))
                self._readers.append(reader)
        return reader


class _Reader:
    """A thread's own connection, whose lock only a closing store shares: long lists do not delay who checks a token."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db, self._lock = db, threading.Lock()

    def __enter__(self) -> sqlite3.Connection:
        self._lock.acquire()
        return self._db

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def close(self) -> None:
        with self._lock:
            self._db.close()


def _roll_back(db: sqlite3.Connection) -> None:
    """Roll back, unless SQLite did so itself, as it may after a full disk: the first error must stay the one raised."""
    if db.in_transaction:
        with suppress(sqlite3.Error):
            db.execute("ROLLBACK")


def _connect(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
    db.row_factory = sqlite3.Row
    try:
        db.execute("PRAGMA journal_mode = WAL")
    except sqlite3.Error:
        db.close()
        raise
    db.execute(f"PRAGMA busy_timeout = {1_000 * BUSY_SECONDS}")
    return db


@dataclass(frozen=True, slots=True)
class MigrationResult:
    """The result of a migration: the file's old and new format, and the backup of the old file."""

    found: int
    now: int
    copy: Path | None = None


def migrate(path: Path) -> MigrationResult:
    """Upgrade the file at ``path`` to this version's format, step by step in one transaction, after copying it.

    Raises:
        LedgerError: a newer version wrote it, or a server has it open and is writing.
    """
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        found = _read_version(db)
        if found == VERSION:
            return MigrationResult(found, found)
        if found > VERSION:
            raise _build_version_error(path, found)
        copy = path.with_name(f"{path.name}.format-{found}")
        copy.unlink(missing_ok=True)
        copy.touch(mode=0o600)
        db.execute("VACUUM INTO ?", (str(copy),))
        db.execute("BEGIN IMMEDIATE")
        try:
            _apply_steps(db, found)
        except sqlite3.Error:
            db.execute("ROLLBACK")
            raise LedgerError(f"{path.name} could not be led forward; it is as it was.", fix=f"keep {copy}") from None
        db.execute("COMMIT")
    return MigrationResult(found, VERSION, copy)


def _read_version(db: sqlite3.Connection) -> int:
    found: int = db.execute("PRAGMA user_version").fetchone()[0]
    return found


def _apply_steps(db: sqlite3.Connection, version: int) -> None:
    if version == 1 and "token" not in [row[1] for row in db.execute("PRAGMA table_info(job)")]:
        db.execute("ALTER TABLE job ADD COLUMN token TEXT NOT NULL DEFAULT ''")  # the earliest files of format 1
    for statement in filter(str.strip, ";".join(STEPS[version:]).split(";")):
        db.execute(statement)
    db.execute(f"PRAGMA user_version = {VERSION}")


def _build_failure(path: Path, failed: Exception) -> LedgerError:
    """Return the error of a file that cannot be opened; one that stays damaged takes no money with it."""
    told = explain_file_failure(failed)
    if told is DAMAGED:
        fix = f"move {path.name} away and make new tokens, or put it back from a backup; no charge is in it"
    else:
        fix = told.fix if told is not None else f"look at the file {path.name} and its folder"
    detail = "" if told is None else f" {told.detail}"
    return LedgerError(f"{path.name} cannot be opened: {failed}.{detail}", fix=fix)


def _build_version_error(path: Path, found: int) -> LedgerError:
    if found > VERSION:
        return LedgerError(f"{path.name} was written by a newer siloquent (format {found}).", fix="upgrade siloquent")
    return LedgerError(
        f"{path.name} was written by an older siloquent (format {found}; this one reads {VERSION}).",
        fix=run("migrate", "--workspace", path.parent),
    )
