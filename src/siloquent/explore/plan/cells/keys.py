"""Group keys: GROUP BY, CUBE, HISTOGRAM and PREFIX as partitions of the declared cells, without data."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from siloquent.errors import RequestError
from siloquent.explore.plan.cells.classes import Runs
from siloquent.explore.plan.cells.compiled import WorkloadPart
from siloquent.explore.plan.cells.cuts import find_run_starts
from siloquent.explore.plan.cells.predicate_evaluation import TRUE, evaluate_expression, map_through_key
from siloquent.explore.plan.cells.space import GroupKey, Space, iter_tests
from siloquent.explore.plan.limits import passes
from siloquent.explore.spec.language.refusals import quote_name
from siloquent.explore.spec.language.render_conditions import render_expression
from siloquent.explore.spec.predicate import Column, Expression, Predicate, Through
from siloquent.explore.spec.query import MAX_PREDICATES, Cube, GroupBy, Ranges
from siloquent.explore.spec.rewriting.normal_form import find_attribute
from siloquent.schema import Attribute, Domain
from siloquent.schema.attribute import MAX_CODES

MAX_WEIGHTS = 25 * 10**6
MAX_DATES = 10_000
MAX_PLACES = 100
"""The maximum number of values of a number that is grouped value by value without being a code."""
MAX_OFFERED = 30
"""The maximum number of groups of a number that a fix proposes."""
MAX_VALUES = 8 * 10**6
"""The maximum number of values of all keys' attributes together."""


def list_keys(
    workload: GroupBy | Cube | Ranges | Any, domain: Domain, referring: Collection[str] = ()
) -> tuple[list[GroupKey], bool]:
    """List the keys of ``workload``, and whether each range includes all ranges before it.

    Args:
        referring: The attributes that refer to public tables: they are codes, however many values they have.
    Raises:
        UnknownName, RequestError: as for ``compile_workload``.
    """
    if isinstance(workload, Ranges):
        return [_build_range_key(workload, domain[workload.attribute])], workload.shape == "prefix"
    expressions = workload.keys if isinstance(workload, GroupBy) else [Column(name) for name in workload.attributes]
    keys: list[GroupKey] = []
    groups = values = 1
    for expression in expressions:  # one at a time: each takes memory for every value of its attribute
        name = find_attribute(expression)
        listed = name is not None and domain[name].is_countable and not domain[name].is_wide
        values += domain[name].size if listed and name is not None else 0
        if passes(values, MAX_VALUES):
            raise RequestError(
                f"The keys have more than {MAX_VALUES:,} values in total.",
                fix="group by fewer keys, or coarser columns",
            )
        keys.append(_build_key(expression, domain, referring))
        groups *= len(keys[-1].labels)
        if passes(groups, MAX_PREDICATES):
            raise RequestError(
                f"The query creates more than {MAX_PREDICATES:,} groups.", fix="group by fewer or coarser keys"
            )
    return keys, False


def list_group_keys(workload: GroupBy, domain: Domain, referring: Collection[str] = ()) -> list[GroupKey]:
    """List the keys of GROUP BY, as ``list_keys`` does.

    Raises:
        UnknownName, RequestError: as for ``compile_workload``.
    """
    return list_keys(workload, domain, referring)[0]


def _build_key(expression: Expression, domain: Domain, referring: Collection[str] = ()) -> GroupKey:
    name = find_attribute(expression)
    assert name is not None
    attribute = domain[name]
    if isinstance(expression, Through):
        public = _build_key(Column(expression.attribute.name), Domain((expression.attribute,)))
        return replace(
            public,
            attribute=attribute.name,
            groups=Runs.from_vector(public.groups.get_values(map_through_key(expression))),
        )
    if not isinstance(expression, Column):
        return _build_expression_key(expression, attribute)
    most = MAX_CODES if attribute.is_code else MAX_PLACES
    if attribute.kind == "integer" and attribute.name in referring:
        most = MAX_PREDICATES
    if attribute.is_numeric and (attribute.edges or attribute.steps > most):
        if not attribute.edges:
            raise RequestError(
                f"Attribute {attribute.name!r} is a number without declared bins, so it cannot be a GROUP BY key.",
                fix=f"GROUP BY {quote_name(attribute.name)} // {choose_width(attribute)}",
            )
        return GroupKey(attribute.name, _build_bins(attribute), tuple(attribute.list_bin_labels()), attribute.name)
    if not attribute.is_countable or (attribute.is_temporal and attribute.steps > MAX_DATES):
        fix = f"GROUP BY year({quote_name(attribute.name)})" if attribute.is_temporal else "group by a category"
        fix = "" if attribute.kind == "text" else fix  # the session's fix names the table
        raise RequestError(f"Attribute {attribute.name!r} cannot be a GROUP BY key.", fix=fix)
    groups = np.append(np.arange(attribute.size), -1)
    labels = tuple(attribute.label(i) for i in range(attribute.size))
    return GroupKey(attribute.name, Runs.from_vector(groups), labels, attribute.name)


def choose_width(attribute: Attribute) -> str:
    """Return a round width that gives a number several groups: tens for an age, single steps for 1 to 3."""
    grid = Decimal(attribute.grid)  # type: ignore[arg-type]
    span = attribute.steps * Fraction(grid)
    width = Decimal(1)
    while span > width * MAX_OFFERED:
        width *= 10
    while span < width * 2 and width > grid:
        width /= 10
    return f"{max(width, grid):f}"


def build_value_key(attribute: Attribute, step: int) -> GroupKey:
    """Build groups of ``step`` declared values each, for quantiles; NULL's own cell is not a value."""
    starts = np.arange(0, attribute.steps, step)
    groups = Runs(np.append(starts, attribute.steps), np.append(np.arange(len(starts)), -1))
    return GroupKey(attribute.name, groups, tuple(range(len(starts))), attribute.name)


def _build_bins(attribute: Attribute) -> Runs:
    starts = attribute.list_bin_starts()
    groups = np.arange(len(starts))
    cells = np.append(starts, attribute.steps)
    if attribute.null == "cell":
        return Runs(np.append(cells, attribute.size), np.append(groups, [len(starts), -1]))
    return Runs(cells, np.append(groups, -1))


def _build_expression_key(expression: Expression, attribute: Attribute) -> GroupKey:
    beyond = np.arange(attribute.steps, attribute.size + 1)
    cells = np.append(
        find_run_starts(expression, attribute) if attribute.is_wide else np.arange(attribute.steps), beyond
    )
    values = evaluate_expression(expression, attribute, cells)
    found, inverse = np.unique(values.data[values.known], return_inverse=True)
    groups = np.full(len(values.data), -1, dtype=np.int64)
    groups[values.known] = inverse
    labels = values.to_list(found)
    if attribute.null == "cell":
        groups[cells == attribute.size - 1] = len(labels)
        labels.append(None)
    runs = Runs(cells, groups) if attribute.is_wide else Runs.from_vector(groups)
    return GroupKey(attribute.name, runs, tuple(labels), render_expression(expression))


def _build_range_key(workload: Ranges, attribute: Attribute) -> GroupKey:
    if not attribute.is_numeric:
        raise RequestError(f"{workload.shape.upper()} takes a number; {attribute.name!r} is of type {attribute.kind}.")
    count = math.ceil((Fraction(workload.hi) - Fraction(workload.lo)) / Fraction(workload.width))
    edges = [min(workload.lo + i * workload.width, workload.hi) for i in range(count + 1)]
    lo, grid = Fraction(attribute.lo), Fraction(attribute.grid)  # type: ignore[arg-type]
    # The first cell at or above each edge, exactly.
    starts = np.array([min(max(math.ceil((Fraction(e) - lo) / grid), 0), attribute.steps) for e in edges])
    # Ranges beyond the declared values, or between two of them, are empty and begin where the next one does.
    cells, last = np.unique(starts[::-1], return_index=True)
    groups = count - last
    groups[groups == count] = -1
    if cells[0]:
        cells, groups = np.append(0, cells), np.append(-1, groups)
    if cells[-1] != attribute.steps:
        cells, groups = np.append(cells, attribute.steps), np.append(groups, -1)
    else:
        groups[-1] = -1
    first = [workload.lo] * count if workload.shape == "prefix" else edges[:-1]
    labels = tuple(f"[{a}, {b})" for a, b in zip(first, edges[1:], strict=True))
    return GroupKey(attribute.name, Runs(cells, groups), labels, attribute.name)


def build_keyed_part(keys: list[GroupKey], where: Predicate | None, domain: Domain, *, prefix: bool) -> WorkloadPart:
    """Build one block over the keys' attributes and those of ``where``; one answer per combination of groups."""
    tests = list(iter_tests(where)) if where is not None else []
    space = Space(tests, domain, keys)
    answer = np.zeros((1,) * len(space.names), dtype=np.int64)
    for key in keys:
        groups = space.lay_groups(key)
        answer = np.where((answer < 0) | (groups < 0), -1, answer * len(key.labels) + groups)
    if where is not None:
        answer = np.where(space.evaluate(where) == TRUE, answer, -1)
    column = np.broadcast_to(answer, space.block.shape).reshape(-1)
    count = math.prod(len(key.labels) for key in keys)
    running = prefix and count * count > MAX_WEIGHTS
    weights = np.tril(np.ones((count, count), dtype=np.int8)) if prefix and not running else None
    return WorkloadPart(space.block, np.ascontiguousarray(column), count, weights, running)


def add_totals(
    part: WorkloadPart, keys: Sequence[GroupKey], sets: Sequence[Sequence[int]]
) -> tuple[WorkloadPart, tuple[tuple[Any, ...], ...]]:
    """Return ``part`` with the groups of each set of ``keys`` in place of those of all keys, and their labels.

    Raises:
        RequestError: there would be too many groups.
    """
    sizes = [len(key.labels) for key in keys]
    totals = [math.prod(sizes[place] for place in one) for one in sets]
    if passes(sum(totals), MAX_PREDICATES) or passes(sum(totals) * part.columns, MAX_WEIGHTS):
        raise RequestError(
            f"The sets of keys have {sum(totals):,} groups over {part.columns:,} cells, which are too many.",
            fix="group by fewer or coarser keys",
        )
    places = np.unravel_index(np.arange(part.columns), sizes)
    weights = np.zeros((sum(totals), part.columns), dtype=np.int8)
    labels: list[tuple[Any, ...]] = []
    for one in sets:
        group = np.zeros(part.columns, dtype=np.int64)
        for place in one:
            group = group * sizes[place] + places[place]
        weights[len(labels) + group, np.arange(part.columns)] = 1
        chosen = [keys[place].labels if place in one else (None,) for place in range(len(keys))]
        labels += iter_combinations(chosen)
    return WorkloadPart(part.block, part.column, part.columns, weights), tuple(labels)


def iter_combinations(labels: Sequence[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """Iterate over combinations of one label per key, the last key's varying fastest."""
    from itertools import product

    return product(*labels)
