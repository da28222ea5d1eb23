"""Table 5.1 of the SMFD chapter by real processes: relay, three parties, three workers, over loopback TLS 1.3.

Every role is the process that ``siloquent relay run``, ``worker run`` or ``party run`` starts, with certificates, a
journal on disk and, at parties, a workspace with a ledger; the moderator is this process. Seconds are those of the
wall, from the first byte of the invitation to everybody's signed transcript, and hang on what else the machine does,
which is told. The published seconds are of 432 virtual CPUs. CPU alone: ``profile_smfd``.
"""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet

from benchmarks.profile.federation import await_port, cpu_seconds, free_port, process_of
from benchmarks.profile.smfd import LESS, SMALL, load, published, wrong
from benchmarks.row import Options, Row
from benchmarks.trials.slow_link import Link, carry
from siloquent.federation.identity import operator
from siloquent.federation.identity.bundle import read_bundle
from siloquent.federation.identity.operator import FederationDescription
from siloquent.federation.messages.message import Header
from siloquent.profile.federated import run_session
from siloquent.profile.spec import FDReport, ProfileColumn, ProfileSpec
from siloquent.profile.task import Terms
from siloquent.session import create_workspace

PARTIES, WORKERS = ("north", "river", "hill"), ("w1", "w2", "w3")
GOALS_S: Mapping[str, float] = {
    "iris": 2,
    "balance-scale": 2,
    "chess": 42,
    "abalone": 182,
    "nursery": 53,
    "breast-cancer-wisconsin": 150,
    "bridges": 172,
    "echocardiogram": 134,
}
"""The design's goals for the whole session: a tenth of the published seconds."""
CFD_GOAL_S = 5.0
WARM = "iris"  # a first session loads what every process needs once
LINKS = (Link(100, 0.010), Link(10, 0.050))


@dataclass(frozen=True, slots=True)
class Ran:
    """One session by processes: its report, seconds of the wall and of CPU, payload bytes by hop."""

    report: FDReport
    wall: float
    cfd: float  # seconds until the last vote was known
    cfd_cpu: float
    cpu: float
    others: float  # CPU seconds that the machine spent on other work meanwhile
    rounds: int
    hops: Mapping[str, int]
    envelopes: int  # bytes of all of them, headers and signatures included


def rows(options: Options) -> Iterator[Row]:
    """Each table by the padded and the fast protocol, two of them by the thesis' own, one over slower networks."""
    folder = options.data / "smfd"
    lines = published(folder)
    asked = [
        (name, protocol)
        for name in GOALS_S
        for protocol in (("padded", "fast", "smfd") if name in SMALL else ("padded", "fast"))
        if not (options.quick and name not in SMALL) and _wanted(options, f"tables-{name}-{protocol}")
    ]
    yield from _slow(options, folder)
    if not asked:
        return
    with federation(folder, sorted({name for name, _ in asked} | {WARM})) as place:
        run(place, folder, WARM, "padded")
        for name, protocol in asked:
            yield from _rows(run(place, folder, name, protocol), folder, name, protocol, lines[name])


def _slow(options: Options, folder: Path) -> Iterator[Row]:
    """One table over slower networks, against loopback in the same run."""
    links = [link for link in LINKS if not options.quick and options.wants(f"slow-{link.name}")]
    if not links:
        return
    with federation(folder, [WARM]) as place:
        run(place, folder, WARM, "padded")
        near = run(place, folder, WARM, "padded").wall
    for link in links:
        with federation(folder, [WARM], link) as place:
            run(place, folder, WARM, "padded")
            far = run(place, folder, WARM, "padded").wall
        how = f"{WARM}, padded, beside {near:.1f} s over loopback: {far / near:.1f} times"
        yield Row(f"slow-{link.name}", ours=far, unit="s", how=how)


def _wanted(options: Options, first: str) -> bool:
    return any(options.wants(f"{first}-{what}") for what in ("wall", "cfd", "cpu", "mb", "rounds", "sets", "wrong"))


def _rows(ran: Ran, folder: Path, name: str, protocol: str, line: Mapping[str, str]) -> Iterator[Row]:
    first, report = f"tables-{name}-{protocol}", ran.report
    paper_s = float(line["ufd_smfd_sec"]) + float(line["cfd_smfd_sec"])
    paper_mb = float(line["ufd_smfd_mb"]) + float(line["cfd_smfd_mb"])
    busy = f"{os.cpu_count()} CPUs, which gave other work {ran.others:.0f} CPU s meanwhile"
    hops = ", ".join(f"{hop} {size / 1e6:.2f}" for hop, size in sorted(ran.hops.items()))
    hops = f"with headers {ran.envelopes / 1e6:.2f}; {hops}"
    yield Row(f"{first}-wrong", ours=wrong(folder, name, report), goal=0, unit="dependencies")
    yield Row(f"{first}-wall", ours=ran.wall, paper=paper_s, goal=GOALS_S[name], unit="s", how=busy)
    how = f"joins and every party's own search in; {ran.cfd_cpu:.1f} CPU s"
    yield Row(f"{first}-cfd", ours=ran.cfd, paper=float(line["cfd_smfd_sec"]), goal=CFD_GOAL_S, unit="s", how=how)
    yield Row(f"{first}-cpu", ours=ran.cpu, unit="CPU s", how="all 8 processes")
    goal = None if protocol == "smfd" else paper_mb / LESS.get(name, 20)
    yield Row(f"{first}-mb", ours=sum(ran.hops.values()) / 1e6, paper=paper_mb, goal=goal, unit="MB", how=hops)
    how = f"{ran.rounds} rounds of votes, {report.leakage.passes} passes"
    yield Row(f"{first}-rounds", ours=ran.rounds + report.leakage.passes, unit="rounds", how=how)
    yield Row(f"{first}-sets", ours=report.leakage.sets, paper=float(line["thesis_attr_sets"]), unit="sets asked")


@dataclass(frozen=True, slots=True)
class Place:
    """Where the bundles are, and the process ids of all roles that run."""

    bundles: Path
    pids: tuple[int, ...]


@contextmanager
def federation(data: Path, names: list[str], link: Link | None = None) -> Iterator[Place]:
    """Bundles, workspaces with one block of each table, and every role but the moderator as a process.

    ``link``: all reach the relay over a network like this; None: over loopback.
    """
    with tempfile.TemporaryDirectory() as made, ExitStack() as stack:
        port, bundles = free_port(), Path(made) / "bundles"
        roles = [(name, "party", f"{name} clinic") for name in PARTIES]
        roles += [(name, "worker", f"host {name}") for name in WORKERS]
        roles += [("office", "moderator", "registry")]
        operator.init(FederationDescription("tables", f"https://127.0.0.1:{port}", tuple(roles)), bundles)  # type: ignore[arg-type]
        for place, party in enumerate(PARTIES):
            _workspace(Path(made) / party, data, names, place)
        inner = free_port() if link else port
        started = [stack.enter_context(_role("relay", bundles / "relay", after=("--port", str(inner))))]
        await_port(inner)
        if link:
            stack.enter_context(process_of(carry, link, port, inner))
            await_port(port)
        started += [stack.enter_context(_role("worker", bundles / name)) for name in WORKERS]
        started += [
            stack.enter_context(_role("party", bundles / name, "--workspace", f"{made}/{name}")) for name in PARTIES
        ]
        yield Place(bundles, (os.getpid(), *started))


@contextmanager
def _role(kind: str, bundle: Path, *before: str, after: tuple[str, ...] = ()) -> Iterator[int]:
    words = [sys.executable, "-m", "siloquent", *before, kind, "run", "--bundle", str(bundle), *after]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait(10)


def _workspace(folder: Path, data: Path, names: list[str], place: int) -> None:
    made = create_workspace(folder)
    (folder / "data").mkdir(exist_ok=True)
    rules = []
    for name in names:
        table, known = load(data, name), name.replace("-", "_")
        block = np.array_split(np.arange(table.num_rows), len(PARTIES))[place]
        pyarrow.parquet.write_table(table.slice(int(block[0]), len(block)), folder / "data" / f"{known}.parquet")
        columns = {column: sorted(set(table[column].to_pylist())) for column in table.column_names}
        (made.schemas / f"{known}.toml").write_text(_declared(known, columns, len(block)), encoding="utf-8")
        rules.append(_RULE.format(table=known, columns=_texts(list(columns))))
    (folder / "federation.toml").write_text("\n".join(rules), encoding="utf-8")


def _declared(name: str, columns: Mapping[str, list[str]], count: int) -> str:
    attributes = "\n".join(
        f'  {{ name = {_text(column)}, type = "category", null = "drop", values = {_texts(values)} }},'
        for column, values in columns.items()
    )
    return _TABLE.format(name=name, attributes=attributes, rows=count)


def _text(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _texts(texts: list[str]) -> str:
    return f"[{', '.join(map(_text, texts))}]"


def run(place: Place, data: Path, name: str, protocol: str) -> Ran:
    """One session over the whole of a table, with the default spec but for the length of left sides."""
    columns = tuple(load(data, name).column_names)
    spec = ProfileSpec(name.replace("-", "_"), columns, protocol=protocol, max_lhs=len(columns))  # type: ignore[arg-type]
    terms = Terms(spec, tuple(ProfileColumn(column, "text") for column in columns))
    voted: list[tuple[float, float]] = []

    def now() -> tuple[float, float]:
        return time.perf_counter(), cpu_seconds(list(place.pids))

    def say(words: str) -> None:
        if re.match("votes: round", words):
            voted.append(now())

    busy, (began, spent) = _busy(), now()
    report = run_session(read_bundle(place.bundles / "office"), terms, say=say)
    ended, cpu = now()
    others = max(0.0, _busy() - busy - (cpu - spent))
    (cfd, cfd_cpu), (hops, whole) = voted[-1], _hops(place.bundles / "relay", report.session)
    return Ran(report, ended - began, cfd - began, cfd_cpu - spent, cpu - spent, others, len(voted), hops, whole)


def _busy() -> float:
    """CPU seconds that this machine has spent since its start, on whatever it was."""
    fields = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:]
    idle = int(fields[3]) + int(fields[4])
    return (sum(map(int, fields[:8])) - idle) / os.sysconf("SC_CLK_TCK")


def _hops(relay: Path, session: str) -> tuple[dict[str, int], int]:
    """Sealed payload bytes of one session by kinds of sender and receiver; and all bytes, headers and signatures in."""
    (store,) = relay.rglob("*.sqlite")
    kinds = dict.fromkeys(PARTIES, "party") | dict.fromkeys(WORKERS, "worker")
    found, whole = dict[str, int](), 0
    with sqlite3.connect(f"file:{store}?mode=ro", uri=True) as db:
        lines = db.execute("SELECT sender, receiver, header, size FROM message WHERE session = ?", (session,))
        for sender, receiver, header, size in lines.fetchall():
            hop = f"{kinds.get(sender, 'moderator')} to {kinds.get(receiver, 'moderator')}"
            found[hop] = found.get(hop, 0) + Header.decode(header).size
            whole += size
    return found, whole


_RULE = """\
[[allow]]
task = "profile"
tables = ["{table}"]
columns = {columns}
protocols = ["padded/1", "fast/1", "smfd/1"]
moderators = ["office"]
approve = "auto"
max_sessions = 1000
"""
_TABLE = """\
format = 1

attribute = [
{attributes}
]

[table]
name = "{name}"
source = "parquet:data/{name}.parquet"
adjacency = "add-remove"
size_hint = {rows}
unit = {{ kind = "row" }}

[budget]
accountant = "pure"
epsilon = "1"
disclosures = true
"""
