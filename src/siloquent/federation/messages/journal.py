"""A role's durable memory in SQLite: what it received, sent and keeps secret, written before anything is sent.

A role that is killed at any point reads it and continues: sent messages are repeated byte for byte, received ones are
still there, and the set of roles in a ``gather`` stays fixed. Erased seeds are overwritten; on disks that keep old
blocks this is best effort: put the bundle on a RAM disk where that matters.
"""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from siloquent.errors import ProtocolError
from siloquent.federation.channel.base import RoleState
from siloquent.federation.durable_store import DurableStore
from siloquent.federation.messages.message import Envelope, Header, compute_link, compute_pair_genesis

_TABLES = """
CREATE TABLE IF NOT EXISTS place (one INTEGER PRIMARY KEY CHECK (one = 1), cursor INTEGER NOT NULL);
INSERT OR IGNORE INTO place VALUES (1, 0);
CREATE TABLE IF NOT EXISTS session (
  id TEXT PRIMARY KEY, members TEXT NOT NULL, moderator TEXT NOT NULL, deadline INTEGER NOT NULL,
  invitation TEXT NOT NULL, state TEXT NOT NULL, since REAL NOT NULL, code TEXT NOT NULL DEFAULT '',
  by_role TEXT NOT NULL DEFAULT '', decided TEXT NOT NULL DEFAULT '', result BLOB);
CREATE TABLE IF NOT EXISTS message (
  n INTEGER PRIMARY KEY AUTOINCREMENT, session TEXT NOT NULL, sender TEXT NOT NULL, receiver TEXT NOT NULL,
  step TEXT NOT NULL, attempt INTEGER NOT NULL, part INTEGER NOT NULL, parts INTEGER NOT NULL, seq INTEGER NOT NULL,
  header BLOB NOT NULL, signature BLOB NOT NULL, sealed BLOB, done INTEGER NOT NULL,
  UNIQUE (session, sender, receiver, step, attempt, part), UNIQUE (session, sender, receiver, seq));
CREATE TABLE IF NOT EXISTS gathered (
  session TEXT NOT NULL, step TEXT NOT NULL, attempt INTEGER NOT NULL, names TEXT NOT NULL,
  PRIMARY KEY (session, step, attempt));
CREATE TABLE IF NOT EXISTS kept (
  session TEXT NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL, PRIMARY KEY (session, key));
CREATE TABLE IF NOT EXISTS admitted (
  session TEXT NOT NULL, rule TEXT NOT NULL, day INTEGER NOT NULL, PRIMARY KEY (session, rule));
"""
_LATER = (("session", "step", "TEXT NOT NULL DEFAULT ''"),)
# Freed pages may contain sealed payloads, which is harmless. A part's values are overwritten before deletion.
_OVERWRITE = "UPDATE kept SET value = zeroblob(length(value)) WHERE session = ?"
FINAL = ("refused", "ended", "aborted", "expired")


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """One session as this role knows it; ``decided`` is a person's decision ("approved", "refused" or empty).

    ``code``, ``by_role``, ``step``: the reason, the role and the step of an abort, if there was one.
    """

    id: str
    members: tuple[str, ...]
    moderator: str
    deadline: int
    invitation: dict[str, Any]
    state: RoleState
    since: float
    code: str = ""
    by_role: str = ""
    decided: str = ""
    step: str = ""

    @property
    def is_over(self) -> bool:
        """Whether the session has reached a final state."""
        return self.state in FINAL


class RoleJournal(DurableStore):
    """One role's journal. Every method is one durable transaction; any thread may call it."""

    def __init__(self, path: Path | str) -> None:
        super().__init__(path, _TABLES, later=_LATER)

    # Sessions approved by the owner's rules without a person.

    def admit(self, session: str, rule: str, *, day: int, most: int) -> bool:
        """Return whether ``session`` is among a day's ``most`` under ``rule``; counted once and permanently.

        Later days count, too: setting the clock back does not start a new day.
        """
        with self._open_transaction() as db:
            same = (session, rule)
            if db.execute("SELECT 1 FROM admitted WHERE session = ? AND rule = ?", same).fetchone():
                return True
            (taken,) = db.execute("SELECT COUNT(*) FROM admitted WHERE rule = ? AND day >= ?", (rule, day)).fetchone()
            if taken >= most:
                return False
            db.execute("INSERT INTO admitted VALUES (?, ?, ?)", (*same, day))
            return True

    # The inbox.

    def get_cursor(self) -> int:
        """Return the relay's number of the last processed envelope."""
        row = self._fetch_one("SELECT cursor FROM place")
        assert row is not None
        return int(row["cursor"])

    def skip(self, seq: int) -> None:
        """Mark an envelope as processed without storing anything."""
        self._write("UPDATE place SET cursor = MAX(cursor, ?)", seq)

    def take(self, seq: int, header: Header, envelope: Envelope) -> None:
        """Store an envelope that passed every check, and the inbox position, in one transaction."""
        with self._open_transaction() as db:
            self._insert(db, header, envelope, done=1)
            db.execute("UPDATE place SET cursor = MAX(cursor, ?)", (seq,))

    def list_arrived(self, session: str, me: str) -> list[tuple[str, str, int]]:
        """Return sender, step and attempt of all messages of which every part arrived."""
        rows = self._fetch_all(
            "SELECT sender, step, attempt FROM message WHERE session = ? AND receiver = ?"
            " GROUP BY sender, step, attempt HAVING COUNT(*) = MAX(parts)",
            session,
            me,
        )
        return [(row["sender"], row["step"], row["attempt"]) for row in rows]

    def list_envelopes(self, session: str, sender: str, receiver: str, step: str, attempt: int) -> list[Envelope]:
        """Return all parts of one message, in order."""
        rows = self._fetch_all(
            "SELECT header, signature, sealed FROM message WHERE session = ? AND sender = ? AND receiver = ?"
            " AND step = ? AND attempt = ? ORDER BY part",
            session,
            sender,
            receiver,
            step,
            attempt,
        )
        return [Envelope(row["header"], row["signature"], row["sealed"] or b"") for row in rows]

    def find_header(self, key: tuple[str, str, str, str, int, int]) -> bytes | None:
        """Return the header stored under a message's key."""
        row = self._fetch_one(
            "SELECT header FROM message WHERE session = ? AND sender = ? AND receiver = ? AND step = ?"
            " AND attempt = ? AND part = ?",
            *key,
        )
        return None if row is None else bytes(row["header"])

    def find_chain_end(self, session: str, sender: str, receiver: str) -> tuple[int, str]:
        """Return the ``seq`` and ``prev`` of the next header from one role to another."""
        row = self._fetch_one(
            "SELECT seq, header FROM message WHERE session = ? AND sender = ? AND receiver = ?"
            " ORDER BY seq DESC LIMIT 1",
            session,
            sender,
            receiver,
        )
        return (
            (0, compute_pair_genesis(session, sender, receiver))
            if row is None
            else (row["seq"] + 1, compute_link(row["header"]))
        )

    # The outbox.

    def queue(self, envelopes: list[tuple[Header, Envelope]]) -> None:
        """Store all parts of a message before the first of them is sent."""
        with self._open_transaction() as db:
            for header, envelope in envelopes:
                self._insert(db, header, envelope, done=0)

    def list_unsent(self, session: str) -> list[tuple[int, Header, Envelope]]:
        """Return the messages waiting to be sent, oldest first."""
        rows = self._fetch_all(
            "SELECT n, header, signature, sealed FROM message WHERE session = ? AND done = 0 ORDER BY n", session
        )
        return [
            (row["n"], Header.decode(row["header"]), Envelope(row["header"], row["signature"], row["sealed"]))
            for row in rows
        ]

    def mark_delivered(self, n: int) -> None:
        """Mark a message as held by the relay; only its header is kept. A power failure may cause a second delivery."""
        with self._defer_sync():
            self._write("UPDATE message SET done = 1, sealed = NULL WHERE n = ?", n)

    # Sessions.

    def add_session(self, session: SessionRecord) -> None:
        """Begin a session; repeating the call changes nothing."""
        self._write(
            "INSERT OR IGNORE INTO session (id, members, moderator, deadline, invitation, state, since)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            session.id,
            json.dumps(session.members),
            session.moderator,
            session.deadline,
            json.dumps(session.invitation, sort_keys=True),
            session.state,
            session.since,
        )

    def find_session(self, session: str) -> SessionRecord | None:
        """Return one session by its id."""
        row = self._fetch_one("SELECT * FROM session WHERE id = ?", session)
        return None if row is None else _parse_session(row)

    def list_sessions(self) -> list[SessionRecord]:
        """Return all sessions, the newest last."""
        return [_parse_session(row) for row in self._fetch_all("SELECT * FROM session ORDER BY rowid")]

    def set_state(self, session: str, state: RoleState, *, code: str = "", role: str = "", step: str = "") -> None:
        """Change a session's state; a final state stays unchanged."""
        over = ", ".join(f"'{name}'" for name in FINAL)
        self._write(
            "UPDATE session SET state = ?, since = ?, code = ?, by_role = ?, step = ?"
            f" WHERE id = ? AND state NOT IN ({over})",
            state,
            time.time(),
            code,
            role,
            step,
            session,
        )

    def decide(self, session: str, decision: str) -> bool:
        """Store a person's decision; return False if it was decided before."""
        with self._open_transaction() as db:
            done = db.execute(
                "UPDATE session SET decided = ? WHERE id = ? AND decided = '' AND state = 'invited'",
                (decision, session),
            )
        return done.rowcount == 1

    def keep_result(self, session: str, result: bytes) -> None:
        """Store the end of a session: all transcript heads."""
        self._write("UPDATE session SET result = ? WHERE id = ?", result, session)

    def find_result(self, session: str) -> bytes | None:
        """Return the value stored by ``keep_result``."""
        row = self._fetch_one("SELECT result FROM session WHERE id = ?", session)
        return None if row is None or row["result"] is None else bytes(row["result"])

    def forget_secrets(self, session: str) -> None:
        """Erase seeds, noisy vectors and payloads at the session's end; headers stay for ``federation verify``."""
        with self._open_transaction() as db:
            db.execute(_OVERWRITE, (session,))
            db.execute("DELETE FROM kept WHERE session = ?", (session,))
            db.execute("UPDATE message SET sealed = NULL WHERE session = ?", (session,))
        with self._lock:
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # erased pages must not remain in the log

    # Decisions of ``gather``, and the values of parts.

    def find_gathered(self, session: str, step: str, attempt: int) -> tuple[str, ...] | None:
        """Return the senders included in this ``gather``; None if that is undecided."""
        row = self._fetch_one(
            "SELECT names FROM gathered WHERE session = ? AND step = ? AND attempt = ?", session, step, attempt
        )
        return None if row is None else tuple(json.loads(row["names"]))

    def keep_gathered(self, session: str, step: str, attempt: int, names: tuple[str, ...]) -> None:
        """Store the senders included in this ``gather``, permanently."""
        self._write("INSERT OR IGNORE INTO gathered VALUES (?, ?, ?, ?)", session, step, attempt, json.dumps(names))

    def get(self, session: str, key: str) -> bytes | None:
        """Return a part's value under ``key``."""
        row = self._fetch_one("SELECT value FROM kept WHERE session = ? AND key = ?", session, key)
        return None if row is None else bytes(row["value"])

    def put(self, session: str, key: str, value: bytes) -> None:
        """Store ``value`` for a part."""
        self.put_all(session, {key: value})

    def put_all(self, session: str, values: Mapping[str, bytes]) -> None:
        """Store several values for a part, in one transaction."""
        with self._open_transaction() as db:
            for key, value in values.items():
                db.execute("INSERT OR REPLACE INTO kept VALUES (?, ?, ?)", (session, key, value))

    def erase(self, session: str, key: str) -> None:
        """Erase a part's ``key``."""
        with self._open_transaction() as db:
            db.execute(f"{_OVERWRITE} AND key = ?", (session, key))
            db.execute("DELETE FROM kept WHERE session = ? AND key = ?", (session, key))

    def list_headers(self, session: str) -> list[tuple[bytes, bytes]]:
        """Return all headers with their signatures, in this role's order."""
        rows = self._fetch_all("SELECT header, signature FROM message WHERE session = ? ORDER BY n", session)
        return [(bytes(row["header"]), bytes(row["signature"])) for row in rows]

    def _insert(self, db: sqlite3.Connection, header: Header, envelope: Envelope, *, done: int) -> None:
        try:
            db.execute(
                "INSERT INTO message (session, sender, receiver, step, attempt, part, parts, seq, header, signature,"
                " sealed, done) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*header.key, header.parts, header.seq, envelope.header, envelope.signature, envelope.sealed, done),
            )
        except sqlite3.IntegrityError:
            raise ProtocolError("role_running_twice", role=header.sender, step=header.step) from None

    def _write(self, statement: str, *values: object) -> None:
        with self._open_transaction() as db:
            db.execute(statement, values)

    def _fetch_one(self, statement: str, *values: object) -> sqlite3.Row | None:
        with self._lock:
            row: sqlite3.Row | None = self._db.execute(statement, values).fetchone()
        return row

    def _fetch_all(self, statement: str, *values: object) -> list[sqlite3.Row]:
        with self._lock:
            return self._db.execute(statement, values).fetchall()


@contextmanager
def hold_folder_lock(folder: Path) -> Iterator[None]:
    """Hold the lock of a role's state folder.

    Raises:
        ProtocolError: ``role_running_twice``: another process of this machine holds it.
    """
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ProtocolError("role_running_twice", where=str(folder)) from None
        yield
    finally:
        os.close(lock)


def _parse_session(row: sqlite3.Row) -> SessionRecord:
    return SessionRecord(
        row["id"],
        tuple(json.loads(row["members"])),
        row["moderator"],
        row["deadline"],
        json.loads(row["invitation"]),
        row["state"],
        row["since"],
        row["code"],
        row["by_role"],
        row["decided"],
        row["step"],
    )
