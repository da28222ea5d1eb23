"""Roles in one process: over a network in memory, or with real envelopes over a relay's store."""

from __future__ import annotations

import threading
from typing import Any

from siloquent.federation.channel import MemoryNetwork, run_all
from siloquent.federation.relay.store import MessagePath, RelayStore, StoredEnvelope

__all__ = ["MemoryNetwork", "StoreTransport", "run_all"]


class StoreTransport:
    """A role that shares a process with the relay's store; it waits by polling."""

    def __init__(self, store: RelayStore, role: str, news: threading.Condition) -> None:
        self._store, self._role, self._news = store, role, news

    def open_session(self, session: str, members: list[str], deadline: int) -> bool:
        """Open mailboxes."""
        return self._store.open_session(self._role, session, members, deadline)

    def put(self, key: MessagePath, wire: bytes) -> bool:
        """Store an envelope and wake waiting receivers."""
        is_new = self._store.put(self._role, key, wire)
        with self._news:
            self._news.notify_all()
        return is_new

    def fetch_next(self, after: int, wait: float) -> StoredEnvelope | None:
        """Return the oldest envelope after ``after``."""
        found = self._store.find_next(self._role, after)
        if found is None and wait > 0:
            with self._news:
                self._news.wait(min(wait, 0.05))
            found = self._store.find_next(self._role, after)
        return found

    def acknowledge(self, upto: int) -> None:
        """Release the bodies up to ``upto``."""
        self._store.acknowledge(self._role, upto)

    def send_heartbeat(self, session: str, state: str, step: str, waiting_for: list[str], since_s: float) -> None:
        """Report the progress of this role."""
        self._store.record_heartbeat(self._role, session, state, step, waiting_for, since_s)

    def look(self, session: str) -> dict[str, Any]:
        """Return the progress of every member."""
        return self._store.look(self._role, session)

    def close_session(self, session: str, code: str, transcript: str, step: str = "") -> None:
        """End the session for good."""
        self._store.finish(self._role, session, code, transcript, step)
