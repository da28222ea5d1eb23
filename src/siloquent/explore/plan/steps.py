"""A query as steps: the parts covered by one permit, priced separately; some queries take a second step.

HAVING on another aggregate chooses groups first; AVG without FOR AT LEAST counts first. The second step depends on the
release of the first one, so it may cost less than its worst case, which is known in advance.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction

from siloquent.errors import AccuracyUnreachable, RequestError
from siloquent.explore.plan.averages import find_count, find_later, find_promised_rows, find_sure_rows, get_error
from siloquent.explore.plan.bounds import Bounds, Part, compute_bounds, compute_half_range, list_parts
from siloquent.explore.plan.cells.distinct import check_distinct
from siloquent.explore.plan.limits import are_lifted, was_paid
from siloquent.explore.plan.planner import (
    Plan,
    compile_query,
    compute_allowed_cost,
    is_affordable,
    plan,
)
from siloquent.explore.plan.quantiles import merge_quantiles, plan_quantile
from siloquent.explore.plan.relations.public_joins import check_joined
from siloquent.explore.plan.relations.unit_rows import extend_schema
from siloquent.explore.plan.replaced_rows import combine_events, compose_events
from siloquent.explore.spec.aggregates import Aggregate, Average, Count, Distinct, Quantile, Sum
from siloquent.explore.spec.derived import Measured
from siloquent.explore.spec.language.render import render_aggregate, render_offer
from siloquent.explore.spec.language.render_conditions import render_expression
from siloquent.explore.spec.numbers import MAX_DIGITS, format_number
from siloquent.explore.spec.promises import Accuracy, Promise, Spend
from siloquent.explore.spec.query import GroupBy, Query, SomeGroups
from siloquent.fixes import AskWith
from siloquent.privacy import Composed, Cost, Event, get_accountant
from siloquent.schema import TableSchema

FINE_COUNT = Fraction(1, 100)
"""The part of a group to which it is counted where that makes its average cheaper; always in earlier versions."""
_DIGITS = 12
_COARSER = 4
_ROUNDING = 1 - Fraction(1, 2**12)
"""The reduction of BUDGET shares that are raised together; parts use their shares to one part in 2^13."""


@dataclass(frozen=True, slots=True, eq=False)
class PlanStep:
    """Simple parts that are measured together; ``plans`` are in the order of their measurements.

    ``apart``: the same with a measurement for every quantile, if ``plans`` have one for several. ``even``: the same
    with an even share of the BUDGET for each part, if ``plans`` have more since they cost less together.
    """

    plans: tuple[Plan, ...]
    apart: tuple[Plan, ...] = ()
    even: PlanStep | None = None

    @property
    def event(self) -> Event:
        """The event that will be released."""
        return combine_events(self.plans)

    @property
    def ways(self) -> tuple[PlanStep, ...]:
        """All variants of the step, each with different numbers of measurements."""
        return (self, PlanStep(self.apart)) if self.apart else (self,)

    def with_schema(self, schema: TableSchema) -> PlanStep:
        """Return the step with ``schema``, which is equal, in place of its own."""
        plans, apart = (tuple(replace(one, schema=schema) for one in some) for some in (self.plans, self.apart))
        return PlanStep(plans, apart, None if self.even is None else self.even.with_schema(schema))


@dataclass(frozen=True, slots=True, eq=False)
class QueryPlan:
    """The plan of a query: its first step, and the worst-case second step if there may be one.

    ``limit``: the whole budget under which it was planned. ``limit_now``: that of today, if it is another one.
    """

    query: Query
    schema: TableSchema
    first: PlanStep
    limit: Cost
    second: PlanStep | None = None
    limit_now: Cost | None = None

    @property
    def steps(self) -> tuple[PlanStep, ...]:
        """The first step, and the second one if there may be one."""
        return (self.first,) if self.second is None else (self.first, self.second)

    @property
    def event(self) -> Event:
        """The event of everything that may be released."""
        return self.first.event if self.second is None else Composed((self.first.event, self.second.event))

    @property
    def cost(self) -> Cost:
        """The most that may be charged: each step separately, in whole units."""
        book = get_accountant(self.schema.budget.accountant)
        return sum((book.compute_cost(step.event) for step in self.steps), Cost(0))

    def with_schema(self, schema: TableSchema) -> QueryPlan:
        """Return the plan with ``schema``, which is equal, in place of its own: a plan that came through a pipe."""
        schema = extend_schema(self.query, schema)
        second = None if self.second is None else self.second.with_schema(schema)
        return replace(self, schema=schema, first=self.first.with_schema(schema), second=second)


def plan_query(query: Query, schema: TableSchema, *, left: Cost) -> QueryPlan:
    """Plan ``query`` under the whole budget ``left``; the same in EXPLAIN and in the run.

    Raises:
        UnknownName, RequestError: the query does not fit the declaration.
        AccuracyUnreachable: the budget would not cover all of it.
    """
    check_joined(query, schema)  # an impossible join is refused before anything else is checked
    schema = extend_schema(query, schema)
    check_distinct(query, schema)
    _check_computed(query, schema)
    _check_totals(query, schema)
    if not query.is_composite:
        return QueryPlan(query, schema, PlanStep((plan(query, schema, left=left),)), left)
    try:
        course = _build_plan(query, schema, left)
    except AccuracyUnreachable:
        raise _build_unreachable(query, schema, left) from None
    cost = get_accountant(schema.budget.accountant).compute_cost(course.event)
    if cost.amount > left.amount or cost.delta > left.delta:
        raise _build_unreachable(query, schema, left)
    return course


def _check_totals(query: Query, schema: TableSchema) -> None:
    """Refuse totals over a key that has a group of NULL, which would look like a total."""
    if not isinstance(query.workload, GroupBy) or not query.workload.sets:
        return
    plain = replace(query, workload=GroupBy(query.workload.keys))
    labels = compile_query(_build_simple(plain, schema, Count(), Fraction(1)), schema).labels
    for place, key in enumerate(query.workload.keys):
        if all(place in one for one in query.workload.sets) or all(label[place] is not None for label in labels):
            continue
        raise RequestError(
            f"{render_expression(key)} has a group of NULL, which would look like a total.",
            fix=AskWith(render_offer(plain), f"GROUP BY the keys, or COALESCE({render_expression(key)}, ...)"),
        )


def _check_computed(query: Query, schema: TableSchema) -> None:
    """Refuse arithmetic with a quantile that is not a number."""
    shown = query.presentation
    if shown is None:
        return
    computed = tuple(one for one in shown.shown if not isinstance(one.value, Measured))
    for place in sorted(replace(shown, shown=computed).measured):
        aggregate = query.aggregates[place]
        if isinstance(aggregate, Quantile) and not schema.domain[aggregate.attribute].is_numeric:
            raise RequestError(
                f"{render_aggregate(aggregate)} is not a number, so nothing can be computed with it.",
                fix=f"select {render_aggregate(aggregate)} by itself",
            )


def _build_plan(query: Query, schema: TableSchema, left: Cost) -> QueryPlan:
    if query.chooses_by_another:
        choice = _build_choice(query, schema)
        first = PlanStep((plan(choice, schema, left=left),))
        return QueryPlan(query, schema, first, left, _plan_values(query, schema, None, left))
    if not find_later(query, schema):
        return _plan_at_once(query, schema, left, find_promised_rows(query, schema))
    sure = find_sure_rows(query, schema)
    if are_lifted():
        with suppress(AccuracyUnreachable):
            counting = _plan_counting_first(query, schema, left, (FINE_COUNT,))
            if was_paid(counting.first.event):  # by a version that always counted so, also where it is not needed now
                return counting
    return _plan_counting_first(query, schema, left) if sure is None else _plan_at_once(query, schema, left, sure)


def _plan_at_once(query: Query, schema: TableSchema, left: Cost, rows: Fraction | None) -> QueryPlan:
    """Plan all parts in one step, for groups of ``rows`` rows."""
    return QueryPlan(query, schema, _plan_step(query, schema, _merge_bounds(query, schema, rows), left), left)


def _plan_counting_first(
    query: Query, schema: TableSchema, left: Cost, counts: Sequence[Fraction | None] = (None, FINE_COUNT)
) -> QueryPlan:
    """Plan counts first, for averages of groups as small as the budget allows, and in the cheapest of some ways.

    Args:
        counts: The ways: the most that a count may be off, as a part of a group; None for all that averages allow.
    """
    find_promised_rows(query, schema)  # refuses what declares no size
    book = get_accountant(schema.budget.accountant)

    def compute_cost(course: QueryPlan) -> Cost:
        return book.compute_cost(course.event)

    for size in (sizes := list(_compute_group_sizes(query, schema))):
        courses: list[QueryPlan] = []
        for count in counts:
            with suppress(AccuracyUnreachable):
                courses.append(_plan_in_turn(query, schema, left, size, count))
        affordable = [one for one in courses if size == sizes[-1] or is_affordable(compute_cost(one), left)]
        if affordable:
            return min(affordable, key=lambda one: compute_cost(one).amount)
    return _plan_in_turn(query, schema, left, sizes[-1], counts[0])


def _compute_group_sizes(query: Query, schema: TableSchema) -> Iterator[Fraction]:
    """Yield group sizes for which averages may be planned: first an even share of the table, last the whole table."""
    size = Fraction(schema.size_hint or 0)
    # The requested number does not affect the groups.
    share = size / compile_query(_build_simple(query, schema, Count(), Fraction(1)), schema).answers
    while share < size:
        yield share
        share *= _COARSER
    yield size


def _plan_in_turn(query: Query, schema: TableSchema, left: Cost, size: Fraction, fine: Fraction | None) -> QueryPlan:
    """Plan counts first, exact enough for averages of groups of ``size`` rows."""
    asked = _merge_bounds(query, schema, None, size, fine)
    later = find_later(query, schema)
    first = _plan_step(query, schema, {part: bound for part, bound in asked.items() if part not in later}, left)
    counted = _index_by_part(first)
    worst: dict[Part, Fraction | None] = {
        moment: compute_half_range(schema.domain[moment.attribute]) * counted[find_count(moment, schema)].alpha
        for moment in later
    }
    return QueryPlan(query, schema, first, left, _plan_step(query, schema, worst, left))


def plan_second_step(
    course: QueryPlan, found: Mapping[Aggregate, Sequence[Fraction]], chosen: Sequence[int], *, left: Cost
) -> PlanStep | None:
    """Plan the second step from the release of the first one; None if nothing is left to measure.

    Args:
        found: The groups' values, by part of the first step.
        chosen: The groups that were reported, if the first step chose some.
    Raises:
        AccuracyUnreachable: as for ``plan_query``.
    """
    query, schema = course.query, course.schema
    if course.second is None:
        return None
    if query.chooses_by_another:
        return _plan_values(query, schema, tuple(chosen), left) if chosen else None
    bounds: dict[Part, Fraction | None] = {}
    planned = _index_by_part(course.first)
    for moment, error in find_later(query, schema).items():
        attribute = schema.domain[moment.attribute]
        counts = found[find_count(moment, schema)]
        lost = compute_half_range(attribute) * planned[find_count(moment, schema)].alpha
        # If the count uses more than half of the error of a small group, the sum is not made finer than in
        # the worst case; if all groups are that small, their averages are still returned, with wide intervals.
        bounds[moment] = min((error * count - lost for count in counts if error * count >= 2 * lost), default=lost)
    return _plan_step(query, schema, bounds, left)


def _merge_bounds(
    query: Query,
    schema: TableSchema,
    rows: Fraction | None,
    size: Fraction | None = None,
    fine: Fraction | None = None,
) -> Bounds:
    """Merge the parts of all the query's aggregates, each at the smallest error that any of them needs."""
    bounds: dict[Part, Fraction | None] = {}
    for place, aggregate in enumerate(query.aggregates):
        error = get_error(query, place, schema) if isinstance(query.promise, Accuracy) else None
        for part, bound in _compute_bounds(aggregate, error, schema, rows, size, fine).items():
            known = bounds.get(part)
            bounds[part] = bound if known is None or bound is None else min(known, bound)
    return bounds


def _compute_bounds(
    aggregate: Aggregate,
    error: Fraction | None,
    schema: TableSchema,
    rows: Fraction | None,
    size: Fraction | None,
    fine: Fraction | None,
) -> Bounds:
    if error is None or rows is not None or not isinstance(aggregate, Average):
        return compute_bounds(aggregate, error, schema, rows)
    count, total = list_parts(aggregate, schema)
    size = Fraction(schema.size_hint or 0) if size is None else size
    # As coarse as an average of half such a group allows, in which count and sum use up half of the error each.
    needed = error * size / (4 * compute_half_range(schema.domain[aggregate.attribute]))
    return {count: needed if fine is None else min(size * fine, needed), total: None}


def _build_choice(query: Query, schema: TableSchema) -> Query:
    """Build the iceberg query that comes first."""
    assert query.having is not None
    assert isinstance(query.having.of, (Count, Distinct, Sum))
    error = get_error(query, len(query.bounded) - 1, schema) if isinstance(query.promise, Accuracy) else None
    asked = _build_simple(query, schema, query.having.of, error)
    return replace(asked, having=replace(query.having, of=None), shows_values=False)


def _plan_values(query: Query, schema: TableSchema, chosen: tuple[int, ...] | None, left: Cost) -> PlanStep:
    """Plan the aggregates of the chosen groups, or in the worst case (if unknown yet) of all groups."""
    asked = _merge_bounds(query, schema, find_promised_rows(query, schema))
    return _plan_step(query, schema, asked, left, chosen)


def _plan_step(
    query: Query, schema: TableSchema, bounds: Bounds, left: Cost, chosen: tuple[int, ...] | None = None
) -> PlanStep:
    step = _build_step(query, schema, bounds, left, chosen)
    if not isinstance(query.promise, Spend) or step.event in (step.plans[0].event, compose_events(step.plans)):
        return step
    book = get_accountant(schema.budget.accountant)
    allowed = Fraction(
        compute_allowed_cost(query.promise, schema).amount * len(bounds), len(_list_all_parts(query, schema))
    )
    cost = book.compute_cost(step.event).amount
    raised = _build_step(query, schema, bounds, left, chosen, allowed / cost * _ROUNDING) if cost < allowed else step
    return replace(raised, even=step) if cost < book.compute_cost(raised.event).amount <= allowed else step


def _build_step(
    query: Query,
    schema: TableSchema,
    bounds: Bounds,
    left: Cost,
    chosen: tuple[int, ...] | None,
    times: Fraction = Fraction(1),
) -> PlanStep:
    parts = {part: _build_simple(query, schema, part, bound, times) for part, bound in bounds.items()}
    if chosen is not None:
        assert isinstance(query.workload, GroupBy)
        some = SomeGroups(query.workload, chosen)
        parts = {part: replace(asked, workload=some) for part, asked in parts.items()}
    apart = tuple(replace(_plan_part(asked, schema, left), part=part) for part, asked in parts.items())
    plans = merge_quantiles(apart, left=left)
    return PlanStep(plans, () if len(plans) == len(apart) else apart)


def _plan_part(part: Query, schema: TableSchema, left: Cost) -> Plan:
    planned = plan_quantile if isinstance(part.aggregate, Quantile) else plan
    return planned(part, schema, left=left)


def _build_simple(
    query: Query, schema: TableSchema, part: Part, error: Fraction | None, times: Fraction = Fraction(1)
) -> Query:
    """Build one part of ``query`` as its own query."""
    return Query(
        table=query.table,
        workload=query.workload,
        promise=_split_share(query, schema, error, times),
        aggregate=part,
        where=query.where,
        reuse=query.reuse,
        optimistic=query.optimistic,
        join=query.join,
        publics=query.publics,
        groups_each=query.groups_each if isinstance(part, Distinct) else None,
    )


def _split_share(query: Query, schema: TableSchema, error: Fraction | None, times: Fraction) -> Promise:
    """Return a promise with an even share of beta, and ``times`` an even share of the budget if there is one."""
    number = len(_list_all_parts(query, schema))
    promise = query.stated
    beta = promise.beta / number
    if beta.denominator > 10**MAX_DIGITS:
        beta = Fraction(math.floor(beta * 10**MAX_DIGITS), 10**MAX_DIGITS)
    if isinstance(promise, Accuracy):
        assert error is not None
        return Accuracy(_round_decimal_down(error), beta, joint=promise.joint)
    book = get_accountant(schema.budget.accountant)
    amount = Decimal(math.floor(compute_allowed_cost(promise, schema).amount * times / number)) / book.scale
    if not amount:
        raise AccuracyUnreachable("The budget is too small for any error bound.", fix="raise BUDGET")
    return Spend(amount, "epsilon" if book.symbol == "epsilon" else "rho", None, beta, promise.joint)


def _list_all_parts(query: Query, schema: TableSchema) -> list[object]:
    """List all measured parts, in one step or two; equal parts are measured once."""
    parts: list[object] = [part for one in query.aggregates for part in list_parts(one, schema)]
    choice = [("choice",)] if query.chooses_by_another else []
    return [*dict.fromkeys(parts), *choice]


def _index_by_part(step: PlanStep) -> dict[Aggregate, Plan]:
    return {one.asked: one for one in step.plans}


def _round_decimal_down(value: Fraction) -> Decimal:
    """Round ``value`` > 0 down to ``_DIGITS`` digits, so that the error never exceeds the computed one."""
    if value.denominator == 1 and value < 10**_DIGITS:
        return Decimal(value.numerator)
    places = _DIGITS - math.floor(math.log10(value)) - 1
    return Decimal(math.floor(value * Fraction(10) ** places)).scaleb(-places)


def widen_errors(query: Query, factor: Fraction) -> Query:
    """Return ``query`` with all its error bounds times ``factor``, rounded up to three digits."""
    promise = query.promise
    assert isinstance(promise, Accuracy)
    bounds = [replace(bound, error=_round_decimal_up(Fraction(bound.error) * factor)) for bound in promise.bounds]
    first, *more = bounds
    return replace(query, promise=replace(promise, error=first.error, more=tuple(more)))


def _round_decimal_up(value: Fraction) -> Decimal:
    places = 2 - math.floor(math.log10(value))
    return Decimal(math.ceil(value * Fraction(10) ** places)).scaleb(-places)


_POWERS = (1, 2, 4, 8, 16, 32, 40)
"""Powers of two by which errors are widened first: each plan costs milliseconds, and most refusals need a small one."""


def find_least_widening(query: Query, schema: TableSchema, *, left: Cost) -> Query | None:
    """Return ``query`` with the smallest common factor on its errors that ``left`` covers; None if there is none."""
    if not isinstance(query.promise, Accuracy):
        return None
    schema = extend_schema(query, schema)

    def fits(factor: Fraction) -> bool:
        try:
            course = _build_plan(widen_errors(query, factor), schema, left)
        except AccuracyUnreachable:
            return False
        cost = get_accountant(schema.budget.accountant).compute_cost(course.event)
        return cost.amount <= left.amount and cost.delta <= left.delta

    most = next((power for power in _POWERS if fits(Fraction(2) ** power)), None)
    if most is None:
        return None
    least = max((power for power in _POWERS if power < most), default=0)
    while most - least > 1:
        power = (least + most) // 2
        least, most = (least, power) if fits(Fraction(2) ** power) else (power, most)
    low, high = Fraction(2) ** least, Fraction(2) ** most
    for _ in range(6):
        middle = (low + high) / 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return widen_errors(query, high)


def format_errors(query: Query) -> str:
    """Format the error bounds of ``query`` as in its text: ``200, 0.5``."""
    assert isinstance(query.promise, Accuracy)
    bounds = query.promise.bounds
    return ", ".join(f"{format_number(one.error)}{' PERCENT' if one.percent else ''}" for one in bounds)


def _build_unreachable(query: Query, schema: TableSchema, left: Cost) -> AccuracyUnreachable:
    wider = find_least_widening(query, schema, left=left)
    return AccuracyUnreachable(
        f"This query would cost more than the whole budget of {schema.name!r}.",
        fix="query fewer values, or lower CONFIDENCE"
        if wider is None
        else AskWith(render_offer(wider), f"ERROR {format_errors(wider)}"),
    )
