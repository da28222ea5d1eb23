"""Compilation of predicates to blocks and integer matrices, without data.

Attributes that no predicate combines form blocks of their own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from siloquent.errors import RequestError
from siloquent.explore.plan.cells.compiled import CompiledWorkload, SummedAttribute, WorkloadPart
from siloquent.explore.plan.cells.keys import MAX_WEIGHTS, add_totals, build_keyed_part, iter_combinations, list_keys
from siloquent.explore.plan.cells.predicate_evaluation import TRUE
from siloquent.explore.plan.cells.space import GroupKey, Space, iter_attributes, iter_tests
from siloquent.explore.plan.computed.inlining import add_summed, inline_computed, inline_condition
from siloquent.explore.plan.computed.plainness import is_plain
from siloquent.explore.plan.limits import passes
from siloquent.explore.plan.relations.public_joins import inline_join
from siloquent.explore.spec.aggregates import Aggregate, Count, Distinct, Moment, Quantile, Ranks, Sum
from siloquent.explore.spec.language.render_conditions import render_expression, render_predicate
from siloquent.explore.spec.predicate import And, Predicate
from siloquent.explore.spec.query import GroupBy, Predicates, Query, SomeGroups
from siloquent.maths.sensitivity.linear import Sensitivity, compute_sensitivity
from siloquent.maths.sensitivity.sums import compute_replaced_sensitivity
from siloquent.maths.workloads import is_disjoint, is_nested, merge_columns
from siloquent.schema import Attribute, Domain, TableSchema, TooManyCells

MAX_ENTRIES = 5 * 10**7
MAX_COLUMNS = 8 * 10**6
"""The most values of all groups together: groups, each with every group of values."""
UNIT_BITS = 12


def compile_workload(query: Query, schema: TableSchema) -> CompiledWorkload:
    """Compile the blocks, matrices, labels and sensitivities of ``query``, without reading data.

    Raises:
        UnknownName: an attribute or category value that is not declared (with a suggestion).
        RequestError: types do not fit, attributes cannot be queried, or there are too many cells or answers.
    """
    query = inline_join(query, schema)
    names = _list_key_names(query)
    schema = add_summed(query, schema)
    inlined, extended = inline_computed(query, schema)
    try:
        compiled = _compile(inlined, extended)
    except TooManyCells:
        whole = inline_condition(query, schema)
        if whole is None:
            raise
        compiled = _compile(*whole)
    return replace(compiled, keys=names) if names else compiled


def _list_key_names(query: Query) -> tuple[str, ...]:
    """List the names of keys as they are written, where they become computed columns."""
    workload = query.workload
    groups = workload.all_groups if isinstance(workload, SomeGroups) else workload
    written = groups.keys if isinstance(groups, GroupBy) else ()
    return tuple(map(render_expression, written)) if not all(map(is_plain, written)) else ()


def _compile(query: Query, schema: TableSchema) -> CompiledWorkload:
    workload, domain = query.workload, schema.domain
    if isinstance(workload, SomeGroups):
        return _select_groups(_compile(replace(query, workload=workload.all_groups), schema), workload, query, schema)
    if isinstance(workload, Predicates):
        parts = _build_parts([_conjoin(query.where, p) for p in workload.parts], domain)
        labels: tuple[tuple[Any, ...], ...] = tuple((render_predicate(p),) for p in workload.parts)
        names: tuple[str, ...] = ("predicate",)
        if workload.parts == (And(()),):
            labels, names = ((),), ()
    else:
        keys, prefix = list_keys(workload, domain, schema.list_referring())
        parts = [build_keyed_part(keys, query.where, domain, prefix=prefix)]
        labels = tuple(iter_combinations([key.labels for key in keys]))
        names = tuple(key.name for key in keys)
        if isinstance(workload, GroupBy) and workload.sets:
            summed, labels = add_totals(parts[0], keys, workload.sets)
            parts = [summed]
    return _finish(parts, names, labels, query, schema)


def compile_keys(
    keys: list[GroupKey],
    value: GroupKey,
    query: Query,
    schema: TableSchema,
    *,
    chosen: Sequence[int] | None,
    step: int = 1,
) -> CompiledWorkload:
    """Compile counts of every group of ``value`` within each combination of ``keys``, which are the answers.

    Args:
        step: The number of declared values in each of these groups.
        chosen: The requested combinations; None for all.
    """
    columns = math.prod(len(key.labels) for key in (*keys, value))
    if passes(columns, MAX_COLUMNS):  # many more than cells if an attribute is grouped twice
        raise RequestError(
            f"The query has {columns:,} values in all groups together; the limit is {MAX_COLUMNS:,}.",
            fix="group by fewer or coarser keys",
        )
    part = build_keyed_part([*keys, value], query.where, schema.domain, prefix=False)
    labels = tuple(iter_combinations([key.labels for key in keys]))
    wanted = range(len(labels)) if chosen is None else chosen
    size = len(value.labels)
    place = np.full(part.columns + 1, -1, dtype=np.int64)
    for new, old in enumerate(wanted):
        place[old * size : (old + 1) * size] = np.arange(new * size, (new + 1) * size)
    kept = WorkloadPart(part.block, place[part.column], len(wanted) * size)
    found = _finish([kept], tuple(key.name for key in keys), tuple(labels[i] for i in wanted), query, schema)
    return replace(found, value_step=step)


def _select_groups(
    every: CompiledWorkload, workload: SomeGroups, query: Query, schema: TableSchema
) -> CompiledWorkload:
    """Remove the groups that were not chosen from ``every`` group's workload; their cells are no longer counted."""
    (part,) = every.parts
    place = np.full(part.columns + 1, -1, dtype=np.int64)  # the last entry is for cells that no group counts
    place[list(workload.chosen)] = np.arange(len(workload.chosen))
    kept = WorkloadPart(part.block, place[part.column], len(workload.chosen))
    return _finish([kept], every.keys, tuple(every.labels[i] for i in workload.chosen), query, schema)


def _conjoin(where: Predicate | None, predicate: Predicate) -> Predicate:
    return predicate if where is None else And((where, predicate))


def _finish(
    parts: list[WorkloadPart],
    names: tuple[str, ...],
    labels: tuple[tuple[Any, ...], ...],
    query: Query,
    schema: TableSchema,
) -> CompiledWorkload:
    rows, replace_one, answers = schema.unit.max_rows, schema.replace_one, len(labels)
    summed = _build_summed(query.aggregate, schema.domain)
    if summed is None:
        found = compute_sensitivity([_build_columns(part) for part in parts], replace_one=replace_one, rows=rows)
    else:
        found = compute_sum_sensitivity(
            [_build_columns(part) for part in parts], summed, rows=rows, replace_one=replace_one
        )
    running = len(parts) == 1 and parts[0].running
    identity = len(parts) == 1 and parts[0].weights is None and not running
    weights: NDArray[Any] | None = parts[0].weights if len(parts) == 1 else None
    return CompiledWorkload(
        parts=tuple(parts),
        keys=names,
        labels=labels,
        nested=is_nested(weights) if weights is not None else running or (identity and answers == 1),
        disjoint=is_disjoint(weights) if weights is not None else identity,
        sensitivity=found,
        monotone=not replace_one and (summed is None or summed.lowest >= 0 or summed.highest <= 0),
        replace_one=replace_one,
        rows=rows,
        summed=summed,
        slack=_count_most_columns(parts) * Fraction(1, 2) if summed is not None and summed.quantum > 1 else Fraction(0),
    )


def _build_columns(part: WorkloadPart) -> NDArray[np.signedinteger[Any]]:
    """Build a matrix whose columns differ as the part's own do, for columns that have cells."""
    occurring = np.flatnonzero(np.bincount(part.column[part.column >= 0], minlength=part.columns))
    if part.running:  # the first column has the most ones, and no two differ by more than it has
        return np.array(np.arange(part.columns)[:, None] >= occurring[:1], dtype=np.int64)
    if part.weights is None:  # two answers of one column each represent any number of them
        return np.eye(min(len(occurring), 2), dtype=np.int64)
    return part.weights[:, occurring]


def _count_most_columns(parts: Sequence[WorkloadPart]) -> int:
    """Return the largest number of columns that an answer adds up."""
    return max(
        (part.columns if part.running else 1)
        if part.weights is None
        else int(part.weights.sum(axis=1, dtype=np.int64).max(initial=0))
        for part in parts
    )


def _build_summed(aggregate: Aggregate, domain: Domain) -> SummedAttribute | None:
    """Build the summed number, None for counts of all rows. Numbers of many steps are rounded to coarse units.

    A unit is at most 2^-12 of the largest value, far below noise that hides such a value, and noise can be drawn
    in it.
    """
    if isinstance(aggregate, (Count, Distinct, Quantile, Ranks)):
        return None
    assert isinstance(aggregate, (Sum, Moment))  # all others are computed from these
    attribute, power = domain[aggregate.attribute], aggregate.power if isinstance(aggregate, Moment) else 1
    if not attribute.is_numeric or attribute.grid is None or attribute.lo is None:
        raise RequestError(f"SUM takes a number; {attribute.name!r} is of type {attribute.kind}.")
    computed = None if attribute.computed is None else attribute
    if power == 0:
        return SummedAttribute(attribute.name, Fraction(1), 0, 1, 1, power=0, computed=computed)
    grid, offset = Fraction(attribute.grid), int(Fraction(attribute.lo) / Fraction(attribute.grid))  # type: ignore[arg-type]
    if isinstance(aggregate, Moment):
        offset = -compute_centre(attribute)
    lowest, highest = offset, offset + attribute.steps - 1
    if power == 2:
        grid, lowest, highest = grid**2, 0, max(abs(lowest), abs(highest)) ** 2
    quantum = 1 << max(0, max(abs(lowest), abs(highest)).bit_length() - UNIT_BITS)
    return SummedAttribute(
        attribute.name, grid, offset, lowest // quantum, -(-highest // quantum), quantum, power, computed
    )


def compute_centre(attribute: Attribute) -> int:
    """Return the index around which averages and variances are computed."""
    return attribute.steps // 2


def compute_sum_sensitivity(
    blocks: Sequence[NDArray[np.signedinteger[Any]]], summed: SummedAttribute, *, rows: int, replace_one: bool
) -> Sensitivity:
    """Compute the sensitivity of integer matrices applied to sums.

    Adding a row changes a sum by its value times a column; replacing a row, by two such products.
    """
    if replace_one:
        return compute_replaced_sensitivity(blocks, lowest=summed.lowest, highest=summed.highest, rows=rows)
    single, each = compute_sensitivity(blocks, replace_one=False, rows=1), rows * summed.largest
    return Sensitivity(each * single.l1, each**2 * single.l2_squared, each * single.linf)


def _build_parts(predicates: list[Predicate], domain: Domain) -> list[WorkloadPart]:
    """Build one part per group of predicates that share attributes, answers in the order of ``predicates``."""
    parts = []
    for members in _group_predicates([frozenset(iter_attributes(p, domain)) for p in predicates]):
        tests = list(dict.fromkeys(test for i in members for test in iter_tests(predicates[i])))
        space = Space(tests, domain, [])
        shape, size = space.block.shape, space.block.size  # each one inspects all values
        if passes(len(predicates) * size, MAX_ENTRIES):
            raise RequestError(
                f"{len(predicates):,} predicates over {size:,} cells exceed the limit.",
                fix="use fewer attributes",
            )
        cells: NDArray[Any] = np.zeros((len(predicates), size), dtype=np.int8)
        for i in members:
            truth = np.broadcast_to(space.evaluate(predicates[i]), shape)
            cells[i] = (truth == TRUE).reshape(-1)
        weights, column = merge_columns(cells)
        if passes(weights.size, MAX_WEIGHTS):
            raise RequestError(
                f"{len(predicates):,} predicates produce {weights.shape[1]:,} distinct row classes, above the limit.",
                fix="use fewer predicates",
            )
        parts.append(WorkloadPart(space.block, column, weights.shape[1], weights.astype(np.int8)))
    return parts


def _group_predicates(sets: list[frozenset[str]]) -> list[list[int]]:
    """Group predicates by shared attributes (union-find); those without attributes form one group."""
    group: dict[str, set[str]] = {}
    for names in sets:
        joined = set(names).union(*(group.get(name, {name}) for name in names))
        group |= dict.fromkeys(joined, joined)
    by_root: dict[frozenset[str], list[int]] = {}
    for i, names in enumerate(sets):
        root = frozenset(group[next(iter(names))]) if names else frozenset()
        by_root.setdefault(root, []).append(i)
    return list(by_root.values())
