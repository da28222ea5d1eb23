"""The joint price of all parts of one step, if units are replaced.

Separately, count and sum would be charged both for a row that is added and for one that moves from one end of the
domain to the other: no row does both. Proof: docs/explanation/averages.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from siloquent.explore.plan.bounds import build_row_count
from siloquent.explore.plan.mechanisms.base import PricedMechanism
from siloquent.explore.plan.planner import Plan
from siloquent.explore.spec.aggregates import Count
from siloquent.maths.sensitivity.replaced_numbers import NumberPower, find_furthest_replacement
from siloquent.privacy import Composed, DiscreteGaussian, DiscreteLaplace, Event, get_accountant
from siloquent.privacy.budget import build_joint_event


def combine_events(plans: Sequence[Plan]) -> Event:
    """Combine the releases of ``plans`` on the same rows into an event of the least proven price."""
    if len(plans) == 1:
        return plans[0].event
    whole = compose_events(plans)
    joined = [one for one in plans if _is_by_group(one)]
    # A replaced row can leave one count and stay in another if they have different conditions.
    if len(joined) < 2 or any(one.query.where != joined[0].query.where for one in joined):
        return whole
    gaussian = isinstance(joined[0].event, DiscreteGaussian)
    joint = build_joint_event(_bound_change(joined, gaussian=gaussian), gaussian=gaussian)
    rest = tuple(one.event for one in plans if one not in joined)
    found = Composed((joint, *rest)) if rest else joint
    book = get_accountant(plans[0].schema.budget.accountant)
    return found if book.compute_price(found).amount < book.compute_price(whole).amount else whole


def compose_events(plans: Sequence[Plan]) -> Composed:
    """Compose the events of ``plans``, whose prices add up."""
    return Composed(tuple(one.event for one in plans))


def _is_by_group(plan: Plan) -> bool:
    """Return whether ``plan`` adds noise to one number per group of rows, with replaced units."""
    kind = DiscreteLaplace if plan.schema.budget.accountant == "pure" else DiscreteGaussian
    compiled = plan.compiled
    return (
        type(plan.chosen) is PricedMechanism
        and plan.chosen.form == "answers"
        and isinstance(plan.event, kind)
        and compiled.replace_one
        and compiled.distinct is None
        and len(compiled.parts) == 1
        and (compiled.answers == compiled.parts[0].columns == 1 or compiled.disjoint)
    )


def _bound_change(plans: Sequence[Plan], *, gaussian: bool) -> Fraction:
    """Bound the sum of changes (of squared changes) by one unit, each divided by its noise's scale (variance).

    If the two rows are not in the same group, their contributions do not cancel. In one group, a number changes or is
    present in only one row. Numbers of different attributes change independently.
    """
    norm, counted = 2 if gaussian else 1, Fraction(0)
    by_attribute: dict[str, list[Plan]] = {}
    for plan in plans:
        if plan.compiled.summed is None:
            counted += _compute_weight(plan)
        else:
            by_attribute.setdefault(plan.compiled.summed.attribute, []).append(plan)
    stay, leave = Fraction(0), counted
    for name, parts in by_attribute.items():
        attribute = parts[0].schema.domain[name]
        there = sum((_compute_weight(one) * one.compiled.largest**norm for one in parts), Fraction(0))
        is_always_there = isinstance(build_row_count(attribute), Count)
        turned = _bound_turn(parts, gaussian=gaussian)
        stay += turned if is_always_there else max(turned, there)
        leave += there
    groups, units = plans[0].compiled.answers, Fraction(plans[0].compiled.rows ** norm)
    if groups == 1 and all(_counts_every_row(one) for one in plans):
        return units * stay
    return units * max(stay, leave if groups == 1 else 2 * leave)


def _counts_every_row(plan: Plan) -> bool:
    """Return whether no replaced row can leave the query: rows are units, and there is no condition."""
    return plan.schema.unit.kind == "row" and not any(part.block.attributes for part in plan.compiled.parts)


def _bound_turn(parts: Sequence[Plan], *, gaussian: bool) -> Fraction:
    """Bound the change if a row with a number replaces another row with one."""
    powers, lowest, highest = [], 0, 0
    for one in parts:
        summed = one.compiled.summed
        assert summed is not None
        if summed.power == 0:
            continue
        powers.append(NumberPower(summed.power, summed.quantum, _compute_weight(one)))
        steps = one.schema.domain[summed.attribute].steps
        # Squares are taken around the centre; plain sums change alike around any value.
        if summed.power == 2 or not highest > lowest:
            lowest, highest = summed.offset, summed.offset + steps - 1
    return find_furthest_replacement(lowest, highest, powers, squared=gaussian) if powers else Fraction(0)


def _compute_weight(plan: Plan) -> Fraction:
    event = plan.event
    assert isinstance(event, DiscreteLaplace | DiscreteGaussian)
    return 1 / (event.variance if isinstance(event, DiscreteGaussian) else event.scale)
