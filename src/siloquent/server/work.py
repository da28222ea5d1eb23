"""What a job's process does: one verb of one task, and a word about how it ended."""

from __future__ import annotations

import importlib
import json
import os
import resource
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from siloquent.documents.problems import keep_details, problem_of
from siloquent.errors import NotAllowed, SiloquentError
from siloquent.server.store import ADD_RELEASE, Store
from siloquent.server.tokens import Tokens

if TYPE_CHECKING:
    from siloquent.door import Session

Tell = Callable[[int, int], None]
"""Is told how many steps are done, of how many: both follow from the plan, never from rows."""
Work = Callable[["Session", dict[str, Any], str, str | None, Tell], dict[str, Any]]
PRICED, MADE, WRITTEN = 1, 2, 3


def _in_three(verbs: Any, asked: Any, make: Callable[..., Any], tell: Tell, **paid: str | None) -> dict[str, Any]:
    """A release of a task whose verbs are ``verbs``: priced, made by ``make``, written."""
    verbs.explain(asked)
    tell(PRICED, WRITTEN)
    made = make(asked, **paid)
    tell(MADE, WRITTEN)
    return {"release": verbs.save(made).name}


def _sketch(session: Session, spec: dict[str, Any], key: str, max_cost: str | None, tell: Tell) -> dict[str, Any]:
    from siloquent.sketch import spec_from_plain

    verbs = session.sketch
    return _in_three(verbs, spec_from_plain(spec), verbs.build, tell, key=key, max_cost=max_cost)


def _synth(session: Session, spec: dict[str, Any], key: str, max_cost: str | None, tell: Tell) -> dict[str, Any]:
    from siloquent.synth import spec_from_plain

    asked = spec_from_plain(spec)
    steps = session.synth.explain(asked).steps + WRITTEN
    tell(PRICED, steps)

    def finished(step: int) -> None:
        tell(PRICED + step, steps)

    made = session.synth.synthesize(asked, key=key, max_cost=max_cost, progress=finished)
    tell(steps - 1, steps)
    return {"release": session.synth.save(made).name}


def _search(session: Session, spec: dict[str, Any], key: str, max_cost: str | None, tell: Tell) -> dict[str, Any]:
    from siloquent.search import spec_from_plain

    verbs = session.search
    return _in_three(verbs, spec_from_plain(spec), verbs.offer, tell, key=key, max_cost=max_cost)


def _find(session: Session, spec: dict[str, Any], key: str, max_cost: str | None, tell: Tell) -> dict[str, Any]:
    from siloquent.documents.offers import found_document
    from siloquent.search import request_from_plain
    from siloquent.server.routes.silos import CATALOGUE

    asked, catalogue = request_from_plain(spec), session.workspace.folder / CATALOGUE
    tell(1, 2)
    return {"found": found_document(session.search.find(asked, catalogue, key=key, max_cost=max_cost), None)}


def _share(session: Session, spec: dict[str, Any], key: str, max_cost: str | None, tell: Tell) -> dict[str, Any]:
    from siloquent.share import spec_from_plain

    verbs = session.share
    return _in_three(verbs, spec_from_plain(spec), verbs.release, tell, key=key, max_cost=max_cost)


TASKS: Mapping[str, Work] = {"sketch": _sketch, "synth": _synth, "search": _search, "find": _find, "share": _share}


def read_spec(task: str, spec: Mapping[str, Any]) -> None:
    """Read ``spec`` as ``task`` would, and forget it.

    Raises:
        SiloquentError: it cannot be read.
    """
    if task == "find":
        from siloquent.search import request_from_plain

        request_from_plain(dict(spec))
        return
    module = importlib.import_module(f"siloquent.{task}")
    module.spec_from_plain(dict(spec))


FILES = ("plan_file", "references")
"""Words of specs that name files of this machine: whoever comes over HTTP names none."""


def main(folder: Path, number: str, most_bytes: int, holder: str) -> int:
    """Do the job ``number`` of the server in ``folder`` while it is ``holder``'s; return 1 to leave it in the queue."""
    try:
        return _do(folder, number, most_bytes, holder)
    except sqlite3.OperationalError as failed:  # the store is locked or full: no word about the job could be kept
        sys.stderr.write(f"job {number} goes back into the queue: {failed}\n")
        return 1


def _do(folder: Path, number: str, most_bytes: int, holder: str) -> int:
    from siloquent.door import open_session
    from siloquent.server.jobs import cost_of_job, ledger_key_of

    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    resource.setrlimit(resource.RLIMIT_AS, (most_bytes, most_bytes))
    store = Store(folder / "server.sqlite")
    job = store.one("SELECT * FROM job WHERE id = ?", number)
    assert job is not None, "the queue names a job that is not there"

    def tell(done: int, steps: int) -> None:
        held = store.write(f"UPDATE job SET done = ?, steps = ? {_HELD}", done, steps, number, holder)
        if not held:
            raise SystemExit(1)  # cancelled, or another server's by now

    try:
        if not Tokens(store).is_open(job["token"]):
            raise NotAllowed("The token that asked for this was revoked, or is too old.")
        with open_session(folder, analyst=job["name"]) as session:
            key, spec = ledger_key_of(job["name"], job["key"]), json.loads(job["spec"])
            with suppress(SiloquentError):  # the task itself says what is wrong with the table
                account = session.account(str(spec["table"])).name
                store.write(f"UPDATE job SET account = ?, cost = NULL {_HELD}", account, number, holder)
            result, cost = TASKS[job["task"]](session, spec, key, job["max_cost"], tell), None
            with suppress(SiloquentError):  # then whoever looks reads it in the ledger
                row = store.one("SELECT name, key, account FROM job WHERE id = ?", number)
                cost = row and cost_of_job(session, row)
        state = "done"
        store.write(f"UPDATE job SET done = steps, cost = ? {_HELD}", cost and json.dumps(cost), number, holder)
        if "release" in result:
            store.write(ADD_RELEASE, result["release"], job["name"], int(time.time()))
    except sqlite3.OperationalError:
        raise
    except Exception as failed:  # allowed: whatever it is, the queue hears of it; our own bugs keep their details
        problem = problem_of(failed)
        if problem.code == "internal":
            keep_details(folder, problem, failed)
        state, result = "failed", problem.to_json()
    store.write(
        f"UPDATE job SET state = ?, result = ?, changed = ? {_HELD}",
        *(state, json.dumps(result), int(time.time()), number, holder),
    )
    store.close()
    return 0


_HELD = "WHERE id = ? AND holder = ? AND state = 'running'"


def _end_with(parent: int) -> None:
    """End this process once the server that started it is gone: another one takes the job up."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]))
