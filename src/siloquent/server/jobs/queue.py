"""The queue of work that takes longer than an answer: it survives restarts, and ``Runner`` processes it."""

from __future__ import annotations

import json
import secrets  # allowed: a job's name, no noise
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from siloquent.foreign.documents import is_portable
from siloquent.privacy import parse_exact
from siloquent.server.access.acts import record
from siloquent.server.access.tokens import Principal
from siloquent.server.failures.problems import Refused, build_not_found
from siloquent.server.jobs.runner import Runner
from siloquent.server.jobs.tasks import FILES, TASKS, read_spec
from siloquent.server.repeats import build_ledger_key, key_reused
from siloquent.server.store import Store

if TYPE_CHECKING:
    from siloquent.api import Session

OWNERS_TASK = "discover"
"""The task that owners run, too: it finds values for their declarations, and is charged to the table's account."""
ENDED = ("done", "failed", "cancelled")
MAX_LISTED = 200
NOT_PORTABLE = "holds a number or text that JSON in UTF-8 cannot hold"
"""What is wrong with a spec that lists of jobs could not repeat."""


def check_job(person: Principal, task: str, spec: Mapping[str, Any]) -> None:
    """Refuse an invalid job of ``person`` before it is queued or priced.

    Raises:
        SiloquentError: the spec is invalid.
        Refused: the task is unknown or not the person's, the spec names a file or none of the person's tables, or lists
            of jobs could not repeat it.
    """
    if not is_portable(spec):
        raise Refused(422, "request_unreadable", f"spec: {NOT_PORTABLE}.", fix="GET /openapi.json")
    if person.role == "owner" and task != OWNERS_TASK:
        raise Refused(
            422,
            "request_invalid",
            "An owner discovers values for declarations; other work is charged to an analyst.",
            fix="ask with a token of the role analyst",
        )
    if task not in TASKS:
        known = ", ".join(sorted(TASKS))
        raise Refused(422, "unknown_name", f"No task {task[:40]!r} runs as a job. Known: {known}.", fix=known)
    table = spec.get("table")
    if not isinstance(table, str) or not person.may_see(table):
        raise Refused(
            422, "request_invalid", "A job's spec must name a table that you may use.", fix='"table": "visits"'
        )
    if named := sorted(set(FILES) & set(spec)):
        detail = f"A job's spec cannot name a file of the server: {named[0]!r} is for its command line."
        raise Refused(422, "request_invalid", detail, fix=f"omit {named[0]}")
    read_spec(task, spec)


class Jobs:
    """The jobs of one workspace, and this server's ``runner`` for them.

    Args:
        max_open: The most unfinished jobs per person; ``max_text``: the most bytes of a spec, which is stored.
    """

    def __init__(self, store: Store, runner: Runner, *, max_open: int, max_text: int = 64 * 2**10) -> None:
        self._store, self._max_open, self._max_text = store, max_open, max_text
        self.runner = runner

    def add(
        self, person: Principal, *, task: str, spec: Mapping[str, Any], key: str, max_cost: str | None
    ) -> tuple[str, bool]:
        """Queue a job; the same key and body give the same job, which is queued again if it failed or was cancelled.

        Returns:
            The job's id, and whether it existed before.

        Raises:
            SiloquentError: the spec or ``max_cost`` is invalid.
            Refused: the task is unknown, the key belongs to another job, or the person has too many unfinished jobs.
        """
        check_job(person, task, spec)
        if max_cost is not None:
            parse_exact(max_cost)
        number = f"j-{secrets.token_hex(6)}"  # allowed: an id
        text, now = json.dumps(spec, sort_keys=True), int(time.time())
        if len(text) > self._max_text:
            detail = f"A job's spec is too large: the limit is {self._max_text} bytes."
            raise Refused(413, "text_too_long", detail, fix="ask for less at once")
        with self._store.open_transaction() as db:
            known_job = db.execute("SELECT * FROM job WHERE name = ? AND key = ?", (person.name, key)).fetchone()
            if known_job is not None:
                if (known_job["task"], known_job["spec"], known_job["max_cost"]) != (task, text, max_cost):
                    raise key_reused("job")
                db.execute(_AGAIN, (person.token, now, known_job["id"]))
                self.runner.wake()
                return str(known_job["id"]), True
            open_jobs = db.execute(
                "SELECT count(*) FROM job WHERE name = ? AND state IN ('queued', 'running')", (person.name,)
            ).fetchone()[0]
            if open_jobs >= self._max_open:
                raise Refused(
                    429, "busy", "You have too many unfinished jobs.", fix="wait", headers={"Retry-After": "5"}
                )
            db.execute(
                "INSERT INTO job (id, name, token, task, spec, key, max_cost, state, created, changed) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, 'queued', ?, ?)",
                (number, person.name, person.token, task, text, key, max_cost, now, now),
            )
        self.runner.wake()
        return number, False

    def cancel(self, number: str, *, by: Principal) -> None:
        """End an unfinished job; its charge remains."""
        with self._store.open_transaction() as db:
            ended = db.execute(
                "UPDATE job SET state = 'cancelled', cancelled_by = ?, changed = ? "
                "WHERE id = ? AND state IN ('queued', 'running')",
                (by.name, int(time.time()), number),
            )
            if ended.rowcount:
                record(db, by, "cancel_job", number)
        self.runner.wake()

    def forget(self, number: str, *, by: Principal) -> bool:
        """Forget a job that has ended; its charge and release remain. Return False if it has not ended."""
        ended = "DELETE FROM job WHERE id = ? AND state IN ('done', 'failed', 'cancelled')"
        with self._store.open_transaction() as db:
            is_forgotten = bool(db.execute(ended, (number,)).rowcount)
            if is_forgotten:
                record(db, by, "forget_job", number)
        return is_forgotten

    def row(self, number: str) -> Mapping[str, Any] | None:
        """Return a job's row, or None if it does not exist."""
        return self._store.fetch_one("SELECT * FROM job WHERE id = ?", number)

    def list_jobs(
        self,
        person: Principal,
        *,
        limit: int = MAX_LISTED,
        after: str | None = None,
        state: str | None = None,
        table: str | None = None,
    ) -> list[Mapping[str, Any]]:
        """Return up to ``limit`` jobs of the person's tables, newest first, older than job ``after``; owners see all.

        Args:
            state: Only jobs in this state; ``table``: only jobs of this table.
        """
        before = self.row(after) if after else None
        if after and (before is None or not may_see_job(before, person)):
            raise build_not_found()
        values: dict[str, Any] = {
            "name": None if person.role == "owner" else person.name,
            "state": state,
            "created": before["created"] if before else None,
            "id": before["id"] if before else None,
        }
        found: list[Mapping[str, Any]] = []
        while len(found) < limit:
            rows = self._store.fetch_named(_LISTED, values)
            abouts = [table_of(row) for row in rows]
            found += [
                row for row, about in zip(rows, abouts, strict=True) if person.may_see(about) and table in (None, about)
            ]
            if len(rows) < MAX_LISTED:
                break
            values |= {"created": rows[-1]["created"], "id": rows[-1]["id"]}
        return found[:limit]


_AGAIN = """
UPDATE job SET state = 'queued', token = ?, result = NULL, cancelled_by = NULL, done = 0, steps = 0, tries = 0,
    changed = ?
WHERE id = ? AND state IN ('failed', 'cancelled')
"""
_LISTED = """
SELECT * FROM job
WHERE (:name IS NULL OR name = :name) AND (:state IS NULL OR state = :state)
    AND (:created IS NULL OR (created, id) < (:created, :id))
ORDER BY created DESC, id DESC LIMIT 200
"""


def may_see_job(row: Mapping[str, Any], person: Principal) -> bool:
    """Return whether a job is one of the person's, or the person an owner, and its table one of the token's."""
    return (person.role == "owner" or row["name"] == person.name) and person.may_see(table_of(row))


def table_of(row: Mapping[str, Any]) -> str:
    """Return the table that a job reads."""
    return str(json.loads(row["spec"]).get("table"))


def cost_of_job(session: Session, row: Mapping[str, Any]) -> dict[str, str] | None:
    """Return the cost part of a job's document, as charged in the ledger so far; None if nothing was charged."""
    from siloquent.charge import spent_under
    from siloquent.documents.ledger import cost_document

    if not row["account"]:
        return None
    cost = spent_under(session.ledger, row["account"], build_ledger_key(row["name"], row["key"]))
    return None if cost is None else cost_document(session.ledger.get_account(row["account"]), cost)


def describe_job(row: Mapping[str, Any], cost: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return a job as a document of kind ``siloquent/job/1``; ``cost`` comes from the ledger if the queue lacks it."""
    from siloquent.documents.server import build_job_document

    result = None if row["result"] is None else json.loads(row["result"])
    paid = json.loads(row["cost"]) if row["cost"] else cost
    return build_job_document({**row, "spec": json.loads(row["spec"]), "result": result, "cost": paid})
