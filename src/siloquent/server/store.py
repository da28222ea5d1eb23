"""What the server remembers: tokens, browser sessions, jobs, who owns which release. Never a row, never a password.

The ledger alone decides what was spent; this file may be lost without losing money: people log in anew.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from siloquent.errors import LedgerError

_STEPS = (
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
)
"""Each step leads from one format to the next; what was released is never changed."""
VERSION = len(_STEPS)


class Store:
    """One SQLite file, mode 600, used from every thread under one lock: its statements take microseconds."""

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        path.touch(mode=0o600, exist_ok=True)
        self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._db.row_factory = sqlite3.Row
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA busy_timeout = 10000")
        with self.writing() as db:
            version = db.execute("PRAGMA user_version").fetchone()[0]
            if version > VERSION:
                raise LedgerError(
                    f"{path.name} was written by a newer siloquent (format {version}).", fix="upgrade siloquent"
                )
            for statement in filter(str.strip, ";".join(_STEPS[version:]).split(";")):
                db.execute(statement)
            if version < VERSION:
                db.execute(f"PRAGMA user_version = {VERSION}")

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction: durable when the block ends well, nothing when it does not."""
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
            except BaseException:  # allowed: nothing half-written stays, and it is raised again
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    def write(self, statement: str, *values: Any) -> int:
        """Run one statement durably; how many rows it changed."""
        with self.writing() as db:
            return db.execute(statement, values).rowcount

    def one(self, query: str, *values: Any) -> Mapping[str, Any] | None:
        """The first row, by column names."""
        with self._lock:
            row = self._db.execute(query, values).fetchone()
        return None if row is None else dict(row)

    def all(self, query: str, *values: Any) -> list[dict[str, Any]]:
        """Every row, by column names."""
        with self._lock:
            return [dict(row) for row in self._db.execute(query, values)]

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._db.close()
