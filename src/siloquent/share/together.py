"""Trust "sum": silos add up their vectors with one noise in all, so that nobody sees one silo's numbers.

Every silo adds a share of the noise in its own measure room; what leaves it looks uniform to whoever lacks one worker's
part. Each silo is charged for the whole event, before it reads a row, and keeps the public sum as its release.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from siloquent.charging import require_planned
from siloquent.errors import ProtocolError, RequestError
from siloquent.ledger import Permit, Stored
from siloquent.share import measure
from siloquent.share.plan import SharePlan
from siloquent.share.release import ShareRelease
from siloquent.share.spec import ShareSpec, spec_from_plain
from siloquent.share.task import assemble, explain, release_of, reserved, spec_to_plain

if TYPE_CHECKING:
    from siloquent.federation.channel.base import Channel
    from siloquent.federation.invitation import Invitation
    from siloquent.federation.sums import Sum, SumSpec
    from siloquent.federation.walks import Walks
    from siloquent.session import Session
    from siloquent.share.encoding import Integers

PROTOCOL = "share/1"
BOUND = 2**45
"""What one silo's number is below, before noise: 10^8 rows, products of moments included."""


def release_sum(
    session: Session, spec: ShareSpec, channel: Channel, *, key: str | None = None, max_cost: str | None = None
) -> ShareRelease:
    """This silo's part in a secure sum; the release is the sum over all silos that are in it.

    Args:
        spec: Equal at all silos but for the table's name.
        channel: To the other silos, the workers and the moderator of one session.
        key: As in ``release``; None: the session's id, so that a silo which is started again pays once.
    Raises:
        As ``release``. ProtocolError: another role failed; what was reserved stays charged, a retry of the same session
        costs no more.
    Privacy:
        ``plan.event`` in the account's unit and adjacency, charged durably before a row is read, as long as ``honest``
        silos follow the protocol and keep their noise to themselves. The workers learn nothing unless all of them pool
        what they got. Proof: docs/explanation/share.md.
    """
    from siloquent.federation.sums import give

    if spec.trust != "sum":
        raise RequestError("A release with its own full noise needs no other silo.", fix="session.share.release(spec)")
    chosen = explain(session, spec)
    key = f"sum-{channel.session.hex()[:32]}" if key is None else key
    permits: list[Permit | Stored] = []

    def reserve() -> Permit | Stored:
        if not permits:
            also = channel.session.hex()
            permits.append(reserved(session, spec, key=key, max_cost=max_cost, also=also)[3])
        return permits[0]

    def noisy() -> Integers:
        permit = reserve()
        if isinstance(permit, Stored):
            raise RequestError("This session was settled before.", fix="start a new session", spent="what was reserved")
        require_planned(permit, chosen.event)
        return measure.shared_counts(chosen, session.table_of(chosen.schema, spent="what was reserved"), permit)

    summed = give(channel, sum_spec(chosen), noisy)
    permit = reserve()
    stored = permit if isinstance(permit, Stored) else _settled(session, chosen, permit, summed)
    return assemble(chosen.schema, stored)


def _settled(session: Session, chosen: SharePlan, permit: Permit, summed: Sum) -> Stored:
    made = release_of(chosen, {"counts": summed.total}, members=summed.parties)
    return session.ledger.settle(permit, permit.event, made.to_bytes())


def sum_spec(chosen: SharePlan) -> SumSpec:
    """The secure sum of a plan: what its workers and moderator need to know, and nothing about rows."""
    from siloquent.federation.sums import SumSpec

    spec = chosen.spec
    assert spec.agents is not None and spec.honest is not None and chosen.layout is not None  # noqa: PT018 - by the spec
    return SumSpec(
        name=f"share {chosen.agreement.digest[:16]}",
        length=chosen.layout.length,
        bound=BOUND,
        parties=spec.agents,
        min_parties=spec.honest + 1,
        colluding=1,
        noise=chosen.noise,
        scale=Fraction(max(run.parameter for run in chosen.runs)),
    )


def invitation_of(session: Session, spec: ShareSpec) -> Invitation:
    """What a moderator asks the silos for: the spec, what it tells, what it costs. Touches no data."""
    from siloquent.federation.invitation import Invitation
    from siloquent.privacy import accountant, digits

    chosen = explain(session, spec)
    summed, book = sum_spec(chosen), accountant(chosen.schema.budget.accountant)
    return Invitation(
        protocol=PROTOCOL,
        task="share",
        service="sum",
        tables=(spec.table,),
        columns=chosen.encoding.names,
        statement=f"the sum over all silos of {chosen.layout.length if chosen.layout else 0:,} counts, with noise",
        price=f"{book.symbol} {digits(chosen.price)}",
        body={"share": spec_to_plain(spec), "sum": summed.to_json()},
        min_parties=summed.min_parties,
    )


def add_walks(walks: Walks) -> None:
    """Let parties, workers and moderators of a federation play their parts in secure sums for sharing."""
    walks.add("party", PROTOCOL, _party)
    walks.add("moderator", PROTOCOL, collect_sum)


def _party(channel: Channel, invitation: Invitation, desk: Any) -> ShareRelease:
    """A party's part: what its owner approved is what the invitation showed, so the body must ask for just that."""
    moderator = channel.members.moderator
    try:
        spec = spec_from_plain(dict(invitation.body["share"]))
    except (KeyError, TypeError, ValueError, RequestError):
        raise ProtocolError("bad_encoding", role=moderator, step="invitation") from None
    if spec.trust != "sum":
        raise ProtocolError("planner_mismatch", role=moderator, step="invitation")
    invitation.require_same(invitation_of(desk, spec), moderator)
    made = release_sum(desk, spec, channel, max_cost=invitation.price.split()[-1])
    desk.share.save(made)
    return made


def collect_sum(channel: Channel, invitation: Invitation, desk: Any = None) -> Sum:
    """The moderator's part: who is in, and the sum."""
    from siloquent.federation.sums import SumSpec, collect

    return collect(channel, SumSpec.from_json(invitation.body["sum"]))
