"""The moderator's part of a session: terms, votes, the search of the terms' protocol, the report."""

from __future__ import annotations

from siloquent.errors import ProtocolError
from siloquent.federation.channel import Channel
from siloquent.federation.crypto.group import Group, Ristretto
from siloquent.federation.crypto.worker_messages import EndOrder
from siloquent.maths.dependencies import FD, list_columns
from siloquent.profile.protocol import Agreed, EntryMessage, Final, Report, Sizes
from siloquent.profile.spec import FDReport, Leakage, build_dependencies, compute_columns_digest, describe_leakage
from siloquent.profile.task.level_search import ask_levels
from siloquent.profile.task.moderator import Moderator
from siloquent.profile.task.progress import ProgressCallback, ignore_progress
from siloquent.profile.task.set_search import ask_sets
from siloquent.profile.task.voting import hold_votes
from siloquent.profile.terms import Terms

MAX_ROWS = 2**24


def discover(
    channel: Channel, terms: Terms, *, group: Group | None = None, say: ProgressCallback = ignore_progress
) -> FDReport:
    """Find the dependencies of all parties' rows together, as the moderator.

    Args:
        terms: The request; every party approves or refuses it.
        say: Called with a description of the session's progress.
    Returns:
        The report, confirmed by every party.
    Raises:
        ProtocolError: a role declined, broke the protocol or left; there is no result.
    Privacy:
        Input privacy: ``siloquent.profile.spec.leakage`` states what the moderator and the others learn.
    """
    moderator = Moderator(channel, terms, group or Ristretto(), say)
    try:
        _start(moderator)
        cfds = hold_votes(moderator)
        ufds, keys = (ask_levels(moderator), []) if terms.spec.protocol == "smfd" else ask_sets(moderator, cfds)
        moderator.order(EndOrder())
        return _agree(moderator, _build_report(moderator, ufds, cfds, keys))
    except ProtocolError as broken:
        if broken.code in ("aborted_by", "session_closed"):
            raise
        channel.abort(broken.code, step=broken.step)


def _start(moderator: Moderator) -> None:
    """Send the terms to the parties; send the sizes of all when every party has joined."""
    terms, channel = moderator.terms, moderator.channel
    if len(moderator.parties) < 2 or len(moderator.workers) < 2:
        raise ProtocolError("policy_refused", role=channel.me)
    moderator.tell(Terms.step(), terms)
    digest = compute_columns_digest(terms.columns)
    for party, payload in channel.gather(EntryMessage.step(), moderator.parties).items():
        entry = EntryMessage.from_payload(payload)
        if entry.columns != digest or not terms.spec.min_rows <= entry.size <= MAX_ROWS:
            raise ProtocolError("bad_encoding", role=party, step=EntryMessage.step())
        moderator.sizes.append(entry.size)
    moderator.tell(Sizes.step(), Sizes(tuple(moderator.sizes)))
    moderator.say(f"{len(moderator.sizes)} parties joined")


def _agree(moderator: Moderator, report: FDReport) -> FDReport:
    """Send the result to all parties; it is final when every party has confirmed it."""
    moderator.tell(Report.step(), Report(report))
    confirmed = moderator.channel.gather(Agreed.step(), moderator.parties)
    expected = Agreed(report.compute_digest())
    for party, payload in confirmed.items():
        if not expected.matches(payload):
            raise ProtocolError("planner_mismatch", role=party, step=Agreed.step())
    moderator.tell(Final.step(), Final(tuple(confirmed)))
    return report.add_confirmations(confirmed)


def _build_report(moderator: Moderator, ufds: list[FD], cfds: list[FD], keys: list[int]) -> FDReport:
    spec = moderator.terms.spec
    shown = describe_leakage(
        spec.protocol,
        parties=len(moderator.sizes),
        workers=len(moderator.workers),
        size_class=spec.size_class,
        sets=moderator.sets,
        votes=moderator.votes,
    )
    return FDReport(
        protocol=f"{spec.protocol}/1",
        columns=moderator.terms.columns,
        nulls=spec.nulls,
        empty_lhs=spec.empty_lhs,
        complete_to_lhs=spec.most,
        parties=tuple(zip(moderator.parties, moderator.sizes, strict=True)),
        workers=moderator.workers,
        ufd=build_dependencies(ufds, spec.columns),
        cfd=build_dependencies(cfds, spec.columns),
        keys=tuple(tuple(spec.columns[column] for column in list_columns(key)) for key in keys),
        constants=tuple(spec.columns[right] for lhs, right in ufds if lhs == 0),
        leakage=Leakage(moderator.sets, moderator.votes, moderator.passes, shown),
        canaries=(moderator.canaries + moderator.synthetic, 0),
        session=moderator.channel.session.hex(),
    )
