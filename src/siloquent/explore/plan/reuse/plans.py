"""Plans that use earlier answers: the same promise at a lower price, or at no cost."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

from siloquent.explore.plan.mechanisms.base import PricedMechanism
from siloquent.explore.plan.mechanisms.draws import AdditiveDraw
from siloquent.explore.plan.planner import Plan, PlanCandidate, compute_allowed_cost
from siloquent.explore.plan.relations.public_joins import find_joined
from siloquent.explore.plan.reuse.earlier_answers import EarlierAnswer, EarlierAnswers
from siloquent.explore.plan.reuse.linear_measurements import compute_declaration_digest
from siloquent.explore.plan.reuse.releases import Blend, ReuseBound, blend
from siloquent.explore.plan.reuse.same_questions import unify_question
from siloquent.explore.plan.rules import list_reading_rules
from siloquent.explore.plan.steps import PlanStep
from siloquent.explore.spec import format_canonical
from siloquent.explore.spec.aggregates import Distinct, Quantile, Ranks
from siloquent.explore.spec.answers.answer import Label
from siloquent.explore.spec.promises import Spend
from siloquent.explore.spec.query import Query
from siloquent.ledger import Permit
from siloquent.privacy import FREE, Cost, DiscreteGaussian, DiscreteLaplace, Event, get_accountant
from siloquent.schema import Attribute, TableSchema

_STATES = 8
_MAX_SHARPER = 64
_NEAR = Fraction(102, 100)
Wish = Literal["any", "none", "simultaneous", "fresh-or-simultaneous"]
_REPEATED: dict[Wish, frozenset[Label]] = {
    "any": frozenset({"fresh", "independent", "repeated", "simultaneous"}),
    "fresh-or-simultaneous": frozenset({"fresh", "repeated", "simultaneous"}),
}
"""The labels of answers that are repeated for the same query; none with REUSE SIMULTANEOUS."""


@dataclass(frozen=True, slots=True, eq=False)
class ReusedMechanism(PricedMechanism):
    """A mechanism that uses earlier answers: a ``blend`` with its measurement, or an answer ``repeated`` unchanged.

    ``again``: the label of a repeated answer.
    """

    blend: Blend | None = None
    repeated: EarlierAnswer | None = None
    again: Label = "independent"

    @property
    def sources(self) -> tuple[int, ...]:
        """The seqs of the receipts that it uses."""
        if self.repeated is not None:
            return (self.repeated.source,)
        return () if self.blend is None else self.blend.sources

    @property
    def label(self) -> Label:
        """The label of its promise."""
        if self.blend is None:
            return self.again
        return self.blend.label if self.blend.sources else "fresh"


def resolve_wish(query: Query, schema: TableSchema) -> Wish:
    """Resolve which earlier answers may be used: as the query says, or else as the table declares."""
    return schema.budget.reuse if query.reuse == "declared" else query.reuse


def apply_reuse(step: PlanStep, recall: EarlierAnswers, wish: Wish | None = None) -> PlanStep:
    """Return ``step`` with every part at the least price with earlier answers; parts without help stay unchanged.

    Uses only prices, matrices and the seqs of receipts, never released values: the plan stays data-blind.

    Args:
        wish: Overrides the query and the table.
    """
    found = _apply_reuse(step, recall, wish)
    # Parts that use earlier answers are charged separately, each from its even share.
    is_drawn = any(isinstance(plan.chosen, ReusedMechanism) for plan in found.plans)
    return _apply_reuse(step.even, recall, wish) if is_drawn and step.even is not None else found


def _apply_reuse(step: PlanStep, recall: EarlierAnswers, wish: Wish | None) -> PlanStep:
    drawn = {
        id(plan): _sharpen_to_budget(plan, find_cheapest_with_reuse(plan, recall, wish), recall)
        for plan in (*step.plans, *step.apart)
    }
    ways = [PlanStep(tuple(drawn[id(plan)] for plan in way.plans)) for way in step.ways]
    book = get_accountant(step.plans[0].schema.budget.accountant)
    return min(ways, key=lambda way: book.compute_price(way.event).amount) if len(ways) > 1 else ways[0]


def restore_paid_step(step: PlanStep, recall: EarlierAnswers, permit: Permit) -> PlanStep:
    """Restore the plan of ``step`` that ``permit`` was reserved for, from the answers known then.

    Other answers may have been settled between that plan and its reservation, so the latest few states before it are
    tried. If none fits, the plan for the state at the reservation is returned: the caller compares events.

    Versions before the setting ``reuse`` planned every query without REUSE as one with REUSE ANY. Their answers are
    given as planned then, and their label says so.
    """
    seqs = sorted({one.source for one in recall.known if one.source < permit.seq}, reverse=True)
    cuts = [permit.seq, *seqs[:_STATES], 0]
    ways = (step, *step.ways[1:])
    declared: tuple[Wish | None, ...] = (None, "any", "fresh-or-simultaneous")  # what the table file may have said then
    wishes = declared if step.plans[0].query.reuse == "declared" else (None,)
    plans = (apply_reuse(way, recall.select_before(cut), wish) for wish in wishes for cut in cuts for way in ways)
    return next(
        (one for one in plans if one.event == permit.event), apply_reuse(step, recall.select_before(permit.seq))
    )


def find_cheapest_with_reuse(plan: Plan, recall: EarlierAnswers, wish: Wish | None = None) -> Plan:
    """Return ``plan``, or a cheaper plan that keeps the same promise.

    Args:
        wish: Overrides the query and the table.
    """
    wish = wish or resolve_wish(plan.query, plan.schema)
    if wish == "none" or not recall.known:
        return plan
    repeated = recall.find_repeat(list_question_digests(plan), _REPEATED[wish]) if wish in _REPEATED else None
    if repeated is not None:
        return _replace_mechanism(plan, _build_repeat(repeated, wish))
    bound = build_bound(plan, wish) if _is_linear(plan) else None
    if bound is None:
        return plan
    price = get_accountant(plan.schema.budget.accountant).compute_price(plan.event).amount
    found = blend(plan.compiled, plan.schema, recall.past, bound, below=price)
    return plan if found is None else _replace_mechanism(plan, _build_blended(found))


def _sharpen_to_budget(plan: Plan, drawn: Plan, recall: EarlierAnswers) -> Plan:
    """Return ``drawn``, or if it leaves a query's BUDGET unspent, the best plan within the budget.

    The error is at least a 64th of the error from the budget without earlier answers.
    """
    promise = plan.query.promise
    if not isinstance(promise, Spend) or not isinstance(drawn.chosen, ReusedMechanism) or drawn.chosen.blend is None:
        return drawn
    wish: Wish = "any" if drawn.chosen.label == "independent" else "simultaneous"
    found = find_most_exact_with_reuse(
        plan, recall, compute_allowed_cost(promise, plan.schema), wish=wish, least=plan.alpha / _MAX_SHARPER
    )
    return drawn if found is plan else found


def find_most_exact_with_reuse(
    plan: Plan, recall: EarlierAnswers, allowed: Cost, *, wish: Wish, least: Fraction
) -> Plan:
    """Return ``plan`` with the least error above ``least`` that ``allowed`` covers together with earlier answers.

    An integer number of steps, within two percent of the least; ``plan`` itself if earlier answers do not help.
    """
    book, grid = get_accountant(plan.schema.budget.accountant), plan.compiled.grid
    most = Fraction(allowed.amount, book.scale)
    best, low, high = plan, least, plan.alpha
    while high > low * _NEAR:
        middle = math.ceil(math.sqrt(low * high) / grid) * grid
        if not low < middle < high:
            break
        tried = replace(plan, alpha=middle, candidates=())
        bound = build_bound(tried, wish) if _is_linear(plan) else None
        found = None if bound is None else blend(plan.compiled, plan.schema, recall.past, bound, below=most)
        if found is not None and book.compute_cost(found.event).amount <= allowed.amount:
            best, high = _replace_mechanism(tried, _build_blended(found)), middle
        else:
            low = middle
    return best


def compute_question_digest(plan: Plan) -> str:
    """Compute the SHA-256 of query, declared attributes, rows and accuracy; equal digests share an answer."""
    return _compute_digest(plan, unify_question(plan.query, plan.schema))


def list_question_digests(plan: Plan) -> frozenset[str]:
    """List the digests under which an answer to the same question may be stored: earlier versions hashed its text."""
    written = replace(plan.query, presentation=None)
    return frozenset((compute_question_digest(plan), _compute_digest(plan, written)))


def _compute_digest(plan: Plan, query: Query) -> str:
    names = {name for part in plan.compiled.parts for name in part.block.attributes}
    domain = plan.schema.domain
    computed = {one.name: one for one in (*domain.computed, *_iter_computed(plan))}
    domain = replace(domain, computed=tuple(computed.values()))
    if plan.compiled.summed is not None:
        names.add(plan.compiled.summed.attribute)
    names |= {plan.query.aggregate.attribute} if hasattr(plan.query.aggregate, "attribute") else set()
    bare = replace(query, reuse="any", explain=False, optimistic=False)
    declared = [compute_declaration_digest(name, domain) for name in sorted(names)]
    parts = [format_canonical(bare), declared, plan.schema.version, str(plan.alpha), str(plan.beta)]
    parts += [one.digest for one in find_joined(plan.query, plan.schema)]
    parts += list_reading_rules(plan.query, plan.schema)
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _iter_computed(plan: Plan) -> Iterator[Attribute]:
    for part in plan.compiled.parts:
        yield from part.block.computed


def build_bound(plan: Plan, wish: Wish) -> ReuseBound | None:
    """Build the bound on errors of values that makes the promise of ``plan`` hold; None if it is not about values.

    A low value overtakes a high one by more than alpha only if one of them is off by more than alpha / 2.
    """
    query = plan.query
    alpha = float(plan.alpha / plan.compiled.grid) / (2 if query.kind == "tcq" else 1)
    both = query.promise.joint and query.kind == "icq"
    beta = float(plan.beta / 2 if both else plan.beta)
    return ReuseBound(alpha, beta, query.kind != "icq", wish != "any")


def _is_linear(plan: Plan) -> bool:
    """Return whether the query is about values of the workload, not ranks, and few enough to be combined."""
    return not isinstance(plan.query.aggregate, (Distinct, Quantile, Ranks)) and not any(
        part.running for part in plan.compiled.parts
    )


def _build_repeat(known: EarlierAnswer, wish: Wish) -> ReusedMechanism:
    # A promise for any sequence of queries holds however often its answer is shown; a promise from new noise only
    # is stated for the first time.
    kept: Label = "simultaneous" if known.measured.label == "simultaneous" else "repeated"
    again: Label = "independent" if wish == "any" else kept
    return ReusedMechanism(
        f"answer {known.source}", known.measured.form, FREE, None, reusable=False, repeated=known, again=again
    )


def _build_blended(found: Blend) -> ReusedMechanism:
    added, event = found.added, found.event
    draw = None if added is None else _build_draw(event)
    name = "earlier answers" if added is None else f"earlier answers + {added.name}"
    strategy = () if added is None else added.matrices
    return ReusedMechanism(
        name, "combined", event, draw, added is not None, _describe_calibration(event, found), strategy, blend=found
    )


def _build_draw(event: Event) -> AdditiveDraw:
    if isinstance(event, DiscreteGaussian):
        return AdditiveDraw("gaussian", event.variance)
    assert isinstance(event, DiscreteLaplace)
    return AdditiveDraw("laplace", event.scale)


def _describe_calibration(event: Event, found: Blend) -> str:
    if found.label == "simultaneous":
        return "simultaneous"
    return "union" if isinstance(event, DiscreteLaplace) else "sidak"


def _replace_mechanism(plan: Plan, drawn: ReusedMechanism) -> Plan:
    book = get_accountant(plan.schema.budget.accountant)
    candidate = PlanCandidate(drawn, book.compute_cost(drawn.event), book.compute_price(drawn.event).amount)
    return replace(plan, chosen=drawn, candidates=(candidate, *plan.candidates))
