"""Profiles over a federation: the invitation that members see, and the parts that roles play."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from siloquent.errors import ProtocolError
from siloquent.federation.channel import Channel
from siloquent.federation.crypto.worker import ChainWorker
from siloquent.federation.invitation import Invitation
from siloquent.federation.walks import Walks
from siloquent.profile.spec import FDReport, statement
from siloquent.profile.spec.request import PROTOCOLS
from siloquent.profile.task.discover import discover
from siloquent.profile.task.member import rows_of
from siloquent.profile.task.respond import respond
from siloquent.profile.task.terms import Say, Terms, silent

if TYPE_CHECKING:
    from siloquent.session import Session

TASK, SERVICE = "profile", "chain/1"


def add_parts(walks: Walks) -> None:
    """Let a role's process take part in profiles: parties answer, workers run the chain's steps."""
    walks.add("worker", SERVICE, _work)
    for protocol in PROTOCOLS:
        walks.add("party", f"{protocol}/1", _answer)


def invitation_of(terms: Terms, *, parties: int, workers: int) -> Invitation:
    """What members are shown before they say yes: columns, protocol, what each role could learn.

    All parties invited must come: a session over fewer is another one, which the moderator starts anew.
    """
    spec = terms.spec
    shown = statement(spec.protocol, parties=parties, workers=workers)
    return Invitation(
        protocol=f"{spec.protocol}/1",
        task=TASK,
        service=SERVICE,
        tables=(spec.table,),
        columns=spec.columns,
        statement="Not differential privacy. " + "; ".join(f"{role}: {text}" for role, text in shown),
        body={"terms": terms.to_plain(), "max_sets": terms.most_sets},
        min_parties=parties,
        session_deadline_s=max(1, int(spec.deadline)),
    )


def moderator_part(terms: Terms, *, say: Say = silent) -> Callable[[Channel, Invitation, Any], FDReport]:
    """The moderator's part, for ``siloquent.federation.role.hold``."""
    return partial(_moderate, terms, say)


def _moderate(terms: Terms, say: Say, channel: Channel, invitation: Invitation, desk: Any) -> FDReport:
    return discover(channel, terms, say=say)


def _work(channel: Channel, invitation: Invitation, desk: Any) -> None:
    ChainWorker(channel).run()


def _answer(channel: Channel, invitation: Invitation, desk: Session) -> FDReport:
    """A party's part: its policy or owner has agreed to the invitation, so the terms must be the invitation's."""

    def is_as_invited(terms: Terms, told: str) -> bool:
        if terms.to_plain() != invitation.body.get("terms"):
            raise ProtocolError("planner_mismatch", role=channel.members.moderator, step="terms")
        return True

    return respond(channel, rows_of(desk, channel, is_as_invited))
