"""Who floods, who waits: thousands of releases and idle connections, two servers over one folder, a hostile role."""

from __future__ import annotations

import json
import os
import resource
import secrets  # allowed: a session's id, no noise
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Literal

import httpx
import numpy as np

from benchmarks.core.ledger import folder_on_disk
from benchmarks.doors.jobs import SPECS, job_workspace
from benchmarks.profile.federation import await_port, cpu_seconds, free_port, process_of
from benchmarks.row import Options, Row
from benchmarks.trials.served import Running, ask, client_of, in_threads, running, token, workspace
from siloquent.errors import SiloquentError
from siloquent.federation.identity import operator
from siloquent.federation.identity.bundle import read_bundle, read_small
from siloquent.federation.relay.server import run_relay
from siloquent.federation.transport import HttpTransport
from siloquent.server.store import Store

RELEASES, LISTING = 5_000, 10
SOCKETS, IDLE_SECONDS = 3_000, 60
ROLES: tuple[tuple[str, Literal["party", "worker", "moderator"], str], ...] = (
    ("office", "moderator", "Registry"),
    ("north", "party", "North"),
    ("river", "party", "River"),
    ("w1", "worker", "University"),
)


def rows(options: Options) -> Iterator[Row]:
    """The rows of this module."""
    if options.wants("many-releases"):
        yield from many_releases(500 if options.quick else RELEASES)
    if options.wants("idle-sockets"):
        yield from idle_sockets(400 if options.quick else SOCKETS, 5 if options.quick else IDLE_SECONDS)
    if options.wants("jobs-twice"):
        yield jobs_twice(4 if options.quick else 100)
    if options.wants("hostile-role"):
        yield hostile_role(5 if options.quick else 30)


def many_releases(count: int) -> Iterator[Row]:
    """A page of a long list, and how long others wait while ten clients read it."""
    with folder_on_disk() as disk:
        folder = workspace(disk / "w", epsilon="1000")
        text = token(folder, "ana")
        with running(folder, SLOT_COUNTS_MS="1") as server:
            with client_of(server, text) as client:
                first = ask(client, "first").json()["id"]
            _copy_release(folder, first, count)
            with client_of(server, text) as client:
                client.get("/v1/releases")
                start = server.cpu_seconds()
                for _ in range(20):
                    found = client.get("/v1/releases", params={"limit": 200}).json()["releases"]
                taken = (server.cpu_seconds() - start) / 20
            alone = _healths(server.address, 5 if count < RELEASES else 10)
            with ExitStack() as listing:
                for number in range(LISTING):
                    listing.enter_context(process_of(_list, server.address, text, disk / f"lists-{number}"))
                while len(list(disk.glob("lists-*"))) < LISTING:
                    time.sleep(0.1)  # loading their libraries takes them longer than a list
                start, began = server.cpu_seconds(), time.monotonic()
                waits = _healths(server.address, 10)
                busy = (server.cpu_seconds() - start) / (time.monotonic() - began)
    how = f"{count:,} releases, {len(found)} on a page, mean of 20"
    yield Row("many-releases", ours=1_000 * taken, goal=30, unit="CPU ms", how=how)
    beside, idle = (float(np.percentile(each, 99)) for each in (waits, alone))
    how = f"/healthz while {LISTING} clients list, {len(waits)} times, median {np.median(waits):.0f} ms"
    how += f"; p99 {idle:.0f} ms while nobody lists; the server takes {100 * busy:.0f} % of a core"
    yield Row("many-releases-others", ours=beside, goal=50, unit="ms p99", how=how)


def _copy_release(folder: Path, first: str, count: int) -> None:
    manifest = json.loads((folder / "releases" / first / "manifest.json").read_text())
    names = [f"r-{int(first[2:]) + 1 + number}" for number in range(count)]
    for name in names:
        (folder / "releases" / name).mkdir()
        (folder / "releases" / name / "manifest.json").write_text(json.dumps({**manifest, "id": name}))
    with closing(Store(folder / "server.sqlite")) as store, store.open_transaction() as db:
        db.executemany("INSERT INTO release (id, name) VALUES (?, 'ana')", [(name,) for name in names])


def _healths(address: str, seconds: float) -> list[float]:
    """Milliseconds of /healthz, again and again for some time."""
    until, waits = time.monotonic() + seconds, []
    with httpx.Client(base_url=address, timeout=120, verify=False) as other:
        while time.monotonic() < until:
            start = time.perf_counter()
            other.get("/healthz")
            waits.append(1_000 * (time.perf_counter() - start))
            time.sleep(0.02)
    return waits


def _list(address: str, text: str, begun: Path) -> None:
    """List releases until this process is ended; make the file ``begun`` after the first time."""
    headers = {"Authorization": f"Bearer {text}"}
    with httpx.Client(base_url=address, headers=headers, timeout=120, verify=False) as client:
        while True:
            client.get("/v1/releases", params={"limit": 200}).raise_for_status()
            begun.touch()


BEGINNINGS = {
    "": (b"GET /v1/me HTTP/1.1\r\nHost: x\r\n", b"GET", b""),
    "-tls": (b"", b"\x16\x03\x01\x02", b"GET / HTTP/1.1\r\n"),
    "-relay": (b"", b"\x16\x03\x01\x02", b"GET / HTTP/1.1\r\n"),
}
"""What the idle connections of each row have said: parts of heads, or parts of TLS handshakes."""


def idle_sockets(count: int, seconds: float) -> Iterator[Row]:
    """Whether a person is served, and what is logged, while connections are open that never ask."""
    _allow_files(count + 500)
    with folder_on_disk() as disk, relay_process(disk / "all") as place:
        folder, log = workspace(disk / "w", epsilon="1000"), disk / "log"
        text = token(folder, "ana")
        relay = int((place / "relay.pid").read_text())
        certified = (str(place / "relay" / "tls.pem"), str(place / "relay" / "tls.key"))
        for name, (certificate, key) in (("", ("", "")), ("-tls", certified)):
            with (
                log.open("wb") as said,
                running(folder, said=said, SLOT_COUNTS_MS="1", TLS_CERT=certificate, TLS_KEY=key) as server,
            ):

                def look(server: Running = server) -> bool:
                    with client_of(server, text) as client:
                        return client.get("/v1/tables").status_code == 200

                yield from _beside(name, look, server.port, server.cpu_seconds, log, count, seconds)
                with client_of(server, text) as client:
                    assert ask(client, f"one{name}").status_code == 200
        river = read_bundle(place / "river")

        def receive() -> bool:
            with closing(HttpTransport(river)) as transport:
                return transport.fetch_next(0, 0) is None

        said_by_relay = place / "relay.log"
        yield from _beside(
            "-relay", receive, river.roster.port, lambda: cpu_seconds([relay]), said_by_relay, count, seconds
        )


def _beside(
    name: str,
    look: Callable[[], bool],
    port: int,
    cpu: Callable[[], float],
    log: Path,
    count: int,
    seconds: float,
) -> Iterator[Row]:
    """The rows of one server: ``look`` again and again, each time by a new connection, beside ``count`` silent ones."""
    waits, wrong, until, before = [], 0, time.monotonic() + seconds, cpu()
    with process_of(_hold, port, count, BEGINNINGS[name]):
        while time.monotonic() < until:
            start = time.perf_counter()
            try:
                wrong += not look()
            except (httpx.HTTPError, SiloquentError):
                wrong += 1
            waits.append(1_000 * (time.perf_counter() - start))
            time.sleep(0.1)
    how = f"of {len(waits)} requests beside {count:,} idle or half-open sockets, {seconds:.0f} s"
    how += f"; p95 {np.percentile(waits, 95):.0f} ms; {100 * (cpu() - before) / seconds:.0f} % of a core"
    yield Row(f"idle-sockets{name}", ours=wrong, goal=0, unit="refusals", how=how)
    logged = log.stat().st_size / 2**20
    yield Row(f"idle-sockets{name}-log", ours=logged, goal=1, unit="MB", how="what the server wrote meanwhile")


def _hold(port: int, count: int, beginnings: tuple[bytes, ...]) -> None:
    """Keep so many connections open, from thirty addresses that are no person's; open again what was closed."""
    _allow_files(count + 500)
    held: list[socket.socket] = []
    while True:
        for number in range(count - len(held)):
            here, there = (f"127.0.0.{2 + number % 30}", 0), ("127.0.0.1", port)
            with suppress(OSError):  # one that is refused or closed at once has reached its end
                held.append(socket.create_connection(there, timeout=5, source_address=here))
                held[-1].sendall(beginnings[number % len(beginnings)])
                held[-1].setblocking(False)
        time.sleep(1)
        held = [one for one in held if _is_open(one)]


def _is_open(connection: socket.socket) -> bool:
    try:
        is_open = connection.recv(1_000) != b""
    except BlockingIOError:
        return True
    except OSError:
        is_open = False
    if not is_open:
        connection.close()
    return is_open


def _allow_files(wanted: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def jobs_twice(jobs: int) -> Row:
    """Jobs that ran more than once, or not at all, with two servers over one folder."""
    with folder_on_disk() as disk:
        folder = job_workspace(disk / "w")
        text = token(folder, "ana")
        with running(folder, SLOT_COUNTS_MS="1") as first, running(folder, SLOT_COUNTS_MS="1") as second:
            servers, sent = (first, second), []
            for number in range(jobs):
                body = {"task": "sketch", "spec": SPECS["sketch"]}
                with client_of(servers[number % 2], text) as client:
                    while (
                        found := client.post("/v1/jobs", json=body, headers={"Idempotency-Key": f"{number}"})
                    ).status_code == 429:
                        time.sleep(1)
                sent.append(found.json()["id"])
            with client_of(second, text) as client:
                for job in sent:
                    while client.get(f"/v1/jobs/{job}", params={"wait": 20}).json()["state"] in ("queued", "running"):
                        pass
        with closing(Store(folder / "server.sqlite")) as store:
            tries = [
                row["tries"] if row["state"] == "done" else 0 for row in store.fetch_all("SELECT tries, state FROM job")
            ]
    wrong = sum(each != 1 for each in tries) + abs(len(tries) - jobs)
    return Row("jobs-twice", ours=wrong, goal=0, unit="jobs", how=f"of {jobs} sketches, sent to either server in turn")


def hostile_role(seconds: float) -> Row:
    """How long honest roles wait at the relay while one role floods it and a revoked one comes again and again."""
    with folder_on_disk() as disk, relay_process(disk / "all") as place:
        operator.revoke(operator.open_authority(place / "ca"), "w1")
        operator.accept(read_small(place / "ca" / "roster.json"), place / "relay")
        until = time.time() + seconds
        with process_of(_flood, place, "north", until), process_of(_flood, place, "w1", until):
            waits = [wait for each in in_threads(2, lambda number: _honest(place, number, until)) for wait in each]
    how = f"{len(waits):,} requests of two roles, while one role opens 600 connections and sends, and a revoked one too"
    return Row("hostile-role", ours=float(np.percentile(waits, 95)), goal=200, unit="ms p95", how=how)


def _honest(place: Path, number: int, until: float) -> list[float]:
    waits = []
    with closing(HttpTransport(read_bundle(place / ("office", "river")[number]))) as transport:
        session = secrets.token_hex(32)  # allowed: an id
        if number == 0:
            transport.open_session(session, ["office", "river"], int(time.time()) + 600)
        while time.time() < until:
            start = time.perf_counter()
            transport.fetch_next(0, 0)
            waits.append(1_000 * (time.perf_counter() - start))
            time.sleep(0.05)
    return waits


def _flood(place: Path, name: str, until: float) -> None:
    """Open connections until they are refused, keep them, send on some; begin again."""
    _allow_files(2_000)
    bundle = read_bundle(place / name)
    context = bundle.build_client_context()
    held: list[ssl.SSLSocket] = []
    while time.time() < until:
        with suppress(OSError):
            plain = socket.create_connection(("127.0.0.1", bundle.roster.port), timeout=2)
            held.append(context.wrap_socket(plain, server_hostname="127.0.0.1"))
            if len(held) % 2:
                held[-1].sendall(b"GET /v1/inbox HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        if len(held) >= 600:
            for one in held:
                one.close()
            held = []


@contextmanager
def relay_process(place: Path) -> Iterator[Path]:
    """A federation with its relay, which is a process of its own."""
    port = free_port()
    operator.init(operator.FederationDescription("clinics", f"https://127.0.0.1:{port}", ROLES), place)
    with process_of(_serve, place / "relay"):
        await_port(port)
        yield place


def _serve(folder: Path) -> None:
    (folder.parent / "relay.pid").write_text(str(os.getpid()))
    with (folder.parent / "relay.log").open("wb") as said:
        os.dup2(said.fileno(), 2)
    run_relay(read_bundle(folder))
