"""Processes that price questions and jobs: they read no rows, and none can be made to run for long.

An explanation is free and may be asked any number of times. So it has its own processes, which reveal nothing about the
duration of answers, are ended when they take too much time or memory, and serve persons in rotation.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from siloquent.server.access.tokens import Principal
from siloquent.server.access.turns import Turns
from siloquent.server.failures.problems import no_planner, too_dear_to_plan
from siloquent.server.planning.process import Order, serve

if TYPE_CHECKING:
    from siloquent.explore import PortablePlan
    from siloquent.schema import AccuracyDefaults

START_SECONDS = 120
TICK_SECONDS = 0.25
WAITS, MIN_WAIT_SECONDS = 6, 30.0
"""The longest wait for a plan: this multiple of its limit of processor time, and at least this many seconds."""
_PRELOADED = ["siloquent.server.planning.process", "siloquent.api", "siloquent.explore.task"]


class Planners:
    """A pool of ``count`` processes, each started when first needed.

    Args:
        seconds: The most processor time for one plan; ``max_bytes``: the address space of a process.
    """

    def __init__(self, folder: Path, *, count: int, seconds: float, max_bytes: int) -> None:
        self._folder, self._seconds, self._max_bytes = folder, seconds, max_bytes
        self._turns = Turns(count)
        self._idle = [_Planner() for _ in range(count)]
        self._lock, self._closed = threading.Lock(), False
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="siloquent-plans")
        self.ended = 0

    async def price_question(
        self, person: Principal, sql: str, *, key: str | None = None, defaults: AccuracyDefaults | None = None
    ) -> dict[str, Any]:
        """Return the explanation of ``sql``; ``key`` is the ledger's, under which it may have been charged before.

        Args:
            defaults: The accuracy if it states none, before those of the table and the workspace.
        Raises:
            SiloquentError, Refused: the question is invalid, or takes too much to plan.
        """
        order = Order(person, sql, key, defaults=defaults)
        document: dict[str, Any] = await self._turns.run(person.name, lambda: self._threads.submit(self._ask, order))
        return document

    async def plan_question(
        self, person: Principal, sql: str, *, key: str, defaults: AccuracyDefaults | None = None
    ) -> tuple[dict[str, Any], PortablePlan]:
        """Return the explanation of ``sql`` as ``price_question`` does, and the plan, to be answered as it is.

        Raises:
            SiloquentError, Refused: as ``price_question``.
        """
        order = Order(person, sql, key, sends_plan=True, defaults=defaults)
        planned: tuple[dict[str, Any], PortablePlan] = await self._turns.run(
            person.name, lambda: self._threads.submit(self._ask, order)
        )
        return planned

    async def price_job(self, person: Principal, task: str, spec: dict[str, Any]) -> dict[str, Any]:
        """Return the plan of a job, with its price.

        Raises:
            SiloquentError, Refused: the job is invalid, or takes too much to plan.
        """
        order = Order(person, task=task, spec=spec)
        document: dict[str, Any] = await self._turns.run(person.name, lambda: self._threads.submit(self._ask, order))
        return document

    @property
    def waiting(self) -> int:
        """The number of orders that wait for their turn."""
        return self._turns.waiting

    def close(self) -> None:
        """End every process."""
        self._closed = True
        for planner in list(self._idle):
            planner.end()
        self._threads.shutdown()
        for planner in self._idle:
            planner.end()

    def _ask(self, order: Order) -> Any:
        with self._lock:
            planner = self._idle.pop()  # there are as many as turns
        try:
            found = self._send_order(planner, order)
        finally:
            with self._lock:
                self._idle.append(planner)
        if isinstance(found, BaseException):
            raise found
        return found

    def _send_order(self, planner: _Planner, order: Order) -> Any:
        if not planner.is_alive:
            try:
                planner.start(self._folder, self._max_bytes)
            except (EOFError, OSError, TimeoutError):
                planner.end()
                raise no_planner() from None
        try:
            return planner.ask(order, self._seconds)
        except _NoTurn:
            planner.end()
            raise no_planner() from None
        except (EOFError, OSError, TimeoutError):  # too slow, or ended by the system for its memory
            self.ended += 1
            planner.end()
            return too_dear_to_plan()


class _NoTurn(Exception):
    """The machine was too busy to make a plan in time; the plan itself may be fine."""


class _Planner:
    """One process and the server's end of its pipe."""

    def __init__(self) -> None:
        self._process: ForkServerProcess | None = None
        self._pipe: Connection | None = None

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.is_alive()

    def start(self, folder: Path, max_bytes: int) -> None:
        self.end()
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(_PRELOADED)  # imported once for all of them, also for those started after a kill
        self._pipe, theirs = context.Pipe()
        process = context.Process(target=serve, args=(theirs, folder, max_bytes), name="siloquent-planner", daemon=True)
        try:
            process.start()
        finally:
            theirs.close()
        self._process = process  # only now: a process that did not start cannot be ended
        if not self._pipe.poll(START_SECONDS):
            raise TimeoutError("a planner did not start")
        self._pipe.recv()

    def ask(self, order: Order, seconds: float) -> Any:
        """Return the process's reply to ``order``, within ``seconds`` of processor time.

        Raises:
            TimeoutError: it takes longer. _NoTurn: it did not get that time within ``WAITS`` times as long.
        """
        assert self._pipe is not None
        before, until = self._get_cpu_seconds(), time.monotonic() + max(MIN_WAIT_SECONDS, WAITS * seconds)
        self._pipe.send(order)
        while not self._pipe.poll(min(TICK_SECONDS, seconds)):
            if self._get_cpu_seconds() - before >= seconds:
                raise TimeoutError
            if time.monotonic() >= until:
                raise _NoTurn
        return self._pipe.recv()

    def _get_cpu_seconds(self) -> float:
        """Return the processor time used so far, or the time elapsed on a system that does not report it."""
        assert self._process is not None
        try:
            fields = Path(f"/proc/{self._process.pid}/stat").read_text("ascii").rpartition(")")[2].split()
        except OSError:
            return time.monotonic()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
        if self._pipe is not None:
            with suppress(OSError):
                self._pipe.close()
        self._process = self._pipe = None
