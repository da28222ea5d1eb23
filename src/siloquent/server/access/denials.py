"""The record of refusals (role, route, address, count), in which owners and auditors look for attacks.

A refusal is kept in memory and written by the keeper shortly after, so that a stranger who sends wrong tokens does not
make the event loop wait for the disk. Refusals of each person and kind are limited separately, so that one
person cannot displace another's records.
"""

from __future__ import annotations

import threading
import time
from typing import Any

from siloquent.server.store import Store

RECORDED = ("budget_exceeded", "forged", "not_allowed", "too_many_requests", "unauthorised")
MAX_OF_A_KIND = 1_000
"""The number of rows kept per person and code; strangers count as one person."""
MAX_PENDING = 1_000
SAME_SECONDS = 600
"""The time within which equal refusals are counted in one row."""
_Key = tuple[str, str, str, str, str, str]


class Denials:
    """The refusals of one workspace."""

    def __init__(self, store: Store) -> None:
        self._store, self._lock = store, threading.Lock()
        self._pending: dict[_Key, list[int]] = {}

    def add(self, name: str, role: str, route: str, code: str, *, address: str = "", token: str = "") -> None:
        """Record a refusal if its code is one of those recorded."""
        if code not in RECORDED:
            return
        key, now = (name, role, route, code, address[:64], token[:8]), int(time.time())
        with self._lock:
            if key not in self._pending and not name and len(self._pending) >= MAX_PENDING:
                key = ("", "nobody", route, code, "", "")  # a flood from many addresses is counted, not listed
            times = self._pending.setdefault(key, [0, now, now])
            times[0], times[2] = times[0] + 1, now

    def flush(self) -> None:
        """Write the pending refusals."""
        with self._lock:
            pending, self._pending = self._pending, {}
        if not pending:
            return
        try:
            with self._store.open_transaction() as db:
                for key, (times, first, last) in pending.items():
                    same = (*key, first - SAME_SECONDS)
                    if not db.execute(_AGAIN, (times, last, *same)).rowcount:
                        db.execute(_NEW, (*key, times, first, last))
                        db.execute(_BOUNDED, (key[0], key[3], key[0], key[3], MAX_OF_A_KIND))
        except BaseException:  # allowed: a store that is locked today loses no record, and it is raised again
            with self._lock:
                for key, (times, first, last) in pending.items():
                    known = self._pending.setdefault(key, [0, first, last])
                    known[0], known[1] = known[0] + times, first
            raise

    def newest(self, most: int, *, before: int | None = None) -> list[dict[str, Any]]:
        """Return up to ``most`` refusals, newest first, only those older than row ``before`` if it is given."""
        self.flush()
        return self._store.fetch_all(_NEWEST, 2**62 if before is None else before, most)

    def count(self) -> int:
        """Return the number of rows kept."""
        row = self._store.fetch_one("SELECT count(*) AS n FROM denial")
        return int(row["n"]) if row else 0


_AGAIN = """
UPDATE denial SET times = times + ?, last = ? WHERE id = (
    SELECT max(id) FROM denial
    WHERE name = ? AND role = ? AND route = ? AND code = ? AND address = ? AND token = ? AND last >= ?)
"""
_NEW = """
INSERT INTO denial (name, role, route, code, address, token, times, at, last) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_BOUNDED = """
DELETE FROM denial WHERE name = ? AND code = ? AND id <= (
    SELECT id FROM denial WHERE name = ? AND code = ? ORDER BY id DESC LIMIT 1 OFFSET ?)
"""
_NEWEST = """
SELECT id, at, last, name, role, route, code, address, token, times FROM denial WHERE id < ? ORDER BY id DESC LIMIT ?
"""
