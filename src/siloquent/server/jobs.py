"""Work that takes longer than an answer: a process of its own each, in a queue that survives a restart.

A job spends under its own idempotency key. Started again after a crash, it finds its charge in the ledger and goes on.
"""

from __future__ import annotations

import json
import secrets  # allowed: a job's name, no noise
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from siloquent.server.problems import Refused
from siloquent.server.store import Store
from siloquent.server.tokens import Person

TICK_SECONDS = 1.0
ENDED = ("done", "failed", "cancelled")


class Jobs:
    """The queue of one server and the processes that work it off."""

    def __init__(self, folder: Path, store: Store, *, most: int, most_bytes: int) -> None:
        self._folder, self._store, self._most, self._most_bytes = folder, store, most, most_bytes
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._changed = threading.Event()
        self._ended = False
        self._thread = threading.Thread(target=self._watch, name="siloquent-jobs", daemon=True)

    def start(self) -> None:
        """Take up what an earlier server left running, and watch the queue."""
        self._store.write("UPDATE job SET state = 'queued' WHERE state = 'running'")
        self._thread.start()

    def close(self) -> None:
        """Stop watching; what runs is ended and stands in the queue again."""
        self._ended = True
        self._changed.set()
        if self._thread.is_alive():
            self._thread.join()
        for process in self._running.values():
            process.terminate()
        for name, process in self._running.items():
            process.wait()
            self._store.write("UPDATE job SET state = 'queued' WHERE id = ? AND state = 'running'", name)

    def add(self, person: Person, *, task: str, spec: Mapping[str, Any], key: str, max_cost: str | None) -> str:
        """Queue a job; the same key and body give the same job.

        Raises:
            Refused: the task is unknown, the key is another job's, or the person has too many unfinished ones.
        """
        from siloquent.server.work import FILES, TASKS

        if task not in TASKS:
            known = ", ".join(sorted(TASKS))
            raise Refused(422, "unknown_name", f"No task {task[:40]!r} runs as a job. Known: {known}.", fix=known)
        table = spec.get("table")
        if not isinstance(table, str) or not person.may_see(table):
            raise Refused(422, "request_invalid", "A job's spec names a table of yours.", fix='"table": "visits"')
        if named := sorted(set(FILES) & set(spec)):
            detail = f"A job's spec names no file of the server: {named[0]!r} is for its command line."
            raise Refused(422, "request_invalid", detail, fix=f"leave {named[0]} out")
        number = f"j-{secrets.token_hex(6)}"  # allowed: an id
        text, now = json.dumps(spec, sort_keys=True), int(time.time())
        with self._store.writing() as db:
            known_job = db.execute("SELECT * FROM job WHERE name = ? AND key = ?", (person.name, key)).fetchone()
            if known_job is not None:
                if (known_job["task"], known_job["spec"], known_job["max_cost"]) != (task, text, max_cost):
                    raise Refused(409, "key_reused", "This key belongs to another job of yours.", fix="use a new key")
                return str(known_job["id"])
            open_jobs = db.execute(
                "SELECT count(*) FROM job WHERE name = ? AND state IN ('queued', 'running')", (person.name,)
            ).fetchone()[0]
            if open_jobs >= 2 * self._most:
                raise Refused(
                    429, "busy", "You have too many unfinished jobs.", fix="wait", headers={"Retry-After": "5"}
                )
            db.execute(
                "INSERT INTO job (id, name, token, task, spec, key, max_cost, state, created, changed) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, 'queued', ?, ?)",
                (number, person.name, person.token, task, text, key, max_cost, now, now),
            )
        self._changed.set()
        return number

    def cancel(self, number: str) -> None:
        """End a job that is not done; what it was charged stays."""
        self._store.write(
            "UPDATE job SET state = 'cancelled', changed = ? WHERE id = ? AND state IN ('queued', 'running')",
            *(int(time.time()), number),
        )
        self._changed.set()

    def document(self, number: str) -> dict[str, Any] | None:
        """A job as a document of kind ``siloquent/job/1``, with its owner's name; None if there is none."""
        row = self._store.one("SELECT * FROM job WHERE id = ?", number)
        return None if row is None else job_document(row)

    def of(self, name: str | None) -> list[dict[str, Any]]:
        """The newest jobs of ``name`` (None: everybody's)."""
        rows = self._store.all(
            "SELECT * FROM job WHERE ? IS NULL OR name = ? ORDER BY created DESC, id LIMIT 200", name, name
        )
        return [job_document(row) for row in rows]

    def _watch(self) -> None:
        while not self._ended:
            self._changed.wait(TICK_SECONDS)
            self._changed.clear()
            self._reap()
            if not self._ended:
                self._begin()

    def _reap(self) -> None:
        for number, process in list(self._running.items()):
            row = self._store.one("SELECT state FROM job WHERE id = ?", number)
            if row is not None and row["state"] == "cancelled" and process.poll() is None:
                process.send_signal(signal.SIGTERM)
                process.wait()
            if process.poll() is not None:
                del self._running[number]
                self._store.write(  # it ended without a word: killed, or out of memory
                    "UPDATE job SET state = 'failed', result = ?, changed = ? WHERE id = ? AND state = 'running'",
                    *(json.dumps(_KILLED), int(time.time()), number),
                )

    def _begin(self) -> None:
        while len(self._running) < self._most:
            row = self._store.one("SELECT id FROM job WHERE state = 'queued' ORDER BY created, id LIMIT 1")
            if row is None:
                return
            number = str(row["id"])
            self._store.write("UPDATE job SET state = 'running', changed = ? WHERE id = ?", int(time.time()), number)
            command = [sys.executable, "-m", "siloquent.server.work", str(self._folder), number, str(self._most_bytes)]
            with suppress(OSError):
                self._running[number] = subprocess.Popen(command, stdin=subprocess.DEVNULL)


_KILLED = {
    "code": "job_killed",
    "detail": "The job ended before it was done. What it was charged stays.",
    "fix": "send it again with the same key and a smaller spec",
}


def job_document(row: Mapping[str, Any]) -> dict[str, Any]:
    """A job as a document of kind ``siloquent/job/1``."""
    return {
        "schema": "siloquent/job/1",
        "id": row["id"],
        "name": row["name"],
        "task": row["task"],
        "spec": json.loads(row["spec"]),
        "state": row["state"],
        "done": row["done"],
        "steps": row["steps"],
        "result": None if row["result"] is None else json.loads(row["result"]),
        "created": row["created"],
        "changed": row["changed"],
    }
