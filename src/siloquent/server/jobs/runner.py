"""Processes that run queued jobs: leased, watched, ended in time, and queued again if they end without a result.

Several servers may share one workspace folder: a job belongs to the server whose lease is in its row, and is free again
when the lease expires. A job spends under its own idempotency key, so a second try finds the first one's charge.
"""

from __future__ import annotations

import json
import logging
import secrets  # allowed: a server's name, no noise
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from siloquent.server.failures.files import FileFailure, explain_file_failure
from siloquent.server.store import Store

TICK_SECONDS = 1.0
LEASE_SECONDS = 30
MAX_TRIES = 3
PATIENCE_SECONDS = 60
"""The seconds that a job waits behind another person's jobs before one of those is put back into the queue."""
ILL_SECONDS = 20.0
"""The time without a successful turn after which the queue is not ready: a turn writes to the store in milliseconds."""
_ENDING_SECONDS = 10.0
_log = logging.getLogger("siloquent.jobs")


@dataclass(slots=True)
class _Process:
    """A job's process, and its deadline (after it was told to end: the time at which it is killed)."""

    process: subprocess.Popen[bytes]
    until: float
    told: bool = False
    yields: bool = False
    result: Mapping[str, str] | None = field(default=None)


class Runner:
    """One server's job runner: it claims, starts, watches and ends jobs of the store's queue.

    Args:
        folder: The workspace.
        max_processes: The most jobs at once; ``max_bytes``: the memory of each; ``max_seconds``: its time.
    """

    def __init__(self, folder: Path, store: Store, *, max_processes: int, max_bytes: int, max_seconds: int) -> None:
        self._folder, self._store = folder, store
        self._max_processes, self._max_bytes, self._max_seconds = max_processes, max_bytes, max_seconds
        self._id = secrets.token_hex(8)  # allowed: a name
        self._running: dict[str, _Process] = {}
        self._changed, self._closing = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._watch, name="siloquent-jobs", daemon=True)
        self._good_turn = time.monotonic()
        self.failed_turns = 0
        self.failure: FileFailure | None = None

    def start(self) -> None:
        """Start processing the queue."""
        self._thread.start()

    def wake(self) -> None:
        """Check the queue now."""
        self._changed.set()

    @property
    def is_well(self) -> bool:
        """Whether the queue is processed: its thread is alive and could recently write to the store."""
        return self._thread.is_alive() and time.monotonic() - self._good_turn < ILL_SECONDS

    def close(self) -> None:
        """End the running jobs and put them back into the queue, for the next server or the next start."""
        self._closing.set()
        self._changed.set()
        if self._thread.is_alive():
            self._thread.join()
        for one in self._running.values():
            one.process.terminate()
        end = time.monotonic() + _ENDING_SECONDS
        for number, one in self._running.items():
            with suppress(subprocess.TimeoutExpired):
                one.process.wait(max(0.1, end - time.monotonic()))
            one.process.kill()
            one.process.wait()
            self._give_back(number, tried=False)
        self._running.clear()

    def _watch(self) -> None:
        while not self._closing.is_set():
            self._changed.wait(TICK_SECONDS)
            self._changed.clear()
            try:
                self._turn()
                self._good_turn, self.failure = time.monotonic(), None
            except Exception as failed:  # allowed: a store that is locked or full today must not end the queue for ever
                self.failed_turns, self.failure = self.failed_turns + 1, explain_file_failure(failed)
                _log.warning("the queue of jobs could not be looked at: %s", failed)

    def _turn(self) -> None:
        now = int(time.time())
        with self._store.open_transaction() as db:
            db.execute("INSERT OR REPLACE INTO server (id, beat) VALUES (?, ?)", (self._id, now))
            db.execute("DELETE FROM server WHERE beat < ?", (now - 3600,))
            db.execute(
                "UPDATE job SET held_until = ? WHERE holder = ? AND state = 'running'", (now + LEASE_SECONDS, self._id)
            )
        for number, one in list(self._running.items()):
            self._look_at(number, one)
        while not self._closing.is_set() and len(self._running) < self._max_processes and self._begin_next():
            pass
        if len(self._running) >= self._max_processes and not any(one.yields for one in self._running.values()):
            self._make_room(now)

    def _look_at(self, number: str, one: _Process) -> None:
        if one.process.poll() is not None:
            if one.result is not None:
                self._fail(number, one.result)
            else:
                self._give_back(number, tried=not one.yields)
            del self._running[number]
            return
        row = self._store.fetch_one("SELECT state, holder FROM job WHERE id = ?", number)
        is_ours = row is not None and row["state"] == "running" and row["holder"] == self._id
        overdue = time.monotonic() > one.until
        if one.told and overdue:
            one.process.kill()
        elif not one.told and (overdue or not is_ours):
            one.result = _TOO_LONG if overdue else None
            self._tell_to_end(one)

    def _tell_to_end(self, one: _Process) -> None:
        one.told, one.until = True, time.monotonic() + _ENDING_SECONDS
        one.process.terminate()
        self._changed.set()

    def _make_room(self, now: int) -> None:
        """Put a job back into the queue, if its person has several running and another one has waited for long."""
        about = {"now": now, "since": now - PATIENCE_SECONDS, "holder": self._id}
        if not self._store.fetch_named(_UNSERVED, about):
            return
        for row in self._store.fetch_named(_LATEST_OF_SEVERAL, about):
            one = self._running.get(row["id"])
            if one is not None and not one.told:
                one.yields = True
                self._tell_to_end(one)
                return

    def _give_back(self, number: str, *, tried: bool) -> None:
        """Put a job whose process ended without a result back into the queue, unless that was its last try."""
        if tried and self._has_failed_for_good(number):
            self._fail(number, _KILLED)
            return
        self._store.write(
            "UPDATE job SET state = 'queued', holder = '', held_until = 0, tries = tries - ? "
            "WHERE id = ? AND holder = ? AND state = 'running'",
            *(0 if tried else 1, number, self._id),
        )

    def _has_failed_for_good(self, number: str) -> bool:
        row = self._store.fetch_one("SELECT tries FROM job WHERE id = ?", number)
        return row is not None and row["tries"] >= MAX_TRIES

    def _fail(self, number: str, result: Mapping[str, str]) -> None:
        self._store.write(
            "UPDATE job SET state = 'failed', result = ?, changed = ? "
            "WHERE id = ? AND holder = ? AND state = 'running'",
            *(json.dumps(result), int(time.time()), number, self._id),
        )

    def _begin_next(self) -> bool:
        """Claim and start the next job, of the person with the fewest running; return whether there was one."""
        now = int(time.time())
        with self._store.open_transaction() as db:
            row = db.execute(_NEXT, {"now": now}).fetchone()
            if row is None:
                return False
            number = str(row["id"])
            db.execute(
                "UPDATE job SET state = 'running', holder = ?, held_until = ?, tries = tries + 1, changed = ? "
                "WHERE id = ?",
                (self._id, now + LEASE_SECONDS, now, number),
            )
        if row["tries"] >= MAX_TRIES:  # its servers died with it each time
            self._fail(number, _KILLED)
            return True
        if (former := self._running.pop(number, None)) is not None:  # cancelled and submitted again in the meantime
            former.process.kill()
            former.process.wait()
        words = ["siloquent.server.jobs.worker", str(self._folder), number, str(self._max_bytes), self._id]
        try:
            process = subprocess.Popen([sys.executable, "-m", *words], stdin=subprocess.DEVNULL, start_new_session=True)
        except OSError as failed:
            self._give_back(number, tried=False)
            _log.warning("a job's process could not be started: %s", failed)
            return False
        self._running[number] = _Process(process, time.monotonic() + self._max_seconds)
        return True


_NEXT = """
SELECT id, tries FROM job AS waiting
WHERE state = 'queued' OR (state = 'running' AND held_until < :now)
ORDER BY (
    SELECT count(*) FROM job AS busy
    WHERE busy.name = waiting.name AND busy.state = 'running' AND busy.held_until >= :now
), created, id LIMIT 1
"""
_UNSERVED = """
SELECT id FROM job AS waiting
WHERE state = 'queued' AND changed <= :since AND NOT EXISTS (
    SELECT 1 FROM job AS busy WHERE busy.name = waiting.name AND busy.state = 'running' AND busy.held_until >= :now
) LIMIT 1
"""
_LATEST_OF_SEVERAL = """
SELECT id FROM job AS latest
WHERE state = 'running' AND holder = :holder AND 1 < (
    SELECT count(*) FROM job AS busy
    WHERE busy.name = latest.name AND busy.state = 'running' AND busy.held_until >= :now
) ORDER BY changed DESC, id DESC
"""
_KILLED = {
    "code": "job_killed",
    "detail": f"The job's process ended {MAX_TRIES} times before it was done, perhaps for lack of memory. Its charge "
    "stands.",
    "fix": "send it again with the same key, which is not charged again, once there is more memory",
}
_TOO_LONG = {
    "code": "job_too_long",
    "detail": "The job exceeded this server's time limit. Its charge stands.",
    "fix": "send it again with the same key, which is not charged again, once job_seconds in [server] is higher",
}
