"""Races, killed processes and tampering on real ledgers: what tests run a little of and benchmarks a lot."""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

from siloquent.errors import BudgetExceeded
from siloquent.ledger import Ledger, SettledAnswer
from siloquent.ledger.backends.postgres import PostgresLedger
from siloquent.ledger.backends.sqlite import SQLiteLedger
from siloquent.ledger.chain import AccountsHash, compute_genesis_hash, seal
from siloquent.privacy.accountants import Cost
from siloquent.privacy.events import DiscreteLaplace

TABLE, DIGEST = "visits@1", "sha256:" + "d" * 64
CHARGE = DiscreteLaplace(scale=Fraction(10**9), l1=1)
"""Costs one billionth of epsilon: the smallest coin there is."""

KILLED_AT = (
    "before-reserve-commit",
    "after-reserve-commit",
    "measuring",
    "before-settle-commit",
    "after-settle-commit",
    "emitting",
)
"""Where a process dies; after-X-commit is before the head file is written."""


@dataclass(frozen=True, slots=True)
class Place:
    """A ledger with its head file: in a file of ``folder``, or in the PostgreSQL database at ``url``."""

    folder: Path
    url: str = ""

    @property
    def database(self) -> Path:
        return self.folder / "ledger.sqlite"

    @property
    def head(self) -> Path:
        return self.folder / "ledger.head"

    @contextmanager
    def opened(self, crash_points: Callable[[str], None] | None = None) -> Iterator[Ledger]:
        """The ledger, closed at the end."""
        with closing(self._ledger(crash_points=crash_points)) as ledger:
            yield ledger

    def _ledger(self, *, create: bool = False, crash_points: Callable[[str], None] | None = None) -> Ledger:
        if self.url:
            return PostgresLedger(self.url, head=self.head, create=create, crash_points=crash_points)
        return SQLiteLedger(self.database, head=self.head, create=create, crash_points=crash_points)

    @classmethod
    def made(cls, folder: Path, limit: int, *, url: str = "") -> Place:
        """A new ledger with one account of ``limit`` coins; the database at ``url`` is there and empty."""
        folder.mkdir(parents=True, exist_ok=True)
        place = cls(folder, url)
        with closing(place._ledger(create=True)) as ledger:
            ledger.open_account(TABLE, limit=Cost(limit), accountant="pure", unit="row", adjacency="add-remove")
        return place

    def noted(self) -> int:
        """The seq in the head file, 0 if there is none."""
        return int(self.head.read_text().split()[0]) if self.head.exists() else 0


def in_child(work: Callable[[int], None]) -> tuple[int, int]:
    """Start ``work(pipe)`` in a process of its own: its pid, and the end of a pipe from which its words are read."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return pid, reading
    code = 1
    try:
        os.close(reading)
        work(writing)
        code = 0
    finally:
        os._exit(code)  # nothing of the parent's, no exit handler and no test report, may run twice


def joined(pid: int, pipe: int) -> tuple[int, bytes]:
    """How a child ended (0, or minus the signal that ended it), and all that it said."""
    with os.fdopen(pipe, "rb") as said:
        words = said.read()
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), words


# Races


@dataclass(frozen=True, slots=True)
class Race:
    """What racing processes were granted, and what the ledger says."""

    granted: int
    refused: int
    spent: int
    problem: str

    def overshoot(self, fits: int) -> int:
        """By how many coins grants or book differ from ``fits``, plus one if the chain is broken."""
        return abs(self.granted - fits) + abs(self.spent - fits) + bool(self.problem)


def race(place: Place, *, processes: int, charges: int) -> Race:
    """``processes`` processes ask for one coin ``charges`` times each, all at once."""
    start_reading, start = os.pipe()

    def ask(pipe: int) -> None:
        os.close(start)
        os.read(start_reading, 1)  # ends for all at once, when the parent closes its end
        granted = refused = 0
        with place.opened() as ledger:
            for _ in range(charges):
                try:
                    ledger.reserve(TABLE, CHARGE, key=None, digest=DIGEST)
                    granted += 1
                except BudgetExceeded:
                    refused += 1
        os.write(pipe, f"{granted} {refused}".encode())

    children = [in_child(ask) for _ in range(processes)]
    os.close(start)
    os.close(start_reading)
    told = [joined(*child) for child in children]
    assert all(code == 0 for code, _ in told), "a racing process failed"
    counts = [tuple(map(int, words.split())) for _, words in told]
    with place.opened() as ledger:
        spent, verdict = ledger.get_account(TABLE).spent.amount, ledger.verify()
    return Race(sum(g for g, _ in counts), sum(r for _, r in counts), spent, verdict.problem)


# Killed processes


def ask_once(place: Place, key: str, pipe: int, die_at: str) -> None:
    """One whole question that dies at ``die_at``; what leaves the process is written to ``pipe``."""

    def point(name: str) -> None:
        if name == die_at:
            os.kill(os.getpid(), signal.SIGKILL)

    with place.opened(point) as ledger:
        held = ledger.reserve(TABLE, CHARGE, key=key, digest=DIGEST)
        if not isinstance(held, SettledAnswer):
            point("measuring")
            held = ledger.settle(held, CHARGE, os.urandom(16))  # fresh noise: a second measurement would show
        point("emitting")
        os.write(pipe, held.payload)


def killed_at_point(place: Place, key: str, point: str) -> list[str]:
    """What is wrong after a process was killed at ``point``; empty if every promise holds."""
    with place.opened() as ledger:
        before = ledger.get_account(TABLE).spent.amount
    code, emitted = joined(*in_child(lambda pipe: ask_once(place, key, pipe, point)))
    wrong = [] if code == -signal.SIGKILL else [f"the process ended with {code}, not killed"]
    charged, stored = (0 if point == KILLED_AT[0] else 1), point in KILLED_AT[4:]
    return wrong + _after_death(place, key, before, emitted, charged=charged, stored=stored)


def killed_after(place: Place, key: str, seconds: float) -> list[str]:
    """What is wrong after a process was killed at any moment."""
    with place.opened() as ledger:
        before = ledger.get_account(TABLE).spent.amount
    pid, pipe = in_child(lambda pipe: ask_once(place, key, pipe, "never"))
    time.sleep(seconds)
    os.kill(pid, signal.SIGKILL)
    _, emitted = joined(pid, pipe)
    return _after_death(place, key, before, emitted)


def _after_death(
    place: Place, key: str, before: int, emitted: bytes, *, charged: int | None = None, stored: bool | None = None
) -> list[str]:
    """The promises of a ledger whose last user was killed, and whether a retry of ``key`` keeps them."""
    wrong = []
    noted = place.noted()
    with place.opened() as ledger:
        if noted > ledger.read_head().seq:
            wrong.append("the head file is ahead of the ledger")
        paid = ledger.get_account(TABLE).spent.amount - before
        if paid not in (0, 1) or charged not in (None, paid):
            wrong.append(f"{paid} coins were charged")
        if not (verdict := ledger.verify()).ok:
            return [*wrong, f"before the retry: {verdict.problem}"]
        held = ledger.reserve(TABLE, CHARGE, key=key, digest=DIGEST)
        was_stored = isinstance(held, SettledAnswer)
        if stored not in (None, was_stored):
            wrong.append(f"the retry found {'an answer' if was_stored else 'no answer'}")
        kept = held if isinstance(held, SettledAnswer) else ledger.settle(held, CHARGE, os.urandom(16))
        if emitted and emitted != kept.payload:
            wrong.append("two different answers left the process")
        if ledger.get_account(TABLE).spent.amount != before + 1:
            wrong.append("a question and its retry did not cost one coin")
        if ledger.reserve(TABLE, CHARGE, key=key, digest=DIGEST) != kept:
            wrong.append("a replay differs")
        if not (verdict := ledger.verify()).ok:
            wrong.append(f"after the retry: {verdict.problem}")
    return wrong


# Tampering. The statements are plain SQL, so that they also run in PostgreSQL.

TAMPERING = {
    "an entry changed": "UPDATE entry SET body = replace(body, '\"cost\":[3', '\"cost\":[1') WHERE seq = 3",
    "an entry's time changed": 'UPDATE entry SET body = replace(body, \'"at":"2\', \'"at":"1\') WHERE seq = 5',
    "a denial changed": "UPDATE entry SET body = replace(body, 'deny', 'DENY') WHERE seq = 7",
    "an entry's account changed": "UPDATE entry SET account = 'staff@1' WHERE seq = 3",
    "an entry's hash changed": "UPDATE entry SET hash = prev WHERE seq = 4",
    "an entry's link changed": "UPDATE entry SET prev = hash WHERE seq = 4",
    "an entry dropped": "DELETE FROM entry WHERE seq = 4",
    "the first entry dropped": "DELETE FROM entry WHERE seq = 1",
    "two entries swapped": "UPDATE entry SET seq = -3 WHERE seq = 3; UPDATE entry SET seq = 3 WHERE seq = 5;"
    "UPDATE entry SET seq = 5 WHERE seq = -3",
    "two bodies swapped": "UPDATE entry SET body = CASE seq WHEN 3 THEN (SELECT body FROM entry WHERE seq = 5) "
    "ELSE (SELECT body FROM entry WHERE seq = 3) END WHERE seq IN (3, 5)",
    "an entry appended": "INSERT INTO entry SELECT seq + 1, account, body, hash, prev FROM entry WHERE seq = 9",
    "an entry inserted": "UPDATE entry SET seq = 10 WHERE seq = 9;"
    "INSERT INTO entry SELECT 9, account, body, prev, hash FROM entry WHERE seq = 8",
    "the last entry cut off": "DELETE FROM entry WHERE seq = 9",
    "all entries dropped": "DELETE FROM entry",
    "a total lowered": "UPDATE account SET spent_amount = spent_amount - 1 WHERE name = 'visits@1'",
    "a total raised": "UPDATE account SET spent_amount = spent_amount + 1 WHERE name = 'visits@1'",
    "a delta total raised": "UPDATE account SET limit_delta = 2, spent_delta = 1 WHERE name = 'visits@1'",
    "a limit raised": "UPDATE account SET limit_amount = limit_amount + 1 WHERE name = 'visits@1'",
    "a limit lowered": "UPDATE account SET limit_amount = limit_amount - 1 WHERE name = 'visits@1'",
    "a unit changed": "UPDATE account SET unit = 'user:patient:8' WHERE name = 'visits@1'",
    "an adjacency changed": "UPDATE account SET adjacency = 'replace-one' WHERE name = 'visits@1'",
    "an account closed": "UPDATE account SET successor = 'visits@2' WHERE name = 'visits@1'",
    "an account removed": "DELETE FROM account WHERE name = 'staff@1'",
    "an account added": "INSERT INTO account SELECT 'new@1', parent, accountant, unit, adjacency, limit_amount, "
    "limit_delta, spent_amount, spent_delta, disclosures, successor FROM account WHERE name = 'staff@1'",
    "an answer changed": "UPDATE answer SET payload = (SELECT payload FROM answer WHERE seq = 6) WHERE seq = 4",
    "an answer of another permit": "UPDATE answer SET permit = 8 WHERE seq = 4",
    "an answer of another table": "UPDATE answer SET \"table\" = 'staff@1' WHERE seq = 4",
    "an answer removed": "DELETE FROM answer WHERE seq = 4",
    "an answer added": 'INSERT INTO answer SELECT 8, 8, "table", payload FROM answer WHERE seq = 6',
    "a permit's account changed": "UPDATE permit SET account = 'staff@1' WHERE seq = 3",
    "a permit's key changed": "UPDATE permit SET key = 'mine' WHERE seq = 3",
    "a permit's digest changed": "UPDATE permit SET digest = 'other' WHERE seq = 3",
    "a permit removed": "DELETE FROM permit WHERE seq = 8",
    "a permit added": "INSERT INTO permit SELECT 9, account, 'mine', digest FROM permit WHERE seq = 8",
    "the ledger renamed": "UPDATE ledger SET id = 'ffffffffffffffffffffffffffffffff'",
}
"""Each is found by ``verify`` alone, on the history that ``write_history`` makes."""

CUT_CLEANLY = (
    "DELETE FROM entry WHERE seq = 9; DELETE FROM entry WHERE seq = 8; DELETE FROM permit WHERE seq = 8;"
    "UPDATE account SET limit_amount = 100 WHERE name = 'visits@1';"
    "UPDATE account SET spent_amount = spent_amount - 1 WHERE name = 'visits@1'"
)
"""The newest two entries and all that hangs on them: what is left is right in itself, so only a checkpoint shows it."""


def write_history(ledger: Ledger) -> None:
    """Nine entries: two accounts, two answered questions, a refusal, an open permit, a raised limit."""
    for name in (TABLE, "staff@1"):
        ledger.open_account(name, limit=Cost(100), accountant="pure", unit="row", adjacency="add-remove")
    for number in (1, 2):
        event = DiscreteLaplace(scale=Fraction(10**9, 30 + number), l1=1)
        permit = ledger.reserve(TABLE, event, key=f"question {number}", digest=DIGEST)
        assert not isinstance(permit, SettledAnswer)
        ledger.settle(permit, event, f"answer {number}".encode())
    try:
        ledger.reserve(TABLE, DiscreteLaplace(scale=Fraction(1), l1=1), key=None, digest=DIGEST)
    except BudgetExceeded:
        ledger.reserve(TABLE, CHARGE, key="open", digest=DIGEST)
    ledger.set_limit(TABLE, Cost(200))
    assert ledger.read_head().seq == 9


def unguard(connection: sqlite3.Connection) -> None:
    """Drop the triggers, as the file's owner can."""
    names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for (name,) in names:
        connection.execute(f'DROP TRIGGER "{name}"')


def tamper(database: Path, statements: str) -> None:
    """Run ``statements`` on a SQLite ledger without its guards."""
    with closing(sqlite3.connect(database)) as connection:
        unguard(connection)
        connection.executescript(statements)
        connection.commit()


# Large ledgers


def grow(place: Place, entries: int) -> None:
    """Append reservations straight to the file until it has ``entries``: a right chain, in seconds, not hours."""
    with place.opened() as ledger:
        ledger.reserve(TABLE, CHARGE, key=None, digest=DIGEST)
        model, start = list(ledger.iter_entries())[-1], ledger.get_account(TABLE).spent.amount
        assert ledger.read_head().hash != compute_genesis_hash(ledger.id)
    import json

    with place.opened() as ledger:
        accounts = {account.name: account for account in ledger.list_accounts()}
        hashed = AccountsHash(ledger.id, accounts.values())
    kept = str(model.body["accounts"])
    form = json.dumps(model.body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    key, counted = str(model.body["key"]), f'"before":[{start - 1},0]'
    first, rest = form.split(counted)
    middle, last = rest.split(f'"table_before":[{start - 1},0]')
    prev, seq, spent = model.hash, model.seq, start
    with closing(sqlite3.connect(place.database)) as connection:
        while seq < entries:
            rows, permits = [], []
            for _ in range(min(20_000, entries - seq)):
                seq += 1
                name = f"{seq:032x}"
                hashed.put(replace(accounts[TABLE], spent=Cost(spent + 1)))
                start_of_body = first.replace(kept, hashed.format_hex())
                body = f'{start_of_body}"before":[{spent},0]{middle.replace(key, name)}"table_before":[{spent},0]{last}'
                digest = seal(prev, seq, body)
                rows.append((seq, TABLE, body, prev, digest))
                permits.append((seq, TABLE, name, DIGEST))
                prev, spent = digest, spent + 1
            connection.executemany("INSERT INTO entry VALUES (?, ?, ?, ?, ?)", rows)
            connection.executemany("INSERT INTO permit VALUES (?, ?, ?, ?)", permits)
            connection.execute("UPDATE account SET spent_amount = ? WHERE name = ?", (spent, TABLE))
            connection.commit()
