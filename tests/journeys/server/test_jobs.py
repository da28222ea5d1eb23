"""Long work in a process of its own: it shows its state, survives its server, pays once, and can be ended."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from journeys.served import Served, clinic_workspace, serving
from siloquent.server.jobs import runner

SPEC: dict[str, Any] = {
    "table": "visits",
    "features": ["age", "cost"],
    "kernel": {"kind": "p-stable", "order": 2, "bandwidth": 0.3},
    "budget": {"epsilon": "20"},
    "rows": 64,
    "width": 64,
}


LARGE = {"rows": "auto", "width": "auto"}


def start(client: httpx.Client, key: str, **changed: Any) -> httpx.Response:
    body = {"task": "sketch", "spec": {**SPEC, **changed}}
    return client.post("/v1/jobs", json=body, headers={"Idempotency-Key": key})


def ended(client: httpx.Client, job: str) -> dict[str, Any]:
    for _ in range(18):
        found: dict[str, Any] = client.get(f"/v1/jobs/{job}", params={"wait": 10}).json()
        if found["state"] in ("done", "failed", "cancelled"):
            return found
    raise AssertionError(f"the job is still {found['state']}")


@pytest.mark.slow
def test_a_sketch_is_built_as_a_job_and_asked_for_nothing(served: Served) -> None:
    with served.client("ana") as ana, served.client("bo") as bo:
        made = start(ana, "map", **LARGE)
        assert made.status_code == 202
        job = made.headers["location"].rpartition("/")[2]
        found = ended(ana, job)
        assert (found["state"], found["done"], found["steps"]) == ("done", 3, 3), found
        release = found["result"]["release"]
        asked = ana.post(
            f"/v1/releases/{release}/questions", json={"kind": "density", "points": [[50, 400], [200, 990]]}
        ).json()
        assert asked["columns"] == ["age", "cost", "value", "error", "low", "high", "outside"]
        assert asked["rows"][0][2] > asked["rows"][1][2]
        assert [row[-1] for row in asked["rows"]] == [False, True]  # age ends at 120
        assert (bo.get(f"/v1/jobs/{job}").status_code, bo.get(f"/v1/releases/{release}").status_code) == (404, 404)
        assert start(ana, "map", **LARGE).json()["id"] == job
        assert start(ana, "map", features=["age"]).json()["code"] == "key_reused"
        events = ana.get(f"/v1/jobs/{job}/events").text
    assert events.startswith("id: 1\nevent: end\n")


def test_a_job_that_cannot_be_done_says_why_as_a_problem(served: Served) -> None:
    with served.client("ana") as client:
        found = ended(client, start(client, "wrong", features=["nothing"]).json()["id"])
        assert (found["state"], found["result"]["code"]) == ("failed", "unknown_name")
        assert (
            client.post("/v1/jobs", json={"task": "cook", "spec": {}}, headers={"Idempotency-Key": "cook"}).status_code
            == 422
        )


@pytest.mark.slow
def test_a_job_outlives_its_server_and_is_paid_once(tmp_path: Path) -> None:
    folder = clinic_workspace(tmp_path / "w")
    with serving(folder) as first, first.client("ana") as client:
        job = start(client, "long").json()["id"]
        for _ in range(400):  # until its process runs: it ends with its server, wherever it is
            if client.get(f"/v1/jobs/{job}").json()["state"] != "queued":
                break
            time.sleep(0.02)
    with serving(folder) as second, second.client("ana") as client:
        found = ended(client, job)
        assert found["state"] == "done", found
        entries = client.get("/v1/accounts/visits@1/ana/entries").json()["entries"]
    assert [one["kind"] for one in entries].count("reserve") == 1


@pytest.mark.slow
def test_a_cancelled_job_is_ended_and_says_so(tmp_path: Path) -> None:
    with serving(clinic_workspace(tmp_path / "w"), jobs=1) as served, served.client("ana") as client:
        jobs = [start(client, f"k{i}").json()["id"] for i in range(2)]
        assert client.delete(f"/v1/jobs/{jobs[1]}").json()["state"] == "cancelled"
        assert ended(client, jobs[0])["state"] == "done"
        assert client.get(f"/v1/jobs/{jobs[1]}").json()["state"] == "cancelled"


@pytest.mark.parametrize("word", ["plan_file", "references"])
def test_a_job_names_no_file_of_the_server(served: Served, word: str) -> None:
    with served.client("ana") as client:
        found = start(client, f"file {word}", **{word: "/etc/passwd"})
    assert (found.status_code, found.json()["code"]) == (422, "request_invalid")


@pytest.mark.slow
def test_a_synthetic_table_is_made_as_a_job_and_downloaded(served: Served) -> None:
    body = {"task": "synth", "spec": {"table": "visits", "budget": {"epsilon": "20"}, "columns": ["age", "ward"]}}
    with served.client("ana") as client:
        made = client.post("/v1/jobs", json=body, headers={"Idempotency-Key": "synthetic"})
        found = ended(client, made.json()["id"])
        assert found["state"] == "done", found
        assert found["done"] == found["steps"] > 3  # price, each step of its journal, release
        release = client.get(f"/v1/releases/{found['result']['release']}").json()
        rows = next(one["name"] for one in release["files"] if one["name"].startswith("rows"))
        assert len(client.get(f"/v1/releases/{release['id']}/files/{rows}").content) > 1_000


@pytest.mark.parametrize("table", [["visits"], 5, None, "elsewhere-"])
def test_a_job_names_a_table(served: Served, table: object) -> None:
    with served.client("ana") as client:
        found = start(client, f"table {table}", table=table)
    assert found.status_code in (202, 422)
    assert (found.status_code == 202) == isinstance(table, str)


# Whatever ends a job's process, the job is done in the end, and paid for once


def entries_of(client: httpx.Client) -> list[str]:
    return [one["kind"] for one in client.get("/v1/accounts/visits@1/ana/entries").json()["entries"]]


def process_of(served: Served) -> int:
    """The pid of the first job that runs."""
    for _ in range(2_000):
        running = list(served.app.state.house.jobs.runner._running.values())
        if running:
            return int(running[0].process.pid)
        time.sleep(0.02)
    raise AssertionError("no job has begun")


@pytest.mark.slow
def test_a_job_whose_token_is_revoked_before_its_charge_spends_nothing(tmp_path: Path) -> None:
    with serving(clinic_workspace(tmp_path / "w")) as served, served.client("owner") as owner:
        text = served.app.state.house.tokens.create("ana", "analyst")
        with served.client("ana", Authorization=f"Bearer {text}") as client, served.client("ana") as ana:
            job = start(client, "late").json()["id"]
            process = process_of(served)
            while served.app.state.house.jobs.row(job)["account"] == "":  # it has begun, by a token that was good
                time.sleep(0.001)
            os.kill(process, signal.SIGSTOP)
            try:
                assert entries_of(ana) == []
                assert owner.delete(f"/v1/tokens/{text[3:11]}").status_code == 204
            finally:
                os.kill(process, signal.SIGCONT)
            found = ended(ana, job)
            assert (found["state"], found["result"]["code"], found["cost"]) == ("failed", "not_allowed", None)
            assert entries_of(ana) == []
            assert start(ana, "late").json()["id"] == job, "its key starts it again, by a token that is good"
            assert ended(ana, job)["state"] == "done"


def test_a_stream_of_a_job_that_is_forgotten_ends(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    house = served.app.state.house
    person = house.tokens.find_by_text(served.texts["ana"])
    with house.store.open_transaction() as db:
        db.execute(
            "INSERT INTO job (id, name, token, task, spec, key, state, created, changed, holder, held_until) "
            "VALUES ('j-gone', 'ana', ?, 'sketch', ?, 'gone', 'running', 1, 1, 'x', 9999999999)",
            (person.token, json.dumps(SPEC)),
        )
    heard = []
    with served.client("ana") as client, client.stream("GET", "/v1/jobs/j-gone/events") as stream:
        for line in stream.iter_lines():
            if not heard:
                house.store.write("DELETE FROM job WHERE id = 'j-gone'")
            heard.append(line)
    assert heard[:2] == ["id: 1", "event: progress"]
    assert not caplog.records, caplog.text


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM])
def test_a_job_whose_process_is_killed_is_done_all_the_same(tmp_path: Path, sent: signal.Signals) -> None:
    with serving(clinic_workspace(tmp_path / "w")) as served, served.client("ana") as client:
        job = start(client, "killed").json()["id"]
        os.kill(process_of(served), sent)
        assert ended(client, job)["state"] == "done"
        assert entries_of(client).count("reserve") == 1


@pytest.mark.slow
def test_a_job_that_is_killed_each_time_fails_and_its_key_starts_it_again(tmp_path: Path) -> None:
    with serving(clinic_workspace(tmp_path / "w")) as served, served.client("ana") as client:
        job = start(client, "hopeless").json()["id"]
        killed: set[int] = set()
        while served.app.state.house.jobs.row(job)["state"] not in ("failed", "done"):
            for one in list(served.app.state.house.jobs.runner._running.values()):
                if one.process.pid not in killed:
                    killed.add(one.process.pid)
                    one.process.kill()
            time.sleep(0.005)
        found = client.get(f"/v1/jobs/{job}").json()
        assert (found["state"], found["result"]["code"], len(killed)) == ("failed", "job_killed", 3)
        assert start(client, "hopeless").json()["id"] == job
        assert ended(client, job)["state"] == "done"
        assert entries_of(client).count("reserve") == 1


@pytest.mark.slow
def test_a_cancelled_job_runs_when_it_is_sent_again(tmp_path: Path) -> None:
    with serving(clinic_workspace(tmp_path / "w")) as served, served.client("ana") as ana:
        job = start(ana, "again").json()["id"]
        with served.client("owner") as owner:
            assert owner.delete(f"/v1/jobs/{job}").json()["state"] == "cancelled"
        assert start(ana, "again").json()["state"] in ("queued", "running")
        assert ended(ana, job)["state"] == "done"


@pytest.mark.slow
def test_two_servers_over_one_folder_do_a_job_once(tmp_path: Path) -> None:
    folder = clinic_workspace(tmp_path / "w")
    with serving(folder) as first, serving(folder) as second, first.client("ana") as client:
        jobs = [start(client, f"shared {number}").json()["id"] for number in range(3)]
        assert [ended(client, job)["state"] for job in jobs] == ["done"] * 3
        tries = first.app.state.house.store.fetch_all("SELECT tries FROM job")
        assert [row["tries"] for row in tries] == [1, 1, 1]
        assert second.app.state.house.jobs.runner.is_well


@pytest.mark.slow
def test_a_locked_store_delays_jobs_and_is_said(tmp_path: Path) -> None:
    folder = clinic_workspace(tmp_path / "w")
    with serving(folder) as served, served.client("ana") as client, served.client("watcher") as watcher:
        runner = served.app.state.house.jobs.runner
        assert watcher.get("/readyz").status_code == 200
        runner._store._db.execute("PRAGMA busy_timeout = 50")
        job = start(client, "patient").json()["id"]
        with closing(sqlite3.connect(folder / "server.sqlite")) as other:
            other.execute("BEGIN IMMEDIATE")
            while not runner.failed_turns:
                time.sleep(0.02)
            assert client.get(f"/v1/jobs/{job}").status_code == 200, "reading waits for nobody"
            busy = start(client, "busy")
            assert (busy.status_code, busy.json()["code"], "retry-after" in busy.headers) == (503, "store_busy", True)
            runner._good_turn -= 60
            assert watcher.get("/readyz").json()["code"] == "not_ready"
        assert ended(client, job)["state"] == "done"
        assert watcher.get("/readyz").status_code == 200


@pytest.mark.slow
def test_a_person_with_several_long_jobs_lets_another_one_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of hers goes back into the queue, before or after its charge, and is done and paid once all the same."""
    monkeypatch.setattr(runner, "PATIENCE_SECONDS", 2)
    monkeypatch.setattr(runner, "_ENDING_SECONDS", 1.0)
    with (
        serving(clinic_workspace(tmp_path / "w"), jobs=2) as served,
        served.client("ana") as ana,
        served.client("bo") as bo,
        served.client("owner") as owner,
    ):
        work = served.app.state.house.jobs.runner
        own = [start(ana, f"long {number}").json()["id"] for number in range(2)]
        while len(work._running) < 2:
            time.sleep(0.02)
        held = {number: one.process.pid for number, one in work._running.items()}
        for process in held.values():
            os.kill(process, signal.SIGSTOP)  # a job that runs for ever
        other = start(bo, "short").json()["id"]
        assert ended(bo, other)["state"] == "done"
        states = {job: ana.get(f"/v1/jobs/{job}").json()["state"] for job in own}
        assert "running" in states.values(), states
        for number, process in held.items():
            if number in work._running and work._running[number].process.pid == process:
                os.kill(process, signal.SIGCONT)
        assert [ended(ana, job)["state"] for job in own] == ["done"] * 2
        assert {row["tries"] for row in served.app.state.house.store.fetch_all("SELECT tries FROM job")} == {1}
        lines = [one for one in owner.get("/v1/spending").json()["lines"] if one["task"] == "sketch"]
        assert sum(one["charges"] for one in lines) == 3, lines


@pytest.mark.slow
def test_one_persons_jobs_take_all_processes_while_no_other_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "PATIENCE_SECONDS", 0)
    with serving(clinic_workspace(tmp_path / "w"), jobs=2) as served, served.client("ana") as ana:
        own = [start(ana, f"own {number}").json()["id"] for number in range(3)]
        assert [ended(ana, job)["state"] for job in own] == ["done"] * 3
        assert {row["tries"] for row in served.app.state.house.store.fetch_all("SELECT tries FROM job")} == {1}
        assert not any(one.yields for one in served.app.state.house.jobs.runner._running.values())


@pytest.mark.slow
def test_a_job_beyond_its_time_is_ended(tmp_path: Path) -> None:
    with serving(clinic_workspace(tmp_path / "w"), job_seconds=1) as served, served.client("ana") as client:
        body = {"task": "synth", "spec": {"table": "visits", "budget": {"epsilon": "20"}}}
        job = client.post("/v1/jobs", json=body, headers={"Idempotency-Key": "slow"}).json()["id"]
        found = ended(client, job)
        assert (found["state"], found["result"]["code"]) == ("failed", "job_too_long")


@pytest.mark.parametrize("bad", ['"\\ud800"', "NaN", "1e999", "[" * 200 + "]" * 200, '{"a": -Infinity}'])
def test_a_spec_that_json_cannot_hold_is_refused_and_lists_stay_readable(served: Served, bad: str) -> None:
    text = f'{{"task": "sketch", "spec": {{"table": "visits", "x": {bad}}}}}'
    headers = {"Idempotency-Key": "odd", "Content-Type": "application/json"}
    with served.client("ana") as ana, served.client("owner") as owner:
        assert ana.post("/v1/jobs", content=text, headers=headers).status_code in (400, 422)
        assert {one.get("/v1/jobs").status_code for one in (ana, owner)} == {200}


def test_a_misspelt_spec_is_refused_before_it_is_queued(served: Served) -> None:
    with served.client("ana") as client:
        found = start(client, "misspelt", kernels={"kind": "p-stable"})
        assert found.status_code == 422, found.text
        assert "kernels" in found.json()["detail"]


@pytest.mark.slow
def test_a_token_for_some_tables_sees_no_job_on_others(served: Served) -> None:
    text = served.app.state.house.tokens.create("ana", "analyst", tables=("elsewhere",))
    with served.client("ana") as ana, served.client("nobody", Authorization=f"Bearer {text}") as narrow:
        job = start(ana, "narrow").json()["id"]
        assert narrow.get(f"/v1/jobs/{job}").status_code == 404
        assert narrow.delete(f"/v1/jobs/{job}").status_code == 404
        assert narrow.get("/v1/jobs").json()["jobs"] == []
        ended(ana, job)


def test_jobs_are_listed_page_by_page(served: Served) -> None:
    spec, store = json.dumps({"table": "visits"}), served.app.state.house.store
    with store.open_transaction() as db:
        db.executemany(
            "INSERT INTO job (id, name, token, task, spec, key, state, created, changed) "
            "VALUES (?, 'bo', '', 'sketch', ?, ?, 'done', ?, 1)",
            [(f"j-page{number}", spec, f"page {number}", number // 2) for number in range(5)],
        )
    with served.client("bo") as client:
        everything = [one["id"] for one in client.get("/v1/jobs").json()["jobs"]]
        assert everything[-5:] == [f"j-page{number}" for number in (4, 3, 2, 1, 0)]
        pages: list[str] = []
        after: dict[str, str] = {}
        while page := client.get("/v1/jobs", params={"limit": 1, **after}).json()["jobs"]:
            pages.append(page[0]["id"])
            after = {"after": pages[-1]}
        assert pages == everything
        assert client.get("/v1/jobs", params={"state": "queued"}).json()["jobs"] == []
        assert client.get("/v1/jobs", params={"limit": 0}).status_code == 422


def test_an_odd_job_of_an_earlier_version_hides_no_other(served: Served) -> None:
    store = served.app.state.house.store
    with store.open_transaction() as db:
        db.executemany(
            "INSERT INTO job (id, name, token, task, spec, key, state, created, changed) "
            "VALUES (?, 'odd', '', 'sketch', '{}', ?, 'done', 1, 1)",
            [(f"j-odd{number}", f"odd {number}") for number in range(450)],
        )
    text, narrow = (served.app.state.house.tokens.create("odd", "analyst", tables=t) for t in ((), ("visits",)))
    with served.client("nobody", Authorization=f"Bearer {text}") as client:
        assert len(client.get("/v1/jobs").json()["jobs"]) == 200
    with served.client("nobody", Authorization=f"Bearer {narrow}") as client:
        assert client.get("/v1/jobs").json()["jobs"] == []
