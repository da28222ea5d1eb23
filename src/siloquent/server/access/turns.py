"""Turns at a scarce resource, such as threads that read rows: one at a time per person, persons in rotation."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


class Turns:
    """``places`` pieces of work at once, at most one of each person; the longest wait since the last turn is next.

    A turn lasts until the work itself ends, whether or not its caller still waits: a busy thread counts as busy.
    """

    def __init__(self, places: int) -> None:
        self._free = places
        self._busy: set[str] = set()
        self._queues: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @property
    def waiting(self) -> int:
        """The number of pieces of work that wait for a turn."""
        return sum(map(len, self._queues.values()))

    async def run(self, who: str, start: Callable[[], Future[T]]) -> T:
        """Wait for a turn of ``who``, ``start`` the work, and return its result."""
        await self._wait(who)
        loop = asyncio.get_running_loop()
        try:
            future = start()
        except BaseException:  # allowed: the turn is given on, and it is raised again
            self._leave(who)
            raise
        future.add_done_callback(lambda _: _tell(loop, lambda: self._leave(who)))
        return await wait_patiently(future)

    async def _wait(self, who: str) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queues.setdefault(who, deque()).append(turn)
        self._grant()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._leave(who)  # the turn came just as its caller left
            else:
                self._forget(who, turn)
            raise

    def _forget(self, who: str, turn: asyncio.Future[None]) -> None:
        queue = self._queues[who]
        queue.remove(turn)
        if not queue:
            del self._queues[who]

    def _leave(self, who: str) -> None:
        self._busy.discard(who)
        self._free += 1
        if who in self._queues:
            self._queues.move_to_end(who)
        self._grant()

    def _grant(self) -> None:
        """Grant free places to persons in the order of their last turn."""
        for who in list(self._queues):
            if not self._free:
                return
            if who in self._busy:
                continue
            turn = self._queues[who].popleft()
            if not self._queues[who]:
                del self._queues[who]
            self._free -= 1
            self._busy.add(who)
            turn.set_result(None)


async def wait_patiently(future: Future[T]) -> T:
    """Return a thread's result; the work continues if its caller leaves, so no charge lacks its answer."""
    done = asyncio.wrap_future(future)
    # If the caller is gone, the error is discarded and not logged.
    done.add_done_callback(lambda ended: None if ended.cancelled() else ended.exception())
    return await asyncio.shield(done)


def _tell(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    with suppress(RuntimeError):  # the loop has ended, and with it all waiting callers
        loop.call_soon_threadsafe(call)
