"""Quantiles planned: the cells of all declared values in each group, and the cheaper of two selections.

Several quantiles of one attribute are read off one measurement where that costs less than a selection each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

from siloquent.errors import AccuracyUnreachable, RequestError
from siloquent.explore.measure.base import Affords, Priced, Wanted
from siloquent.explore.measure.quantile import Ranked, each_beta, price_exponential, price_flip, total_change
from siloquent.explore.measure.ranks import price_ranks
from siloquent.explore.plan.compiled import Compiled
from siloquent.explore.plan.keys import keys_of, value_key
from siloquent.explore.plan.limits import are_lifted, standing, was_paid
from siloquent.explore.plan.lookups import resolved
from siloquent.explore.plan.planner import (
    MOST_UNITS,
    Candidate,
    Plan,
    affordable_within,
    allowed_cost,
    error_bound,
    fits,
    fullest,
)
from siloquent.explore.plan.predicates import compile_keys
from siloquent.explore.plan.space import MAX_TRUTHS, Key, Space, max_truths, tests_in
from siloquent.explore.spec.aggregates import Quantile, Ranks
from siloquent.explore.spec.query import Accuracy, GroupBy, Query, SomeGroups, Spend
from siloquent.explore.spec.sql import EVERY_ROW
from siloquent.explore.spec.words import plain_name
from siloquent.maths import promises
from siloquent.privacy import Cost, accountant, digits
from siloquent.schema import MOST_CELLS, Attribute, TableSchema

LEAST_VALUES = 100
_TIMES = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 14_400, 21_600, 43_200)
"""Seconds that divide a minute, an hour or a day."""
MOST_RANKED = 1_024
"""Values of all groups, and values times quantiles, up to which one measurement for several quantiles is sought."""


def plan_quantile(query: Query, schema: TableSchema, *, left: Cost) -> Plan:
    """The cheapest plan for one quantile of every group.

    Raises:
        UnknownName, RequestError: the query does not fit the declaration.
        AccuracyUnreachable: ``left`` would not pay for it.
    """
    assert isinstance(query.aggregate, Quantile)
    attribute = _ordered(schema.domain[query.aggregate.attribute])
    found = _planned(query, schema, _compiled(query, schema, attribute), left)
    if not are_lifted() or found.compiled.value_step == 1 or attribute.steps > MOST_CELLS or was_paid(found.event):
        return found
    with suppress(RequestError):  # one of every value, planned before a bound that there is now
        finer = _planned(query, schema, _of_every_value(query, schema, attribute), left)
        return finer if was_paid(finer.event) else found
    return found


def _planned(query: Query, schema: TableSchema, compiled: Compiled, left: Cost) -> Plan:
    aggregate = query.aggregate
    assert isinstance(aggregate, Quantile)
    attribute = schema.domain[aggregate.attribute]
    if all((part.column < 0).all() for part in compiled.parts):
        raise RequestError(
            f"No row can meet this condition and have a value of {attribute.name!r}, so there is no quantile.",
            fix=f"siloquent show {schema.name}",
        )
    beta = float(query.promise.beta)
    if isinstance(query.promise, Accuracy):
        alpha = error_bound(query.promise, schema)
    else:
        alpha = _least_error(compiled, aggregate, beta, schema, allowed_cost(query.promise, schema))
    ranked = Ranked(aggregate.fraction, compiled.values, alpha, beta)
    candidates = _candidates(compiled, ranked, schema)
    chosen = candidates[0]
    if chosen.cost.amount > left.amount:
        raise AccuracyUnreachable(
            f"Even the whole budget of {schema.name!r} would not pay for {digits(alpha, 6)} rows of rank."
        )
    if isinstance(query.promise, Spend):
        left = allowed_cost(query.promise, schema)
        candidates = _candidates(compiled, replace(ranked, affords=affordable_within(left, schema)), schema)
        chosen = fullest([chosen], candidates, left)
    return Plan(query, schema, compiled, chosen.priced, tuple(candidates), alpha, query.promise.beta)


def together(plans: Sequence[Plan], *, left: Cost) -> tuple[Plan, ...]:
    """``plans``, but one measurement for several quantiles of an attribute wherever that is cheaper, or more exact."""
    apart: dict[str, list[Plan]] = {}
    for one in plans:
        if isinstance(one.query.aggregate, Quantile):
            apart.setdefault(one.query.aggregate.attribute, []).append(one)
    merged: dict[str, Plan] = {}
    for name, several in apart.items():
        ranks = _ranks(several, left) if len(several) > 1 else None
        if ranks is not None and _is_better(ranks, several):
            merged[name] = ranks
    found: list[Plan] = []
    for one in plans:
        chosen = merged.get(getattr(one.query.aggregate, "attribute", ""), one)
        chosen = chosen if isinstance(one.query.aggregate, Quantile) else one
        if chosen not in found:
            found.append(chosen)
    return tuple(found)


def _ranks(plans: Sequence[Plan], left: Cost) -> Plan | None:
    """One measurement for all of ``plans``; None where there are too many values for it to be sought."""
    first = plans[0]
    compiled, schema = first.compiled, first.schema
    columns = compiled.parts[0].columns
    if columns > MOST_RANKED or len(plans) * (columns // compiled.answers) > MOST_RANKED:
        return None
    aggregates = [one.query.aggregate for one in plans]
    shares = tuple(one.share for one in aggregates if isinstance(one, Quantile))
    beta = sum((one.beta for one in plans), Fraction(0))
    aggregate = Ranks(first.query.aggregate.attribute, shares)  # type: ignore[union-attr]

    def priced(alpha: Fraction, affords: Affords | None = None) -> Priced | None:
        units = min(alpha, MOST_UNITS)
        wanted = Wanted("wcq", units, promises.smallest_breaking(alpha), float(beta), affords=affords)
        return price_ranks(compiled, [Fraction(share) for share in shares], wanted, pure=pure)

    book, pure = accountant(schema.budget.accountant), schema.budget.accountant == "pure"
    promise = first.query.promise
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
        allowed = allowed_cost(promise, schema)
        most = min(one.alpha for one in plans)
        alpha = _least(most, lambda error: (one := priced(error)) is not None and fits(book.cost(one.event), allowed))
        left = Cost(min(left.amount, allowed.amount), left.delta)
    chosen = None
    if alpha is not None:
        chosen = priced(alpha, affordable_within(left, schema) if isinstance(promise, Spend) else None)
    if chosen is None or alpha is None or not fits(book.cost(chosen.event), left):
        return None
    query = replace(first.query, aggregate=aggregate, promise=promise)
    candidate = Candidate(chosen, book.cost(chosen.event), book.price(chosen.event).amount)
    return Plan(query, schema, compiled, chosen, (candidate,), alpha, beta)


def _is_better(ranks: Plan, apart: Sequence[Plan]) -> bool:
    """Cheaper for no larger an error, or more exact for what all would cost."""
    if isinstance(ranks.query.promise, Spend):
        return ranks.alpha < min(one.alpha for one in apart)
    book = accountant(ranks.schema.budget.accountant)
    return book.price(ranks.event).amount < sum(book.price(one.event).amount for one in apart)


def _least(most: Fraction, keeps: Callable[[Fraction], bool]) -> Fraction | None:
    """The smallest whole error below ``most`` with ``keeps``; None if there is none."""
    low, high = 0, math.ceil(most)
    if not keeps(Fraction(high)):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if keeps(Fraction(middle)) else (middle, high)
    return Fraction(high)


def _ordered(attribute: Attribute) -> Attribute:
    if not (attribute.is_numeric or attribute.is_temporal):
        raise RequestError(
            f"A quantile needs values in an order; {attribute.name!r} is {attribute.kind}.",
            fix=f"GROUP BY {plain_name(attribute.name)}, and ask COUNT(*)"
            if attribute.is_countable
            else "use another attribute",
        )
    if attribute.steps == 1:
        raise RequestError(f"{attribute.name!r} has one declared value, so that is every quantile.", fix="COUNT(*)")
    return attribute


def _compiled(query: Query, schema: TableSchema, attribute: Attribute) -> Compiled:
    """Counts of every declared value in each group, side by side; its answers are the groups. Of steps if too many."""
    if attribute.steps <= MOST_CELLS:
        try:
            with standing():
                return _of_every_value(query, schema, attribute)
        except RequestError:  # too many cells: the same is found below, with fewer
            if max_truths.get() < MAX_TRUTHS and _have_room(query, schema, attribute):
                if not are_lifted():
                    raise
                return _of_every_value(query, schema, attribute)
    query, keys, chosen = _groups(query, schema, attribute)
    alone = compile_keys(keys, value_key(attribute, attribute.steps), query, schema, chosen=chosen)
    block = alone.parts[0].block
    others = block.size // block.shape[block.attributes.index(attribute.name)]
    step = _step_for(attribute, MOST_CELLS // (2 * others))
    return compile_keys(keys, value_key(attribute, step), query, schema, chosen=chosen, step=step)


def _of_every_value(query: Query, schema: TableSchema, attribute: Attribute) -> Compiled:
    query, keys, chosen = _groups(query, schema, attribute)
    return compile_keys(keys, value_key(attribute, 1), query, schema, chosen=chosen)


def _groups(query: Query, schema: TableSchema, attribute: Attribute) -> tuple[Query, list[Key], tuple[int, ...] | None]:
    """``query`` with its lookups, the keys of its groups, and the groups that are wanted."""
    query = resolved(query, schema)
    workload = query.workload
    every = workload.all_groups if isinstance(workload, SomeGroups) else workload
    if not isinstance(every, GroupBy) and every != EVERY_ROW:
        raise RequestError(
            "Quantiles are asked for groups.", fix=f"SELECT MEDIAN({plain_name(attribute.name)}) behind GROUP BY"
        )
    keys = keys_of(every, schema.domain) if isinstance(every, GroupBy) else []
    return query, keys, workload.chosen if isinstance(workload, SomeGroups) else None


def _have_room(query: Query, schema: TableSchema, attribute: Attribute) -> bool:
    """Whether every value has a cell where no stranger asks: a price of steps would be that of another answer."""
    query, keys, _ = _groups(query, schema, attribute)
    tests = [] if query.where is None else list(tests_in(query.where))
    ours = max_truths.set(MAX_TRUTHS)
    try:
        with standing():
            Space(tests, schema.domain, [*keys, value_key(attribute, 1)])
    except RequestError:
        return False
    finally:
        max_truths.reset(ours)
    return True


def _step_for(attribute: Attribute, most: int) -> int:
    """The smallest step, in declared values, that a person would choose and that makes at most ``most`` steps.

    1, 2, 5, 10, 20, 50, .. values; of dates, whole parts of a minute, an hour and a day.

    Raises:
        RequestError: there would be so few steps that a quantile says nothing.
    """
    if most < LEAST_VALUES:
        raise RequestError(
            f"The groups leave room for fewer than {LEAST_VALUES} values of {attribute.name!r} in each.",
            fix="GROUP BY fewer or coarser keys",
        )
    usual: list[int] = [first * 10**power for power in range(15) for first in (1, 2, 5)]
    grid = int(attribute.grid or 1) if attribute.is_temporal else 1
    sizes = [*_TIMES, *(86_400 * days for days in usual)] if attribute.is_temporal else usual
    steps = [size // grid for size in sizes if size % grid == 0]
    return next(step for step in [*steps, *usual] if -(-attribute.steps // step) <= most)


def steps_in_words(plans: Sequence[Plan]) -> list[str]:
    """What is said of the quantiles among ``plans`` that are chosen among steps of several declared values."""
    chosen = [(one, one.query.aggregate) for one in plans]
    texts = [
        steps_text(one.compiled, one.schema.domain[aggregate.attribute])
        for one, aggregate in chosen
        if isinstance(aggregate, (Quantile, Ranks))
    ]
    return list(dict.fromkeys(filter(None, texts)))


def steps_text(compiled: Compiled, attribute: Attribute) -> str:
    """What an answer says of a quantile that is chosen among steps of several declared values; empty for others."""
    if compiled.value_step == 1:
        return ""
    size = compiled.value_step * Fraction(attribute.grid or 1)
    width = _time_text(int(size)) if attribute.is_temporal else _number_text(size)
    return (
        f"{attribute.name!r} has {attribute.steps:,} declared values, so quantiles of it come in steps of {width}: "
        "each is the first value of its step, and its rank is promised for some value in that step."
    )


def _number_text(size: Fraction) -> str:
    return f"{Decimal(size.numerator) / Decimal(size.denominator):,f}"


def _time_text(seconds: int) -> str:
    for unit, length in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds % length == 0:
            return f"{seconds // length:,} {unit}{'' if seconds == length else 's'}"
    return f"{seconds:,} seconds"


def _candidates(compiled: Compiled, ranked: Ranked, schema: TableSchema) -> list[Candidate]:
    book = accountant(schema.budget.accountant)
    offers: list[Priced] = [price_flip(compiled, ranked), price_exponential(compiled, ranked)]
    found = [Candidate(p, book.cost(p.event), book.price(p.event).amount) for p in offers]
    return sorted(found, key=lambda one: (one.cost.amount, one.priced.name))


def _least_error(compiled: Compiled, aggregate: Quantile, beta: float, schema: TableSchema, allowed: Cost) -> Fraction:
    """The smallest error in rows of rank that ``allowed`` pays for."""
    share = aggregate.fraction
    change = total_change(compiled, share)
    each = each_beta(beta, compiled.answers)
    budget = Fraction(allowed.amount, accountant(schema.budget.accountant).scale)
    if not budget:
        raise AccuracyUnreachable("No error bound can be promised for so little.", fix="raise BUDGET")
    pure = schema.budget.accountant == "pure"
    # rho = epsilon^2 / 2 of permute-and-flip and range^2 / 8 of exponential selection.
    flip = budget if pure else _root_below(2 * budget)
    select = budget if pure else _root_below(8 * budget)
    laws: list[tuple[promises.PermuteAndFlip | promises.ExponentialSelect, Fraction]] = [
        (promises.PermuteAndFlip(compiled.values), flip),
        (promises.ExponentialSelect(compiled.values), select),
    ]
    found = []
    for law, epsilon in laws:
        scale = Fraction(math.ceil(2 * change / epsilon * promises.DENOMINATOR), promises.DENOMINATOR)
        found.append(promises.smallest_error(law, scale, each))
    return Fraction(max(min(found) - 1, 1), share.denominator)


def _root_below(value: Fraction) -> Fraction:
    return Fraction(math.isqrt(math.floor(value * 10**30)), 10**15)
