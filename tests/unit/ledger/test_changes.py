"""What is changed beside the chain buys nothing: no coin more, no answer measured twice; and verify finds it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from benchmarks.trials.ledger import CHARGE, DIGEST, TABLE, Place, tamper
from benchmarks.trials.ledger_changes import KINDS, ChangedBooks, changes, coins, write_books
from siloquent.errors import ChainBroken, LedgerError
from siloquent.ledger import Ledger, MemoryLedger, SettledAnswer, base_ledger, open_ledger, records
from siloquent.ledger.open_permits import OpenPermits
from siloquent.ledger.verify import verify
from unit.ledger.places import raw

EACH = 11
"""Of all changes, every so-manieth is tried here; the benchmark row ``ledger-changes-missed`` tries all."""


@pytest.fixture(scope="module", params=KINDS)
def books(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_books(tmp_path_factory.mktemp("books"), request.param)


def test_a_change_buys_nothing_and_is_found(books: Path, tmp_path: Path) -> None:
    tried, wrong = 0, []
    for name, statement, values in list(changes(books))[::EACH]:
        changed = ChangedBooks.copied(books, tmp_path / "copy")
        if changed.change(statement, values):
            tried += 1
            wrong += [f"{name}: {gain}" for gain in changed.gains()]
    assert not wrong
    assert tried > 50


@pytest.mark.parametrize(
    ("statement", "gain"),
    [
        ("UPDATE account SET spent_amount = ? WHERE name = 'visits@1'", "pays more than it has"),
        ("UPDATE account SET limit_amount = 10000 + ? WHERE name = 'visits@1'", "pays more than it has"),
    ],
)
def test_a_ledger_that_believes_its_accounts_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: str, gain: str
) -> None:
    changed = ChangedBooks.copied(write_books(tmp_path, "strict"), tmp_path / "copy")
    assert changed.change(statement, (0,))
    assert changed.gains() == []
    monkeypatch.setattr(base_ledger, "require_chain", lambda ledger, books: None)
    assert any(gain in found for found in changed.gains())


def test_a_ledger_that_takes_a_lost_answer_for_an_open_permit_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = ChangedBooks.copied(write_books(tmp_path, "strict"), tmp_path / "copy")
    assert changed.change("DELETE FROM answer WHERE permit = ?", (3,))
    assert changed.gains() == []
    monkeypatch.setattr(OpenPermits, "find_answer", lambda self, books, row: books.find_answer(row.seq))
    gains = changed.gains()
    assert any("measured again for nothing" in gain for gain in gains)
    assert any("is open" in gain for gain in gains)


def test_a_broken_chain_is_named_and_nothing_is_charged(tmp_path: Path) -> None:
    place = Place.made(tmp_path, limit=100)
    with place.opened() as ledger:
        ledger.reserve(TABLE, CHARGE, key="k", digest=DIGEST)
    tamper(place.database, "UPDATE account SET spent_amount = 0")
    with place.opened() as ledger:
        with pytest.raises(ChainBroken, match="totals") as refused:
            ledger.reserve(TABLE, CHARGE, key=None, digest=DIGEST)
        assert (refused.value.seq, refused.value.fix) == (2, "session.ledger.verify()")
        assert ledger.read_head().seq == 2


@pytest.mark.parametrize("table", ["ledger", "account", "entry", "permit", "answer"])
def test_sqlite_refuses_to_replace_a_row(tmp_path: Path, table: str) -> None:
    path = write_books(tmp_path, "strict")
    for act in ("INSERT OR REPLACE INTO", "REPLACE INTO", "INSERT OR IGNORE INTO"):
        with pytest.raises(sqlite3.IntegrityError, match="never changed"), raw(path) as connection:
            connection.execute(f'{act} "{table}" SELECT * FROM "{table}" LIMIT 1')


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM account",
        "UPDATE account SET unit = 'user:patient:8'",
        "UPDATE account SET disclosures = 1",
        "UPDATE OR REPLACE account SET name = 'visits@1'",
        "INSERT OR REPLACE INTO entry SELECT 5, account, body, prev, hash FROM entry WHERE seq = 3",
        "INSERT INTO entry SELECT 12, account, body, prev, hash FROM entry WHERE seq = 3",
        "INSERT OR REPLACE INTO permit SELECT 10, account, key, digest FROM permit WHERE seq = 3",
        'INSERT OR REPLACE INTO answer SELECT 10, permit, "table", payload FROM answer WHERE seq = 4',
    ],
)
def test_sqlite_refuses_to_change_what_stands(tmp_path: Path, statement: str) -> None:
    path = write_books(tmp_path, "strict")
    with pytest.raises(sqlite3.IntegrityError, match="never changed"), raw(path) as connection:
        connection.execute(statement)


@pytest.mark.parametrize("value", ["1", b"1", 1.5])
def test_sqlite_refuses_a_value_of_another_type(tmp_path: Path, value: object) -> None:
    path = write_books(tmp_path, "strict")
    whole = value == "1"  # a text that is a whole number becomes one, as SQL says
    with raw(path) as connection:
        if whole:
            connection.execute("UPDATE account SET limit_delta = ?", (value,))
            assert connection.execute("SELECT DISTINCT typeof(limit_delta) FROM account").fetchall() == [("integer",)]
        else:
            with pytest.raises(sqlite3.IntegrityError, match="cannot store"):
                connection.execute("UPDATE account SET limit_delta = ?", (value,))


# A ledger of an earlier revision


def earlier(tmp_path: Path) -> Path:
    return write_books(tmp_path, "earlier")


def test_an_earlier_ledger_opens_replays_and_charges(tmp_path: Path) -> None:
    with closing(open_ledger(earlier(tmp_path))) as ledger:
        held = ledger.reserve(TABLE, coins(31), key="question 1", digest=DIGEST)
        assert isinstance(held, SettledAnswer)
        assert held.payload == b"answer 1"
        ledger.reserve(TABLE, CHARGE, key=None, digest=DIGEST)
        assert ledger.get_account(TABLE).spent.amount == 65
        newest = list(ledger.iter_entries())[-1]
        assert len(newest.body["accounts"]) == 64
        assert ledger.verify().ok


def test_an_earlier_ledger_is_verified_whole_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def counted(*given: object) -> object:
        seen.append(given)
        return verify(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(records, "verify", counted)
    with closing(open_ledger(earlier(tmp_path))) as ledger:
        for _ in range(3):
            ledger.reserve(TABLE, CHARGE, key=None, digest=DIGEST)
    assert len(seen) == 1


def test_an_earlier_ledger_is_upgraded_in_place(tmp_path: Path) -> None:
    path = earlier(tmp_path)
    with closing(open_ledger(path)) as other, closing(open_ledger(path)) as ledger:
        before = (ledger.id, ledger.list_accounts(), list(ledger.iter_entries()), list(ledger.iter_answers(TABLE)))
        assert ledger.upgrade()
        assert not ledger.upgrade()
        after = (ledger.id, ledger.list_accounts(), list(ledger.iter_entries()), list(ledger.iter_answers(TABLE)))
        assert (*after[:2], after[2][:9], after[3]) == before
        assert [entry.kind for entry in after[2][9:]] == ["checkpoint"]
        other.reserve(TABLE, CHARGE, key=None, digest=DIGEST)  # a process that had it open goes on
        assert ledger.verify().ok
        assert ledger.get_account(TABLE).spent.amount == 65
    with pytest.raises(sqlite3.IntegrityError, match="never changed"), raw(path) as connection:
        connection.execute("DELETE FROM account")
    with raw(path) as connection:
        tables = connection.execute("SELECT name FROM pragma_table_list WHERE strict").fetchall()
    assert {name for (name,) in tables} == {"ledger", "account", "entry", "permit", "answer"}


def test_a_guard_that_guards_nothing_is_made_anew(tmp_path: Path) -> None:
    path = write_books(tmp_path, "strict")
    with raw(path) as connection:
        connection.execute("DROP TRIGGER entry_no_update")
        connection.execute("CREATE TRIGGER entry_no_update BEFORE UPDATE ON entry WHEN 0 BEGIN SELECT 1; END")
    with closing(open_ledger(path)) as ledger:
        assert ledger.upgrade()
    with pytest.raises(sqlite3.IntegrityError, match="never changed"), raw(path) as connection:
        connection.execute("UPDATE entry SET body = body")


@pytest.mark.parametrize("table", ["permit", "answer"])
def test_a_ledger_without_one_of_its_rows_is_not_upgraded(tmp_path: Path, table: str) -> None:
    path = write_books(tmp_path, "strict")
    tamper(path, f"DELETE FROM {table}")
    with closing(open_ledger(path)) as ledger, pytest.raises(ChainBroken):
        ledger.upgrade()


def test_a_tampered_ledger_is_not_upgraded(tmp_path: Path) -> None:
    path = earlier(tmp_path)
    tamper(path, "UPDATE account SET spent_amount = 0")
    content = dump(path)
    with closing(open_ledger(path)) as ledger, pytest.raises(ChainBroken):
        ledger.upgrade()
    assert dump(path) == content


@pytest.mark.parametrize("made", [MemoryLedger, None])
def test_a_new_ledger_needs_no_upgrade(tmp_path: Path, made: type[MemoryLedger] | None) -> None:
    ledger: Ledger = made() if made else open_ledger(tmp_path / "ledger.sqlite", create=True)
    with closing(ledger):
        assert not ledger.upgrade()


def test_bytes_that_are_no_text_are_named(tmp_path: Path) -> None:
    path = write_books(tmp_path, "strict")
    tamper(path, "UPDATE entry SET body = CAST(x'ff7b7d' AS TEXT) WHERE seq = 4")
    with closing(open_ledger(path)) as ledger:
        found = ledger.verify()
        assert (found.ok, found.first_bad_seq) == (False, 4)
        with pytest.raises(LedgerError, match="4"):
            list(ledger.iter_answers(TABLE))


def dump(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return list(connection.iterdump())
