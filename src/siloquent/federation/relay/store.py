"""The relay's storage: sessions, envelopes and last contacts. SQLite, one writer, durable before it answers.

The sender is always the name in the certificate. The order of a session is the order of arrival, never a clock's;
between sessions it is that, too, until so much is queued for one receiver that the senders have to take turns.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from siloquent.errors import NotAllowed, ProtocolError
from siloquent.federation.durable_store import DurableStore
from siloquent.federation.messages.message import Envelope, Header
from siloquent.federation.relay.envelope_files import INLINE_BYTES, EnvelopeFiles
from siloquent.federation.relay.progress import build_role_line, describe_state, format_utc
from siloquent.federation.relay.turns import WINDOW_BYTES, WINDOW_MESSAGES, QueuedEnvelope, SenderTurns

DAY = 86_400
MessagePath = tuple[str, str, str, int, int]  # session, receiver, step, attempt, part
_TABLES = """
CREATE TABLE IF NOT EXISTS session (
  id TEXT PRIMARY KEY, moderator TEXT NOT NULL, members TEXT NOT NULL, deadline INTEGER NOT NULL,
  opened INTEGER NOT NULL, closed INTEGER, code TEXT, by_role TEXT, transcript TEXT,
  messages INTEGER NOT NULL DEFAULT 0, bytes INTEGER NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS message (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, session TEXT NOT NULL, sender TEXT NOT NULL, receiver TEXT NOT NULL,
  step TEXT NOT NULL, attempt INTEGER NOT NULL, part INTEGER NOT NULL, digest TEXT NOT NULL, size INTEGER NOT NULL,
  header BLOB NOT NULL, body BLOB, acked INTEGER NOT NULL DEFAULT 0, queued INTEGER NOT NULL DEFAULT 0,
  UNIQUE (session, sender, receiver, step, attempt, part));
CREATE INDEX IF NOT EXISTS backlog ON message (sender, receiver, size) WHERE acked = 0;
CREATE INDEX IF NOT EXISTS unread ON message (size) WHERE acked = 0;
CREATE INDEX IF NOT EXISTS of_moderator ON session (moderator, closed, deadline);
CREATE TABLE IF NOT EXISTS sent (
  session TEXT NOT NULL, sender TEXT NOT NULL, bytes INTEGER NOT NULL, PRIMARY KEY (session, sender));
CREATE TABLE IF NOT EXISTS beat (
  session TEXT NOT NULL, role TEXT NOT NULL, state TEXT NOT NULL, step TEXT NOT NULL, waiting_for TEXT NOT NULL,
  since INTEGER NOT NULL, seen INTEGER NOT NULL, PRIMARY KEY (session, role));
"""
_SUMS_OF_EARLIER = """
INSERT INTO sent SELECT session, sender, SUM(size) FROM message
WHERE NOT EXISTS (SELECT 1 FROM sent) GROUP BY session, sender
"""
_LATER = (
    ("session", "step", "TEXT NOT NULL DEFAULT ''"),
    ("message", "queued", "INTEGER NOT NULL DEFAULT 0"),
)
_INDEXES = """
DROP INDEX IF EXISTS inbox;
DROP INDEX IF EXISTS waiting;
CREATE INDEX IF NOT EXISTS ordered ON message (receiver, seq, size) WHERE acked = 0 AND queued = 0;
CREATE INDEX IF NOT EXISTS queued ON message (receiver, seq, session, sender, size) WHERE acked = 0 AND queued = 1;
"""


@dataclass(frozen=True, slots=True)
class RelayLimits:
    """The limits of one relay; settings of ``siloquent relay run``.

    Attributes:
        sessions: Open sessions of one moderator at once; ``moderator_bytes``: the total bytes sent in all of those;
            ``kept_sessions``: the moderator's sessions in total, with those that ended in the last ``header_days``.
        free_bytes: Space that always stays free on the disk.
        unacknowledged: Messages between a sender and a receiver that are not acknowledged yet; ``queued_bytes``: their
            bytes, of which one message may be more; ``sender_bytes``: those of one sender to all receivers.
    """

    roles: int = 32
    sessions: int = 64
    kept_sessions: int = 20_000
    moderator_bytes: int = 60 * 10**9
    free_bytes: int = 2**28
    messages: int = 1_000_000
    session_bytes: int = 20 * 10**9
    unacknowledged: int = 256
    queued_bytes: int = 2**27
    sender_bytes: int = 2**29
    body_days: int = 7
    header_days: int = 90
    longest_days: int = 30


@dataclass(frozen=True, slots=True)
class StoredEnvelope:
    """One envelope of an inbox with its position."""

    seq: int
    wire: bytes


class RelayStore(DurableStore):
    """The mailbox; every method is one transaction and durable when it returns.

    ``seq`` is the position in the receiver's inbox. An envelope gets it when it is stored, if few wait for its
    receiver; otherwise it is ``queued``, and gets its position when its sender's turn comes.
    """

    def __init__(
        self, path: Path | str, *, limits: RelayLimits | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        super().__init__(path, _TABLES, later=_LATER)
        self._db.execute(_SUMS_OF_EARLIER)
        self._db.executescript(_INDEXES)
        self._turns: dict[str, SenderTurns] = defaultdict(SenderTurns)
        self.limits, self._clock, self._path = limits or RelayLimits(), clock, path
        self._files = EnvelopeFiles(None if path == ":memory:" else Path(path).parent / "bodies")

    def open_session(self, moderator: str, session: str, members: list[str], deadline: int) -> bool:
        """Open mailboxes for a session; return False if the same one is already open.

        Raises:
            ProtocolError: ``message_conflict``: it exists with other content; ``quota``: too many members, or too
                many open sessions of this moderator; ``bad_encoding``: its deadline lies in the past or too far ahead.
        """
        now = int(self._clock())
        if len(members) > self.limits.roles or moderator not in members or len(set(members)) != len(members):
            raise ProtocolError("quota", where=f"at most {self.limits.roles} different members, the moderator included")
        if not now < deadline <= now + self.limits.longest_days * DAY:
            clocks = f"{format_utc(now)} by the relay's clock, and the deadline is {format_utc(deadline)}"
            raise ProtocolError("bad_encoding", where=f"{clocks}; at most {self.limits.longest_days} days ahead")
        told = json.dumps(members)
        with self._open_transaction() as db:
            old = db.execute("SELECT * FROM session WHERE id = ?", (session,)).fetchone()
            if old is not None:
                if (old["moderator"], old["members"], old["deadline"]) != (moderator, told, deadline):
                    raise ProtocolError("message_conflict", role=moderator)
                return False
            if self._open_sessions(moderator)[0] >= self.limits.sessions:
                raise ProtocolError("quota", where=f"at most {self.limits.sessions} open sessions of one moderator")
            kept = db.execute("SELECT COUNT(*) FROM session WHERE moderator = ?", (moderator,)).fetchone()[0]
            if kept >= self.limits.kept_sessions:
                told = (
                    f"at most {self.limits.kept_sessions} sessions of one moderator in {self.limits.header_days} days"
                )
                raise ProtocolError("quota", where=told)
            db.execute(
                "INSERT INTO session (id, moderator, members, deadline, opened) VALUES (?, ?, ?, ?, ?)",
                (session, moderator, told, deadline, now),
            )
        return True

    def admit(self, sender: str, session: str) -> None:
        """Check that ``sender`` may write to this session, before any of the payload is read.

        Raises:
            ProtocolError: ``unknown_session``, ``session_closed``.
        """
        with self._lock:
            self._open(self._require_member(sender, session))

    def put(self, sender: str, key: MessagePath, wire: bytes) -> bool:
        """Store an envelope; return False if the same one is already stored.

        Args:
            key: Session, receiver, step, attempt and part as in the address.
        Raises:
            ProtocolError: ``message_conflict``, ``session_closed``, ``too_large``, ``quota``, ``bad_encoding``.
        """
        envelope = Envelope.decode(wire)
        header = Header.decode(envelope.header)
        named = (header.session, header.receiver, header.step, header.attempt, header.part)
        if header.sender != sender or named != key or header.size != len(envelope.sealed):
            raise ProtocolError("bad_encoding", role=sender, step=header.step)
        digest = hashlib.sha256(wire).hexdigest()
        with self._lock:  # before anything is on the disk: an acknowledged envelope must not come back
            if self._is_known(header, digest, len(wire)):
                return False
        inside = self._files.write(digest, wire)
        try:
            return self._insert(header, envelope, digest, len(wire), inside)
        except ProtocolError:
            self._files.drop([digest])  # the put was refused: no row will ever name this file
            raise

    def find_next(self, receiver: str, after: int) -> StoredEnvelope | None:
        """Return the next envelope for ``receiver`` after ``after``, over all its sessions; None if there is none."""
        with self._lock:
            row = self._db.execute(_NEXT, (receiver, after)).fetchone()
            if row is None and self._order_queued(receiver):
                row = self._db.execute(_NEXT, (receiver, after)).fetchone()
            if row is None:
                return None
            return StoredEnvelope(
                row["seq"], row["body"] if row["body"] is not None else self._files.read(row["digest"])
            )

    def acknowledge(self, receiver: str, upto: int) -> int:
        """Release the bodies up to ``upto``: ``receiver`` holds them durably; return how many these were."""
        with self._open_transaction() as db:
            rows = db.execute(
                "UPDATE message SET acked = 1, body = NULL"
                " WHERE receiver = ? AND acked = 0 AND queued = 0 AND seq <= ? RETURNING digest, size",
                (receiver, upto),
            ).fetchall()
        self._files.drop(row["digest"] for row in rows if row["size"] > INLINE_BYTES)
        return len(rows)

    def record_heartbeat(
        self, role: str, session: str, state: str, step: str, waiting_for: list[str], since_s: float
    ) -> None:
        """Store the progress that ``role`` reports.

        Raises:
            ProtocolError: ``unknown_session``; ``aborted_by`` or ``session_closed``: the session is over.
        """
        now = int(self._clock())
        with self._open_transaction() as db:
            row = self._require_member(role, session)
            db.execute(
                "INSERT OR REPLACE INTO beat VALUES (?, ?, ?, ?, ?, ?, ?)",
                (session, role, state[:16], step[:48], json.dumps(waiting_for[:32]), now - int(since_s), now),
            )
        self._open(row)

    def look(self, role: str, session: str) -> dict[str, Any]:
        """Return the progress of every member, for a member; times are seconds ago.

        Raises:
            ProtocolError: ``unknown_session``.
        """
        now = int(self._clock())
        with self._lock:
            row = self._require_member(role, session)
            beats = {
                beat["role"]: beat
                for beat in self._db.execute("SELECT * FROM beat WHERE session = ?", (session,)).fetchall()
            }
            sent = dict(self._db.execute("SELECT sender, bytes FROM sent WHERE session = ?", (session,)).fetchall())
        roles = [build_role_line(name, beats.get(name), sent.get(name, 0), now) for name in json.loads(row["members"])]
        return {
            "session": session,
            "moderator": row["moderator"],
            "state": describe_state(row, now),
            "code": row["code"] or "",
            "by": row["by_role"] or "",
            "step": row["step"],
            "deadline_s": row["deadline"] - now,
            "messages": row["messages"],
            "bytes": row["bytes"],
            "roles": roles,
        }

    def finish(self, role: str, session: str, code: str, transcript: str, step: str = "") -> None:
        """End a session for good: the moderator with ``ended``, any member with the code of an abort and its step.

        Raises:
            NotAllowed: a role other than the moderator says that it ended well.
        """
        with self._open_transaction() as db:
            row = self._require_member(role, session)
            if code == "ended" and role != row["moderator"]:
                raise NotAllowed("Only a session's moderator may end it.")
            db.execute(
                "UPDATE session SET closed = ?, code = ?, by_role = ?, transcript = ?, step = ?"
                " WHERE id = ? AND closed IS NULL",
                (int(self._clock()), code, role, transcript, step, session),
            )

    def sweep(self) -> None:
        """Delete bodies some days after a session's end, later its headers, and files that no row names."""
        now = int(self._clock())
        old, older = now - self.limits.body_days * DAY, now - self.limits.header_days * DAY
        with self._open_transaction() as db:
            over = "session IN (SELECT id FROM session WHERE COALESCE(closed, deadline) < ?)"
            rows = db.execute(
                f"UPDATE message SET acked = 1, body = NULL WHERE acked = 0 AND {over} RETURNING digest, size", (old,)
            ).fetchall()
            for table in ("message", "beat", "sent"):
                db.execute(f"DELETE FROM {table} WHERE {over}", (older,))
            db.execute("DELETE FROM session WHERE COALESCE(closed, deadline) < ?", (older,))
        self._files.drop(row["digest"] for row in rows if row["size"] > INLINE_BYTES)
        self._files.drop_orphans(now, self._list_waiting_files())

    def compute_totals(self) -> dict[str, int]:
        """Return totals for an operator: open sessions, waiting messages and bytes."""
        with self._lock:
            waiting = self._db.execute(
                "SELECT COUNT(*), COALESCE(SUM(size), 0) FROM message WHERE acked = 0"
            ).fetchone()
            live = self._db.execute("SELECT COUNT(*) FROM session WHERE closed IS NULL").fetchone()
        return {"sessions_open": live[0], "messages_waiting": waiting[0], "bytes_waiting": waiting[1]}

    def _insert(self, header: Header, envelope: Envelope, digest: str, size: int, body: bytes | None) -> bool:
        with self._open_transaction() as db:
            if self._is_known(header, digest, size):
                return False
            db.execute(
                "INSERT INTO message"
                " (session, sender, receiver, step, attempt, part, digest, size, header, body, queued)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*header.key, digest, size, envelope.header, body, self._must_queue(header.receiver, size)),
            )
            db.execute(
                "UPDATE session SET messages = messages + 1, bytes = bytes + ? WHERE id = ?", (size, header.session)
            )
            db.execute(_ADD_SENT, (header.session, header.sender, size))
        return True

    def _must_queue(self, receiver: str, size: int) -> bool:
        """Return whether so much waits for ``receiver`` that another envelope has to wait for its sender's turn."""
        if self._db.execute(f"SELECT 1 FROM message {_QUEUED} LIMIT 1", (receiver,)).fetchone():
            return True
        count, bytes_ = self._db.execute(
            "SELECT COUNT(*), COALESCE(SUM(size), 0) FROM message WHERE receiver = ? AND acked = 0 AND queued = 0",
            (receiver,),
        ).fetchone()
        return bool(count and (count >= WINDOW_MESSAGES or bytes_ + size > WINDOW_BYTES))

    def _order_queued(self, receiver: str) -> bool:
        """Give the queued envelopes whose turn it is the next positions of the inbox; return whether there are any."""
        rows = self._db.execute(f"SELECT seq, session, sender, size FROM message {_QUEUED} ORDER BY seq", (receiver,))
        chosen = self._turns[receiver].choose(QueuedEnvelope(*row) for row in rows)
        if not chosen:
            return False
        with self._open_transaction() as db:
            (last,) = db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'message'").fetchone()
            db.executemany(
                "UPDATE message SET seq = ?, queued = 0 WHERE seq = ?",
                [(last + place, seq) for place, seq in enumerate(chosen, start=1)],
            )
            db.execute("UPDATE sqlite_sequence SET seq = ? WHERE name = 'message'", (last + len(chosen),))
        return True

    def _is_known(self, header: Header, digest: str, size: int) -> bool:
        """Return whether this very message was stored; refuse one that conflicts with another or does not fit."""
        row = self._require_member(header.sender, header.session)
        old = self._db.execute(
            "SELECT digest FROM message WHERE session = ? AND sender = ? AND receiver = ? AND step = ?"
            " AND attempt = ? AND part = ?",
            header.key,
        ).fetchone()
        if old is not None and old["digest"] == digest:
            return True
        if old is not None:
            raise ProtocolError("message_conflict", role=header.sender, step=header.step)
        self._open(row)
        self._require_room(row, header, size)
        return False

    def _open_sessions(self, moderator: str) -> tuple[int, int]:
        """Return the number of open sessions of ``moderator``, and the bytes sent in them."""
        found = self._db.execute(
            "SELECT COUNT(*), COALESCE(SUM(bytes), 0) FROM session"
            " WHERE moderator = ? AND closed IS NULL AND deadline > ?",
            (moderator, int(self._clock())),
        ).fetchone()
        return int(found[0]), int(found[1])

    def _require_member(self, role: str, session: str) -> sqlite3.Row:
        """Return the session if ``role`` is a member; to others it does not exist."""
        row: sqlite3.Row | None = self._db.execute("SELECT * FROM session WHERE id = ?", (session,)).fetchone()
        if row is None or role not in json.loads(row["members"]):
            raise ProtocolError("unknown_session", role=role)
        return row

    def _open(self, row: sqlite3.Row) -> None:
        state = describe_state(row, int(self._clock()))
        if state == "aborted":
            raise ProtocolError("aborted_by", role=row["by_role"], step=row["step"], where=row["code"])
        if state != "open":
            raise ProtocolError("session_closed")

    def _list_waiting_files(self) -> set[str]:
        with self._lock:
            waiting = self._db.execute(
                "SELECT digest FROM message WHERE acked = 0 AND size > ?", (INLINE_BYTES,)
            ).fetchall()
        return {row["digest"] for row in waiting}

    def _require_room(self, row: sqlite3.Row, header: Header, size: int) -> None:
        """Check that an envelope fits: receiver, limits of session, moderator and disk, backlog of the pair."""
        if header.receiver not in json.loads(row["members"]):
            raise ProtocolError("unknown_session", role=header.receiver)
        if row["messages"] >= self.limits.messages or row["bytes"] + size > self.limits.session_bytes:
            raise ProtocolError("too_large", role=header.sender, step=header.step)
        if self._open_sessions(row["moderator"])[1] + size > self.limits.moderator_bytes:
            raise ProtocolError("too_large", role=row["moderator"], step=header.step)
        if not self._files.has_room(size + self.limits.free_bytes):
            raise ProtocolError("quota", step=header.step, where="the relay's disk is all but full")
        queued = {
            row["receiver"]: (row["messages"], row["bytes"])
            for row in self._db.execute(
                "SELECT receiver, COUNT(*) AS messages, SUM(size) AS bytes FROM message"
                " WHERE sender = ? AND acked = 0 GROUP BY receiver",
                (header.sender,),
            )
        }
        messages, bytes_ = queued.get(header.receiver, (0, 0))
        if (
            messages >= self.limits.unacknowledged
            or (messages and bytes_ + size > self.limits.queued_bytes)
            or (queued and sum(each for _, each in queued.values()) + size > self.limits.sender_bytes)
        ):
            raise ProtocolError("quota", role=header.receiver, step=header.step)


_NEXT = """
SELECT seq, digest, body FROM message WHERE receiver = ? AND acked = 0 AND queued = 0 AND seq > ? ORDER BY seq LIMIT 1
"""
_QUEUED = "WHERE receiver = ? AND acked = 0 AND queued = 1"
_ADD_SENT = """
INSERT INTO sent VALUES (?, ?, ?) ON CONFLICT (session, sender) DO UPDATE SET bytes = bytes + excluded.bytes
"""
