"""Keys of groups: GROUP BY, CUBE, HISTOGRAM and PREFIX as ways to part declared cells, without data."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from siloquent.errors import RequestError
from siloquent.explore.plan.atoms import TRUE, places_through, values_of
from siloquent.explore.plan.classes import Runs
from siloquent.explore.plan.compiled import Part
from siloquent.explore.plan.cuts import starts_of
from siloquent.explore.plan.limits import passes
from siloquent.explore.plan.space import Key, Space, tests_in
from siloquent.explore.spec.forms import attribute_of
from siloquent.explore.spec.predicate import Column, Expression, Predicate, Through
from siloquent.explore.spec.query import MOST_PREDICATES, Cube, GroupBy, Ranges
from siloquent.explore.spec.render import render_expression
from siloquent.explore.spec.words import plain_name
from siloquent.schema import Attribute, Domain

MOST_WEIGHTS = 25 * 10**6
MOST_DATES = 10_000
MOST_OFFERED = 30
"""Groups of a number that a fix proposes."""
MAX_VALUES = 8 * 10**6
"""Of the attributes of all keys together."""


def every_key(workload: GroupBy | Cube | Ranges | Any, domain: Domain) -> tuple[list[Key], bool]:
    """The keys of ``workload``, and whether each range holds all before it.

    Raises:
        UnknownName, RequestError: as ``compile_workload``.
    """
    if isinstance(workload, Ranges):
        return [_ranges(workload, domain[workload.attribute])], workload.shape == "prefix"
    expressions = workload.keys if isinstance(workload, GroupBy) else [Column(name) for name in workload.attributes]
    keys: list[Key] = []
    groups = values = 1
    for expression in expressions:  # one by one: each takes memory for every value of its attribute
        name = attribute_of(expression)
        listed = name is not None and domain[name].is_countable and not domain[name].is_wide
        values += domain[name].size if listed and name is not None else 0
        if passes(values, MAX_VALUES):
            raise RequestError(
                f"The keys have more than {MAX_VALUES:,} values together.",
                fix="group by fewer keys, or coarser columns",
            )
        keys.append(_key(expression, domain))
        groups *= len(keys[-1].labels)
        if passes(groups, MOST_PREDICATES):
            raise RequestError(
                f"The question makes more than {MOST_PREDICATES:,} groups.", fix="group by fewer or coarser keys"
            )
    return keys, False


def keys_of(workload: GroupBy, domain: Domain) -> list[Key]:
    """The keys of GROUP BY.

    Raises:
        UnknownName, RequestError: as ``compile_workload``.
    """
    return every_key(workload, domain)[0]


def _key(expression: Expression, domain: Domain) -> Key:
    name = attribute_of(expression)
    assert name is not None
    attribute = domain[name]
    if isinstance(expression, Through):
        public = _key(Column(expression.attribute.name), Domain((expression.attribute,)))
        return replace(public, attribute=attribute.name, groups=Runs.of(public.groups.at(places_through(expression))))
    if not isinstance(expression, Column):
        return _expression_key(expression, attribute)
    if attribute.is_numeric:
        if not attribute.edges:
            raise RequestError(
                f"Attribute {attribute.name!r} is a number without declared bins, so it cannot be grouped by as it is.",
                fix=f"GROUP BY {plain_name(attribute.name)} // {_width(attribute)}, or bins = {{ width = .. }} in its "
                "declaration",
            )
        return Key(attribute.name, _bins(attribute), tuple(attribute.bin_labels()), attribute.name)
    if not attribute.is_countable or (attribute.is_temporal and attribute.steps > MOST_DATES):
        fix = f"GROUP BY year({plain_name(attribute.name)})" if attribute.is_temporal else "group by a category"
        raise RequestError(f"Attribute {attribute.name!r} cannot be grouped by as it is.", fix=fix)
    groups = np.append(np.arange(attribute.size), -1)
    labels = tuple(attribute.label(i) for i in range(attribute.size))
    return Key(attribute.name, Runs.of(groups), labels, attribute.name)


def _width(attribute: Attribute) -> str:
    """A round width that makes some groups of a number: tens of an age, single phases of 1 to 3."""
    grid = Decimal(attribute.grid)  # type: ignore[arg-type]
    span = attribute.steps * Fraction(grid)
    width = Decimal(1)
    while span > width * MOST_OFFERED:
        width *= 10
    while span < width * 2 and width > grid:
        width /= 10
    return f"{max(width, grid):f}"


def value_key(attribute: Attribute, step: int) -> Key:
    """Groups of ``step`` declared values each, for quantiles; NULL's own cell is no value."""
    starts = np.arange(0, attribute.steps, step)
    groups = Runs(np.append(starts, attribute.steps), np.append(np.arange(len(starts)), -1))
    return Key(attribute.name, groups, tuple(range(len(starts))), attribute.name)


def _bins(attribute: Attribute) -> Runs:
    starts = attribute.bin_starts()
    groups = np.arange(len(starts))
    cells = np.append(starts, attribute.steps)
    if attribute.null == "cell":
        return Runs(np.append(cells, attribute.size), np.append(groups, [len(starts), -1]))
    return Runs(cells, np.append(groups, -1))


def _expression_key(expression: Expression, attribute: Attribute) -> Key:
    beyond = np.arange(attribute.steps, attribute.size + 1)
    cells = np.append(starts_of(expression, attribute) if attribute.is_wide else np.arange(attribute.steps), beyond)
    values = values_of(expression, attribute, cells)
    found, inverse = np.unique(values.data[values.known], return_inverse=True)
    groups = np.full(len(values.data), -1, dtype=np.int64)
    groups[values.known] = inverse
    labels = values.plain(found)
    if attribute.null == "cell":
        groups[cells == attribute.size - 1] = len(labels)
        labels.append(None)
    runs = Runs(cells, groups) if attribute.is_wide else Runs.of(groups)
    return Key(attribute.name, runs, tuple(labels), render_expression(expression))


def _ranges(workload: Ranges, attribute: Attribute) -> Key:
    if not attribute.is_numeric:
        raise RequestError(f"{workload.shape.upper()} takes a number; {attribute.name!r} is {attribute.kind}.")
    count = math.ceil((Fraction(workload.hi) - Fraction(workload.lo)) / Fraction(workload.width))
    edges = [min(workload.lo + i * workload.width, workload.hi) for i in range(count + 1)]
    lo, grid = Fraction(attribute.lo), Fraction(attribute.grid)  # type: ignore[arg-type]
    # The first cell at or above each edge, exactly.
    starts = np.array([min(max(math.ceil((Fraction(e) - lo) / grid), 0), attribute.steps) for e in edges])
    # Ranges that lie beyond the declared values, or between two of them, hold none and begin where the next one does.
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
    return Key(attribute.name, Runs(cells, groups), labels, attribute.name)


def keyed(keys: list[Key], where: Predicate | None, domain: Domain, *, prefix: bool) -> Part:
    """One block over the keys' attributes and those of ``where``; one answer a combination of groups."""
    tests = list(tests_in(where)) if where is not None else []
    space = Space(tests, domain, keys)
    answer = np.zeros((1,) * len(space.names), dtype=np.int64)
    for key in keys:
        groups = space.groups(key)
        answer = np.where((answer < 0) | (groups < 0), -1, answer * len(key.labels) + groups)
    if where is not None:
        answer = np.where(space.truth(where) == TRUE, answer, -1)
    column = np.broadcast_to(answer, space.block.shape).reshape(-1)
    count = math.prod(len(key.labels) for key in keys)
    running = prefix and count * count > MOST_WEIGHTS
    weights = np.tril(np.ones((count, count), dtype=np.int8)) if prefix and not running else None
    return Part(space.block, np.ascontiguousarray(column), count, weights, running)


def combinations(labels: Sequence[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """One label of each key, the last key's running fastest."""
    from itertools import product

    return product(*labels)
