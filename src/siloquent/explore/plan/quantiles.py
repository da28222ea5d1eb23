"""Plans for quantiles: the cells of all declared values in each group, and the cheaper of two selections.

Several quantiles of one attribute share one measurement if that costs less than separate selections.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

from siloquent.errors import AccuracyUnreachable, RequestError
from siloquent.explore.plan.cells.compiled import CompiledWorkload
from siloquent.explore.plan.cells.keys import build_value_key, list_group_keys
from siloquent.explore.plan.cells.predicates import compile_keys
from siloquent.explore.plan.cells.space import MAX_TRUTHS, GroupKey, Space, iter_tests, max_truths
from siloquent.explore.plan.computed.inlining import inline_computed
from siloquent.explore.plan.limits import are_lifted, standing, was_paid
from siloquent.explore.plan.mechanisms.base import Affords, ErrorRequirement, PricedMechanism
from siloquent.explore.plan.mechanisms.quantile import (
    RankRequirement,
    bound_total_change,
    price_exponential,
    price_flip,
    split_beta,
)
from siloquent.explore.plan.mechanisms.ranks import price_ranks
from siloquent.explore.plan.planner import (
    MAX_UNITS,
    Plan,
    PlanCandidate,
    build_budget_test,
    choose_fullest,
    compile_once,
    compute_allowed_cost,
    compute_error_bound,
    is_affordable,
)
from siloquent.explore.plan.relations.public_joins import inline_join
from siloquent.explore.spec.aggregates import Aggregate, Quantile, Ranks
from siloquent.explore.spec.language.refusals import quote_name
from siloquent.explore.spec.promises import Accuracy, Spend
from siloquent.explore.spec.query import EVERY_ROW, GroupBy, Query, SomeGroups
from siloquent.fixes import run
from siloquent.maths.tails import errors as error_tails
from siloquent.privacy import Cost, format_digits, get_accountant
from siloquent.schema import MAX_CELLS, Attribute, TableSchema

MIN_VALUES = 100
_TIMES = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 14_400, 21_600, 43_200)
"""Numbers of seconds that divide a minute, an hour or a day."""
MAX_RANKED = 1_024
"""The maximum number of values of all groups (and values times quantiles) for a joint measurement of quantiles."""


def plan_quantile(query: Query, schema: TableSchema, *, left: Cost) -> Plan:
    """Return the cheapest plan for one quantile of every group.

    Raises:
        UnknownName, RequestError: the query does not fit the declaration.
        AccuracyUnreachable: ``left`` would not cover it.
    """
    assert isinstance(query.aggregate, Quantile)
    attribute = _require_ordered(schema.domain[query.aggregate.attribute])
    found = _planned(query, schema, compile_once(_compile, query, schema), left)
    if not are_lifted() or found.compiled.value_step == 1 or attribute.steps > MAX_CELLS or was_paid(found.event):
        return found
    with suppress(RequestError):  # a quantile over every value, planned before the current limit
        finer = _planned(query, schema, compile_once(_compile_every_value, query, schema), left)
        return finer if was_paid(finer.event) else found
    return found


def _planned(query: Query, schema: TableSchema, compiled: CompiledWorkload, left: Cost) -> Plan:
    aggregate = query.aggregate
    assert isinstance(aggregate, Quantile)
    attribute = schema.domain[aggregate.attribute]
    if all((part.column < 0).all() for part in compiled.parts):
        raise RequestError(
            f"No row can meet this condition and have a value of {attribute.name!r}, so there is no quantile.",
            fix=run("show", schema.name),
        )
    beta = float(query.promise.beta)
    promise = query.stated
    if isinstance(promise, Accuracy):
        alpha = compute_error_bound(promise, schema)
    else:
        alpha = _find_least_error(compiled, aggregate, beta, schema, compute_allowed_cost(promise, schema))
    ranked = RankRequirement(aggregate.fraction, compiled.values, alpha, beta)
    candidates = _list_candidates(compiled, ranked, schema)
    chosen = candidates[0]
    if chosen.cost.amount > left.amount:
        raise AccuracyUnreachable(
            f"Even the whole budget of {schema.name!r} would not pay for {format_digits(alpha, 6)} rows of rank."
        )
    if isinstance(query.promise, Spend):
        left = compute_allowed_cost(query.promise, schema)
        candidates = _list_candidates(compiled, replace(ranked, affords=build_budget_test(left, schema)), schema)
        chosen = choose_fullest([chosen], candidates, left)
    return Plan(query, schema, compiled, chosen.priced, tuple(candidates), alpha, query.promise.beta)


def merge_quantiles(plans: Sequence[Plan], *, left: Cost) -> tuple[Plan, ...]:
    """Merge ``plans`` for several quantiles of an attribute into one measurement if that is cheaper or more exact."""
    apart: dict[Aggregate, list[Plan]] = {}
    for one in plans:
        if isinstance(one.asked, Quantile):
            apart.setdefault(_drop_share(one.asked), []).append(one)
    merged: dict[Aggregate, Plan] = {}
    for name, several in apart.items():
        ranks = _plan_ranks(several, left) if len(several) > 1 else None
        if ranks is not None and _is_better(ranks, several):
            merged[name] = ranks
    found: list[Plan] = []
    for one in plans:
        chosen = merged.get(_drop_share(one.asked), one) if isinstance(one.asked, Quantile) else one
        if chosen not in found:
            found.append(chosen)
    return tuple(found)


def _drop_share(quantile: Quantile) -> Ranks:
    """Return what quantiles that are read off one measurement have in common."""
    return Ranks(quantile.attribute, (), test=quantile.test)


def _plan_ranks(plans: Sequence[Plan], left: Cost) -> Plan | None:
    """Plan one measurement for all of ``plans``; None if there are too many values."""
    first = plans[0]
    compiled, schema = first.compiled, first.schema
    columns = compiled.parts[0].columns
    if columns > MAX_RANKED or len(plans) * (columns // compiled.answers) > MAX_RANKED:
        return None
    aggregates = [one.query.aggregate for one in plans]
    shares = tuple(one.share for one in aggregates if isinstance(one, Quantile))
    beta = sum((one.beta for one in plans), Fraction(0))
    aggregate = Ranks(first.query.aggregate.attribute, shares)  # type: ignore[union-attr]

    def priced(alpha: Fraction, affords: Affords | None = None) -> PricedMechanism | None:
        units = min(alpha, MAX_UNITS)
        wanted = ErrorRequirement("wcq", units, error_tails.compute_breaking_error(alpha), float(beta), affords=affords)
        return price_ranks(compiled, [Fraction(share) for share in shares], wanted, pure=pure)

    book, pure = get_accountant(schema.budget.accountant), schema.budget.accountant == "pure"
    promise = first.query.stated
    alpha: Fraction | None
    if isinstance(promise, Accuracy):
        alpha = min(one.alpha for one in plans)
        promise = replace(
            promise,
            error=min(one.query.promise.error for one in plans if isinstance(one.query.promise, Accuracy)),
            beta=beta,
        )
    else:
        amounts = [one.query.promise.amount for one in plans if isinstance(one.query.promise, Spend)]
        promise = replace(promise, amount=sum(amounts, Decimal(0)), beta=beta)
        allowed = compute_allowed_cost(promise, schema)
        most = min(one.alpha for one in plans)
        alpha = _find_least(
            most,
            lambda error: (one := priced(error)) is not None and is_affordable(book.compute_cost(one.event), allowed),
        )
        left = Cost(min(left.amount, allowed.amount), left.delta)
    chosen = None
    if alpha is not None:
        chosen = priced(alpha, build_budget_test(left, schema) if isinstance(promise, Spend) else None)
    if chosen is None or alpha is None or not is_affordable(book.compute_cost(chosen.event), left):
        return None
    query = replace(first.query, aggregate=aggregate, promise=promise)
    candidate = PlanCandidate(chosen, book.compute_cost(chosen.event), book.compute_price(chosen.event).amount)
    return Plan(query, schema, compiled, chosen, (candidate,), alpha, beta, replace(aggregate, test=first.asked.test))


def _is_better(ranks: Plan, apart: Sequence[Plan]) -> bool:
    """Return whether ``ranks`` is cheaper at no larger an error, or more exact at the total cost of ``apart``."""
    if isinstance(ranks.query.promise, Spend):
        return ranks.alpha < min(one.alpha for one in apart)
    book = get_accountant(ranks.schema.budget.accountant)
    return book.compute_price(ranks.event).amount < sum(book.compute_price(one.event).amount for one in apart)


def _find_least(most: Fraction, keeps: Callable[[Fraction], bool]) -> Fraction | None:
    """Find the smallest integer error below ``most`` with ``keeps``; None if there is none."""
    low, high = 0, math.ceil(most)
    if not keeps(Fraction(high)):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if keeps(Fraction(middle)) else (middle, high)
    return Fraction(high)


def _require_ordered(attribute: Attribute) -> Attribute:
    if not (attribute.is_numeric or attribute.is_temporal):
        raise RequestError(
            f"A quantile needs values in an order; {attribute.name!r} is of type {attribute.kind}.",
            fix=f"GROUP BY {quote_name(attribute.name)}, and ask COUNT(*)"
            if attribute.is_countable
            else "use another attribute",
        )
    if attribute.steps == 1:
        raise RequestError(f"{attribute.name!r} has only one declared value, which is every quantile.", fix="COUNT(*)")
    return attribute


def _compile(query: Query, schema: TableSchema) -> CompiledWorkload:
    """Compile counts of every declared value (or step, if too many) in each group; its answers are the groups."""
    attribute = _get_attribute(query, schema)
    if attribute.steps <= MAX_CELLS:
        try:
            with standing():
                return _compile_every_value(query, schema)
        except RequestError:  # too many cells: below, the same result is found with fewer
            if max_truths.get() < MAX_TRUTHS and _have_room(query, schema, attribute):
                if not are_lifted():
                    raise
                return _compile_every_value(query, schema)
    query, schema, keys, chosen = _select_groups(query, schema, attribute)
    alone = compile_keys(keys, build_value_key(attribute, attribute.steps), query, schema, chosen=chosen)
    block = alone.parts[0].block
    others = block.size // block.shape[block.attributes.index(attribute.name)]
    step = _compute_step(attribute, MAX_CELLS // (2 * others))
    return compile_keys(keys, build_value_key(attribute, step), query, schema, chosen=chosen, step=step)


def _compile_every_value(query: Query, schema: TableSchema) -> CompiledWorkload:
    attribute = _get_attribute(query, schema)
    query, schema, keys, chosen = _select_groups(query, schema, attribute)
    return compile_keys(keys, build_value_key(attribute, 1), query, schema, chosen=chosen)


def _get_attribute(query: Query, schema: TableSchema) -> Attribute:
    assert isinstance(query.aggregate, Quantile)
    return schema.domain[query.aggregate.attribute]


def _select_groups(
    query: Query, schema: TableSchema, attribute: Attribute
) -> tuple[Query, TableSchema, list[GroupKey], tuple[int, ...] | None]:
    """Return ``query`` with resolved joins and computed columns, its schema, the keys of its groups, and the groups."""
    query, schema = inline_computed(inline_join(query, schema), schema)
    workload = query.workload
    every = workload.all_groups if isinstance(workload, SomeGroups) else workload
    if not isinstance(every, GroupBy) and every != EVERY_ROW:
        raise RequestError(
            "Quantiles are available only for groups.", fix=f"SELECT MEDIAN({quote_name(attribute.name)}) with GROUP BY"
        )
    keys = list_group_keys(every, schema.domain, schema.list_referring()) if isinstance(every, GroupBy) else []
    return query, schema, keys, workload.chosen if isinstance(workload, SomeGroups) else None


def _have_room(query: Query, schema: TableSchema, attribute: Attribute) -> bool:
    """Return whether every value has a cell under public limits; the price with steps would be another answer's."""
    query, schema, keys, _ = _select_groups(query, schema, attribute)
    tests = [] if query.where is None else list(iter_tests(query.where))
    ours = max_truths.set(MAX_TRUTHS)
    try:
        with standing():
            Space(tests, schema.domain, [*keys, build_value_key(attribute, 1)])
    except RequestError:
        return False
    finally:
        max_truths.reset(ours)
    return True


def _compute_step(attribute: Attribute, most: int) -> int:
    """Compute the smallest round step, in declared values, that makes at most ``most`` steps.

    1, 2, 5, 10, 20, 50, ... values; for dates, integer fractions of a minute, an hour and a day.

    Raises:
        RequestError: there would be too few steps for a meaningful quantile.
    """
    if most < MIN_VALUES:
        raise RequestError(
            f"The groups leave room for fewer than {MIN_VALUES} values of {attribute.name!r} in each.",
            fix="GROUP BY fewer or coarser keys",
        )
    usual: list[int] = [first * 10**power for power in range(15) for first in (1, 2, 5)]
    grid = int(attribute.grid or 1) if attribute.is_temporal else 1
    sizes = [*_TIMES, *(86_400 * days for days in usual)] if attribute.is_temporal else usual
    steps = [size // grid for size in sizes if size % grid == 0]
    return next(step for step in [*steps, *usual] if -(-attribute.steps // step) <= most)


def describe_steps(plans: Sequence[Plan]) -> list[str]:
    """Return the notes on quantiles among ``plans`` that are chosen among steps of several declared values."""
    chosen = [(one, one.query.aggregate) for one in plans]
    texts = [
        format_steps(one.compiled, one.schema.domain[aggregate.attribute])
        for one, aggregate in chosen
        if isinstance(aggregate, (Quantile, Ranks))
    ]
    return list(dict.fromkeys(filter(None, texts)))


def format_steps(compiled: CompiledWorkload, attribute: Attribute) -> str:
    """Return an answer's note on a quantile chosen among steps of several declared values; empty for others."""
    if compiled.value_step == 1:
        return ""
    size = compiled.value_step * Fraction(attribute.grid or 1)
    width = _format_time(int(size)) if attribute.is_temporal else _format_number(size)
    return (
        f"{attribute.name!r} has {attribute.steps:,} declared values, so quantiles of it come in steps of {width}: "
        "each is the first value of its step, and its rank is promised for some value in that step."
    )


def _format_number(size: Fraction) -> str:
    return f"{Decimal(size.numerator) / Decimal(size.denominator):,f}"


def _format_time(seconds: int) -> str:
    for unit, length in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds % length == 0:
            return f"{seconds // length:,} {unit}{'' if seconds == length else 's'}"
    return f"{seconds:,} seconds"


def _list_candidates(compiled: CompiledWorkload, ranked: RankRequirement, schema: TableSchema) -> list[PlanCandidate]:
    book = get_accountant(schema.budget.accountant)
    offers: list[PricedMechanism] = [price_flip(compiled, ranked), price_exponential(compiled, ranked)]
    found = [PlanCandidate(p, book.compute_cost(p.event), book.compute_price(p.event).amount) for p in offers]
    return sorted(found, key=lambda one: (one.cost.amount, one.priced.name))


def _find_least_error(
    compiled: CompiledWorkload, aggregate: Quantile, beta: float, schema: TableSchema, allowed: Cost
) -> Fraction:
    """Find the smallest error in rows of rank that ``allowed`` covers."""
    share = aggregate.fraction
    change = bound_total_change(compiled, share)
    each = split_beta(beta, compiled.answers)
    budget = Fraction(allowed.amount, get_accountant(schema.budget.accountant).scale)
    if not budget:
        raise AccuracyUnreachable("No error bound can be promised for so little.", fix="raise BUDGET")
    pure = schema.budget.accountant == "pure"
    # rho = epsilon^2 / 2 for permute-and-flip and range^2 / 8 for exponential selection.
    flip = budget if pure else _round_root_down(2 * budget)
    select = budget if pure else _round_root_down(8 * budget)
    laws: list[tuple[error_tails.PermuteAndFlipTail | error_tails.ExponentialSelectTail, Fraction]] = [
        (error_tails.PermuteAndFlipTail(compiled.values), flip),
        (error_tails.ExponentialSelectTail(compiled.values), select),
    ]
    found = []
    for law, epsilon in laws:
        scale = Fraction(math.ceil(2 * change / epsilon * error_tails.DENOMINATOR), error_tails.DENOMINATOR)
        found.append(error_tails.find_smallest_error(law, scale, each))
    return Fraction(max(min(found) - 1, 1), share.denominator)


def _round_root_down(value: Fraction) -> Fraction:
    return Fraction(math.isqrt(math.floor(value * 10**30)), 10**15)
