"""One sketch of several silos with one silo's noise: counters leave as shares, and only their sum is revealed.

Each silo adds its share of the noise in its own measure room and passes the result to a secure sum. Every silo's
account is charged the whole event, and every silo keeps the sum as its release. Shares and prices:
docs/explanation/sketch.md; what the sum hides: docs/explanation/federation-security.md.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from siloquent.charge import RESERVED, bind_request, require_planned
from siloquent.errors import ProtocolError, RequestError
from siloquent.fixes import UseOption, build_fix, run
from siloquent.ledger import Permit, SettledAnswer
from siloquent.privacy import Composed, SummedGaussian
from siloquent.sketch.measure import measure_share
from siloquent.sketch.plan import SketchPlan, compute_noise_variance, plan
from siloquent.sketch.release import assemble
from siloquent.sketch.sketch import Integers, Sketch
from siloquent.sketch.spec import SketchSpec, parse_spec

if TYPE_CHECKING:
    from siloquent.federation.channel.base import Channel
    from siloquent.federation.messages.invitation import Invitation
    from siloquent.federation.protocols import ProtocolRegistry
    from siloquent.federation.sums import SumResult, SumSpec
    from siloquent.schema import TableSchema
    from siloquent.session import WorkspaceSession

TASK, PROTOCOL = "sketch", "sketch-sum/1"
BOUND = 2**40
"""An upper bound on one silo's counter, before noise."""
MIN_SHARE = 9
"""The minimal variance of one silo's share for which ``SummedGaussian`` is proved."""


def build_sum(
    session: WorkspaceSession,
    spec: SketchSpec,
    channel: Channel,
    *,
    min_parties: int,
    colluding: int = 1,
    parties: int | None = None,
    max_cost: str | None = None,
) -> Sketch:
    """Run this silo's part in one sketch of all silos of a session; return that sketch.

    Args:
        spec: With ``plan_file``: the hash plan that all silos share.
        min_parties: With fewer complete silos there is no sketch.
        colluding: The number of silos that may pool their noise: h = min_parties - colluding shares are certainly
            included. At least 1: every silo knows its own.
        parties: The number invited, as known to workers and moderator; None: those in the session.
    Raises:
        As ``build``. ProtocolError: another role failed; the reservation stays charged, and the same session continues
        after a restart at no further cost.
    Privacy:
        ``build_sum_event`` of the plan in the account's unit and adjacency, charged durably before a row is read, as
        long as h silos follow the protocol and keep their noise secret.
    """
    from siloquent.federation.sums import contribute_vector

    schema, account = session.schema(spec.table), session.get_account(spec.table)
    chosen = plan_silo_sum(session, spec, min_parties=min_parties, colluding=colluding)
    honest = min_parties - colluding
    # One silo under two names would change the sum twice for one charge, so the request includes the name.
    here = f"{channel.session.hex()} {channel.me}"
    parts, key = (spec.canonical(), chosen.hash_plan.digest, here), f"sum-{channel.session.hex()[:32]}"
    asked = bind_request(session, account, schema, *parts, key=key, max_cost=max_cost, what="sketch")
    planned = asked.restore_declaration(session, schema)
    if planned is not schema:
        chosen = plan_silo_sum(session, spec, min_parties=min_parties, colluding=colluding, schema=planned)
    held: list[Permit | SettledAnswer] = []

    def reserve() -> Permit | SettledAnswer:
        if not held:
            held.append(asked.find_or_reserve(session, chosen))
        return held[0]

    def noisy() -> Integers:
        permit = reserve()
        if isinstance(permit, SettledAnswer):
            raise RequestError("This session was settled before.", fix="start a new session", spent=RESERVED)
        require_planned(permit, chosen.event)
        table = session.open_planned_table(schema, spent=RESERVED)
        measured = measure_share(chosen, table, permit, honest=honest)
        sizes = np.zeros(0, dtype=np.int64) if measured.sizes is None else measured.sizes
        return np.concatenate([measured.counters.ravel(), sizes])

    invited = len(channel.members.parties) if parties is None else parties
    summed = contribute_vector(channel, build_sum_spec(chosen, invited, min_parties, colluding), noisy)
    permit = reserve()
    if isinstance(permit, SettledAnswer):
        return assemble(schema, permit)
    whole = build_sum_sketch(chosen, summed, honest)
    return assemble(schema, session.ledger.settle(permit, permit.event, whole.to_bytes()))


def plan_silo_sum(
    session: WorkspaceSession,
    spec: SketchSpec,
    *,
    min_parties: int,
    colluding: int = 1,
    schema: TableSchema | None = None,
) -> SketchPlan:
    """Plan a silo's part, with the event charged to its account. Does not read data.

    Args:
        schema: The declaration to plan by, if not that of today.
    Raises:
        RequestError: there is no shared hash plan, or no noise share would certainly be included.
    """
    if spec.plan_file is None:
        raise RequestError(
            "Silos share one hash plan.",
            fix=build_fix(run("sketch plan", "...", "-o", "plan.json"), ", then plan_file"),
        )
    if colluding < 1:
        raise RequestError(
            "Every silo knows its own share of the noise and can take it off.", fix=UseOption("colluding", 1)
        )
    if min_parties - colluding < 1:
        raise RequestError(f"{min_parties} silos of which {colluding} collude leave no noise.", fix="more silos")
    declared = schema or session.schema(spec.table)
    chosen = plan(spec, declared, seed=0, summed=True)  # the plan file holds the hash functions
    chosen = _with_shares(chosen, min_parties - colluding)
    return replace(chosen, event=build_sum_event(chosen, min_parties - colluding))


def _with_shares(chosen: SketchPlan, honest: int) -> SketchPlan:
    """Return ``chosen`` with enough noise for the proof of its price: a Gaussian share has a variance of 9 or more.

    If this adds noise, the price is below the given budget, which the plan states.
    """
    least = Fraction(MIN_SHARE * honest)
    numbers = [one for one in (chosen.parameter, chosen.size_parameter) if one is not None]
    if chosen.noise != "gaussian" or min(numbers) >= least:
        return chosen
    size = None if chosen.size_parameter is None else max(chosen.size_parameter, least)
    note = f"each silo's noise has a variance of {MIN_SHARE} at least, so this costs less than the budget"
    return replace(chosen, parameter=max(chosen.parameter, least), size_parameter=size, notes=(*chosen.notes, note))


def build_sum_event(chosen: SketchPlan, honest: int) -> Any:
    """Build the event charged to a silo's account: that of the sum's noise, whichever silos are included.

    Polya shares sum to discrete Laplace noise exactly. A sum of discrete Gaussian shares is not one discrete
    Gaussian:
    it has an event of its own.
    """
    if chosen.noise == "laplace":
        return chosen.event
    moved, shape = chosen.sensitivity, chosen.hash_plan.shape
    events = [SummedGaussian(_compute_share(chosen.parameter, honest), honest, moved.l2_squared, math.prod(shape))]
    if chosen.size_parameter is not None:
        share = _compute_share(chosen.size_parameter, honest)
        events.append(SummedGaussian(share, honest, moved.size_squared, chosen.hash_plan.classes))
    return events[0] if len(events) == 1 else Composed(tuple(events))


def build_sum_spec(chosen: SketchPlan, parties: int, min_parties: int, colluding: int) -> SumSpec:
    """Build the secure sum of a plan: the information for workers and moderator, without anything about rows."""
    from siloquent.federation.sums import SumSpec

    numbers = [chosen.parameter, *([] if chosen.size_parameter is None else [chosen.size_parameter])]
    sizes = 0 if chosen.size_parameter is None else chosen.hash_plan.classes
    return SumSpec(
        name=f"sketch {chosen.hash_plan.digest[:16]}",
        length=math.prod(chosen.hash_plan.shape) + sizes,
        bound=BOUND,
        parties=parties,
        min_parties=min_parties,
        colluding=colluding,
        noise=chosen.noise,
        scale=Fraction(max(numbers)),
    )


def build_sum_sketch(chosen: SketchPlan, summed: SumResult, honest: int) -> Sketch:
    """Build the sketch of all silos in a sum. Every included silo added a noise share: more than h add more noise."""
    cut, added = math.prod(chosen.hash_plan.shape), len(summed.parties)
    counters, sizes = summed.total[:cut], summed.total[cut:]
    size = chosen.size_parameter
    return Sketch(
        plan=chosen.hash_plan,
        counters=counters.reshape(chosen.hash_plan.shape),
        sizes=None if size is None else sizes,
        noise=chosen.noise,
        parameter=chosen.parameter,
        variance=_compute_share_variance(chosen.noise, chosen.parameter, honest) * added,
        size_variance=Fraction(0) if size is None else _compute_share_variance(chosen.noise, size, honest) * added,
        hits=chosen.hits,
        event=chosen.event,
        table=chosen.schema.name,
        request=chosen.spec.canonical(),
        schema_digest=chosen.schema.digest,
        notes=(*chosen.notes, f"one sketch of {', '.join(summed.parties)}; the guarantee needs {honest} honest silos"),
    )


def build_invitation(chosen: SketchPlan, *, parties: int, min_parties: int, colluding: int = 1) -> Invitation:
    """Build a moderator's invitation: the spec, its disclosure and its price. Does not read data."""
    from siloquent.federation.messages.invitation import Invitation
    from siloquent.privacy import format_digits, get_accountant

    summed = build_sum_spec(chosen, parties, min_parties, colluding)
    return Invitation(
        protocol=PROTOCOL,
        task=TASK,
        service="sum",
        tables=(chosen.spec.table,),
        columns=(*chosen.spec.features, *(name for name in (chosen.spec.label, chosen.spec.group) if name is not None)),
        statement=f"the sum over all silos of {summed.length:,} counters, with noise of {summed.honest} silos",
        price=f"{get_accountant(chosen.schema.budget.accountant).symbol} {format_digits(chosen.price)}",
        body={
            "spec": {key: value for key, value in json.loads(chosen.spec.canonical()).items() if value is not None},
            "plan": chosen.hash_plan.to_json(),
            "sum": summed.to_json(),
        },
        min_parties=min_parties,
    )


def add_protocols(walks: ProtocolRegistry) -> None:
    """Register the parts of parties and moderators for joint sketches."""
    walks.add("party", PROTOCOL, _run_party)
    walks.add("moderator", PROTOCOL, _run_moderator)


def _run_party(channel: Channel, invitation: Invitation, desk: WorkspaceSession) -> Sketch:
    from siloquent.federation.sums import SumSpec
    from siloquent.sketch.verbs import SketchVerbs

    """A party's part: what its owner approved is what the invitation showed, so the body must ask for just that."""
    try:
        summed, text = SumSpec.from_json(invitation.body["sum"]), str(invitation.body["plan"])
        spec = parse_spec(dict(invitation.body["spec"]))
    except (KeyError, TypeError, ValueError, RequestError):
        raise ProtocolError("bad_encoding", role=channel.members.moderator, step="invitation") from None
    folder = desk.workspace.folder / "sketch-plans"
    folder.mkdir(exist_ok=True)
    path = folder / f"{channel.session.hex()[:32]}.json"
    path.write_text(text, encoding="utf-8")
    spec = replace(spec, plan_file=path)
    asked = {"min_parties": summed.min_parties, "colluding": summed.colluding}
    chosen = plan_silo_sum(desk, spec, schema=None, **asked)
    meant = build_invitation(chosen, parties=summed.parties, **asked)
    invitation.require_same(meant, channel.members.moderator)
    made = build_sum(desk, spec, channel, parties=summed.parties, max_cost=invitation.price.split()[-1], **asked)
    SketchVerbs(desk).save(made)
    return made


def _run_moderator(channel: Channel, invitation: Invitation, desk: Any) -> SumResult:
    from siloquent.federation.sums import SumSpec, gather_sum

    return gather_sum(channel, SumSpec.from_json(invitation.body["sum"]))


def _compute_share(variance: Fraction, honest: int) -> Fraction:
    return Fraction(math.ceil(Fraction(variance) / honest))


def _compute_share_variance(noise: Any, parameter: Fraction, honest: int) -> Fraction:
    """Compute the variance of one silo's share."""
    return (
        compute_noise_variance(noise, parameter) / honest if noise == "laplace" else _compute_share(parameter, honest)
    )
