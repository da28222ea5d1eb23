"""What the federation costs: the relay's mailbox, a sum of a million counters, sessions under seeded faults.

Relay and roles are processes of their own over loopback TLS 1.3; seconds are those of the wall, medians, and depend on
the machine. The faults' runs are those of ``tests/simulation``, in one process on virtual time.
"""

from __future__ import annotations

import importlib
import logging
import multiprocessing
import os
import secrets
import signal
import socket
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.row import Options, Row
from siloquent.errors import ProtocolError
from siloquent.federation.channel import Channel
from siloquent.federation.identity import operator
from siloquent.federation.identity.bundle import Bundle, read_bundle
from siloquent.federation.identity.operator import FederationDescription
from siloquent.federation.identity.seal import SEAL_BYTES
from siloquent.federation.messages.invitation import Invitation
from siloquent.federation.messages.message import PART_BYTES, Envelope, Header, compute_pair_genesis
from siloquent.federation.peer import run_polling
from siloquent.federation.policy import Policy, Rule
from siloquent.federation.protocols import ProtocolRegistry
from siloquent.federation.relay.rates import RelayRates
from siloquent.federation.relay.server import run_relay
from siloquent.federation.role import begin, moderate_session
from siloquent.federation.role_process import _run_heartbeat as beating
from siloquent.federation.role_process import moderate, open_peer, serve
from siloquent.federation.sums import (
    PROTOCOL,
    SERVICE,
    SumResult,
    SumSpec,
    build_worker_part,
    contribute_vector,
    gather_sum,
)
from siloquent.federation.transport import HttpTransport

PARTIES, WORKERS = ("north", "river", "hill"), ("w1", "w2")
COUNTERS = 1_000_000
WAITING = 50
FASTEST = 1e9
PROTOTYPE = {"put": 1.7, "wake": 2.7, "large-put": 160.0, "large-get": 110.0}


def rows(options: Options) -> Iterator[Row]:
    """Relay, sums, faults."""
    if options.wants("relay"):
        yield from _relay(options)
    if options.wants("sum"):
        yield from _sum(options)
    if options.wants("awaited"):
        yield _awaited()
    if options.wants("sumfaults"):
        yield from _faults(50 if options.quick else 1_000)


def _relay(options: Options) -> Iterator[Row]:
    with _federation(WAITING) as folder:
        session = secrets.token_hex(32)
        names = ["north", "w1", "office"]
        with ExitStack() as stack:
            north, w1, office = (
                stack.enter_context(closing(HttpTransport(read_bundle(folder / name)))) for name in names
            )
            office.open_session(session, names, int(time.time()) + 3_600)
            began = cpu_seconds([os.getpid(), _relay_pid(folder)])
            small = [_seconds(lambda k=k: _put(north, session, k, 1_000)) for k in range(60)]  # type: ignore[misc]
            yield _milliseconds("relay-put", small, "put", 5, "durable message of 1 kB, 60 of them")
            cpu = 1e3 * (cpu_seconds([os.getpid(), _relay_pid(folder)]) - began) / len(small)
            yield Row(
                "relay-put-cpu", ours=cpu, goal=5, unit="CPU ms", how="the same, CPU of sender and relay together"
            )
            last = _drain(w1)
            wakes = [_wake(north, w1, session, k, last) for k in range(1_000, 1_020)]
            yield _milliseconds("relay-wake", wakes, "wake", 10, "from the start of a put to the receiver's return")
            large = [_seconds(lambda k=k: _put(north, session, k, PART_BYTES)) for k in range(2_000, 2_003)]  # type: ignore[misc]
            yield _milliseconds("relay-8MiB-put", large, "large-put", 300, "durable, 3 of them")
            w1.acknowledge(_drain(w1, upto=20))
            takes = [_seconds(lambda: _take(w1)) for _ in range(3)]
            yield _milliseconds("relay-8MiB-get", takes, "large-get", 300, "3 of them")
        yield _waiting(folder, 10 if options.quick else WAITING)


def _sum(options: Options) -> Iterator[Row]:
    length = 10_000 if options.quick else COUNTERS
    spec = SumSpec("benchmark", length, 2**30, parties=3, min_parties=3)
    asked = Invitation(PROTOCOL, "test", SERVICE, body={"sum": spec.to_json()}, min_parties=3)
    with _federation() as folder, ExitStack() as stack:
        members = [stack.enter_context(process_of(_member, folder / name, spec)) for name in (*PARTIES, *WORKERS)]
        pids = [os.getpid(), _relay_pid(folder), *members]
        began: list[float] = []

        def part(channel: Channel, invitation: Invitation, desk: Any) -> SumResult:
            began.append(time.perf_counter())
            return gather_sum(channel, spec)

        office = read_bundle(folder / "office")
        times, cpus, wrong = [], [], 0
        for _ in range(3):
            spent = cpu_seconds(pids)
            held = moderate(office, asked, (*PARTIES, *WORKERS), part)
            cpus.append(cpu_seconds(pids) - spent)
            times.append(time.perf_counter() - began[-1])
            wanted = np.sum([_vector(name, length) for name in PARTIES], axis=0)
            wrong += int((held.result.total != wanted).sum())
        yield Row("sum-wrong", ours=wrong, goal=0, unit="counters", how="over 3 sums")
        how = f"{length:,} counters, 3 parties, 2 workers, from start to everybody's signed heads, best of 3"
        yield Row("sum-seconds", ours=min(times), goal=3, unit="s", how=how)
        yield Row(
            "sum-cpu", ours=min(cpus[1:]), goal=3, unit="CPU s", how="of all 7 processes together, joins included"
        )
        with closing(HttpTransport(office)) as transport:
            sent = {line["role"]: line["bytes"] for line in transport.look(held.session)["roles"]}
        yield Row(
            "sum-sent", ours=sent["north"] / 1e6, goal=8.1 * length / 1e6, unit="MB", how="by one party, all of it"
        )


def _awaited() -> Row:
    """How soon the relay says for whom a moderator waits: one party of three never starts, three times."""
    spec = SumSpec("benchmark", 10, 2**30, parties=3, min_parties=3)
    deadline = 8
    asked = Invitation(
        PROTOCOL, "test", SERVICE, body={"sum": spec.to_json()}, min_parties=3, session_deadline_s=deadline
    )
    here = [name for name in (*PARTIES, *WORKERS) if name != "hill"]
    with _federation() as folder, ExitStack() as stack:
        for name in here:
            stack.enter_context(process_of(_member, folder / name, spec))
        north = stack.enter_context(closing(HttpTransport(read_bundle(folder / "w1"))))
        office, taken = read_bundle(folder / "office"), []
        for _ in range(3):
            with open_peer(office) as peer, run_polling(peer), beating(peer, lambda channel: None) as shown:
                session = begin(peer, asked, (*PARTIES, *WORKERS))
                holds = threading.Thread(target=_holds, args=(peer, asked, session, shown))
                holds.start()
                taken.append(_until_named(north, session, "hill"))
                holds.join()
    return Row(
        "awaited", ours=max(taken), goal=2, unit="s", how="from the invitation to the status that names it, most of 3"
    )


def _holds(peer: Any, asked: Invitation, session: str, shown: Any) -> None:
    with suppress(ProtocolError):  # it ends at its deadline
        moderate_session(peer, asked, (*PARTIES, *WORKERS), lambda *_: None, session=session, started=shown)


def _until_named(transport: HttpTransport, session: str, name: str) -> float:
    """Seconds until a member who looks at the relay is told that the office waits for ``name``."""
    began = time.perf_counter()
    while time.perf_counter() - began < 30:
        with suppress(ProtocolError):  # the session is not there yet
            lines = {line["role"]: line["waiting_for"] for line in transport.look(session)["roles"]}
            if name in lines["office"]:
                return time.perf_counter() - began
        time.sleep(0.02)
    raise TimeoutError("nobody was named")


def _faults(runs: int) -> Iterator[Row]:
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
    simulator = importlib.import_module("simulation.simulator")
    logging.getLogger("siloquent.federation").setLevel(logging.CRITICAL)
    ends = {"sum": 0, "named": 0, "impossible": 0}
    for seed in range(runs):
        outcome = simulator.Simulation(simulator.Run.of(seed)).play()
        end = "impossible" if outcome.impossible else "sum" if outcome.total is not None else "named"
        ends[end] += 1
    how = f"{runs} seeded runs of a whole secure sum, up to 6 of 16 kinds of faults each"
    yield Row("sumfaults-impossible", ours=ends["impossible"], goal=0, unit="runs", how=how)
    yield Row("sumfaults-right", ours=ends["sum"], better="higher", unit="runs", how="ended with the right sum")
    yield Row("sumfaults-named", ours=ends["named"], unit="runs", how="ended with a code that names the cause")


@contextmanager
def _federation(more_workers: int = 0) -> Iterator[Path]:
    """Bundles of all roles, and the relay as a process; roles that only wait are further workers."""
    with tempfile.TemporaryDirectory() as place:
        port = free_port()
        roles = [(name, "party", name) for name in PARTIES] + [(name, "worker", name) for name in WORKERS]
        roles += [(f"waits{k}", "worker", "x") for k in range(more_workers)] + [("office", "moderator", "office")]
        folder = Path(place) / "all"
        operator.init(FederationDescription("benchmark", f"https://127.0.0.1:{port}", tuple(roles)), folder)  # type: ignore[arg-type]
        with process_of(_serve_relay, folder / "relay"):
            await_port(port)
            yield folder


@contextmanager
def process_of(target: Callable[..., None], *arguments: object) -> Iterator[int]:
    """A process that runs ``target``, by its id; killed when the block ends."""
    process = multiprocessing.get_context("spawn").Process(target=target, args=arguments, daemon=True)
    process.start()
    try:
        yield process.pid or 0
    finally:
        process.kill()
        process.join(10)


def _relay_pid(folder: Path) -> int:
    return int((folder / "relay.pid").read_text())


def cpu_seconds(pids: list[int]) -> float:
    """CPU seconds of these processes so far; it does not hang on what else the machine does."""
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def _serve_relay(folder: Path) -> None:
    (folder.parent / "relay.pid").write_text(str(os.getpid()))
    run_relay(read_bundle(folder), rates=RelayRates(rate=FASTEST, burst=FASTEST))


def _member(folder: Path, spec: SumSpec) -> None:
    walks = ProtocolRegistry()
    walks.add("worker", SERVICE, build_worker_part())
    walks.add("party", PROTOCOL, lambda channel, asked, desk: contribute_vector(channel, spec, lambda: desk))
    policy = Policy((Rule("test", (), (), (PROTOCOL,), ("office",), None, "auto", max_sessions=10_000),))
    bundle: Bundle = read_bundle(folder)
    vector = _vector(bundle.name, spec.length) if bundle.kind == "party" else None
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    serve(bundle, walks, stop, open_desk=lambda: nullcontext(vector), policy=policy)


def _vector(name: str, length: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.random.default_rng(PARTIES.index(name)).integers(-(2**30), 2**30, size=length)


def _put(sender: HttpTransport, session: str, number: int, size: int) -> None:
    start = compute_pair_genesis(session, "north", "w1")
    sealed = secrets.token_bytes(size + SEAL_BYTES)
    step = f"s/{number}"
    header = Header(session, "north", "w1", step, 0, 0, 1, 0, start, "0" * 64, "bytes", len(sealed), "0" * 64)
    sender.put((session, "w1", step, 0, 0), Envelope(header.encode(), bytes(64), sealed).encode())


def _wake(sender: HttpTransport, receiver: HttpTransport, session: str, number: int, after: int) -> float:
    """Seconds from the start of a put until a receiver that waited has it."""
    ended: list[float] = []

    def wait() -> None:
        found = receiver.fetch_next(after, 20)
        ended.append(time.perf_counter())
        assert found is not None
        receiver.acknowledge(found.seq)

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.15)
    began = time.perf_counter()
    _put(sender, session, number, 1_000)
    thread.join(30)
    return ended[0] - began


def _drain(receiver: HttpTransport, upto: int = 10**6) -> int:
    """Take and acknowledge what waits; the last number."""
    last = 0
    for _ in range(upto):
        found = receiver.fetch_next(last, 0)
        if found is None or len(found.wire) > PART_BYTES:
            break
        last = found.seq
    receiver.acknowledge(last)
    return last


def _take(receiver: HttpTransport) -> None:
    found = receiver.fetch_next(0, 0)
    assert found is not None
    receiver.acknowledge(found.seq)


def _waiting(folder: Path, count: int) -> Row:
    """The relay's memory while many roles wait at its inbox."""
    pid = _relay_pid(folder)
    with ExitStack() as stack:
        for k in range(count):
            transport = stack.enter_context(closing(HttpTransport(read_bundle(folder / f"waits{k}"))))
            threading.Thread(target=lambda transport=transport: transport.fetch_next(0, 4), daemon=True).start()
        time.sleep(2)
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
        resident = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
        time.sleep(3)
    return Row("relay-memory", ours=resident / 1e3, goal=200, unit="MB", how=f"resident, {count} roles wait")


def _seconds(call: Callable[[], None]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def _milliseconds(name: str, seconds: list[float], prototype: str, goal: float, how: str) -> Row:
    ours = 1e3 * statistics.median(seconds)
    return Row(name, ours=ours, peer=PROTOTYPE[prototype], goal=goal, unit="ms", how=how)


def free_port() -> int:
    """A port of the loopback address that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def await_port(port: int) -> None:
    """Wait until somebody listens there."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise TimeoutError("the relay did not start")
