"""Trust "sum": silos add their vectors with one noise in total, and no role sees a single silo's numbers.

Every silo adds a share of the noise in its own measure room; its output looks uniform without one worker's part. Each
silo is charged for the whole event, before it reads a row, and keeps the public sum as its release.
"""

from __future__ import annotations

import hashlib
import logging
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from siloquent.charge import RESERVED, Charge, require_planned
from siloquent.errors import KeyReused, ProtocolError, RequestError
from siloquent.fixes import run
from siloquent.ledger import Permit, SettledAnswer
from siloquent.share import agreement_check, measure
from siloquent.share.files import assemble
from siloquent.share.plan import SharePlan
from siloquent.share.spec import ShareSpec, parse_spec
from siloquent.share.spec.release import ShareRelease
from siloquent.share.task import WITHOUT_OWN, build_charge, build_release, dump_spec, explain, plan_charged

if TYPE_CHECKING:
    from siloquent.federation.channel.base import Channel
    from siloquent.federation.messages.invitation import Invitation
    from siloquent.federation.protocols import ProtocolRegistry
    from siloquent.federation.sums import SumResult, SumSpec
    from siloquent.session import WorkspaceSession
    from siloquent.share.spec.encoding import Integers

PROTOCOL = "share/1"
BOUND = 2**45
"""An upper bound on one silo's number, before noise: 10^8 rows, including products of moments."""
log = logging.getLogger("siloquent.share")


def release_sum(
    session: WorkspaceSession, spec: ShareSpec, channel: Channel, *, max_cost: str | None = None
) -> ShareRelease:
    """Run this silo's part in a secure sum; the release is the sum over all silos included.

    Args:
        spec: Equal at all silos except for the table's name.
        channel: To the other silos, the workers and the moderator of one session.
        max_cost: As in ``release``. The key is the session's id, so that a restarted silo pays once, and a silo
            that joins under two names is found.
    Raises:
        As ``release``. ProtocolError: silos have different agreements, or are one silo: nothing is spent. Another role
        failed later: the reservation stays charged, and continuing the same session costs no more.
    Privacy:
        ``plan.event`` in the account's unit and adjacency, charged durably before a row is read, as long as ``honest``
        silos follow the protocol and keep their noise secret. The workers learn nothing unless all of them pool
        their shares. Proof: docs/explanation/share.md.
    """
    made = _take_part(session, spec, channel, max_cost=max_cost)
    if made is None:
        raise agreement_check.build_left_out_error()
    return made


def _take_part(
    session: WorkspaceSession, spec: ShareSpec, channel: Channel, *, max_cost: str | None = None
) -> ShareRelease | None:
    """Run ``release_sum``; return None, at no cost, if the others continued without this silo before it was charged."""
    from siloquent.federation.sums import contribute_vector

    if spec.trust != "sum":
        raise RequestError(
            "A release with its own full noise needs no other silo.", fix=run("share release", "SPEC.toml")
        )
    key = f"sum-{channel.session.hex()[:32]}"
    # One silo under two names would change the sum twice for one charge, so the request includes the name.
    also = f"{channel.session.hex()} {channel.me}"
    charge = build_charge(session, spec, key=key, max_cost=max_cost, also=also)
    chosen = plan_charged(session, spec, charge)
    told = build_sum_spec(chosen)
    permits: list[Permit | SettledAnswer] = []

    def reserve() -> Permit | SettledAnswer:
        if not permits:
            _require_alone(session, spec, charge)
            permits.append(charge.find_or_reserve(session, chosen))
            _require_alone(session, spec, charge)  # of two concurrent ones, one sees the other, and measures nothing
        return permits[0]

    def noisy() -> Integers:
        permit = reserve()
        if isinstance(permit, SettledAnswer):
            raise RequestError("This session is already settled.", fix="start a new session", spent=RESERVED)
        require_planned(permit, chosen.event)
        return measure.measure_shared_counts(chosen, session.open_planned_table(chosen.schema, spent=RESERVED), permit)

    is_in = agreement_check.join_sum(
        channel, chosen.agreement.compute_prints(), _identify_rows(session, spec, channel), told.min_parties
    )
    if not is_in and charge.find_existing(session) is None:
        return None
    try:
        summed = contribute_vector(channel, told, noisy)
    except ProtocolError as failed:
        # The ledger is consulted: a restarted silo may have reserved before.
        failed.spent = "nothing" if charge.find_existing(session) is None else RESERVED
        raise
    permit = reserve()
    stored = permit if isinstance(permit, SettledAnswer) else _settle_sum(session, chosen, permit, summed, channel.me)
    return assemble(chosen.schema.declared, stored)


def _identify_rows(session: WorkspaceSession, spec: ShareSpec, channel: Channel) -> str:
    """Return an identity of the rows for this session only: equal for one table of one workspace under any name.

    For all tables of one workspace where no person may be in two silos: they may hold the same persons.
    """
    table = spec.table if spec.overlap > 1 else ""
    words = f"{channel.session.hex()}|{session.ledger.id}|{table}"
    return hashlib.sha256(words.encode()).hexdigest()


def _require_alone(session: WorkspaceSession, spec: ShareSpec, charge: Charge) -> None:
    """Check that no other table of this workspace is in the sum, unless the agreement allows persons to overlap.

    Raises:
        RequestError: a person in both tables would be counted twice, against the guarantee.
    """
    for account in session.ledger.list_accounts() if spec.overlap == 1 else ():
        if account.name == charge.account.name:
            continue
        try:
            replace(charge, account=account, digest="").find_existing(
                session
            )  # no request has this digest: an existing one is reported
        except KeyReused:
            raise RequestError(
                f"Another table of this workspace is in this sum, for {account.name}: a person may be in both.",
                fix="overlap = 2 in the spec, at every silo",
                spent="nothing" if charge.find_existing(session) is None else RESERVED,
            ) from None


def _settle_sum(
    session: WorkspaceSession, chosen: SharePlan, permit: Permit, summed: SumResult, me: str
) -> SettledAnswer:
    notes = () if me in summed.parties else (WITHOUT_OWN,)
    made = build_release(chosen, {"counts": summed.total}, members=summed.parties, notes=notes)
    return session.ledger.settle(permit, permit.event, made.to_bytes())


def build_sum_spec(chosen: SharePlan) -> SumSpec:
    """Build the secure sum of a plan: the information for workers and moderator, without anything about rows."""
    from siloquent.federation.sums import SumSpec

    spec = chosen.spec
    assert spec.agents is not None and spec.honest is not None and chosen.layout is not None  # noqa: PT018 - by the spec
    return SumSpec(
        name=f"share {chosen.agreement.digest[:16]}",
        length=chosen.layout.length,
        bound=BOUND,
        parties=spec.agents,
        min_parties=spec.honest + spec.colluding,
        colluding=spec.colluding,
        noise=chosen.noise,
        scale=Fraction(max(run.parameter for run in chosen.runs)),
    )


def build_invitation(session: WorkspaceSession, spec: ShareSpec) -> Invitation:
    """Build a moderator's invitation: the spec, its disclosure and its price. Does not read data."""
    from siloquent.federation.messages.invitation import Invitation
    from siloquent.privacy import format_digits, get_accountant

    chosen = explain(session, spec)
    summed, book = build_sum_spec(chosen), get_accountant(chosen.schema.budget.accountant)
    return Invitation(
        protocol=PROTOCOL,
        task="share",
        service="sum",
        tables=(spec.table,),
        columns=chosen.encoding.names,
        statement=f"the sum of {summed.length:,} counts of {summed.min_parties} to {summed.parties} silos; its noise "
        f"is enough while no more than {summed.colluding} of those in it show theirs to others",
        price=f"{book.symbol} {format_digits(chosen.price)}",
        body={
            "share": dump_spec(spec),
            "sum": summed.to_json(),
            "prints": [list(pair) for pair in chosen.agreement.compute_prints()],
        },
        # All must come: with a missing silo the noise would be planned for too many. Later, some may be lost.
        min_parties=summed.parties,
    )


def add_protocols(walks: ProtocolRegistry) -> None:
    """Register the parts of parties, workers and moderators for secure sums."""
    walks.add("party", PROTOCOL, _run_party)
    walks.add("moderator", PROTOCOL, collect_sum)


def _run_party(channel: Channel, invitation: Invitation, desk: Any) -> ShareRelease | None:
    """Run a party's part: its owner approved the invitation, so the body must match it exactly."""
    moderator = channel.members.moderator
    try:
        spec = parse_spec(dict(invitation.body["share"]))
        theirs = agreement_check.parse_prints(invitation.body["prints"])
    except (KeyError, TypeError, ValueError, RequestError):
        raise ProtocolError("bad_encoding", role=moderator, step="invitation") from None
    if spec.trust != "sum":
        raise ProtocolError("planner_mismatch", role=moderator, step="invitation")
    odd = agreement_check.find_first_difference(explain(desk, spec).agreement.compute_prints(), theirs)
    if odd:
        raise ProtocolError("planner_mismatch", role=moderator, step="invitation", where=f"here {odd} differs")
    invitation.require_same(build_invitation(desk, spec), moderator)
    made = _take_part(desk, spec, channel, max_cost=invitation.price.split()[-1])
    if made is None:
        log.warning("%s: %s", channel.session.hex()[:8], agreement_check.build_left_out_error())
        return None
    desk.share.save(made)
    return made


def collect_sum(channel: Channel, invitation: Invitation, desk: Any = None) -> SumResult:
    """Run the moderator's part: compare the agreements, settle the participants and collect the sum.

    Raises:
        ProtocolError: ``planner_mismatch`` or ``message_conflict`` name the unfitting silo: no silo was charged.
            ``peer_missing``: too few remain; silos that reserved stay charged.
    """
    from siloquent.federation.sums import SumSpec

    try:
        told, prints = (
            SumSpec.from_json(invitation.body["sum"]),
            agreement_check.parse_prints(invitation.body["prints"]),
        )
    except (KeyError, TypeError, ValueError):
        raise ProtocolError("bad_encoding", step="invitation") from None
    return hold_sum(channel, told, prints, timeout=float(invitation.step_deadline_s))


def hold_sum(
    channel: Channel, told: SumSpec, prints: agreement_check.Prints, *, timeout: float | None = None
) -> SumResult:
    """Run ``collect_sum`` without an invitation.

    Args:
        told: ``build_sum_spec`` of the plan. prints: those of its agreement.
        timeout: Seconds after which late silos are left out, if enough have joined; None waits.
    """
    from siloquent.federation.sums import gather_sum

    late = timeout if told.min_parties < told.parties else None
    # Workers wait for shares from the start: the meeting must leave most of their time to the silos.
    agreement_check.convene_sum(channel, prints, told.min_parties, None if late is None else late / 4)
    return gather_sum(channel, told, timeout=late)
