"""Quantiles planned: the cells of all declared values in each group, and the cheaper of two selections."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from siloquent.errors import AccuracyUnreachable, RequestError
from siloquent.explore.measure.base import Priced
from siloquent.explore.measure.quantile import Ranked, each_beta, price_exponential, price_flip, total_change
from siloquent.explore.plan.compiled import Compiled
from siloquent.explore.plan.lookups import resolved
from siloquent.explore.plan.planner import Candidate, Plan, allowed_cost, error_bound
from siloquent.explore.plan.predicates import Key, compile_keys, keys_of
from siloquent.explore.spec.aggregates import Quantile
from siloquent.explore.spec.query import Accuracy, GroupBy, Query, SomeGroups
from siloquent.explore.spec.sql import EVERY_ROW
from siloquent.maths import promises
from siloquent.privacy import Cost, accountant, digits
from siloquent.schema import MOST_CELLS, Attribute, TableSchema


def plan_quantile(query: Query, schema: TableSchema, *, left: Cost) -> Plan:
    """The cheapest plan for one quantile of every group.

    Raises:
        UnknownName, RequestError: the query does not fit the declaration.
        AccuracyUnreachable: ``left`` would not pay for it.
    """
    aggregate = query.aggregate
    assert isinstance(aggregate, Quantile)
    attribute = _ordered(schema.domain[aggregate.attribute])
    compiled = _compiled(query, schema, attribute)
    beta = float(query.promise.beta)
    if isinstance(query.promise, Accuracy):
        alpha = error_bound(query.promise, schema)
    else:
        alpha = _least_error(compiled, aggregate, attribute, beta, schema, allowed_cost(query.promise, schema))
    ranked = Ranked(aggregate.fraction, attribute.steps, alpha, beta)
    candidates = _candidates(compiled, ranked, schema)
    if candidates[0].cost.amount > left.amount:
        raise AccuracyUnreachable(
            f"Even the whole budget of {schema.name!r} would not pay for {digits(alpha, 6)} rows of rank."
        )
    return Plan(query, schema, compiled, candidates[0].priced, tuple(candidates), alpha, query.promise.beta)


def _ordered(attribute: Attribute) -> Attribute:
    if not (attribute.is_numeric or attribute.is_temporal):
        raise RequestError(
            f"A quantile needs values in an order; {attribute.name!r} is {attribute.kind}.",
            fix=f"GROUP BY {attribute.name}, and ask COUNT(*)" if attribute.is_countable else "use another attribute",
        )
    if attribute.steps == 1:
        raise RequestError(f"{attribute.name!r} has one declared value, so that is every quantile.", fix="COUNT(*)")
    if attribute.steps > MOST_CELLS:
        raise RequestError(
            f"{attribute.name!r} has {attribute.steps:,} declared values; a quantile chooses among {MOST_CELLS:,}.",
            fix="declare a coarser grid",
        )
    return attribute


def _compiled(query: Query, schema: TableSchema, attribute: Attribute) -> Compiled:
    """Counts of every declared value in each group, side by side; its answers are the groups."""
    query = resolved(query, schema)
    workload = query.workload
    every = workload.all_groups if isinstance(workload, SomeGroups) else workload
    if not isinstance(every, GroupBy) and every != EVERY_ROW:
        raise RequestError("Quantiles are asked for groups.", fix=f"SELECT MEDIAN({attribute.name}) .. GROUP BY")
    keys = keys_of(every, schema.domain) if isinstance(every, GroupBy) else []
    places = np.append(np.arange(attribute.size), -1)
    places[attribute.steps : attribute.size] = -1  # NULL's own cell is no value
    chosen = workload.chosen if isinstance(workload, SomeGroups) else None
    value = Key(attribute.name, places, tuple(range(attribute.steps)), attribute.name)
    return compile_keys(keys, value, query, schema, chosen=chosen)


def _candidates(compiled: Compiled, ranked: Ranked, schema: TableSchema) -> list[Candidate]:
    book = accountant(schema.budget.accountant)
    offers: list[Priced] = [price_flip(compiled, ranked), price_exponential(compiled, ranked)]
    found = [Candidate(p, book.cost(p.event), book.price(p.event).amount) for p in offers]
    return sorted(found, key=lambda one: (one.cost.amount, one.priced.name))


def _least_error(
    compiled: Compiled, aggregate: Quantile, attribute: Attribute, beta: float, schema: TableSchema, allowed: Cost
) -> Fraction:
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
        (promises.PermuteAndFlip(attribute.steps), flip),
        (promises.ExponentialSelect(attribute.steps), select),
    ]
    found = []
    for law, epsilon in laws:
        scale = Fraction(math.ceil(2 * change / epsilon * promises.DENOMINATOR), promises.DENOMINATOR)
        found.append(promises.smallest_error(law, scale, each))
    return Fraction(max(min(found) - 1, 1), share.denominator)


def _root_below(value: Fraction) -> Fraction:
    return Fraction(math.isqrt(math.floor(value * 10**30)), 10**15)
