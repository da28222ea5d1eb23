"""A job's process: runs one verb of one task and records the outcome."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from siloquent.documents.problems import build_problem, log_details
from siloquent.errors import NotAllowed, SiloquentError
from siloquent.foreign.process_limits import limit_memory
from siloquent.server.access.hidden_tables import hide_other_tables
from siloquent.server.access.tokens import Principal, Tokens
from siloquent.server.failures.fixes import HTTP
from siloquent.server.jobs.queue import cost_of_job
from siloquent.server.jobs.tasks import PRICED, TASKS
from siloquent.server.repeats import build_ledger_key
from siloquent.server.store import ADD_RELEASE, Store


def main(folder: Path, number: str, most_bytes: int, holder: str) -> int:
    """Run job ``number`` of the server in ``folder`` while ``holder`` holds it; return 1 to leave it in the queue."""
    try:
        return _do(folder, number, most_bytes, holder)
    except sqlite3.OperationalError as failed:  # the store is locked or full: the job's outcome could not be recorded
        sys.stderr.write(f"job {number} goes back into the queue: {failed}\n")
        return 1


def _do(folder: Path, number: str, most_bytes: int, holder: str) -> int:
    from siloquent.api import open_session

    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    limit_memory(most_bytes)
    store = Store(folder / "server.sqlite")
    job = store.fetch_one("SELECT * FROM job WHERE id = ?", number)
    assert job is not None, "the queue names a job that is not there"

    def tell(done: int, steps: int) -> None:
        if done == PRICED:
            require_token()
        held = store.write(f"UPDATE job SET done = ?, steps = ? {_HELD}", done, steps, number, holder)
        if not held:
            raise SystemExit(1)  # cancelled, or taken over by another server

    def require_token() -> Principal:
        """At the start and right before the charge: later on a job is paid, and ends."""
        person = Tokens(store).find_by_number(job["token"])
        if person is None:
            raise NotAllowed("The token of this job was revoked or has expired.")
        return person

    try:
        with open_session(folder, analyst=require_token().analyst) as session:
            key, spec = build_ledger_key(job["name"], job["key"]), json.loads(job["spec"])
            with suppress(SiloquentError):  # the task itself reports what is wrong with the table
                account = session.get_account(str(spec["table"])).name
                store.write(f"UPDATE job SET account = ?, cost = NULL {_HELD}", account, number, holder)
            result, cost = TASKS[job["task"]](session, spec, key, job["max_cost"], tell), None
            with suppress(SiloquentError):  # the cost is then read from the ledger
                row = store.fetch_one("SELECT name, key, account FROM job WHERE id = ?", number)
                cost = row and cost_of_job(session, row)
        state = "done"
        store.write(f"UPDATE job SET done = steps, cost = ? {_HELD}", cost and json.dumps(cost), number, holder)
        if "release" in result:
            store.write(ADD_RELEASE, result["release"], job["name"], int(time.time()))
    except sqlite3.OperationalError:
        raise
    except Exception as failed:  # allowed: whatever it is, the queue hears of it; our own bugs keep their details
        state, result = "failed", _describe_failure(folder, failed, Tokens(store).find_by_number(job["token"]))
    store.write(
        f"UPDATE job SET state = ?, result = ?, changed = ? {_HELD}",
        *(state, json.dumps(result), int(time.time()), number, holder),
    )
    store.close()
    return 0


def _describe_failure(folder: Path, failed: Exception, person: Principal | None) -> dict[str, Any]:
    """Return the problem's document for ``person``, whose job it was; None if the token has ended."""
    problem = build_problem(failed)
    if problem.code == "internal":
        log_details(folder, problem, failed)
    if person is not None:
        problem = hide_other_tables(problem, person, folder)
    return problem.translate(HTTP).to_json()


_HELD = "WHERE id = ? AND holder = ? AND state = 'running'"


def _end_with(parent: int) -> None:
    """End this process once its server is gone, so that another server takes over the job."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]))
