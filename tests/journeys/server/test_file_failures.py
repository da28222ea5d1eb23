"""A server whose own files are full, read-only or unreadable says which, spends nothing for it, and goes on after."""

from __future__ import annotations

import errno
import json
import os
import resource
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchmarks.doors.jobs import SPECS, job_workspace, small_disk
from benchmarks.trials.served import ask, client_of, running, token
from journeys.clinic import WARDS
from journeys.served import clinic_workspace, serving
from siloquent.api import open_session
from siloquent.session import WorkspaceSession

SPEC = {"table": "visits", "budget": {"epsilon": "1"}, "columns": ["age"]}
LONG = {"task": "synth", "spec": {**SPEC, "columns": ["x" * 60_000]}}


def charges(folder: Path) -> int:
    with open_session(folder) as session:
        return sum(entry.kind == "reserve" for entry in session.ledger.iter_entries())


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path) as place:
        if place is None:
            pytest.skip("mounting a small disk needs root")
        yield place


@contextmanager
def filled(disk: Path, *, but: int = 0) -> Iterator[None]:
    """Fill a disk for as long as the block runs, ``but`` for some bytes."""
    filler = disk / "filler"
    with suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(2**12))
    os.truncate(filler, max(0, filler.stat().st_size - but))
    try:
        yield
    finally:
        filler.unlink(missing_ok=True)


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


QUESTION = "SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 3 REUSE NONE"
ROOMS = (0, 8, 24, 40, 56, 72, 96, 128)
"""What a full disk has left, in KiB."""


@pytest.mark.slow
def test_whatever_room_a_full_disk_has_left_each_charge_has_its_answer_and_nothing_is_torn(disk: Path) -> None:
    """The server's files are of several sizes: with some bytes left, one is written and the next one is not."""
    folder = job_workspace(disk / "w")
    texts = [token(folder, name, role) for name, role in (("ana", "analyst"), ("boss", "owner"), ("eye", "operator"))]
    requests, said = 0, disk.parent / "said"

    def counted(_: httpx.Response) -> None:
        nonlocal requests
        requests += 1

    with (
        said.open("wb") as log,
        running(folder, said=log, ACCESS_LOG=str(disk / "access.log"), SLOT_COUNTS_MS="1", JOBS="1") as server,
        client_of(server, texts[0]) as ana,
        client_of(server, texts[1]) as boss,
        client_of(server, texts[2]) as eye,
    ):
        for client in (ana, boss, eye):
            client.event_hooks = {"response": [counted]}
        file = folder / "schemas" / "visits.toml"
        assert (ask(ana, "first", QUESTION).status_code, eye.get("/readyz").status_code) == (200, 200)
        for number, room in enumerate(ROOMS):
            written = file.read_text().replace("size_hint = 300", f"size_hint = 30{number % 10}")
            with filled(disk, but=1024 * room):
                full = {
                    "answer": ask(ana, f"k{room}", QUESTION),
                    "job": send_job(ana, f"j{room}"),
                    "table": boss.put("/v1/tables/visits", json={"toml": written}),
                    "upload": boss.post("/v1/uploads", content=b"a,b\n" + b"1,2\n" * 50_000),
                }
                ready = eye.get("/readyz")
                assert (ready.status_code, ready.json()["code"]) == (503, "not_ready")
            told = {name: one.status_code for name, one in full.items()}
            assert set(told.values()) <= {200, 201, 202, 429, 507}, told
            assert all(one.json()["spent"] == "nothing" for one in full.values() if one.status_code == 507), full
            answer = ask(ana, f"k{room}", QUESTION).raise_for_status().json()
            assert told["answer"] == 507 or full["answer"].json()["rows"] == answer["rows"]
            while send_job(ana, f"j{room}").status_code == 429:  # too many are unfinished
                time.sleep(0.2)
            assert (file.read_text() == written) or told["table"] == 507
            assert [one.name for one in file.parent.iterdir()] == [file.name]
        for job in ana.get("/v1/jobs").json()["jobs"]:
            done: dict[str, Any] = job
            while done["state"] in ("queued", "running"):
                done = ana.get(f"/v1/jobs/{job['id']}", params={"wait": 25}).json()
            assert done["state"] == "done", done
        assert eye.get("/readyz").status_code == 200
        (lost,) = [one for one in eye.get("/metrics").text.splitlines() if one.startswith("siloquent_access_log_lost")]
        assert boss.post("/v1/ledger/verify").json()["ok"]
    reserved = keys(folder)
    assert (max(reserved.values()), len(reserved)) == (1, 1 + 2 * len(ROOMS))
    lines = [json.loads(line) for line in (disk / "access.log").read_text().splitlines()]
    starts = sum(line["route"] == "page:healthz" for line in lines)
    assert 0 < len(lines) - starts == requests - int(lost.split()[1]) < requests
    assert said.stat().st_size < 5_000, said.read_text()


@pytest.mark.slow
def test_whatever_room_a_full_disk_has_left_each_other_write_is_made_whole_or_not_at_all(disk: Path) -> None:
    """Tokens, logins, shares, deletions, new rows: what was refused is as before, and is done once there is room."""
    folder = job_workspace(disk / "w")
    texts = [token(folder, name, role) for name, role in (("ana", "analyst"), ("boss", "owner"))]
    with (
        running(folder, SLOT_COUNTS_MS="1") as server,
        client_of(server, texts[0]) as ana,
        client_of(server, texts[1]) as boss,
    ):
        rows = b"ward,age,cost\n" + b"A,30,10\n" * 3_000
        own, new = (boss.post("/v1/uploads", content=rows + more).json()["source"] for more in (b"", b"B,1,1\n"))
        written = (folder / "schemas" / "visits.toml").read_text().replace("parquet:visits.parquet", own)
        boss.put("/v1/tables/visits", json={"toml": written}).raise_for_status()
        for room in ROOMS:
            spare = boss.post("/v1/tokens", json={"name": f"old{room}", "role": "analyst"}).json()
            shared, gone = (ask(ana, f"{what}{room}", QUESTION).json()["id"] for what in ("share", "delete"))
            upload = boss.post("/v1/uploads", content=b"a,b\n1,2\n").json()["id"]
            calls: dict[str, tuple[str, str, dict[str, Any]]] = {
                "make": ("POST", "/v1/tokens", {"json": {"name": f"new{room}", "role": "analyst"}}),
                "revoke": ("DELETE", f"/v1/tokens/{spare['id']}", {}),
                "log in": ("POST", "/login", {"data": {"token": texts[0]}}),
                "share": ("POST", f"/v1/releases/{shared}/share", {}),
                "delete": ("DELETE", f"/v1/releases/{gone}", {}),
                "drop": ("DELETE", f"/v1/uploads/{upload}", {}),
                "refresh": ("POST", "/v1/tables/visits/refresh", {"json": {"source": new}}),
            }
            good = {"make": 201, "revoke": 204, "log in": 303, "share": 200, "delete": 200, "drop": 204, "refresh": 200}
            with filled(disk, but=1024 * room):
                found = {name: boss.request(method, path, **what) for name, (method, path, what) in calls.items()}
            for name, one in found.items():
                assert one.status_code in (good[name], 507), (room, name, one.text)
                assert one.status_code != 507 or one.json()["spent"] == "nothing"
            known = [one["name"] for one in boss.get("/v1/tokens").json()["tokens"]]
            assert known.count(f"new{room}") == (found["make"].status_code == 201)
            opens = httpx.get(f"{server.address}/v1/me", headers={"Authorization": f"Bearer {spare['token']}"})
            assert opens.status_code == (401 if found["revoke"].status_code == 204 else 200)
            wanted = ["revoke", "share", "delete", "refresh", *(["drop"] if found["drop"].status_code == 507 else [])]
            for name in wanted:
                method, path, what = calls[name]
                assert boss.request(method, path, **what).status_code == good[name], (room, name)
            assert not [one.name for part in ("uploads", "schemas") for one in (folder / part).glob(".*")]
            assert [one for one in (folder / "uploads").iterdir() if one.name.startswith(upload)] == []
            assert boss.post("/v1/tables/visits/check").json()["tables"][0]["rows"] == 3_001, room
        assert boss.post("/v1/ledger/verify").json()["ok"]


def send_job(client: httpx.Client, key: str) -> httpx.Response:
    return client.post("/v1/jobs", json={"task": "share", "spec": SPECS["share"]}, headers={"Idempotency-Key": key})


def keys(folder: Path) -> Counter[str]:
    with open_session(folder) as session:
        return Counter(str(entry.body["key"]) for entry in session.ledger.iter_entries() if entry.kind == "reserve")


def test_a_declaration_for_which_the_ledger_has_no_room_leaves_the_one_before(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = clinic_workspace(disk / "w")
    file = folder / "schemas" / "visits.toml"
    set_budget, text = WorkspaceSession.set_budget, file.read_text()

    def without_room(session: WorkspaceSession, *arguments: Any) -> Any:
        no_more_room.enter_context(filled(disk))
        set_budget(session, *arguments)
        no_room()

    with serving(folder) as served, served.client("owner") as owner:
        body = {"toml": text.replace('epsilon = "1000"', 'epsilon = "2000"')}
        assert served.ask("ana", WARDS, "k").status_code == 200
        with monkeypatch.context() as patched, ExitStack() as no_more_room:
            patched.setattr(WorkspaceSession, "set_budget", without_room)
            assert owner.put("/v1/tables/visits", json=body).status_code == 507
        assert file.read_text() == text
        assert [one.name for one in file.parent.iterdir()] == [file.name]
        put = owner.put("/v1/tables/visits", json=body)
        assert (put.status_code, file.read_text()) == (200, body["toml"])
