"""Threads that hold sessions: each keeps its own tables and ledger connection, and handles one request at a time."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from siloquent.server.access.turns import Turns, wait_patiently

if TYPE_CHECKING:
    from siloquent.api import Session

T = TypeVar("T")
MAX_SESSIONS = 16


class Sessions:
    """The open sessions of one thread or process, least recently used first."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sessions: OrderedDict[str | None, Session] = OrderedDict()

    def of(self, analyst: str | None) -> Session:
        """Return the session of ``analyst`` (None: the owner's)."""
        from siloquent.api import open_session

        if analyst not in self._sessions:
            self._sessions[analyst] = open_session(self._folder, analyst=analyst)
            if len(self._sessions) > MAX_SESSIONS:
                self._sessions.popitem(last=False)[1].close()
        self._sessions.move_to_end(analyst)
        return self._sessions[analyst]

    def close(self) -> None:
        """Close all of them."""
        while self._sessions:
            self._sessions.popitem()[1].close()


class _Worker:
    """One thread and its sessions."""

    def __init__(self, folder: Path, name: str) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=f"siloquent-{name}")
        self._sessions = Sessions(folder)
        self.waiting = 0

    def submit(self, analyst: str | None, work: Callable[[Session], T]) -> Future[T]:
        return self._pool.submit(lambda: work(self._sessions.of(analyst)))

    def close(self) -> None:
        self._pool.submit(self._sessions.close).result()
        self._pool.shutdown()


class SessionPool:
    """A pool that runs verbs off the event loop, on the least busy thread."""

    def __init__(self, folder: Path, *, workers: int, name: str = "desk") -> None:
        self._clerks = [_Worker(folder, f"{name}-{number}") for number in range(workers)]
        self._lock = threading.Lock()
        self._turns = Turns(workers)

    async def run(self, analyst: str | None, work: Callable[[Session], T]) -> T:
        """Return the result of ``work`` on the session of ``analyst`` (None: the owner's)."""
        return await wait_patiently(self._submit(analyst, work))

    async def run_in_turn(self, who: str, analyst: str | None, work: Callable[[Session], T]) -> T:
        """Run work that may take long, as ``run`` does: one piece of ``who`` at a time, and persons in rotation."""
        return await self._turns.run(who, lambda: self._submit(analyst, work))

    @property
    def waiting(self) -> int:
        """The number of accepted pieces of work that are not done."""
        return sum(clerk.waiting for clerk in self._clerks) + self._turns.waiting

    def _submit(self, analyst: str | None, work: Callable[[Session], T]) -> Future[T]:
        clerk = self._choose_worker()
        future = clerk.submit(analyst, work)
        future.add_done_callback(lambda _: self._finish_work(clerk))
        return future

    def _choose_worker(self) -> _Worker:
        with self._lock:
            clerk = min(self._clerks, key=lambda one: one.waiting)
            clerk.waiting += 1
            return clerk

    def _finish_work(self, clerk: _Worker) -> None:
        with self._lock:
            clerk.waiting -= 1

    def close(self) -> None:
        """Finish accepted work, then close every session."""
        for clerk in self._clerks:
            clerk.close()
