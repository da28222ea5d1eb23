"""Jobs of every kind whose processes, server, store and disk fail again and again: each is done once and paid once."""

from __future__ import annotations

import math
import os
import random
import resource
import signal
import sqlite3
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.core.ledger import folder_on_disk
from benchmarks.row import Options, Row
from benchmarks.trials.served import Running, client_of, running, token
from siloquent.schema.workspace import read_workspace
from siloquent.server.repeats import build_ledger_key
from siloquent.session import create_workspace, open_workspace_ledger

TOML = """\
format = 1
attribute = [
  { name = "ward", type = "category", values = ["A", "B", "C"], null = "drop" },
  { name = "age", type = "integer", lo = 0, hi = 99, outside = "clamp", null = "drop", bins = { width = 20 } },
  { name = "cost", type = "real", lo = 0, hi = 500, grid = 0.5, outside = "clamp", null = "drop" },
]
[table]
name = "visits"
source = "parquet:visits.parquet"
adjacency = "add-remove"
size_hint = 3000
unit = { kind = "row" }
[budget]
accountant = "zcdp"
epsilon = "100000"
delta = "1e-6"
"""
_BUDGET = {"table": "visits", "budget": {"epsilon": "5"}}
_KERNEL = {"kind": "p-stable", "order": 2, "bandwidth": 0.3}
_OFFER = {"features": ["cost"], "keys": ["ward"]}
SPECS: dict[str, dict[str, Any]] = {
    "sketch": {**_BUDGET, "features": ["age", "cost"], "kernel": _KERNEL, "rows": 64, "width": 64},
    "synth": {**_BUDGET, "columns": ["age", "ward"]},
    "search": {**_BUDGET, **_OFFER},
    "share": {**_BUDGET, "label": "ward", "features": ["age", "cost"]},
    "find": {**_BUDGET, **_OFFER, "target": "age", "scoring": "platform"},
    "discover": {"table": "visits", "column": "cost"},
}
OPEN_JOBS, TRIES, SEEN_SECONDS, LAST_SECONDS = 3, 12, 10.0, 900.0
MEMORY = 400 * 2**20
"""The address space that is left to a job for want of memory: less than its libraries need."""


@dataclass(slots=True)
class Trial:
    """A server under failures, and the jobs that were sent to it by their keys."""

    server: Running
    token: str
    disk: Path
    jobs: dict[str, str] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)
    again: int = 0
    hit: int = 0
    hit_charged: int = 0

    def send(self, key: str, task: str) -> None:
        """Send a job until it is taken."""
        self.kinds[key] = task
        spec = SPECS[task]
        if task == "discover":  # the same discovery again is free, so each has a budget of its own
            spec = {**spec, "budget": {"epsilon": f"5.{len(self.kinds):04}"}}
        while key not in self.jobs:
            with suppress(httpx.HTTPError), client_of(self.server, self.token) as client:
                body = {"task": task, "spec": spec}
                found = client.post("/v1/jobs", json=body, headers={"Idempotency-Key": key})
                if found.status_code == 202:
                    self.jobs[key] = found.json()["id"]
                    return
            time.sleep(0.2)

    def states(self, *, anew: bool = False) -> Counter[str]:
        """How many jobs are in which state; those that failed for want of tries are sent again under their keys.

        Args:
            anew: Whether to ask for those, too, that were done before.
        """
        if anew:
            self.done.clear()
        found: Counter[str] = Counter(done=len(self.done))
        with client_of(self.server, self.token) as client:
            for key, job in self.jobs.items():
                if key in self.done:
                    continue
                document = client.get(f"/v1/jobs/{job}").json()
                if document.get("state") == "failed" and self.again < TRIES * len(self.jobs):
                    self.again += 1
                    body = {"task": document["task"], "spec": document["spec"]}
                    document = client.post("/v1/jobs", json=body, headers={"Idempotency-Key": key}).json()
                found[document.get("state", "unknown")] += 1
                if document.get("state") == "done":
                    self.done.add(key)
        return found

    def open_jobs(self) -> int:
        """How many are not done."""
        with suppress(httpx.HTTPError):
            return len(self.jobs) - self.states()["done"]
        return len(self.jobs)

    def await_job(self, worked: float) -> list[str]:
        """Wait until a job's process has worked for ``worked`` seconds of a processor, or ended.

        Returns:
            The keys of the jobs that run then; none if none does.
        """
        until, begun = time.monotonic() + SEEN_SECONDS, list[int]()
        while not begun and time.monotonic() < until:
            begun = self.processes()
            time.sleep(0.02)
        while begun and (one := worked_by(begun[0])) is not None and one < worked:
            time.sleep(0.02)
        if not self.processes():
            return []
        with closing(sqlite3.connect(self.server.folder / "server.sqlite", timeout=60)) as store:
            return [key for (key,) in store.execute("SELECT key FROM job WHERE state = 'running'")]

    def processes(self) -> list[int]:
        """The processes of jobs in this folder, whoever started them."""
        found = []
        for place in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                words = (place / "cmdline").read_bytes().split(b"\0")
                if b"siloquent.server.jobs.worker" in words and str(self.server.folder).encode() in words:
                    found.append(int(place.name))
        return found


def rows(options: Options) -> Iterator[Row]:
    """The rows of this module."""
    if options.wants("job-kills"):
        yield from job_kills(9 if options.quick else 300)


def _end(trial: Trial, server: signal.Signals | None, jobs: signal.Signals | None) -> None:
    for process in trial.processes() if jobs is not None else ():
        with suppress(ProcessLookupError):
            os.kill(process, jobs or 0)
    if server is not None and trial.server.process is not None:
        os.kill(trial.server.process.pid, server)
        trial.server.process.wait()
        trial.server.start()


def _starve(trial: Trial) -> None:
    for process in trial.processes():
        with suppress(OSError):
            resource.prlimit(process, resource.RLIMIT_AS, (MEMORY, MEMORY))


def _lock(trial: Trial) -> None:
    with closing(sqlite3.connect(trial.server.folder / "server.sqlite", timeout=60)) as other:
        other.execute("BEGIN IMMEDIATE")
        time.sleep(7)
        other.rollback()


def _fill(trial: Trial) -> None:
    filler = trial.disk / "filler"
    with suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(2**16))
    time.sleep(5)
    filler.unlink()


FAILURES: dict[str, Callable[[Trial], None]] = {
    "job killed": lambda trial: _end(trial, None, signal.SIGKILL),
    "job told to end": lambda trial: _end(trial, None, signal.SIGTERM),
    "group told to end": lambda trial: _end(trial, signal.SIGTERM, signal.SIGTERM),
    "server killed": lambda trial: _end(trial, signal.SIGKILL, None),
    "power cut": lambda trial: _end(trial, signal.SIGKILL, signal.SIGKILL),
    "restart": lambda trial: _end(trial, signal.SIGTERM, None),
    "no memory": _starve,
    "store locked": _lock,
    "disk full": _fill,
}


@contextmanager
def small_disk(folder: Path) -> Iterator[Path | None]:
    """A file system of 192 MB in memory, which can be filled; None where this user cannot mount one."""
    place = folder / "disk"
    place.mkdir()
    if os.getuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=192m", "tmpfs", str(place)]).returncode:
        yield None
        return
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def job_workspace(folder: Path) -> Path:
    """A workspace with 3,000 generated rows and a budget for hundreds of jobs."""
    made, chance = create_workspace(folder), np.random.default_rng(4)
    rows = {
        "ward": pa.array(chance.choice(np.array(["A", "B", "C"], dtype=object), 3_000)),
        "age": pa.array(chance.integers(0, 99, 3_000)),
        "cost": pa.array(chance.integers(0, 1_000, 3_000) / 2),
    }
    pq.write_table(pa.table(rows), folder / "visits.parquet")
    (made.schemas / "visits.toml").write_text(TOML)
    return folder


def publish_offer(folder: Path) -> None:
    """Make the offer of ``SPECS`` and publish it in the workspace's catalogue."""
    from siloquent.api import open_session
    from siloquent.search import parse_spec

    with open_session(folder) as session:
        offer = session.search.offer(parse_spec(SPECS["search"]), key="published")
        session.search.publish(offer, folder / "catalogue")


def job_kills(kills: int, seconds: float = math.inf) -> Iterator[Row]:
    """Jobs that are lost, stuck or charged twice.

    Args:
        seconds: When to fail no more, for a machine that does other work, too.
    """
    chance, wrong = random.Random(17), Counter[str]()
    with folder_on_disk() as outer, small_disk(outer) as disk:
        failures = [name for name in FAILURES if name != "disk full" or disk is not None]
        folder = job_workspace((disk or outer) / "w")
        publish_offer(folder)
        before = _reserved(folder)
        text = token(folder, "ana")
        told: Counter[str] = Counter()
        end = time.monotonic() + seconds
        with running(folder, prepared=True, SLOT_COUNTS_MS="1", JOBS="2") as server:
            trial = Trial(server, text, disk or outer)
            life = _measure_one(trial)  # a failure may come at any time of a job's life, on a busy machine, too
            for number in takewhile(lambda _: time.monotonic() < end, range(kills)):
                running_keys, until = list[str](), time.monotonic() + LAST_SECONDS
                while not running_keys:  # a failure that hits no job says nothing
                    assert time.monotonic() < until, "no job runs any more"
                    while trial.open_jobs() < OPEN_JOBS:
                        trial.send(f"job-{len(trial.jobs)}", list(SPECS)[len(trial.jobs) % len(SPECS)])
                    running_keys = trial.await_job(chance.uniform(0, 1.1) * life)
                name = failures[number % len(failures)]
                FAILURES[name](trial)
                told[name] += 1
                paid = {key.rpartition(":")[2] for key in _reserved(folder)}
                trial.hit += len(running_keys)
                trial.hit_charged += sum(build_ledger_key("ana", key) in paid for key in running_keys)
            until = time.monotonic() + LAST_SECONDS
            while trial.open_jobs() and time.monotonic() < until:
                time.sleep(1)
            states = trial.states(anew=True)
            wrong["not done"] = len(trial.jobs) - states["done"]
            wrong["releases"] = _without_release(trial)
        charged = Counter(_reserved(folder)) - Counter(before)
        wrong["charged twice"] = sum(times - 1 for times in charged.values())
        wrong["charges"] = abs(len(charged) - len(trial.jobs))
        with closing(open_workspace_ledger(read_workspace(folder))) as ledger:
            wrong["chain"] = int(not ledger.verify(None).ok)
    kinds = ", ".join(f"{times} {name}" for name, times in told.items())
    found = "; ".join(f"{times} {name}" for name, times in wrong.items() if times) or "nothing"
    hit = f"{trial.hit} running jobs hit, {trial.hit_charged} of them charged by then"
    how = f"{len(trial.jobs)} jobs of {len(SPECS)} tasks; {kinds}; {hit}; {trial.again} sent again by their keys"
    how += f"; wrong: {found}"
    yield Row("job-kills", ours=sum(wrong.values()), goal=0, unit="cases", how=how)


def _measure_one(trial: Trial) -> float:
    """Return how many seconds of a processor the process of one job takes while nothing fails."""
    most = 0.0
    trial.send("job-0", next(iter(SPECS)))
    while trial.open_jobs():
        most = max([most, *(worked_by(process) or 0.0 for process in trial.processes())])
        time.sleep(0.05)
    return most


def worked_by(process: int) -> float | None:
    """Return how many seconds of a processor a process has taken; None if it has ended."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def _reserved(folder: Path) -> list[str]:
    with closing(open_workspace_ledger(read_workspace(folder))) as ledger:
        return [str(entry.body["key"]) for entry in ledger.iter_entries() if entry.kind == "reserve"]


def _without_release(trial: Trial) -> int:
    missing = 0
    with client_of(trial.server, trial.token) as client:
        for key, job in trial.jobs.items():
            result = client.get(f"/v1/jobs/{job}").json()["result"] or {}
            if trial.kinds[key] in ("find", "discover"):
                missing += {"find": "found", "discover": "discovery"}[trial.kinds[key]] not in result
            else:
                missing += client.get(f"/v1/releases/{result.get('release', '-')}").status_code != 200
    return missing
