"""Table 5.1 of the SMFD chapter: dependencies over three silos, time, traffic and what is shown, on its eight tables.

All roles run in this process, so the figures are CPU seconds without a network; the published ones are wall seconds on
432 virtual CPUs. Real processes over TLS: ``profile_federation``.
"""

from __future__ import annotations

import csv
import gzip
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.row import Options, Row
from siloquent.federation.channel import Channel, MemoryNetwork, run_all
from siloquent.federation.crypto.group import Ristretto
from siloquent.profile.spec import FDReport, ProfileColumn, ProfileSpec
from siloquent.profile.task import Terms
from siloquent.testing.profile import build_parts, build_roster, open_in_memory

SMALL = ("iris", "balance-scale")
SETS: Mapping[str, tuple[int, int]] = {
    "iris": (25, 8),
    "balance-scale": (1, 1),
    "chess": (1, 1),
    "abalone": (139, 10),
    "nursery": (20, 4),
    "breast-cancer-wisconsin": (229, 27),
    "bridges": (287, 28),
    "echocardiogram": (318, 16),
}
"""Sets and passes of the design's own search: what ours is held against."""
PARTIES, WORKERS = 3, 3
LESS = dict.fromkeys(("chess", "breast-cancer-wisconsin", "bridges", "echocardiogram"), 150) | {"abalone": 90}
"""How many times fewer payload bytes than printed there are to be; 20 times on the other tables."""


@dataclass(frozen=True, slots=True)
class Ran:
    """One session: its report, CPU seconds by kind of role, payload bytes over all hops."""

    report: FDReport
    seconds: Mapping[str, float]
    payload: int

    @property
    def total(self) -> float:
        """CPU seconds of all roles."""
        return sum(self.seconds.values())


def rows(options: Options) -> Iterator[Row]:
    """Two rows of each table for the padded and the fast protocol, and the thesis' protocol on two tables."""
    folder = options.data / "smfd"
    lines = published(folder)
    for name, (sets, passes) in SETS.items():
        if options.quick and name not in SMALL:
            continue
        line = lines[name]
        paper_s = float(line["ufd_smfd_sec"]) + float(line["cfd_smfd_sec"])
        paper_mb = float(line["ufd_smfd_mb"]) + float(line["cfd_smfd_mb"])
        for protocol in ("padded", "fast", "smfd") if name in SMALL else ("padded", "fast"):
            first = f"smfd-{name}-{protocol}"
            if not any(options.wants(f"{first}-{what}") for what in ("cpu", "mb", "wrong", "sets", "passes", "votes")):
                continue
            ran = run(folder, name, protocol)
            yield Row(f"{first}-wrong", ours=wrong(folder, name, ran.report), goal=0, unit="dependencies")
            yield Row(f"{first}-cpu", ours=ran.total, paper=paper_s, unit="CPU s", how=_by_role(ran))
            goal = None if protocol == "smfd" else paper_mb / LESS.get(name, 20)
            yield Row(
                f"{first}-mb", ours=ran.payload / 1e6, paper=paper_mb, goal=goal, unit="MB", how="payload, all hops"
            )
            if protocol == "padded":
                shown = float(line["thesis_attr_sets"])
                yield Row(f"{first}-sets", ours=ran.report.leakage.sets, paper=shown, peer=sets, unit="sets asked")
                yield Row(f"{first}-passes", ours=ran.report.leakage.passes, peer=passes, goal=30, unit="passes")
                voted, by_size = ran.report.leakage.votes, float(line["tane_cfd_candidates"])
                published_votes, how = float(line["thesis_cfd_candidates"]), "peer: by the size of the set, as TANE"
                yield Row(f"{first}-votes", ours=voted, paper=published_votes, peer=by_size, unit="votes", how=how)
    yield from _linear(options, folder)
    yield from _kernel(options)


def run(folder: Path, name: str, protocol: str, *, parties: int = PARTIES, workers: int = WORKERS) -> Ran:
    """A whole session over contiguous blocks of one table."""
    table = load(folder, name)
    blocks = np.array_split(np.arange(table.num_rows), parties)
    tables = [table.slice(int(block[0]), len(block)) for block in blocks]
    names = tuple(table.column_names)
    spec = ProfileSpec(name, names, protocol=protocol, max_lhs=len(names), min_rows=2, size_class=False)  # type: ignore[arg-type]
    network = MemoryNetwork(build_roster(parties, workers))
    opened = [open_in_memory(part, role) for part, role in zip(tables, network.members.parties, strict=True)]
    terms = Terms(spec, tuple(ProfileColumn(column, "text") for column in names))
    seconds: dict[str, float] = {"party": 0.0, "worker": 0.0, "moderator": 0.0}

    def timed(kind: str, part: Callable[[Channel], Any]) -> Callable[[Channel], Any]:
        def measured(channel: Channel) -> Any:
            start = time.thread_time()
            try:
                return part(channel)
            finally:
                seconds[kind] += time.thread_time() - start

        return measured

    parts = build_parts(network.members, terms, opened, group=Ristretto())
    results = run_all(network, {role: timed(network.members[role].kind, part) for role, part in parts.items()})
    report = results[network.members.moderator]
    assert isinstance(report, FDReport)
    return Ran(report, seconds, sum(map(len, network.list_traffic().values())))


def wrong(folder: Path, name: str, report: FDReport) -> int:
    """How many dependencies differ from the golden lists, missing and invented ones together."""
    with gzip.open(folder / f"{name}.fds.json.gz", "rt") as file:
        golden = json.load(file)
    found = {"uFD": report.ufd, "cFD3": report.cfd}
    return sum(
        len({(frozenset(lhs), rhs) for lhs, rhs in golden[kind]} ^ {(frozenset(d.lhs), d.rhs) for d in listed})
        for kind, listed in found.items()
    )


def load(folder: Path, name: str) -> pa.Table:
    """One table as texts."""
    with gzip.open(folder / f"{name}.csv.gz", "rt") as file:
        head, *lines = list(csv.reader(file))
    return pa.table({column: [line[j] for line in lines] for j, column in enumerate(head)})


def _linear(options: Options, folder: Path) -> Iterator[Row]:
    """Figures 5.9 and 5.11: CPU seconds grow in proportion to parties' rows and to workers, no faster."""
    if options.wants("smfd-parties"):
        two, ten = (run(folder, "balance-scale", "padded", parties=n).total for n in (2, 10))
        how = "balance-scale, the same rows at 10 parties against 2"
        yield Row("smfd-parties", ours=ten / two, goal=5, unit="times", how=how)
    if options.wants("smfd-workers"):
        two, eight = (run(folder, "iris", "padded", workers=n).total for n in (2, 8))
        yield Row("smfd-workers", ours=eight / two, goal=4, unit="times", how="iris, 8 workers against 2")


def _kernel(options: Options) -> Iterator[Row]:
    """A hop against the bare scalar multiplications that it consists of."""
    if not options.wants("smfd-hop"):
        return
    import rbcl

    from siloquent.federation.crypto.chain import hop

    group, count = Ristretto(), 2_000
    batch = group.from_uniform(np.random.default_rng(1).bytes(64 * count))
    scalar = group.reduce_wide(np.random.default_rng(2).bytes(64))
    points = [batch[at : at + 32] for at in range(0, len(batch), 32)]
    ratios = []
    for query in range(5):
        start = time.process_time()
        for point in points:
            rbcl.crypto_scalarmult_ristretto255(scalar, point)
        bare = time.process_time() - start
        start = time.process_time()
        hop(group, batch, shared=bytes(32), own=bytes(32), session=bytes(32), query=query, party=0)
        ratios.append((time.process_time() - start) / bare)
    yield Row("smfd-hop", ours=sorted(ratios)[2], goal=1.15, unit="times", how="2,000 points, taking turns")


def _by_role(ran: Ran) -> str:
    return ", ".join(f"{kind} {seconds:.2f}" for kind, seconds in ran.seconds.items())


def published(folder: Path) -> dict[str, dict[str, str]]:
    """The lines of the chapter's Table 5.1, by name of the table."""
    with (folder / "table_5_1.csv").open(encoding="utf-8") as file:
        return {line["dataset"]: line for line in csv.DictReader(file)}
