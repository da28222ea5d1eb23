"""The record of acts that concern others, for owners and auditors: tokens, tables, cancelled jobs, shared releases.

An act is written in the same transaction as its effect where the store holds both. Otherwise it is written separately:
before a table file is replaced or an upload deleted, after a session was decided on or dependencies were adopted.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from typing import Any

from siloquent.server.access.tokens import Principal
from siloquent.server.store import Store

MACHINE = ("", "machine", "")
"""The name recorded for the command line of the server's machine."""


def record(db: sqlite3.Connection, by: Principal | None, what: str, subject: str) -> None:
    """Write an act within a transaction; ``by`` is None for the machine's command line."""
    who = MACHINE if by is None else (by.name, by.role, by.token)
    db.execute(
        "INSERT INTO act (at, name, role, token, what, subject) VALUES (?, ?, ?, ?, ?, ?)",
        (int(time.time()), *who, what, subject),
    )


def build_recorder(by: Principal | None, what: str) -> Callable[[sqlite3.Connection, str], None]:
    """Return a function that records an act in the transaction of a ``Tokens`` method."""
    return lambda db, subject: record(db, by, what, subject)


def write_act(store: Store, by: Principal, what: str, subject: str) -> None:
    """Write an act durably."""
    with store.open_transaction() as db:
        record(db, by, what, subject)


def list_newest_acts(store: Store, most: int, *, before: int | None = None) -> list[dict[str, Any]]:
    """Return up to ``most`` acts, newest first, only those older than row ``before`` if it is given."""
    return store.fetch_all(
        "SELECT id, at, name, role, token, what, subject FROM act WHERE id < ? ORDER BY id DESC LIMIT ?",
        *(2**62 if before is None else before, most),
    )
