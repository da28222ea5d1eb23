"""What changes beside a ledger's chain buy: any one cell or row, in today's tables and in an earlier revision's."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from benchmarks.trials.ledger import DIGEST, TABLE, unguard, write_history
from siloquent.errors import SiloquentError
from siloquent.ledger import Ledger, Permit, SettledAnswer, open_ledger
from siloquent.ledger.records import format_permit_id
from siloquent.privacy.accountants import Cost
from siloquent.privacy.events import DiscreteLaplace

EARLIER = Path(__file__).parents[2] / "tests" / "vectors" / "ledger-8c6482c.sql"
"""The history of ``write_history``, by the revision before entries knew the accounts: loose tables, fewer guards."""
KINDS = ("strict", "earlier")
VALUES: tuple[Any, ...] = (0, 1, 2**63 - 1, -1, 1.5, "", "visits@1", "x" * 64, b"answer 1", None)
PAID = {"question 1": (3, 31, b"answer 1"), "question 2": (5, 32, b"answer 2")}
"""Settled keys: reserve entry, coins, payload."""
_LEFT = {TABLE: 136, "staff@1": 100}


def write_books(folder: Path, kind: str) -> Path:
    """The history of ``write_history`` in tables of ``kind``."""
    path = folder / kind
    if kind == "strict":
        with closing(open_ledger(path, create=True)) as ledger:
            write_history(ledger)
    else:
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript(EARLIER.read_text(encoding="utf-8"))
    return path


def coins(number: int) -> DiscreteLaplace:
    """An event that costs ``number`` coins."""
    return DiscreteLaplace(scale=Fraction(10**9, number), l1=1)


def changes(path: Path) -> Iterator[tuple[str, str, tuple[Any, ...]]]:
    """Every change of one cell to one of ``VALUES`` or to another row's value, and every row gone: name and SQL."""
    with closing(sqlite3.connect(path)) as connection:
        for table in ("ledger", "account", "entry", "permit", "answer"):
            found = connection.execute(f'SELECT rowid, * FROM "{table}"')
            names = [column[0] for column in found.description][1:]
            rows = found.fetchall()
            for rowid, *cells in rows:
                yield f"{table} row {rowid} gone", f'DELETE FROM "{table}" WHERE rowid = ?', (rowid,)
                for place, (name, cell) in enumerate(zip(names, cells, strict=True)):
                    others = (*VALUES, *(row[place + 1] for row in rows))
                    for value in dict.fromkeys(one for one in others if (type(one), one) != (type(cell), cell)):
                        statement = f'UPDATE "{table}" SET "{name}" = ? WHERE rowid = ?'
                        yield f"{table}.{name} of row {rowid} = {value!r}", statement, (value, rowid)


@dataclass(frozen=True, slots=True)
class ChangedBooks:
    """A copy of the books that somebody with the file has changed, and what people then get from it."""

    path: Path

    @classmethod
    def copied(cls, books: Path, path: Path) -> ChangedBooks:
        """A fresh copy of ``books`` at ``path``, which nobody has open."""
        for ending in ("-wal", "-shm"):
            path.with_name(path.name + ending).unlink(missing_ok=True)
        shutil.copy(books, path)
        return cls(path)

    def change(self, statement: str, values: tuple[Any, ...]) -> bool:
        """Change it without its guards; whether SQLite let that happen."""
        with closing(sqlite3.connect(self.path)) as connection:
            connection.execute("PRAGMA synchronous = OFF")
            unguard(connection)
            try:
                done = connection.execute(statement, values).rowcount
            except (sqlite3.IntegrityError, OverflowError):
                return False
            connection.commit()
        return done > 0

    def gains(self) -> list[str]:
        """What the change bought: coins, a second measurement, silence; or a failure that nobody planned."""
        try:
            with closing(open_ledger(self.path)) as ledger:
                return [gain for gain in _gains(ledger) if gain]
        except SiloquentError:
            return []
        except Exception as unplanned:  # allowed: reported by who asks
            return [f"{type(unplanned).__name__}: {unplanned}"]


def _gains(ledger: Ledger) -> Iterator[str]:
    if ledger.verify().ok:
        yield "verify finds nothing"
    for key, (seq, paid, payload) in PAID.items():
        yield _reopened(ledger, Permit(format_permit_id(seq), TABLE, key, DIGEST, coins(paid), Cost(paid), seq))
        yield _measured_again(ledger, key, paid, payload)
    for table, left in _LEFT.items():
        yield _overdrawn(ledger, table, left + 1)


def _reopened(ledger: Ledger, permit: Permit) -> str:
    try:
        ledger.require_open(permit, account=TABLE)
    except SiloquentError:
        return ""
    return f"the settled permit of {permit.key} is open"


def _measured_again(ledger: Ledger, key: str, paid: int, payload: bytes) -> str:
    try:
        before = ledger.get_account(TABLE).spent.amount
        held = ledger.reserve(TABLE, coins(paid), key=key, digest=DIGEST)
        if isinstance(held, SettledAnswer):
            return "" if held.payload == payload else f"{key} has another answer"
        charged = ledger.get_account(TABLE).spent.amount - before
    except SiloquentError:
        return ""
    return "" if charged == held.cost.amount > 0 else f"{key} is measured again for nothing"


def _overdrawn(ledger: Ledger, table: str, cost: int) -> str:
    try:
        ledger.reserve(table, coins(cost), key=None, digest=DIGEST)
    except SiloquentError:
        return ""
    return f"{table} pays more than it has"
