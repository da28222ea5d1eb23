"""A server whose own files are full, read-only or unreadable says which, spends nothing for it, and goes on after."""

from __future__ import annotations

import errno
import os
import resource
import time
from pathlib import Path

import httpx
import pytest

from benchmarks.trials.served import client_of, running, token
from journeys.clinic import WARDS
from journeys.served import clinic_workspace, serving
from siloquent.api import open_session

SPEC = {"table": "visits", "budget": {"epsilon": "1"}, "columns": ["age"]}
LONG = {"task": "synth", "spec": {**SPEC, "columns": ["x" * 60_000]}}


def charges(folder: Path) -> int:
    with open_session(folder) as session:
        return sum(entry.kind == "reserve" for entry in session.ledger.iter_entries())


def require_refused(found: httpx.Response, status: int, code: str) -> None:
    told = found.json()
    assert (found.status_code, told.get("code"), told.get("spent")) == (status, code, "nothing"), told
    assert "lock" not in told["detail"] + told["fix"]
    assert int(found.headers["retry-after"]) > 60, "no client tries again before somebody has repaired it"


def test_a_full_disk_is_called_full_and_answers_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = clinic_workspace(tmp_path / "w")
    keyed = {"Idempotency-Key": "k"}
    with serving(folder) as served, served.client("ana", **keyed) as ana, served.client("owner") as owner:
        store = served.app.state.house.store
        store._db.execute("PRAGMA max_page_count = 1")  # as many as there are
        require_refused(ana.post("/v1/jobs", json=LONG), 507, "disk_full")
        answer = ana.post("/v1/answers", json={"sql": WARDS})
        assert (answer.status_code, charges(folder)) == (200, 1), "what was charged is given, kept by the store or not"
        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", no_room)
            require_refused(owner.post("/v1/uploads", content=b"a,b\n1,2\n"), 507, "disk_full")
        assert list((folder / "uploads").iterdir()) == []
        store._db.execute("PRAGMA max_page_count = 1000000")
        assert ana.post("/v1/jobs", json=LONG).status_code == 202
        assert owner.post("/v1/uploads", content=b"a,b\n1,2\n").status_code == 201
        again = ana.post("/v1/answers", json={"sql": WARDS})
        assert (again.json()["rows"], charges(folder)) == (answer.json()["rows"], 1), "its key gives it for nothing"


def no_room(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_store_that_is_read_only_is_called_so_and_heals(tmp_path: Path) -> None:
    folder = clinic_workspace(tmp_path / "w")
    keyed = {"Idempotency-Key": "k"}
    with serving(folder) as served, served.client("ana", **keyed) as ana, served.client("owner") as owner:
        house = served.app.state.house
        house.store._db.execute("PRAGMA query_only = ON")
        require_refused(ana.post("/v1/jobs", json=LONG), 503, "store_readonly")
        require_refused(owner.post("/v1/tokens", json={"name": "cy", "role": "analyst"}), 503, "store_readonly")
        assert ana.post("/v1/answers", json={"sql": WARDS}).status_code == 200
        for worker in (house.jobs.runner, house.keeper):
            ana.get("/v1/denials")  # a refusal to be written
            while worker.failure is None:
                time.sleep(0.02)
            assert worker.failure.code == "store_readonly"
        house.jobs.runner._good_turn -= 60
        with served.client("watcher") as watcher:
            assert "may not write its own files" in watcher.get("/readyz").json()["detail"]
            house.store._db.execute("PRAGMA query_only = OFF")
            while watcher.get("/readyz").status_code != 200:
                time.sleep(0.02)
        assert owner.post("/v1/tokens", json={"name": "cy", "role": "analyst"}).status_code == 201
        assert house.jobs.runner.failure is None


@pytest.mark.slow
def test_a_process_that_may_not_write_loses_and_spends_nothing(tmp_path: Path) -> None:
    """The kernel refuses its writes, as a broken disk does: the ledger's and the store's."""
    folder = clinic_workspace(tmp_path / "w")
    texts = {"ana": token(folder, "ana"), "owner": token(folder, "owner", "owner")}
    with running(folder) as server, client_of(server, texts["ana"]) as ana, client_of(server, texts["owner"]) as owner:
        assert server.process is not None
        question = {"json": {"sql": f"{WARDS} REUSE NONE"}}
        # Also so that the planners' processes are there: they would keep the limit for good.
        assert ana.post("/v1/answers", **question, headers={"Idempotency-Key": "first"}).status_code == 200
        before = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (10, -1))
        refused = {
            "answer": ana.post("/v1/answers", **question, headers={"Idempotency-Key": "k"}),
            "job": ana.post("/v1/jobs", json={"task": "synth", "spec": SPEC}, headers={"Idempotency-Key": "j"}),
            "token": owner.post("/v1/tokens", json={"name": "cy", "role": "analyst"}),
            "upload": owner.post("/v1/uploads", content=b"a,b\n" + b"1,2\n" * 10_000),
        }
        told = {name: (one.status_code, one.json()["code"]) for name, one in refused.items()}
        unreadable = (503, "store_unreadable")
        assert told == {"answer": (503, "ledger"), "job": unreadable, "token": unreadable, "upload": unreadable}
        assert ana.get("/v1/me").status_code == 200
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, before)
        assert ana.post("/v1/answers", **question, headers={"Idempotency-Key": "k"}).status_code == 200
        assert owner.post("/v1/tokens", json={"name": "cy", "role": "analyst"}).status_code == 201
        assert owner.post("/v1/ledger/verify").json()["ok"]
    assert charges(folder) == 2
