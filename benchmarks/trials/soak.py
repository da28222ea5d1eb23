"""A server that works for an hour: eight clients ask, explain, are refused, send jobs and look around; two kills."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from hashlib import sha256
from pathlib import Path

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.core.ledger import folder_on_disk
from benchmarks.row import Row
from benchmarks.trials.served import Running, client_of, in_threads, running, token
from siloquent.schema.workspace import read_workspace
from siloquent.session import create_workspace, open_workspace_ledger

CLIENTS, KILLS, ROWS = 8, 2, 20_000
PAUSE = 0.5
"""Seconds between a client's requests: people and programs think, and an idle server's memory is not what is asked."""
KEPT = 300
"""Answers of each client that are asked for again, with their keys, after each kill and at the end."""
TOML = """\
format = 1
attribute = [
  { name = "ward", type = "category", values = ["A", "B", "C", "D"], null = "drop" },
  { name = "age", type = "integer", lo = 0, hi = 99, outside = "clamp", null = "drop" },
  { name = "cost", type = "real", lo = 0, hi = 500, grid = 0.5, outside = "clamp", null = "drop" },
]
[table]
name = "visits"
source = "parquet:visits.parquet"
adjacency = "add-remove"
size_hint = 20000
unit = { kind = "row" }
[budget]
accountant = "pure"
epsilon = "1000000"
"""
CHARGED = (
    "SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR {error} CONFIDENCE 0.99 REUSE NONE",
    "SELECT COUNT(*) FROM visits WHERE age BETWEEN {low} AND 80 AND cost > {low} ERROR {error} REUSE NONE",
    "SELECT SUM(cost) FROM visits WHERE ward = 'B' ERROR {error}000 REUSE NONE",
    "SELECT MEDIAN(age) FROM visits WHERE cost < 2{low} ERROR 500 ROWS REUSE NONE",
)
FREE = "SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 300 CONFIDENCE 0.99"
REFUSED = "SELECT COUNT(*) FROM visits WHERE doctor = 'x{low}' ERROR {error}"
LOOKS = ("/v1/tables", "/v1/me", "/v1/releases", "/v1/jobs", "/v1/tables/visits", "/healthz")
JOB = {"task": "synth", "spec": {"table": "visits", "budget": {"epsilon": "1"}, "columns": ["age", "ward"]}}


@dataclass(slots=True)
class Client:
    """What one client sent, and what it remembers of the answers."""

    server: Running
    token: str
    number: int
    asked: int = 0
    unanswered: list[tuple[str, str]] = field(default_factory=list)
    kept: dict[str, tuple[str, str]] = field(default_factory=dict)
    costs: dict[str, Decimal] = field(default_factory=dict)
    jobs: dict[str, str] = field(default_factory=dict)
    wrong: Counter[str] = field(default_factory=Counter)

    def work(self, until: float, phase: str) -> None:
        """Ask, look around and be refused until then; what a kill leaves without an answer is asked again later."""
        chance = random.Random(f"{phase}-{self.number}")
        with client_of(self.server, self.token) as client:
            turn = 0
            while time.monotonic() < until:
                turn += 1
                key = f"{phase}-{self.number}-{turn}"
                try:
                    self._request(client, chance, key, turn)
                except httpx.TransportError:
                    time.sleep(1)
                time.sleep(PAUSE)

    def _request(self, client: httpx.Client, chance: random.Random, key: str, turn: int) -> None:
        holes = {"error": chance.randint(40, 90), "low": chance.randint(10, 60)}
        if turn % 500 == 1:
            self.jobs[key] = ""
            self._send_job(client, key)
        elif turn % 10 == 2:
            found = client.post("/v1/explanations", json={"sql": chance.choice(CHARGED).format(**holes)})
            self._expect(found, 200, "an explanation")
        elif turn % 10 == 4:
            found = client.post("/v1/answers", json={"sql": REFUSED.format(**holes)}, headers={"Idempotency-Key": key})
            self._expect(found, 404, "a question about an unknown column")
        elif turn % 10 in {6, 8}:
            self._expect(client.get(chance.choice(LOOKS)), 200, "a look")
        elif turn % 10 == 0 and self.kept:
            key = chance.choice(list(self.kept))
            self.ask_again(client, key)
        else:
            self.ask(client, key, FREE if turn % 10 == 5 else chance.choice(CHARGED).format(**holes))

    def ask(self, client: httpx.Client, key: str, sql: str) -> None:
        """One answer, remembered; without one, the key is remembered as unanswered."""
        self.asked += 1
        self.unanswered.append((key, sql))
        found = client.post("/v1/answers", json={"sql": sql}, headers={"Idempotency-Key": key})
        self._expect(found, 200, f"the question {sql}")
        self.unanswered.pop()
        if found.status_code == 200:
            self.costs[key] = Decimal(found.json()["cost"]["epsilon"])
            self.kept[key] = (sql, sha256(found.content).hexdigest())
            if len(self.kept) > KEPT:
                del self.kept[next(iter(self.kept))]

    def ask_again(self, client: httpx.Client, key: str) -> None:
        """A known key: the same bytes, marked as a replay."""
        sql, digest = self.kept[key]
        found = client.post("/v1/answers", json={"sql": sql}, headers={"Idempotency-Key": key})
        self._expect(found, 200, "a replay")
        same = sha256(found.content).hexdigest() == digest and found.headers.get("Idempotency-Replayed") == "true"
        self.wrong["a replay with other bytes, or not marked"] += not same

    def settle(self) -> None:
        """What a kill left without an answer, and all that is remembered, is asked again with its keys."""
        with client_of(self.server, self.token) as client:
            for key, sql in [self.unanswered.pop() for _ in range(len(self.unanswered))]:
                self.asked -= 1
                self.ask(client, key, sql)
            for key in list(self.kept):
                self.ask_again(client, key)
            for key in self.jobs:
                self._send_job(client, key)

    def wait_for_jobs(self) -> None:
        """Each job ends well."""
        with client_of(self.server, self.token) as client:
            until = time.monotonic() + 300
            for job in self.jobs.values():
                state = ""
                while state not in {"done", "failed", "cancelled"} and time.monotonic() < until:
                    state = client.get(f"/v1/jobs/{job}").json().get("state", "")
                    time.sleep(0.05 if state == "running" else 0)
                self.wrong[f"a job that is {state or 'unknown'}"] += state != "done"

    def _send_job(self, client: httpx.Client, key: str) -> None:
        found = client.post("/v1/jobs", json=JOB, headers={"Idempotency-Key": key})
        self._expect(found, 202, "a job")
        if found.status_code == 202:
            known, job = self.jobs[key], found.json()["id"]
            self.wrong["two jobs of one key"] += bool(known) and known != job
            self.jobs[key] = job

    def _expect(self, found: httpx.Response, status: int, what: str) -> None:
        if found.status_code != status:
            self.wrong[f"{found.status_code} for {what}: {found.text[:300]}"] += 1


def soak(seconds: int) -> Iterator[Row]:
    """Violations, and how much memory the server gains in the longest of the spans between kills, once it is warm."""
    with folder_on_disk() as disk:
        folder = soak_workspace(disk / "w")
        tokens = [token(folder, f"analyst{number}") for number in range(CLIENTS)]
        grown: list[float] = []
        spans = []
        with running(folder) as server:
            clients = [Client(server, tokens[number], number) for number in range(CLIENTS)]
            for span in range(KILLS + 1):
                if span:
                    for client in clients:
                        client.settle()
                begins = time.monotonic()
                ends = begins + seconds / (KILLS + 1)
                watched = _Watched(server, begins + seconds / (KILLS + 1) / 3, ends - 1)
                killing = threading.Timer(ends - time.monotonic(), server.kill) if span < KILLS else None
                if killing:
                    killing.start()
                last = ends + 2 if killing else ends
                in_threads(CLIENTS, lambda number, last=last, span=span: clients[number].work(last, f"span{span}"))  # type: ignore[misc]
                grown.append(watched.growth())
                spans.append(watched.shown())
                if killing:
                    killing.join()
                    server.start()
            for client in clients:
                client.settle()
                client.wait_for_jobs()
        wrong: Counter[str] = Counter()
        for client in clients:
            wrong += +client.wrong
        wrong += _booked(folder, clients)
    answers, jobs = sum(client.asked for client in clients), sum(len(client.jobs) for client in clients)
    told = "; ".join(f"{count} x {what}" for what, count in wrong.most_common(5))
    how = f"{CLIENTS} clients, {seconds:,} s, {KILLS} SIGKILLs, {answers:,} answers, {jobs} jobs"
    how += f": {told}" if told else ""
    yield Row("soak-violations", ours=sum(wrong.values()), goal=0, unit="cases", how=how)
    how = f"largest growth between kills after a third of each span; {'; '.join(spans)}"
    yield Row("soak-growth", ours=max(grown), goal=10 if seconds > 600 else None, unit="%", how=how)


class _Watched:
    """The resident memory of a server at two moments: the median of five looks each, so that no moment decides."""

    def __init__(self, server: Running, first: float, second: float) -> None:
        self._server, self._found = server, [0.0, 0.0]
        self._threads = [
            threading.Thread(target=self._look, args=(place, moment)) for place, moment in enumerate((first, second))
        ]
        for thread in self._threads:
            thread.start()

    def _look(self, place: int, moment: float) -> None:
        time.sleep(max(0.0, moment - time.monotonic()))
        looks = []
        for _ in range(5):
            looks.append(self._server.memory_alone())
            time.sleep(0.1)
        self._found[place] = float(np.median(looks))

    def growth(self) -> float:
        """In percent."""
        for thread in self._threads:
            thread.join()
        return 100 * (self._found[1] / self._found[0] - 1)

    def shown(self) -> str:
        """In MB."""
        return " to ".join(f"{found / 1e6:.0f}" for found in self._found) + " MB"


def soak_workspace(folder: Path) -> Path:
    """A workspace with generated rows and a budget for an hour."""
    made, random_ = create_workspace(folder), np.random.default_rng(1)
    columns = {
        "ward": pa.array(random_.choice(np.array(["A", "B", "C", "D"], dtype=object), ROWS)),
        "age": pa.array(random_.integers(0, 100, ROWS)),
        "cost": pa.array(random_.integers(0, 1_001, ROWS) / 2),
    }
    pq.write_table(pa.table(columns), folder / "visits.parquet")
    (made.schemas / "visits.toml").write_text(TOML)
    return folder


def _booked(folder: Path, clients: list[Client]) -> Counter[str]:
    """What the ledger holds beside what the clients were told."""
    ledger = open_workspace_ledger(read_workspace(folder))
    wrong: Counter[str] = Counter()
    wrong["a chain that does not verify"] += not ledger.verify(None).ok
    jobs = sum(len(client.jobs) for client in clients)
    told = sum((cost for client in clients for cost in client.costs.values()), Decimal(jobs))
    booked = Decimal(str(ledger.get_account("visits@1").spent.amount)) / 10**9
    keys = sum(len(client.costs) for client in clients) + jobs
    # A job pays for all but a thousandth of the epsilon that it was given; costs of answers are told rounded.
    less, more = Decimal(jobs) / 1_000 + Decimal(keys) / 10**6, Decimal(keys) / 10**6
    wrong[f"booked {booked}, told {told}"] += not told - less <= booked <= told + more
    reserves = sum(1 for entry in ledger.iter_entries() if entry.kind == "reserve")
    wrong[f"{reserves} reservations for {keys} keys"] += reserves != keys
    ledger.close()
    return +wrong
