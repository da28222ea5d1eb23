"""Generated requests, good and bad, with tokens and without: what breaks the description, the ledger or the store."""

from __future__ import annotations

import json
import math
import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from benchmarks.core.ledger import folder_on_disk
from benchmarks.row import Options, Row
from benchmarks.trials.requests import Trial
from benchmarks.trials.served import ask, client_of, running, token
from benchmarks.trials.soak import TOML, soak_workspace
from siloquent.schema.workspace import read_workspace
from siloquent.session import open_workspace_ledger

GOAL = 100_000
ASKED_AGAIN = 500


def rows(options: Options) -> Iterator[Row]:
    """The rows of this module."""
    if options.wants("requests"):
        yield requests(600 if options.quick else GOAL)


def requests(count: int, seconds: float = math.inf, *, first_seed: int = 0) -> Row:
    """Breaches among ``count`` requests at least: each answer is as described, no 5xx, no charge without an answer.

    Args:
        seconds: When to stop before, for a machine that does other work, too.
        first_seed: Of the generator, which takes the next one for each round: another part of the requests.
    """
    until = time.monotonic() + seconds
    with folder_on_disk() as disk:
        folder = soak_workspace(disk / "w")
        texts = {role: token(folder, name, role) for name, role in (("ana", "analyst"), ("boss", "owner"))}
        with running(folder, SLOT_COUNTS_MS="1", SLOT_ANSWERS_MS="1", JOBS="1") as server:
            with client_of(server, texts["analyst"]) as ana:
                words = first_words(ana)
            document = httpx.get(f"{server.address}/openapi.json", timeout=120).json()
            trial, seed = Trial(server.address, document, texts, words), first_seed
            each = 1 if count < 2_000 else 10
            begun, begun_there = time.process_time(), server.cpu_seconds()
            while trial.sent.count < count and time.monotonic() < until:
                trial.send(each, seed=seed, until=until)
                seed += 1
            here, there = time.process_time() - begun, server.cpu_seconds() - begun_there
            with client_of(server, texts["analyst"]) as ana, client_of(server, texts["owner"]) as boss:
                wrong = trial.sent.wrong + lost(trial, ana, boss)
        wrong += booked(trial, folder)
    sent = trial.sent
    statuses = ", ".join(f"{status}: {times:,}" for status, times in sorted(sent.statuses.items()))
    answered = ", ".join(f"{times:,} {what}" for what, times in sent.outcomes.most_common(8))
    how = f"seeds {first_seed} to {seed - 1}: {sent.count:,} requests ({sent.by_mode['negative']:,} bad ones)"
    here, there = (1000 * seconds / max(sent.count, 1) for seconds in (here, there))
    how += f", mixed from {sent.cases:,} cases; CPU ms of each: {here:.1f} to make, send and check it"
    how += f", {there:.1f} at the server"
    how += f"; of those for answers {answered}; {statuses}"
    told = "; ".join(f"{times} x {what}" for what, times in wrong.most_common(12))
    return Row("requests", ours=sum(wrong.values()), goal=0, unit="breaches", how=how + (f": {told}" if told else ""))


def first_words(ana: httpx.Client) -> dict[str, list[str]]:
    """Names that stand for something: a table, an account, a release, a job."""
    release = ask(ana, "first", "SELECT COUNT(*) FROM visits ERROR 300 REUSE NONE").json()["id"]
    spare = TOML.replace('name = "visits"', 'name = "spare"')
    return {
        "table": ["visits", "spare", "none"],
        "account": ["visits@1", "visits@1/ana"],
        "release": [release],
        "file": ["answer.parquet", "manifest.json"],
        "toml": [spare.replace("20000", str(20_000 + i)) for i in range(3)] + [spare, "[table]"],
    }


def lost(trial: Trial, ana: httpx.Client, boss: httpx.Client) -> Counter[str]:
    """What was given or made and is not there any more, or is another."""
    wrong: Counter[str] = Counter()
    kept = list(trial.sent.answers.items())
    for key, (body, content) in random.Random(1).sample(kept, min(len(kept), ASKED_AGAIN)):
        found = ana.post("/v1/answers", json=body, headers={"Idempotency-Key": key})
        is_same = found.status_code == 200 and _read_answer(found.content) == _read_answer(content)
        wrong["an answer that was not the same again"] += not is_same
    for number in trial.sent.made["job"] - trial.sent.gone:
        while (job := ana.get(f"/v1/jobs/{number}", params={"wait": 25}).json()).get("state") in ("queued", "running"):
            pass
        wrong[f"a job that is {job.get('state')}"] += job.get("state") not in ("done", "failed")
        wrong["a job that failed after its charge"] += job.get("state") == "failed" and job["cost"] is not None
    known = {one["id"] for one in boss.get("/v1/tokens").json()["tokens"]}
    wrong["a token that is lost"] += len(trial.sent.made["token"] - known)
    if len(trial.sent.made["upload"]) <= 100:
        known = {one["id"] for one in boss.get("/v1/uploads").json()["uploads"]}
        wrong["an upload that is lost"] += len(trial.sent.made["upload"] - trial.sent.gone - known)
    return +wrong


def _read_answer(content: bytes) -> dict[str, Any]:
    """Return an answer without what follows from a later request: that its rows were replaced since."""
    return {name: value for name, value in json.loads(content).items() if name != "about_rows"}


def booked(trial: Trial, folder: Path) -> Counter[str]:
    """Charges that no answer and no job stands for."""
    from siloquent.server.repeats import build_ledger_key
    from siloquent.server.store import Store

    ledger, store = open_workspace_ledger(read_workspace(folder)), Store(folder / "server.sqlite")
    wrong: Counter[str] = Counter()
    keys = ["first", *trial.sent.answers, *(row["key"] for row in store.fetch_all("SELECT key FROM job"))]
    answered = {build_ledger_key("ana", key) for key in keys}
    for entry in ledger.iter_entries():
        if entry.kind == "reserve":
            wrong["a charge without an answer"] += str(entry.body["key"]).rpartition(":")[2] not in answered
    wrong["a chain that does not verify"] += not ledger.verify(None).ok
    ledger.close()
    store.close()
    return +wrong
