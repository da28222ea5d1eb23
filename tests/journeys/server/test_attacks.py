"""One person who takes all that a running server gives, and owners who write over one another, by TLS."""

from __future__ import annotations

import sqlite3
import statistics
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path

import httpx
import pytest

from benchmarks.trials.served import Running, ask, client_of, in_threads, running, token
from journeys.clinic import WARDS
from journeys.proxied import certificate, program
from journeys.served import clinic_workspace

STREAMS, ADDRESSES = 300, 8
WRITERS, ROUNDS = 6, 4
pytestmark = pytest.mark.skipif(program("openssl") is None, reason="no openssl here")


def tls(folder: Path) -> dict[str, str]:
    chain = certificate(folder)
    return {"TLS_CERT": str(chain), "TLS_KEY": str(chain.with_name("key.pem"))}


def median_ms(client: httpx.Client, name: str) -> float:
    """The median time of a charged answer, of 20."""
    taken = []
    for number in range(20):
        started = time.perf_counter()
        assert ask(client, f"{name} {number}", f"{WARDS} REUSE NONE").status_code == 200
        taken.append(1000 * (time.perf_counter() - started))
    return statistics.median(taken)


@pytest.mark.slow
def test_hundreds_of_event_streams_of_one_analyst_delay_no_other(tmp_path: Path) -> None:
    folder = clinic_workspace(tmp_path / "w")
    texts, other = [token(folder, "ana") for _ in range(5)], token(folder, "bo")
    with closing(sqlite3.connect(folder / "server.sqlite")) as db:  # a job of another server, which never ends
        db.execute(
            "INSERT INTO job (id, name, token, task, spec, key, state, created, changed, holder, held_until, account) "
            "VALUES ('j-1', 'ana', '', 'synth', '{\"table\": \"visits\"}', 'k', 'running', 1, 1, 'x', ?, 'visits@1')",
            (2**40,),
        )
        db.commit()
    with running(folder, **tls(tmp_path)) as server, client_of(server, other) as bo, ExitStack() as streams:
        median_ms(bo, "warm")
        alone = median_ms(bo, "alone")
        opened = Counter(open_stream(streams, server, texts[n % 5], n % ADDRESSES) for n in range(STREAMS))
        assert opened == {200: 64, 429: STREAMS - 64}, "one person's share, whatever the tokens and addresses"
        beside = median_ms(bo, "beside")
        with client_of(server, texts[0]) as ana:
            assert ana.get("/v1/me").status_code == 429
            streams.close()
            while ana.get("/v1/me").status_code == 429:
                time.sleep(0.1)
            assert ask(ana, "after", WARDS).status_code == 200
    assert beside < 3 * alone, f"{beside:.0f} ms, {alone:.0f} ms alone"


def open_stream(streams: ExitStack, server: Running, text: str, address: int) -> int:
    transport = httpx.HTTPTransport(verify=False, local_address=f"127.0.0.{2 + address}")
    headers = {"Authorization": f"Bearer {text}"}
    client = httpx.Client(base_url=server.address, headers=headers, timeout=60, transport=transport)
    return streams.enter_context(streams.enter_context(client).stream("GET", "/v1/jobs/j-1/events")).status_code


@contextmanager
def store_locked(folder: Path, *, seconds: float) -> Iterator[None]:
    """Hold the lock of the server's store for some time from now on, as another program may."""
    with closing(sqlite3.connect(folder / "server.sqlite", check_same_thread=False, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        timer = threading.Timer(seconds, db.execute, ["ROLLBACK"])
        timer.start()
        try:
            yield
        finally:
            timer.join()


@pytest.mark.slow
def test_of_owners_who_replace_one_declaration_at_two_servers_one_wins_and_no_reader_sees_a_torn_one(
    tmp_path: Path,
) -> None:
    folder = clinic_workspace(tmp_path / "w")
    file, text = folder / "schemas" / "visits.toml", token(folder, "boss", "owner")
    ends = threading.Event()
    with running(folder, **tls(tmp_path)) as one, running(folder, **tls(tmp_path)) as two:
        servers = (one, two)

        def read() -> list[str]:
            torn = []
            with client_of(one, text) as client:
                while not ends.is_set():
                    found = client.get("/v1/tables/visits")
                    torn += [found.text] * (found.status_code != 200)
                    written = file.read_text()
                    torn += [written] * (len(written) != len(original))
            return torn

        def write(number: int, *, tag: str, first: int) -> tuple[int, str]:
            toml = original.replace("size_hint = 3000", f"size_hint = {first + number}")
            with client_of(servers[number % 2], text) as client:
                at_once.wait()
                put = client.put("/v1/tables/visits", json={"toml": toml}, headers={"If-Match": tag})
                return put.status_code, toml

        original, at_once = file.read_text(), threading.Barrier(WRITERS)
        torn = list[str]()
        reader = threading.Thread(target=lambda: torn.extend(read()))
        reader.start()
        try:
            for turn in range(ROUNDS):
                with client_of(servers[turn % 2], text) as client:
                    tag = client.get("/v1/tables/visits").headers["ETag"]
                with store_locked(folder, seconds=1):  # so that they meet between the look and the replacement
                    put = in_threads(WRITERS, partial(write, tag=tag, first=3_001 + WRITERS * turn))
                assert Counter(status for status, _ in put) == {200: 1, 412: WRITERS - 1}, put
                assert [toml for status, toml in put if status == 200] == [file.read_text()]
        finally:
            ends.set()
            reader.join()
    assert torn == []
    assert [place.name for place in file.parent.iterdir()] == [file.name]
