"""Profiles over a federation: the invitation that members see, and the roles' parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from siloquent.errors import ProtocolError, RequestError, UnknownName
from siloquent.federation.channel import Channel
from siloquent.federation.crypto.worker import ChainWorker
from siloquent.federation.messages.invitation import Invitation
from siloquent.federation.protocols import ProtocolRegistry
from siloquent.fixes import UseOption, build_fix
from siloquent.profile.encodings import compute_digest
from siloquent.profile.spec import FDReport, describe_leakage
from siloquent.profile.spec.request import PROTOCOLS
from siloquent.profile.task.discover import discover
from siloquent.profile.task.progress import ProgressCallback, ignore_progress
from siloquent.profile.task.respond import respond
from siloquent.profile.task.workspace_party import build_row_opener
from siloquent.profile.terms import Terms, parse_terms

if TYPE_CHECKING:
    from siloquent.federation.identity.bundle import Bundle
    from siloquent.session import WorkspaceSession

TASK, SERVICE = "profile", "chain/1"


def add_protocols(walks: ProtocolRegistry) -> None:
    """Register the parts for profiles: parties answer, workers run the chain's steps."""
    walks.add("worker", SERVICE, _work)
    for protocol in PROTOCOLS:
        walks.add("party", f"{protocol}/1", _answer)


def build_invitation(terms: Terms, *, parties: int, workers: int) -> Invitation:
    """Build the invitation shown to members before they accept: columns, protocol, leakage of each role.

    All invited parties must join: a session over fewer is another session, which the moderator starts.
    """
    spec = terms.spec
    shown = describe_leakage(spec.protocol, parties=parties, workers=workers, size_class=spec.size_class)
    return Invitation(
        protocol=f"{spec.protocol}/1",
        task=TASK,
        service=SERVICE,
        tables=(spec.table,),
        columns=spec.columns,
        statement="Not differential privacy. " + "; ".join(f"{role}: {text}" for role, text in shown),
        body={"terms": terms.to_dict(), "max_sets": terms.most_sets},
        min_parties=parties,
        session_deadline_s=max(1, int(spec.deadline)),
    )


def build_moderator_part(
    terms: Terms, *, say: ProgressCallback = ignore_progress
) -> Callable[[Channel, Invitation, Any], FDReport]:
    """Build the moderator's part, for ``siloquent.federation.role_process.moderate``."""
    return partial(_moderate, terms, say)


def run_session(
    bundle: Bundle,
    terms: Terms,
    *,
    without: Iterable[str] = (),
    session: str | None = None,
    say: ProgressCallback = ignore_progress,
    watch: Callable[[Channel], None] = lambda channel: None,
) -> FDReport:
    """Run a session as the moderator of a federation: invite, ask, and end with every role's signed transcript head.

    Args:
        without: Names in the roster that are not invited.
        session: The id of a session that an earlier process began, to continue it.
        watch: Called every two seconds or so; ``channel.get_status()`` says which roles it waits for, and since when.
    Raises:
        UnknownName: a name is not in the roster. RequestError: fewer than two parties or workers are left.
        ProtocolError: as ``discover``; ``NotAllowed``: the bundle is not a moderator's.
    """
    from siloquent.federation.role_process import moderate

    left_out = set(without)
    known = [role.name for role in bundle.roster.roles]
    for name in sorted(left_out.difference(known)):
        unknown = UnknownName("role", name, known)
        left = UseOption("without", unknown.near) if unknown.near else "without one of these, or none"
        unknown.remedy = build_fix(UseOption("bundle", str(bundle.folder)), " ", left)
        raise unknown
    roles = [role for role in bundle.roster.roles if role.name not in left_out]
    names = {kind: [role.name for role in roles if role.kind == kind] for kind in ("party", "worker")}
    if min(map(len, names.values())) < 2:
        raise RequestError("A session needs at least two parties and two workers.", fix="exclude fewer roles")
    invitation = build_invitation(terms, parties=len(names["party"]), workers=len(names["worker"]))
    members = (*names["party"], *names["worker"])
    held = moderate(bundle, invitation, members, build_moderator_part(terms, say=say), session=session, watch=watch)
    report = held.result
    assert isinstance(report, FDReport)
    return replace(report, transcript=f"sha256:{compute_digest(held.heads)}")


def _moderate(terms: Terms, say: ProgressCallback, channel: Channel, invitation: Invitation, desk: Any) -> FDReport:
    return discover(channel, terms, say=say)


def _work(channel: Channel, invitation: Invitation, desk: Any) -> None:
    ChainWorker(channel).run()


def _answer(channel: Channel, invitation: Invitation, desk: WorkspaceSession) -> FDReport:
    """Run a party's part: its policy or owner accepted the invitation, so the terms must be the invitation's.

    The invitation's statements must equal those derived from its terms, since the owner judged the former.
    """
    members = channel.members
    terms = parse_terms(invitation.body.get("terms"))
    meant = build_invitation(terms, parties=len(members.parties), workers=len(members.workers))
    invitation.require_same(meant, members.moderator)

    def is_as_invited(terms: Terms, told: str) -> bool:
        if terms.to_dict() != invitation.body.get("terms"):
            raise ProtocolError("planner_mismatch", role=channel.members.moderator, step="terms")
        return True

    return respond(channel, build_row_opener(desk, channel, is_as_invited))
