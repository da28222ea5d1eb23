"""Whatever is changed in the database behind the ledger's back is found, in SQLite and in PostgreSQL."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from benchmarks.trials.ledger import CHARGE, CUT_CLEANLY, DIGEST, TABLE, TAMPERING, Place, tamper, write_history
from scripts.postgres import fresh_database
from siloquent.errors import ChainBroken, LedgerError, LedgerRolledBack
from siloquent.ledger import Checkpoint, Ledger, LedgerVerdict, adopt_ledger, open_ledger
from siloquent.ledger.backends.sql import KEPT_FOR_EVER
from siloquent.privacy.accountants import Cost
from siloquent.privacy.events import DiscreteLaplace
from unit.ledger.places import raw


def kept_elsewhere(ledger: Ledger) -> Checkpoint:
    """What ``checkpoint`` gives, without an entry of its own."""
    head = ledger.read_head()
    return Checkpoint(ledger.id, head.seq, head.hash, {a.name: a.spent for a in ledger.list_accounts()})


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Checkpoint]:
    path = tmp_path_factory.mktemp("history") / "ledger.sqlite"
    ledger = open_ledger(path, create=True)
    write_history(ledger)
    assert ledger.verify() == LedgerVerdict(True, 9)
    checkpoint = kept_elsewhere(ledger)
    ledger.close()
    return path, checkpoint


@pytest.fixture
def place(history: tuple[Path, Checkpoint], tmp_path: Path) -> Place:
    shutil.copy(history[0], tmp_path / "ledger.sqlite")
    return Place(tmp_path)


def verdict(path: Path, checkpoint: Checkpoint | None = None) -> LedgerVerdict:
    ledger = open_ledger(path)
    try:
        return ledger.verify(checkpoint)
    finally:
        ledger.close()


@pytest.mark.parametrize("statements", TAMPERING.values(), ids=TAMPERING)
def test_tampering_is_found(place: Place, statements: str) -> None:
    tamper(place.database, statements)
    found = verdict(place.database)
    assert not found.ok
    assert found.problem


def test_the_first_bad_entry_is_named(place: Place) -> None:
    tamper(place.database, TAMPERING["an entry changed"])
    assert verdict(place.database).first_bad_seq == 3


def test_a_tail_that_was_cut_off_cleanly_shows_only_against_a_checkpoint(
    place: Place, history: tuple[Path, Checkpoint]
) -> None:
    tamper(place.database, CUT_CLEANLY)
    assert verdict(place.database).ok
    found = verdict(place.database, history[1])
    assert (found.ok, found.first_bad_seq) == (False, 8)


def test_a_whole_new_history_shows_only_against_a_checkpoint(history: tuple[Path, Checkpoint], tmp_path: Path) -> None:
    """Who owns the file can write all of it anew; the chain says so only to somebody who kept its end."""
    name = history[1].ledger
    other = open_ledger(tmp_path / "other.sqlite", create=True)
    other_id = other.id
    other.close()
    tamper(tmp_path / "other.sqlite", f"UPDATE ledger SET id = '{name}' WHERE id = '{other_id}'")
    forged = open_ledger(tmp_path / "other.sqlite")
    forged.open_account(TABLE, limit=Cost(100), accountant="pure", unit="row", adjacency="add-remove")
    for _ in range(9):
        forged.reserve(TABLE, CHARGE, key=None, digest=DIGEST)
    assert forged.verify().ok
    found = forged.verify(history[1])
    assert not found.ok
    assert "differs from the checkpoint" in found.problem
    forged.close()


def test_a_changed_answer_is_not_replayed(place: Place) -> None:
    tamper(place.database, TAMPERING["an answer changed"])
    ledger = open_ledger(place.database)
    with pytest.raises(ChainBroken, match="changed"):
        ledger.reserve(TABLE, DiscreteLaplace(CHARGE.scale, 1), key="question 1", digest=DIGEST)
    with pytest.raises(ChainBroken, match="changed"):
        list(ledger.iter_answers(TABLE))
    ledger.close()


@pytest.mark.parametrize("table", [table.name for table in KEPT_FOR_EVER])
def test_sqlite_refuses_to_change_or_remove_a_row(place: Place, table: str) -> None:
    for statement in (f'DELETE FROM "{table}"', f'UPDATE "{table}" SET rowid = rowid'):
        with pytest.raises(sqlite3.IntegrityError, match="never changed"), raw(place.database) as connection:
            connection.execute(statement)
    assert verdict(place.database).ok


def test_sqlite_refuses_a_total_beyond_its_limit(place: Place) -> None:
    for amount in (-1, 10**6):
        with pytest.raises(sqlite3.IntegrityError, match="CHECK"), raw(place.database) as connection:
            connection.execute("UPDATE account SET spent_amount = ?", (amount,))


# An older copy in the ledger's place


def test_a_restored_older_copy_is_refused_when_it_is_opened(tmp_path: Path) -> None:
    place = Place.made(tmp_path, limit=100)
    shutil.copy(place.database, tmp_path / "backup")
    with place.opened() as ledger:
        ledger.reserve(TABLE, CHARGE, key=None, digest=DIGEST)
    restore(tmp_path / "backup", place.database)
    with pytest.raises(LedgerRolledBack, match="older copy"), place.opened():
        pass


def test_a_restored_older_copy_is_refused_by_the_next_write_of_an_open_ledger(tmp_path: Path) -> None:
    place = Place.made(tmp_path, limit=100)
    shutil.copy(place.database, tmp_path / "backup")
    with place.opened() as ledger:
        for _ in range(2):
            ledger.reserve(TABLE, CHARGE, key=None, digest=DIGEST)
    with place.opened() as ledger:
        with raw(tmp_path / "backup") as old, raw(place.database) as now:
            old.backup(now)  # in place, as SQLite's own restore does it
        with pytest.raises(LedgerRolledBack):
            ledger.reserve(TABLE, CHARGE, key=None, digest=DIGEST)
        assert ledger.get_account(TABLE).spent == Cost(0)


def test_a_copy_that_went_another_way_is_refused(tmp_path: Path) -> None:
    place = Place.made(tmp_path, limit=100)
    shutil.copy(place.database, tmp_path / "other")
    for path, key in ((tmp_path / "other", "theirs"), (place.database, "ours")):
        ledger = open_ledger(path, head=None if key == "theirs" else place.head)
        ledger.reserve(TABLE, CHARGE, key=key, digest=DIGEST)
        ledger.close()
    restore(tmp_path / "other", place.database)
    with pytest.raises(LedgerRolledBack), place.opened():
        pass


def test_a_ledger_ahead_of_its_head_file_is_welcome(tmp_path: Path) -> None:
    place = Place.made(tmp_path, limit=100)
    old = place.head.read_text()
    with place.opened() as ledger:
        ledger.reserve(TABLE, CHARGE, key=None, digest=DIGEST)
    place.head.write_text(old)
    with place.opened() as ledger:
        assert place.noted() == ledger.read_head().seq == 2


@pytest.mark.parametrize("text", ["", "7", "x y\n", "1 " + "g" * 64 + "\n", "9" * 30 + " " + "0" * 64 + "\n", "\udcff"])
def test_a_head_file_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    place = Place.made(tmp_path, limit=100)
    place.head.write_text(text, errors="surrogateescape")
    with pytest.raises(LedgerError, match="head file"), place.opened():
        pass


def restore(backup: Path, database: Path) -> None:
    """Put ``backup`` in the place of ``database``, as an administrator does with a stopped service."""
    for ending in ("-wal", "-shm"):
        database.with_name(database.name + ending).unlink(missing_ok=True)
    shutil.copy(backup, database)


# PostgreSQL


@pytest.fixture(scope="module")
def server_history(postgres_server: str) -> tuple[str, str]:
    """A server, and the name of a database on it that holds the history."""
    address = fresh_database(postgres_server)
    ledger = open_ledger(address, create=True)
    write_history(ledger)
    ledger.close()
    return postgres_server, str(sa.make_url(address).database)


@pytest.mark.postgres
@pytest.mark.parametrize("statements", TAMPERING.values(), ids=TAMPERING)
def test_tampering_is_found_in_postgresql(server_history: tuple[str, str], statements: str) -> None:
    server, template = server_history
    address = fresh_database(server, template=template)
    as_owner(address, ["SET session_replication_role = replica", *statements.split(";")])
    ledger = open_ledger(address)
    found = ledger.verify()
    ledger.close()
    assert not found.ok


@pytest.mark.postgres
@pytest.mark.parametrize("table", [table.name for table in KEPT_FOR_EVER])
def test_postgresql_refuses_to_change_or_remove_a_row(server_history: tuple[str, str], table: str) -> None:
    server, template = server_history
    address = fresh_database(server, template=template)
    column = "id" if table == "ledger" else "seq"
    for statement in (f'DELETE FROM "{table}"', f'UPDATE "{table}" SET {column} = {column}', f'TRUNCATE "{table}"'):
        with pytest.raises(DBAPIError, match="never changed"):
            as_owner(address, [statement])
    ledger = open_ledger(address)
    assert ledger.verify().ok
    ledger.close()


@pytest.mark.postgres
@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE entry DISABLE TRIGGER entry_is_the_next",
        "DROP TRIGGER account_keeps_its_settings ON account",
        "DROP TRIGGER permit_is_never_changed ON permit",
    ],
)
def test_guards_that_are_gone_are_made_anew(server_history: tuple[str, str], statement: str) -> None:
    server, template = server_history
    address = fresh_database(server, template=template)
    ledger = open_ledger(address)
    assert not ledger.upgrade()
    as_owner(address, [statement])
    assert ledger.upgrade()
    assert not ledger.upgrade()
    ledger.close()
    with pytest.raises(DBAPIError, match="never changed"):
        as_owner(address, ["UPDATE account SET unit = 'user:x:1'"])
    with pytest.raises(DBAPIError, match="never changed"):
        as_owner(address, ["INSERT INTO entry SELECT seq + 5, account, body, prev, hash FROM entry WHERE seq = 9"])


@pytest.mark.postgres
def test_a_database_behind_its_head_file_is_refused(server_history: tuple[str, str], tmp_path: Path) -> None:
    server, template = server_history
    head = tmp_path / "ledger.head"
    ledger = open_ledger(fresh_database(server, template=template), head=head)
    ledger.reserve(TABLE, CHARGE, key=None, digest=DIGEST)
    ledger.close()
    with pytest.raises(LedgerRolledBack):
        open_ledger(fresh_database(server, template=template), head=head)


def as_owner(address: str, statements: list[str]) -> None:
    """Run ``statements`` as somebody who owns the database."""
    engine = sa.create_engine(address)
    with engine.begin() as connection:
        for statement in filter(str.strip, statements):
            connection.exec_driver_sql(statement)
    engine.dispose()


def test_a_restored_copy_without_its_head_file_is_refused_until_its_owner_adopts_it(tmp_path: Path) -> None:
    place = Place.made(tmp_path, limit=100)
    with place.opened() as ledger:
        ledger.reserve(TABLE, CHARGE, key=None, digest=DIGEST)
        place.head.unlink()
        with pytest.raises(LedgerRolledBack, match="is missing"):
            ledger.reserve(TABLE, CHARGE, key=None, digest=DIGEST)
        assert len(list(ledger.iter_entries(account=TABLE))) == 2, "the refused charge left nothing"
    with pytest.raises(LedgerRolledBack, match="is missing"), place.opened():
        pass
    assert adopt_ledger(place.database, head=place.head).ok
    with place.opened() as ledger:
        ledger.reserve(TABLE, CHARGE, key=None, digest=DIGEST)


def test_a_tampered_ledger_is_not_adopted(place: Place) -> None:
    tamper(place.database, next(iter(TAMPERING.values())))
    assert not adopt_ledger(place.database, head=place.head).ok
    assert not place.head.exists()


def test_a_ledger_with_its_head_file_needs_no_adoption(tmp_path: Path) -> None:
    place = Place.made(tmp_path, limit=100)
    with pytest.raises(LedgerError, match="nothing to adopt"):
        adopt_ledger(place.database, head=place.head)


def test_a_new_ledger_needs_no_head_file_yet(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    open_ledger(path, create=True).close()
    open_ledger(path, head=tmp_path / "ledger.head").close()
