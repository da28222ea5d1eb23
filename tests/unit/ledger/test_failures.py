"""A ledger that cannot be used says so in words, spends nothing, and is well again when the cause is gone."""

from __future__ import annotations

import fcntl
import os
import resource
import signal
import sqlite3
import stat
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from benchmarks.trials.ledger import CHARGE, DIGEST, TABLE, Place, in_child, joined, tamper
from scripts.postgres import fresh_database
from siloquent.errors import LedgerError, SiloquentError
from siloquent.ledger import Permit, head, open_ledger
from siloquent.ledger.backends.postgres import PostgresLedger
from siloquent.ledger.backends.sqlite import SQLiteLedger
from siloquent.privacy.accountants import Cost
from unit.ledger.places import raw

NOBODY = 65534
BLOB = os.urandom(200_000)


def refusal(act: Callable[[], object]) -> LedgerError:
    """The error with which ``act`` ends; it says what is wrong, what to do and what was spent."""
    with pytest.raises(LedgerError) as caught:
        act()
    assert caught.value.fix
    assert caught.value.detail.endswith(".")
    assert "sqlite3" not in str(caught.value)
    assert "psycopg" not in str(caught.value).replace("postgresql+psycopg://", "")
    return caught.value


def reserve(ledger: SQLiteLedger | PostgresLedger, key: str | None = None) -> object:
    return ledger.reserve(TABLE, CHARGE, key=key, digest=DIGEST)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place.made(tmp_path, limit=1_000)


# Disks


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(tmp_path)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("only root may mount a small disk; the test with a limit on file sizes covers the rest")
    yield tmp_path
    subprocess.run(["umount", "-l", str(tmp_path)], check=True)


def test_a_full_disk_refuses_and_forgets_nothing(small_disk: Path) -> None:
    place = Place.made(small_disk, limit=1_000)
    with place.opened() as ledger:
        first = ledger.reserve(TABLE, CHARGE, key="first", digest=DIGEST)
        assert isinstance(first, Permit)
        (small_disk / "filler").write_bytes(bytes(os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_frsize))
        full = refusal(lambda: ledger.settle(first, CHARGE, BLOB))
        assert "no room" in full.detail or "disk" in full.detail
        paid, error = ledger.get_account(TABLE).spent.amount, None
        while error is None:  # small charges find room in the write-ahead log for a while
            try:
                ledger.reserve(TABLE, CHARGE, key=f"key {paid}", digest=DIGEST)
                paid += 1
            except LedgerError as failed:
                error = failed
        assert "Nothing was charged" in error.detail
        assert ledger.get_account(TABLE).spent == Cost(paid)
        (small_disk / "filler").unlink()
        assert ledger.settle(first, CHARGE, BLOB).payload == BLOB
        ledger.reserve(TABLE, CHARGE, key=f"key {paid}", digest=DIGEST)
        assert ledger.get_account(TABLE).spent == Cost(paid + 1)
        assert ledger.verify().ok


def test_a_ledger_is_not_half_made_on_a_full_disk(small_disk: Path) -> None:
    (small_disk / "filler").write_bytes(bytes(1_020_000))
    refusal(lambda: open_ledger(small_disk / "ledger.sqlite", create=True))
    assert [file.name for file in small_disk.iterdir()] == ["filler"]
    (small_disk / "filler").unlink()
    ledger = open_ledger(small_disk / "ledger.sqlite", create=True)
    assert ledger.verify().ok
    ledger.close()


def test_a_file_that_may_not_grow_refuses_and_forgets_nothing(place: Place) -> None:
    def limited(pipe: int) -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        with place.opened() as ledger:
            permit = ledger.reserve(TABLE, CHARGE, key="first", digest=DIGEST)
            assert isinstance(permit, Permit)
            resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
            try:
                ledger.settle(permit, CHARGE, BLOB)
            except LedgerError as failed:
                os.write(pipe, f"{failed.detail}{failed.fix}".encode())

    code, said = joined(*in_child(limited))
    assert code == 0
    assert b"free disk space" in said
    with place.opened() as ledger:
        permit = ledger.reserve(TABLE, CHARGE, key="first", digest=DIGEST)
        assert isinstance(permit, Permit)
        assert ledger.settle(permit, CHARGE, BLOB).payload == BLOB
        assert ledger.get_account(TABLE).spent == Cost(1)
        assert ledger.verify().ok


# Files


@pytest.fixture
def readable() -> Iterator[Place]:
    """A ledger in a folder into which anybody may look."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        place = Place.made(Path(name), limit=1_000)
        for file in Path(name).iterdir():
            file.chmod(0o644)
        yield place


def test_a_ledger_that_may_not_be_written_refuses(readable: Place) -> None:
    before = readable.database.read_bytes()

    def ask(pipe: int) -> None:
        if os.geteuid() == 0:
            os.setuid(NOBODY)
        else:
            readable.folder.chmod(0o555)
            readable.database.chmod(0o444)
        try:
            with readable.opened() as ledger:
                ledger.reserve(TABLE, CHARGE, key=None, digest=DIGEST)
        except LedgerError as failed:
            os.write(pipe, f"{failed.detail}|{failed.fix}".encode())

    code, said = joined(*in_child(ask))
    readable.folder.chmod(0o755)
    assert code == 0
    assert b"permissions" in said, said
    assert readable.database.read_bytes() == before


def test_only_the_owner_may_read_the_ledgers_files(place: Place) -> None:
    with place.opened() as ledger:
        ledger.reserve(TABLE, CHARGE, key=None, digest=DIGEST)
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in place.folder.iterdir()}
    assert {"ledger.sqlite", "ledger.sqlite-wal", "ledger.sqlite-shm", "ledger.head"} <= set(modes)
    assert set(modes.values()) == {0o600}, modes


def test_a_missing_ledger_is_never_made_by_asking(tmp_path: Path) -> None:
    missing = refusal(lambda: open_ledger(tmp_path / "none.sqlite"))
    assert "restore-a-backup" in missing.fix
    assert "init" not in missing.fix
    refusal(lambda: open_ledger(tmp_path / "none" / "none.sqlite", create=True))
    refusal(lambda: open_ledger(tmp_path))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"hello", BLOB, b"SQLite format 3\x00" + b"\x00" * 4096])
def test_a_file_that_is_no_ledger_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "ledger.sqlite"
    path.write_bytes(content)
    for create in (False, True):
        refusal(lambda create=create: open_ledger(path, create=create))  # type: ignore[misc]
    if content:
        assert path.read_bytes() == content


def test_a_database_of_something_else_is_refused(tmp_path: Path) -> None:
    with raw(tmp_path / "other.sqlite") as connection:
        connection.execute("CREATE TABLE people (name TEXT)")
    assert "not a ledger" in refusal(lambda: open_ledger(tmp_path / "other.sqlite", create=True)).detail


def test_a_ledger_of_another_format_is_refused(place: Place) -> None:
    tamper(place.database, "UPDATE ledger SET format = 2")
    refused = refusal(lambda: open_ledger(place.database))
    assert "format 2" in refused.detail
    assert "upgrade" in refused.fix


def test_a_damaged_ledger_is_refused(place: Place) -> None:
    with place.database.open("r+b") as file:
        file.seek(4096)
        file.write(os.urandom(8192))
    refusal(lambda: open_ledger(place.database, head=place.head))


# Locks


def test_a_ledger_locked_for_too_long_refuses_and_is_well_afterwards(place: Place) -> None:
    ledger = SQLiteLedger(place.database, head=place.head, busy_seconds=0.1)
    holder = sqlite3.connect(place.database, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    assert "busy" in refusal(lambda: reserve(ledger)).detail
    holder.execute("ROLLBACK")
    holder.close()
    reserve(ledger)
    assert ledger.get_account(TABLE).spent == Cost(1)
    assert ledger.verify().ok
    ledger.close()


class Clock:
    """A time that passes only where somebody waits for it."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.mark.parametrize("seconds", [0.0, 0.1, 2.0, 40.0])
def test_a_writer_waits_for_the_lock_as_long_as_it_was_told_and_no_longer(
    place: Place, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    ledger, clock = SQLiteLedger(place.database, head=place.head, busy_seconds=seconds), Clock()
    with place.database.with_name(f"{place.database.name}.lock").open("w") as holder:
        fcntl.flock(holder, fcntl.LOCK_EX)
        monkeypatch.setattr(head, "time", clock)
        assert "busy" in refusal(lambda: reserve(ledger)).detail
    assert seconds <= clock.now <= seconds + 0.01
    reserve(ledger)
    assert ledger.get_account(TABLE).spent == Cost(1)
    ledger.close()


def test_a_stopped_process_does_not_hold_up_the_others_for_ever(place: Place) -> None:
    entered, leave = threading.Event(), threading.Event()

    def stop(point: str) -> None:
        if point == "before-reserve-commit":
            entered.set()
            leave.wait()

    stopped = SQLiteLedger(place.database, head=place.head, crash_points=stop)
    thread = threading.Thread(target=reserve, args=(stopped,))
    thread.start()
    entered.wait()
    ledger = SQLiteLedger(place.database, busy_seconds=0.1)
    assert "busy" in refusal(lambda: reserve(ledger)).detail
    leave.set()
    thread.join()
    reserve(ledger)
    assert ledger.get_account(TABLE).spent == Cost(2)
    ledger.close()


def test_a_head_file_that_cannot_be_written_leaves_the_charge_to_the_key(place: Place) -> None:
    in_the_way = place.head.with_name("ledger.head.new")

    def lose_the_head(point: str) -> None:
        if point == "after-reserve-commit" and not in_the_way.exists():
            place.head.rename(place.folder / "kept")
            in_the_way.mkdir()

    ledger = SQLiteLedger(place.database, head=place.head, crash_points=lose_the_head)
    failed = refusal(lambda: ledger.reserve(TABLE, CHARGE, key="k", digest=DIGEST))
    assert "same key" in failed.fix
    assert "reserved" in failed.spent
    ledger.close()
    in_the_way.rmdir()
    (place.folder / "kept").rename(place.head)
    with place.opened() as again:
        again.reserve(TABLE, CHARGE, key="k", digest=DIGEST)
        assert again.get_account(TABLE).spent == Cost(1)
        assert place.noted() == again.read_head().seq


# Addresses and servers


@pytest.mark.parametrize("address", ["mysql://host/db", "sqlite:///ledger.sqlite", "http://x"])
def test_an_address_of_another_kind_is_refused(address: str) -> None:
    assert "PostgreSQL" in refusal(lambda: open_ledger(address)).detail


@pytest.mark.parametrize("address", ["postgresql://:x:y@", "postgresql+psycopg://host:port/db"])
def test_an_address_that_cannot_be_read_is_refused_without_showing_it(address: str) -> None:
    assert address not in str(refusal(lambda: open_ledger(address)))


def test_a_server_that_is_not_there_is_named_without_its_password() -> None:
    refused = refusal(lambda: open_ledger("postgresql://ana:secret@127.0.0.1:1/clinic?connect_timeout=2"))
    assert "reached" in refused.detail
    assert "secret" not in str(refused)


@pytest.mark.postgres
def test_a_database_without_a_ledger_or_not_there_is_refused(postgres_dsn: str) -> None:
    assert "no ledger" in refusal(lambda: open_ledger(fresh_database(postgres_dsn))).detail
    missing = sa.make_url(postgres_dsn).set(database="nowhere").render_as_string(hide_password=False)
    assert "does not exist" in refusal(lambda: open_ledger(missing, create=True)).detail


@pytest.mark.postgres
def test_a_connection_that_breaks_charges_nothing_and_comes_back(postgres_dsn: str) -> None:
    address = fresh_database(postgres_dsn)
    ledger = open_ledger(address, create=True)
    ledger.open_account(TABLE, limit=Cost(10), accountant="pure", unit="row", adjacency="add-remove")
    cut_off(address)
    with pytest.raises(SiloquentError, match="Nothing was charged"):
        ledger.reserve(TABLE, CHARGE, key="k", digest=DIGEST)
    ledger.reserve(TABLE, CHARGE, key="k", digest=DIGEST)
    assert ledger.get_account(TABLE).spent == Cost(1)
    ledger.close()


@pytest.mark.postgres
def test_a_connection_that_breaks_at_the_commit_leaves_the_charge_to_the_key(postgres_dsn: str) -> None:
    address, broken = fresh_database(postgres_dsn), []

    def cut(point: str) -> None:
        if point == "before-reserve-commit" and not broken:
            broken.append(point)
            cut_off(address)

    ledger = PostgresLedger(address, create=True, crash_points=cut)
    ledger.open_account(TABLE, limit=Cost(10), accountant="pure", unit="row", adjacency="add-remove")
    assert "same key" in refusal(lambda: reserve(ledger, "k")).spent
    reserve(ledger, "k")
    assert ledger.get_account(TABLE).spent == Cost(1)
    assert ledger.verify().ok
    ledger.close()


def cut_off(address: str) -> None:
    """End every other connection to the database, as a restart of the server does."""
    engine = sa.create_engine(address)
    with engine.begin() as connection:
        connection.exec_driver_sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    engine.dispose()
