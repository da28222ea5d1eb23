"""Threads that hold sessions: each keeps its own tables and ledger connection, and works off one request at a time."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from siloquent.door import Session

T = TypeVar("T")
MOST_SESSIONS = 16


class _Clerk:
    """One thread and the sessions that it has open, least recently used first."""

    def __init__(self, folder: Path, number: int) -> None:
        self._folder = folder
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=f"siloquent-{number}")
        self._sessions: OrderedDict[str | None, Session] = OrderedDict()
        self.waiting = 0

    def submit(self, analyst: str | None, work: Callable[[Session], T]) -> Future[T]:
        return self._pool.submit(lambda: work(self._session(analyst)))

    def _session(self, analyst: str | None) -> Session:
        from siloquent.door import open_session

        if analyst not in self._sessions:
            self._sessions[analyst] = open_session(self._folder, analyst=analyst)
            if len(self._sessions) > MOST_SESSIONS:
                self._sessions.popitem(last=False)[1].close()
        self._sessions.move_to_end(analyst)
        return self._sessions[analyst]

    def close(self) -> None:
        self._pool.submit(self._close).result()
        self._pool.shutdown()

    def _close(self) -> None:
        while self._sessions:
            self._sessions.popitem()[1].close()


class Desk:
    """Runs verbs off the event loop, on the thread that has the least to do."""

    def __init__(self, folder: Path, *, workers: int) -> None:
        self._clerks = [_Clerk(folder, number) for number in range(workers)]
        self._lock = threading.Lock()

    async def run(self, analyst: str | None, work: Callable[[Session], T]) -> T:
        """What ``work`` makes of the session of ``analyst`` (None: the owner's)."""
        clerk = self._least_busy()
        future = clerk.submit(analyst, work)
        future.add_done_callback(lambda _: self._done(clerk))
        done = asyncio.wrap_future(future)
        # Whoever waits for it may be gone; then nobody hears of an error, and no log repeats it.
        done.add_done_callback(lambda ended: None if ended.cancelled() else ended.exception())
        # Shielded: who waits no longer must not stop a verb between charge and answer.
        return await asyncio.shield(done)

    @property
    def waiting(self) -> int:
        """How many pieces of work are taken and not done."""
        return sum(clerk.waiting for clerk in self._clerks)

    def _least_busy(self) -> _Clerk:
        with self._lock:
            clerk = min(self._clerks, key=lambda one: one.waiting)
            clerk.waiting += 1
            return clerk

    def _done(self, clerk: _Clerk) -> None:
        with self._lock:
            clerk.waiting -= 1

    def close(self) -> None:
        """Finish what is taken, close every session."""
        for clerk in self._clerks:
            clerk.close()
