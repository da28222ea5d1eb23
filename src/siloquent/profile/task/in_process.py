"""A whole session on one machine: workspaces as parties, workers and moderator, each in a thread of this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from siloquent.errors import RequestError
from siloquent.federation.channel import Channel, Member, Members, MemoryNetwork, run_all
from siloquent.federation.crypto.group import Ristretto
from siloquent.federation.crypto.worker import ChainWorker
from siloquent.profile.spec import FDReport, ProfileSpec, build_columns
from siloquent.profile.task.discover import discover
from siloquent.profile.task.progress import ProgressCallback, ignore_progress
from siloquent.profile.task.respond import respond
from siloquent.profile.task.workspace_party import Approve, build_row_opener
from siloquent.profile.terms import Terms

if TYPE_CHECKING:
    from siloquent.session import WorkspaceSession

MODERATOR = "office"


def discover_in_process(
    spec: ProfileSpec,
    sessions: Mapping[str, WorkspaceSession],
    approve: Approve,
    *,
    workers: int = 3,
    say: ProgressCallback = ignore_progress,
) -> FDReport:
    """Run a session whose parties are the workspaces ``sessions``, by role name, all in this process.

    It shows what a federation would find and what each role would see. It does not protect the rows from the person
    who runs this process, since the process holds every key.

    Raises:
        RequestError: fewer than two parties or workers. ProtocolError: a party declined or failed.
    Privacy:
        As ``discover``, recorded in each workspace's ledger.
    """
    if len(sessions) < 2 or workers < 2:
        raise RequestError("A session needs at least two parties and two workers.", fix="name two workspaces")
    members = Members(
        (
            *(Member(name, "party") for name in sessions),
            *(Member(f"w{number}", "worker") for number in range(1, workers + 1)),
            Member(MODERATOR, "moderator"),
        )
    )
    first = next(iter(sessions.values()))
    terms = Terms(spec, build_columns(first.schema(spec.table), spec.columns))
    # Opened before the threads start, so that a problem of a workspace is reported here, and once.
    for session in sessions.values():
        session.table(spec.table)

    def party(name: str, channel: Channel) -> FDReport:
        return respond(channel, build_row_opener(sessions[name], channel, approve))

    def worker(channel: Channel) -> None:
        ChainWorker(channel, Ristretto()).run()

    parts: dict[str, Callable[[Channel], FDReport | None]] = {name: partial(party, name) for name in sessions}
    parts |= dict.fromkeys(members.workers, worker)
    parts[MODERATOR] = lambda channel: discover(channel, terms, say=say)
    report = run_all(MemoryNetwork(members), parts)[MODERATOR]
    assert isinstance(report, FDReport)
    return report
