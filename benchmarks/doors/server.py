"""The server under load: races for the last of a budget, latency, killed processes, bursts, files that are traps."""

from __future__ import annotations

import gzip
import random
import tempfile
import threading
import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.core.ledger import folder_on_disk
from benchmarks.row import Options, Row
from benchmarks.sameness.over_http import compare_over_http
from benchmarks.sameness.tables import pairs
from benchmarks.trials.served import QUESTION, ask, client_of, in_threads, running, token, workspace
from benchmarks.trials.soak import soak, soak_workspace
from siloquent.schema.workspace import read_workspace
from siloquent.session import open_workspace_ledger

CLIENTS = 8


def rows(options: Options) -> Iterator[Row]:
    """The rows of this module."""
    if options.wants("race-overshoot"):
        yield overshoot(20 if options.quick else 1_000)
    if options.wants("latency-p95"):
        yield latency(5 if options.quick else 30)
    if options.wants("dear-explanations"):
        yield dear_explanations(5 if options.quick else 30)
    if options.wants("kill-violations"):
        yield violations(10 if options.quick else 1_000)
    if options.wants("ready-seconds"):
        yield ready()
    if options.wants("burst-honest"):
        yield burst()
    if options.wants("neighbours-http"):
        yield neighbours(8 if options.quick else 240)
    if options.wants("soak-violations") or options.wants("soak-growth"):
        yield from soak(20 if options.quick else 3_600)
    if options.wants("trap-accepted") or options.wants("trap-seconds") or options.wants("trap-megabytes"):
        yield from traps()


def price(folder: Path) -> Fraction:
    """What the question costs, exactly as it is charged."""
    from siloquent.api import open_session

    with open_session(folder) as session:
        return session.explain(QUESTION).price


def overshoot(charges: int) -> Row:
    """Answers granted or booked beside what fits, when half of all requests fit."""
    with folder_on_disk() as disk:
        one, fits = price(workspace(disk / "price", epsilon="1")), 16 * charges // 2
        folder = workspace(disk / "race", epsilon=str(float(one * fits)))
        text = token(folder, "ana")
        with running(folder, SLOT_COUNTS_MS="1") as server:

            def work(number: int) -> tuple[int, int]:
                granted = refused = 0
                with client_of(server, text) as client:
                    for turn in range(charges):
                        status = ask(client, f"{number}-{turn}").status_code
                        granted, refused = granted + (status == 200), refused + (status == 409)
                return granted, refused

            counts = in_threads(16, work)
        ledger = open_workspace_ledger(read_workspace(folder))
        spent, ok = ledger.get_account("visits@1").spent.amount, ledger.verify(None).ok
        ledger.close()
    granted, refused = sum(one[0] for one in counts), sum(one[1] for one in counts)
    booked = round(spent / (float(one) * 10**9)) if one else 0
    beside = abs(granted - fits) + abs(granted + refused - 16 * charges) + abs(booked - fits) + (not ok)
    return Row(
        "race-overshoot",
        ours=beside,
        goal=0,
        unit="charges",
        how=f"16 HTTP clients x {charges:,}: {granted:,} granted, {refused:,} refused, {booked:,} booked; chain right",
    )


def latency(seconds: int) -> Row:
    """The 95th percentile of a noisy count, its slot of 50 ms included, with eight clients at once."""
    with folder_on_disk() as disk:
        folder = workspace(disk / "w", epsilon="1000000")
        text = token(folder, "ana")
        with running(folder) as server:

            def work(number: int) -> list[float]:
                taken: list[float] = []
                with client_of(server, text) as client:
                    ask(client, f"warm-{number}")
                    until = time.monotonic() + seconds
                    while time.monotonic() < until:
                        started = time.perf_counter()
                        assert ask(client, f"{number}-{len(taken)}").status_code == 200
                        taken.append(1000 * (time.perf_counter() - started))
                return taken

            each = in_threads(CLIENTS, work)
    times = np.array([one for many in each for one in many])
    rate = f"{times.size / seconds:.0f} answers/s, median {np.median(times):.0f} ms"
    how = f"{CLIENTS} clients, {seconds} s, {rate}; 100 ms and a slot of 50 ms"
    return Row("latency-p95", ours=float(np.percentile(times, 95)), goal=150, unit="ms", how=how)


def dear_explanations(seconds: float) -> Row:
    """How long another analyst's list of tables takes while four ask for the dearest explanations there are."""
    ranges = " OR ".join(f"(age BETWEEN {i % 99} AND {i % 99 + 1} AND cost < {i / 4})" for i in range(700))
    dear = {"sql": f"SELECT COUNT(*) FROM visits WHERE {ranges} ERROR 200"}
    with folder_on_disk() as disk:
        folder = soak_workspace(disk / "w")
        greedy, honest = [token(folder, f"greedy{i}") for i in range(4)], token(folder, "ana")
        with running(folder) as server:
            until = time.monotonic() + seconds

            def explain(number: int) -> list[float]:
                with client_of(server, greedy[number]) as client:
                    while time.monotonic() < until:
                        assert client.post("/v1/explanations", json=dear).status_code in (200, 422)
                return []

            def look() -> list[float]:
                taken = []
                with client_of(server, honest) as client:
                    while time.monotonic() < until:
                        started = time.perf_counter()
                        assert client.get("/v1/tables").status_code == 200
                        taken.append(1000 * (time.perf_counter() - started))
                return taken

            each = in_threads(5, lambda number: look() if number == 4 else explain(number))
    times = np.array([one for many in each for one in many])
    how = f"4 analysts, 700 ranges each; median {np.median(times):.0f} ms of {times.size:,} lists of tables"
    return Row("dear-explanations", ours=float(np.percentile(times, 95)), goal=300, unit="ms p95", how=how)


def ready() -> Row:
    """What a server works from its start until it answers: on an idle machine that is how long one waits."""
    with folder_on_disk() as disk:
        folder, taken = workspace(disk / "w", epsilon="1"), []
        for _ in range(5):
            with running(folder) as server:
                taken.append(server.cpu_seconds())
    return Row("ready-seconds", ours=float(np.median(taken)), goal=3, unit="CPU s", how="median of 5 starts")


def violations(kills: int) -> Row:
    """Charges, bytes or chains that are not as promised after the server was killed in the midst of spending."""
    wrong, random_ = 0, random.Random(3)
    with folder_on_disk() as disk:
        folder = workspace(disk / "w", epsilon="1000000")
        text = token(folder, "ana")
        kept: dict[str, bytes] = {}
        with running(folder, prepared=True, SLOT_COUNTS_MS="1") as server:
            for number in range(kills):
                key = f"kill-{number}"

                def spend(key: str = key) -> None:
                    try:
                        with client_of(server, text) as client:
                            found = ask(client, key)
                            if found.status_code == 200:
                                kept[key] = found.content
                    except httpx.HTTPError:
                        return

                thread = threading.Thread(target=spend)
                thread.start()
                time.sleep(random_.uniform(0, 0.15))
                server.kill()
                thread.join()
                server.start()
                with client_of(server, text) as client:
                    first, second = ask(client, key), ask(client, key)
                wrong += first.status_code != 200 or first.content != second.content
                wrong += key in kept and kept[key] != first.content
        ledger = open_workspace_ledger(read_workspace(folder))
        reserves = sum(1 for entry in ledger.iter_entries() if entry.kind == "reserve")
        wrong += abs(reserves - kills) + (not ledger.verify(None).ok)
        ledger.close()
    how = f"{kills:,} SIGKILLs at random times; each key charged once, same bytes before and after, chain verified"
    return Row("kill-violations", ours=wrong, goal=0, unit="cases", how=how)


def burst() -> Row:
    """How slow an honest client becomes while another sends ten times what it may."""
    with folder_on_disk() as disk:
        folder = workspace(disk / "w", epsilon="1000000")
        greedy, honest = token(folder, "bo"), token(folder, "ana")
        with running(folder, RATE_PER_SECOND="10", BURST="30", RUNNING="4", QUEUE="64") as server:
            until = time.monotonic() + 5
            statuses: list[int] = []

            def flood(number: int) -> None:
                with client_of(server, greedy) as client:
                    while time.monotonic() < until:
                        statuses.append(ask(client, f"{number}-{len(statuses)}").status_code)
                        time.sleep(0.04)

            threads = [threading.Thread(target=flood, args=(number,)) for number in range(4)]
            for thread in threads:
                thread.start()
            taken: list[float] = []
            with client_of(server, honest) as client:
                ask(client, "warm")
                while time.monotonic() < until or len(taken) < 5:
                    started = time.perf_counter()
                    assert ask(client, f"honest-{len(taken)}").status_code == 200
                    taken.append(1000 * (time.perf_counter() - started))
                    time.sleep(0.2)
            for thread in threads:
                thread.join()
    refused = sum(status == 429 for status in statuses)
    how = f"{len(statuses)} requests of one token in 5 s, {refused} refused; p95 of {len(taken)} honest answers"
    return Row("burst-honest", ours=float(np.percentile(taken, 95)), goal=250, unit="ms", how=how)


def neighbours(most: int) -> Row:
    """What differs over HTTP between tables of which one has one unit more, or another one."""
    chosen = [one for one in pairs(each=16) if one.one.setting.in_a_file]
    with tempfile.TemporaryDirectory() as folder:
        found = compare_over_http(chosen[:: max(1, len(chosen) // most)][:most], Path(folder) / "pairs")
    shown = f"; first: {found.differences[0][:300]}" if found.differences else ""
    how = f"{found.pairs} pairs, {found.texts:,} pairs of status, headers and masked bodies{shown}"
    return Row("neighbours-http", ours=len(found.differences), goal=0, unit="texts", how=how)


def traps() -> Iterator[Row]:
    """Files and bodies that unpack to far more than they weigh: what each costs until it is refused."""
    with folder_on_disk() as disk:
        folder = workspace(disk / "w", epsilon="1")
        text, shown, taken, grown = token(folder, "boss", "owner"), [], [], []
        with running(folder) as server, client_of(server, text) as client:
            client.post("/v1/uploads", content=(folder / "visits.parquet").read_bytes())
            for name, path, body, headers in bombs(disk):
                before, started, most = server.memory_bytes(), server.cpu_seconds(), [0]
                watching = threading.Event()

                def watch(watching: threading.Event = watching, most: list[int] = most) -> None:
                    while not watching.wait(0.005):
                        most[0] = max(most[0], server.memory_bytes())

                thread = threading.Thread(target=watch)
                thread.start()
                status = client.post(path, content=body, headers=headers).status_code
                watching.set()
                thread.join()
                taken.append(server.cpu_seconds() - started)
                grown.append((most[0] - before) / 2**20)
                shown.append((name, len(body), status))
    how = "; ".join(f"{name} in {size / 1e6:.2f} MB: {status}" for name, size, status in shown)
    accepted = sum(not 400 <= status < 500 for _, _, status in shown)
    yield Row("trap-accepted", ours=accepted, goal=0, unit="traps", how=how)
    yield Row(
        "trap-seconds", ours=max(taken), goal=2, unit="CPU s", how="the slowest, with the process that looks at it"
    )
    yield Row("trap-megabytes", ours=max(grown), goal=256, unit="MB", how="more resident memory, of all processes")


def bombs(disk: Path) -> Iterator[tuple[str, str, bytes, dict[str, str]]]:
    """A name, where it is sent, its bytes and its headers."""
    texts = pa.table({"ward": pa.array(["A" * 1_000] * 100_000)})
    longer = pa.table({"ward": pa.array(["A" * 60_000] * 10_000)})
    zeros = pa.table({"n": np.zeros(2_500_000)})
    for name, block, times, dictionary in (
        ("4 GB of one text", texts, 40, True),
        ("6 GB of a longer text", longer, 10, True),
        ("1.2 GB of zeros", zeros, 60, False),
    ):
        file = disk / "bomb.parquet"
        with pq.ParquetWriter(file, block.schema, compression="zstd", use_dictionary=dictionary) as writer:
            for _ in range(times):
                writer.write_table(block)
        yield name, "/v1/uploads", file.read_bytes(), {}
    packed = gzip.compress(bytes(200_000_000))
    yield "200 MB of gzip", "/v1/uploads", packed, {}
    yield "a packed body", "/v1/tokens", packed, {"Content-Encoding": "gzip", "Content-Type": "application/json"}
    deep = b"[" * 8_000_000
    yield "8 million brackets", "/v1/tokens", deep, {"Content-Type": "application/json"}
