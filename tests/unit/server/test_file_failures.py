"""What SQLite and the system say of a file is told apart: locked, full, read-only, unreadable, damaged."""

from __future__ import annotations

import errno
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from siloquent.errors import LedgerError
from siloquent.federation.durable_store import DurableStore
from siloquent.server.failures.files import (
    BUSY,
    DAMAGED,
    FULL,
    READ_ONLY,
    UNREADABLE,
    FileFailure,
    explain_file_failure,
)
from siloquent.server.store import Store

TALK = "CREATE TABLE IF NOT EXISTS talk (text TEXT NOT NULL)"


def locked(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as one, closing(sqlite3.connect(path, timeout=0)) as two:
        one.execute("BEGIN IMMEDIATE")
        two.execute("BEGIN IMMEDIATE")


def full(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA max_page_count = 3")
        db.execute("INSERT INTO talk VALUES (?)", ("x" * 100_000,))


def read_only(path: Path) -> None:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        db.execute("INSERT INTO talk VALUES ('')")


def not_there(path: Path) -> None:
    with closing(sqlite3.connect(path.parent / "no folder" / "w.sqlite")) as db:
        db.execute("SELECT 1")


def malformed(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:4096] + b"\xff" * 4096)
    with closing(sqlite3.connect(path)) as db:
        db.execute("SELECT * FROM talk").fetchall()


def no_database(path: Path) -> None:
    path.write_bytes(b"no database" * 1_000)
    with closing(sqlite3.connect(path)) as db:
        db.execute("SELECT * FROM talk")


@pytest.mark.parametrize(
    ("fails", "failure"),
    [
        (locked, BUSY),
        (full, FULL),
        (read_only, READ_ONLY),
        (not_there, READ_ONLY),
        (malformed, DAMAGED),
        (no_database, DAMAGED),
    ],
)
def test_what_sqlite_says_is_told_apart(fails: Callable[[Path], None], failure: FileFailure, tmp_path: Path) -> None:
    path = tmp_path / "w.sqlite"
    with closing(sqlite3.connect(path)) as db:
        db.execute(TALK)
        db.commit()
    with pytest.raises(sqlite3.Error) as raised:
        fails(path)
    assert explain_file_failure(raised.value) is failure


LIMITED = """
import resource, sqlite3, sys
from siloquent.server.failures.files import explain_file_failure
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
db = sqlite3.connect(sys.argv[1])
try:
    db.execute("INSERT INTO talk VALUES (?)", ("x" * 1_000_000,))
    db.commit()
except sqlite3.Error as failed:
    print(explain_file_failure(failed).code)
"""


def test_a_file_that_cannot_be_written_is_not_called_locked(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "w.sqlite")) as db:
        db.execute(TALK)
        db.commit()
    words = [sys.executable, "-c", LIMITED, str(tmp_path / "w.sqlite")]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip() == "store_unreadable"


@pytest.mark.parametrize(
    ("number", "failure"),
    [
        (errno.ENOSPC, FULL),
        (errno.EDQUOT, FULL),
        (errno.EROFS, READ_ONLY),
        (errno.EIO, UNREADABLE),
        (errno.EPIPE, None),
    ],
)
def test_what_the_system_says_is_told_apart(number: int, failure: FileFailure | None) -> None:
    assert explain_file_failure(OSError(number, "")) is failure


@pytest.mark.parametrize(
    "bug", [sqlite3.IntegrityError("UNIQUE"), sqlite3.ProgrammingError("?"), ValueError(), OSError()]
)
def test_a_bug_of_ours_is_no_failure_of_a_file(bug: Exception) -> None:
    assert explain_file_failure(bug) is None


def test_a_full_disk_ends_one_transaction_and_no_later_one(tmp_path: Path) -> None:
    """SQLite may roll back by itself; what is raised stays the first error, and the next transaction begins."""
    with closing(Store(tmp_path / "server.sqlite")) as store:
        pages = store.fetch_all("PRAGMA page_count")[0]["page_count"]
        store._db.execute(f"PRAGMA max_page_count = {pages}")
        for _ in range(3):
            with pytest.raises(sqlite3.OperationalError) as raised:
                store.write("INSERT INTO upload VALUES ('a', ?, 1, 1)", "x" * 100_000)
            assert explain_file_failure(raised.value) is FULL
        store._db.execute("PRAGMA max_page_count = 1000000")
        store.write("INSERT INTO upload VALUES ('a', ?, 1, 1)", "x" * 100_000)
        assert len(store.fetch_all("SELECT id FROM upload")) == 1


@pytest.mark.parametrize("content", [b"no database" * 10_000, None])
def test_a_store_that_cannot_be_opened_says_what_to_do(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "server.sqlite"
    path.mkdir() if content is None else path.write_bytes(content)
    with pytest.raises(LedgerError, match=r"server.sqlite cannot be opened") as refused:
        Store(path)
    assert "backup" in refused.value.fix or content is None
    assert refused.value.fix


def test_a_journal_on_a_full_disk_goes_on_when_there_is_room(tmp_path: Path) -> None:
    with closing(DurableStore(tmp_path / "j.sqlite", TALK)) as journal:
        journal._db.execute("PRAGMA max_page_count = 2")
        for _ in range(3):
            with pytest.raises(sqlite3.OperationalError, match="full"), journal._open_transaction() as db:
                db.execute("INSERT INTO talk VALUES (?)", ("x" * 100_000,))
        journal._db.execute("PRAGMA max_page_count = 1000000")
        with journal._open_transaction() as db:
            db.execute("INSERT INTO talk VALUES ('')")
        assert journal._db.execute("SELECT count(*) FROM talk").fetchone()[0] == 1
