"""All roles of a session in this process, on public rows: for trying a spec, tests and benchmarks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from siloquent.errors import RequestError
from siloquent.federation.channel import Channel, Member, Members, MemoryNetwork, run_all
from siloquent.federation.crypto.group import Group, Ristretto
from siloquent.federation.crypto.worker import ChainWorker
from siloquent.fixes import UseOption, build_fix
from siloquent.profile.measure import Snapshot, read_arrow_snapshot
from siloquent.profile.spec import FDReport, ProfileColumn, ProfileSpec
from siloquent.profile.task.discover import discover
from siloquent.profile.task.progress import ProgressCallback, ignore_progress
from siloquent.profile.task.respond import RowOpener, respond
from siloquent.profile.terms import Terms


def simulate(
    spec: ProfileSpec,
    tables: Sequence[Any],
    columns: Sequence[ProfileColumn],
    *,
    workers: int = 3,
    group: Group | None = None,
    network: MemoryNetwork | None = None,
    say: ProgressCallback = ignore_progress,
) -> FDReport:
    """Run moderator, workers and one party for each of ``tables`` in memory.

    Args:
        tables: Anything with ``__arrow_c_stream__``, holding public rows.
        columns: Types of the spec's columns.
        network: The network for messages: pass one to inspect them afterwards.
    Returns:
        The report, as every role has it.
    Raises:
        As ``discover``.
    """
    if len(tables) < 2 or workers < 2:
        raise RequestError(
            "A simulation needs at least two parties and two workers.",
            fix=build_fix(UseOption("split", 3), " ", UseOption("workers", 3)),
        )
    chosen = network or MemoryNetwork(build_roster(len(tables), workers))
    snapshots = [open_in_memory(table, name) for table, name in zip(tables, chosen.members.parties, strict=True)]
    parts = build_parts(chosen.members, Terms(spec, tuple(columns)), snapshots, group=group or Ristretto(), say=say)
    reports = run_all(chosen, parts)
    report = reports[chosen.members.moderator]
    assert isinstance(report, FDReport)
    return report


def build_roster(parties: int, workers: int) -> Members:
    """Build the roles of a simulation: p1, p2, ..., w1, w2, ..., and the moderator ``office``."""
    names = [Member(f"p{n}", "party", f"party {n}") for n in range(1, parties + 1)]
    names += [Member(f"w{n}", "worker", f"worker {n}") for n in range(1, workers + 1)]
    return Members((*names, Member("office", "moderator", "office")))


def open_in_memory(table: Any, name: str) -> RowOpener:
    """Build a row opener for a public table."""

    def open_rows(agreed: Terms) -> Snapshot:
        random = name.encode().ljust(16, b"\0")
        return read_arrow_snapshot(table, agreed.columns, nulls=agreed.spec.nulls, party=name, random=random)

    return open_rows


def build_parts(
    members: Members, terms: Terms, rows: Sequence[RowOpener], *, group: Group, say: ProgressCallback = ignore_progress
) -> dict[str, Callable[[Channel], FDReport | None]]:
    """Build the part of each role; ``rows``: the row opener of each party."""

    def party(open_rows: RowOpener) -> Callable[[Channel], FDReport]:
        return lambda channel: respond(channel, open_rows, group=group)

    def worker(channel: Channel) -> None:
        ChainWorker(channel, group).run()

    parts: dict[str, Callable[[Channel], FDReport | None]] = {
        name: party(open_rows) for name, open_rows in zip(members.parties, rows, strict=True)
    }
    parts |= dict.fromkeys(members.workers, worker)
    parts[members.moderator] = lambda channel: discover(channel, terms, group=group, say=say)
    return parts
