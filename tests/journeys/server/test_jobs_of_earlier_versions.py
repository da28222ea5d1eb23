"""Work that an earlier version's server was paid for, or had only queued, is finished after an upgrade, and paid once.

``tests/vectors/jobs-ae38051.tar.xz`` holds a workspace as revision ae38051 (siloquent 0.1.0, format 4 of the server's
store) left it over 400 invented rows: its processes ended at each point of a job of each task, and of questions.
"""

from __future__ import annotations

import lzma
import sqlite3
import subprocess
import sys
import tarfile
from collections import Counter
from contextlib import closing
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchmarks.trials.served import ask, client_of, running, token
from siloquent.schema.workspace import read_workspace
from siloquent.server.store import STEPS
from siloquent.session import open_workspace_ledger

KEPT = Path(__file__).parents[2] / "vectors" / "jobs-ae38051.tar.xz"
QUESTIONS = {
    "count": "SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 10",
    "sum": "SELECT SUM(age) FROM visits WHERE ward = 'A' ERROR 2000",
    "average": "SELECT ward, AVG(age) FROM visits GROUP BY ward ERROR 20",
    "percent": "SELECT COUNT(*) FROM visits WHERE age > 40 ERROR 10 PERCENT",
    "quantile": "SELECT QUANTILE(age, 0.5) FROM visits ERROR 30 ROWS",
}
"""Each was charged under the keys "NAME reserved", before it was measured, and "NAME settled", after that."""


def restore(folder: Path) -> str:
    """Restore the workspace as ``folder``; return the text of its analyst's token."""
    with tarfile.open(fileobj=BytesIO(lzma.decompress(KEPT.read_bytes()))) as kept:
        kept.extractall(folder, filter="data")
    for script in folder.glob("*.sql"):
        with closing(sqlite3.connect(script.with_suffix(".sqlite"))) as db:
            db.executescript(script.read_text())
        script.unlink()
    return (folder / "token").read_text()


def take_back(store: Path, version: int, *, keep: str) -> None:
    """Make the store one of format ``version``, and keep the jobs for which the condition ``keep`` holds."""
    newer = store.with_name("newer")
    store.rename(newer)
    with closing(sqlite3.connect(store)) as db:
        db.executescript(";".join(STEPS[:version]) + f"; PRAGMA user_version = {version}")
        db.execute("ATTACH ? AS newer", (str(newer),))
        for (table,) in db.execute("SELECT name FROM main.sqlite_schema WHERE type = 'table'").fetchall():
            columns = ", ".join(row[1] for row in db.execute(f"PRAGMA main.table_info({table})"))
            db.execute(f"INSERT INTO main.{table} ({columns}) SELECT {columns} FROM newer.{table}")
        db.execute(f"DELETE FROM job WHERE NOT ({keep})")
        db.commit()
    newer.unlink()


def list_keys(folder: Path) -> list[str]:
    """The key of each reservation in the ledger, whose chain is verified."""
    with closing(open_workspace_ledger(read_workspace(folder))) as ledger:
        assert ledger.verify(None).ok
        return [str(entry.body["key"]) for entry in ledger.iter_entries() if entry.kind == "reserve"]


def siloquent(folder: Path, word: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "siloquent", "--workspace", str(folder), "--quiet", word]
    return subprocess.run(command, capture_output=True, text=True)


def upgrade(folder: Path) -> None:
    done = siloquent(folder, "migrate")
    assert done.returncode == 0, done


def wait_for(client: httpx.Client, job: str) -> dict[str, Any]:
    for _ in range(40):
        found: dict[str, Any] = client.get(f"/v1/jobs/{job}", params={"wait": 25}).json()
        if found["state"] not in ("queued", "running"):
            return found
    raise AssertionError(f"the job is still {found['state']}")


def require_finished(folder: Path, text: str) -> int:
    """Finish all jobs at today's server, and require of each one charge and one result; return how many there are."""
    before, auditor = Counter(list_keys(folder)), token(folder, "eve", "auditor")
    with (
        running(folder, prepared=True, JOBS="2") as server,
        client_of(server, text) as ana,
        client_of(server, auditor) as eve,
    ):
        jobs = [wait_for(ana, job["id"]) for job in ana.get("/v1/jobs").json()["jobs"]]
        for job in jobs:
            assert (job["state"], job["cost"] is not None) == ("done", True), job
            key = {"Idempotency-Key": job["id"].removeprefix("j-").replace("-", " ")}
            again = ana.post("/v1/jobs", json={"task": job["task"], "spec": job["spec"]}, headers=key)
            assert (again.status_code, again.json()) == (202, job), "its key gives what is there"
            if job["task"] == "find":
                assert job["result"]["found"]["ranked"]
                continue
            verdict = eve.post(f"/v1/releases/{job['result']['release']}/verify").json()
            assert verdict["outcome"] in ("verified", "other_rules"), (job, verdict)
    after = Counter(list_keys(folder))
    unpaid = sum(job["id"].endswith(("queued", "begun")) for job in jobs)
    assert (set(after.values()), before - after) == ({1}, Counter())
    assert len(after) - len(before) == unpaid, "what was reserved or settled before is not charged again"
    return len(jobs)


@pytest.mark.slow
def test_jobs_at_every_point_are_finished_after_an_upgrade_and_charged_once(tmp_path: Path) -> None:
    text = restore(tmp_path / "clinic")
    upgrade(tmp_path / "clinic")
    assert require_finished(tmp_path / "clinic", text) == 24


@pytest.mark.slow
@pytest.mark.parametrize("version", range(1, len(STEPS) - 1))
def test_jobs_in_the_stores_of_all_formats_are_finished(tmp_path: Path, version: int) -> None:
    text = restore(tmp_path / "clinic")
    kept = "id IN ('j-share-queued', 'j-share-reserved')"
    take_back(tmp_path / "clinic" / "server.sqlite", version, keep=kept)
    refused = siloquent(tmp_path / "clinic", "serve")
    assert (refused.returncode != 0, "migrate" in refused.stderr) == (True, True), refused
    upgrade(tmp_path / "clinic")
    assert require_finished(tmp_path / "clinic", text) == 2


@pytest.mark.slow
def test_a_job_whose_token_ended_before_the_upgrade_is_resumed_by_its_key(tmp_path: Path) -> None:
    folder = tmp_path / "clinic"
    restore(folder)
    take_back(folder / "server.sqlite", len(STEPS) - 1, keep="id = 'j-sketch-reserved'")
    upgrade(folder)
    with closing(sqlite3.connect(folder / "server.sqlite")) as db:
        db.execute("UPDATE token SET revoked = 1")
        db.commit()
    before = list_keys(folder)
    with running(folder, prepared=True) as server, client_of(server, token(folder, "ana")) as ana:
        found = wait_for(ana, "j-sketch-reserved")
        assert (found["state"], found["result"]["code"]) == ("failed", "not_allowed")
        body = {"task": found["task"], "spec": found["spec"]}
        again = ana.post("/v1/jobs", json=body, headers={"Idempotency-Key": "sketch reserved"}).json()
        assert (again["id"], again["state"] in ("queued", "running")) == (found["id"], True)
        assert wait_for(ana, found["id"])["state"] == "done"
    assert list_keys(folder) == before


@pytest.mark.slow
def test_answers_that_were_charged_before_the_upgrade_are_given(tmp_path: Path) -> None:
    folder = tmp_path / "clinic"
    text = restore(folder)
    take_back(folder / "server.sqlite", len(STEPS) - 1, keep="0")
    upgrade(folder)
    before = list_keys(folder)
    with running(folder, prepared=True) as server, client_of(server, text) as ana:
        for point in ("reserved", "settled"):
            first, again = (
                [ask(ana, f"{name} {point}", sql).raise_for_status().json()["rows"] for name, sql in QUESTIONS.items()]
                for _ in range(2)
            )
            assert first == again
    added = list_keys(folder)[len(before) :]
    assert all("+2:" in key for key in added), "only second steps, which had not been charged, are charged"
