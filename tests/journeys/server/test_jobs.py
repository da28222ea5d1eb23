"""Long work in a process of its own: it shows its state, survives its server, pays once, and can be ended."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from journeys.served import Served, clinic_workspace, serving

SPEC: dict[str, Any] = {
    "table": "visits",
    "features": ["age", "cost"],
    "kernel": {"kind": "p-stable", "order": 2, "bandwidth": 0.3},
    "budget": {"epsilon": "20"},
}


def start(client: httpx.Client, key: str, **changed: Any) -> httpx.Response:
    body = {"task": "sketch", "spec": {**SPEC, **changed}}
    return client.post("/v1/jobs", json=body, headers={"Idempotency-Key": key})


def ended(client: httpx.Client, job: str) -> dict[str, Any]:
    for _ in range(3_600):
        found: dict[str, Any] = client.get(f"/v1/jobs/{job}").json()
        if found["state"] in ("done", "failed", "cancelled"):
            return found
        time.sleep(0.05)
    raise AssertionError(f"the job is still {found['state']}")


def test_a_sketch_is_built_as_a_job_and_asked_for_nothing(served: Served) -> None:
    with served.client("ana") as ana, served.client("bo") as bo:
        made = start(ana, "map")
        assert made.status_code == 202
        job = made.headers["location"].rpartition("/")[2]
        found = ended(ana, job)
        assert (found["state"], found["done"], found["steps"]) == ("done", 3, 3), found
        release = found["result"]["release"]
        asked = ana.post(
            f"/v1/releases/{release}/questions", json={"kind": "density", "points": [[50, 400], [110, 990]]}
        ).json()
        assert asked["rows"][0][0] > asked["rows"][1][0]
        assert (bo.get(f"/v1/jobs/{job}").status_code, bo.get(f"/v1/releases/{release}").status_code) == (404, 404)
        assert start(ana, "map").json()["id"] == job
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
