"""Jobs that find values or make rows, killed at each point under two servers: each is paid once and has one result."""

from __future__ import annotations

import os
import signal
import sqlite3
import time
import zlib
from collections import Counter
from contextlib import closing, suppress
from itertools import product
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchmarks.trials.served import Running, client_of, running, token
from journeys.served import WIDE, clinic_workspace
from journeys.server.test_discovery_jobs import LISTED, TEXT
from siloquent.api import open_session
from siloquent.server.repeats import build_ledger_key

TOML = WIDE.replace(LISTED, TEXT).replace("[budget]", '[budget]\ndelta_events = "5e-7"')
JOBS: dict[str, tuple[str, dict[str, Any]]] = {
    "values": ("discover", {"table": "visits", "column": "ward"}),
    "bounds": ("discover", {"table": "visits", "column": "cost"}),
    "rows": ("synth", {"table": "visits", "columns": ["age", "cost"]}),
}
POINTS = {
    "begun": "SELECT 1 FROM job WHERE id = :job AND account != ''",
    "reserved": "SELECT 1 FROM ledger.permit WHERE key LIKE '%:' || :key",
    "settled": "SELECT 1 FROM ledger.answer JOIN ledger.permit AS p ON p.seq = permit WHERE p.key LIKE '%:' || :key",
    "made": "SELECT 1 FROM job WHERE id = :job AND done = steps - 1 AND steps > 0",
}


def workers(folder: Path, job: str) -> list[int]:
    """The processes of a job, whichever server started them."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (place / "cmdline").read_bytes().split(b"\0")
            if b"siloquent.server.jobs.worker" in words and {str(folder).encode(), job.encode()} <= set(words):
                found.append(int(place.name))
    return found


def send(client: httpx.Client, key: str, name: str) -> httpx.Response:
    """Send the job of a key: "KIND POINT", with a budget of its own, so that no job finds what another one paid for."""
    task, spec = JOBS[name]
    spec = {**spec, "budget": {"epsilon": f"2.{zlib.crc32(key.encode()):010}"}}
    spec |= {"name": key.replace(" ", "-")} if name == "values" else {}
    return client.post("/v1/jobs", json={"task": task, "spec": spec}, headers={"Idempotency-Key": key})


def wait_until(folder: Path, job: str, key: str, point: str) -> bool:
    """Wait for a point of the job; return whether the job had ended before."""
    with closing(sqlite3.connect(folder / "server.sqlite", timeout=60)) as db:
        db.execute("ATTACH ? AS ledger", (str(folder / "ledger.sqlite"),))
        named = {"job": job, "key": build_ledger_key("ana", key)}
        while not db.execute(POINTS[point], named).fetchone():
            if db.execute("SELECT 1 FROM job WHERE id = :job AND state IN ('done', 'failed')", named).fetchone():
                return True
            time.sleep(0.001)
    return False


def ended(server: Running, text: str, job: str) -> dict[str, Any]:
    with client_of(server, text) as client:
        for _ in range(20):
            found: dict[str, Any] = client.get(f"/v1/jobs/{job}", params={"wait": 25}).json()
            if found["state"] not in ("queued", "running"):
                return found
    raise AssertionError(f"the job is still {found['state']}")


def charges(folder: Path) -> Counter[str]:
    with open_session(folder) as session:
        assert session.ledger.verify(None).ok
        return Counter(str(entry.body["key"]) for entry in session.ledger.iter_entries() if entry.kind == "reserve")


def require_one_result(folder: Path, servers: tuple[Running, ...], text: str, sent: dict[str, str]) -> None:
    """Require of each job (its id by its key) one charge and one result, the same at each server and under its key."""
    for key, job in sent.items():
        found = ended(servers[0], text, job)
        assert (found["state"], found["cost"] is not None) == ("done", True), found
        for server in servers:
            with client_of(server, text) as client:
                assert send(client, key, key.partition(" ")[0]).json() == found
        if "release" in found["result"]:
            with client_of(servers[-1], text) as client:
                assert client.get(f"/v1/releases/{found['result']['release']}").status_code == 200
    assert charges(folder) == Counter(f"visits@1/ana:{build_ledger_key('ana', key)}" for key in sent)


@pytest.mark.slow
def test_a_job_killed_at_any_point_under_two_servers_is_paid_once(tmp_path: Path) -> None:
    folder, sent, missed = clinic_workspace(tmp_path / "w", toml=TOML), dict[str, str](), []
    text = token(folder, "ana")
    with running(folder, prepared=True, JOBS="1") as one, running(folder, prepared=True, JOBS="1") as other:
        servers = (one, other)
        for number, (name, point) in enumerate(product(JOBS, POINTS)):
            key = f"{name} {point}"
            with client_of(servers[number % 2], text) as client:
                sent[key] = send(client, key, name).json()["id"]
            missed += [key] * wait_until(folder, sent[key], key, point)
            for process in workers(folder, sent[key]):
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            ended(servers[(number + 1) % 2], text, sent[key])
        require_one_result(folder, servers, text, sent)
    assert len(missed) <= len(sent) // 4, missed


@pytest.mark.slow
def test_jobs_of_a_server_that_is_killed_are_taken_over_and_paid_once(tmp_path: Path) -> None:
    folder, sent = clinic_workspace(tmp_path / "w", toml=TOML), dict[str, str]()
    text = token(folder, "ana")
    with running(folder, prepared=True, JOBS="1") as survivor, running(folder, prepared=True, JOBS="2") as victim:
        for point in ("begun", "reserved", "settled"):
            key = f"rows {point}"
            with client_of(victim, text) as client:
                sent[key] = send(client, key, "rows").json()["id"]
            wait_until(folder, sent[key], key, point)
            victim.kill()
            victim.start()
        require_one_result(folder, (survivor, victim), text, sent)
