"""A SQLite file that is durable when a call returns, for the relay's mailbox and every role's journal."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


class DurableStore:
    """One connection for any thread, one transaction at a time, synchronised to disk."""

    def __init__(self, path: Path | str, tables: str, *, later: Iterable[tuple[str, str, str]] = ()) -> None:
        """Open or create the file.

        Args:
            tables: The statements that create missing tables.
            later: (table, column, declaration) of columns that files of earlier versions lack.
        """
        self._lock = threading.RLock()
        if path != ":memory:":
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=30)
        self._db.row_factory = sqlite3.Row
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "secure_delete=FAST"):
            self._db.execute(f"PRAGMA {pragma}")
        self._db.executescript(tables)
        for table, column, declared in later:
            if not any(known["name"] == column for known in self._db.execute(f"PRAGMA table_info({table})")):
                self._db.execute(f"ALTER TABLE {table} ADD COLUMN {column} {declared}")

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            self._db.close()

    @contextmanager
    def _open_transaction(self) -> Iterator[sqlite3.Connection]:
        """Run the block as one transaction: all of it or nothing."""
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
            except BaseException:  # allowed: raised again; whatever ends the block undoes it
                self._roll_back()
                raise
            try:
                self._db.execute("COMMIT")
            except sqlite3.Error:  # a full disk: an open transaction would refuse every later one
                self._roll_back()
                raise

    def _roll_back(self) -> None:
        if self._db.in_transaction:  # SQLite may have done so itself: the first error must stay the one raised
            with suppress(sqlite3.Error):
                self._db.execute("ROLLBACK")

    @contextmanager
    def _defer_sync(self) -> Iterator[None]:
        """Commit without syncing: survives the process's end, and a power failure once a later commit was synced."""
        with self._lock:
            self._db.execute("PRAGMA synchronous=NORMAL")
            try:
                yield
            finally:
                self._db.execute("PRAGMA synchronous=FULL")
