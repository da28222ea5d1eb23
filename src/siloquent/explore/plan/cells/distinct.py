"""COUNT(DISTINCT a) without data: what is counted in each group, and by how much one unit changes it.

Proofs: docs/explanation/distinct.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from siloquent.errors import RequestError
from siloquent.explore.plan.cells.compiled import CompiledWorkload, DistinctUnits, DistinctValues, WorkloadPart
from siloquent.explore.plan.cells.keys import build_value_key, list_keys
from siloquent.explore.plan.cells.predicates import compile_keys, compile_workload
from siloquent.explore.plan.cells.space import GroupKey
from siloquent.explore.plan.computed.inlining import inline_computed, replace_aggregate
from siloquent.explore.plan.limits import passes
from siloquent.explore.plan.relations.public_joins import inline_join
from siloquent.explore.spec.aggregates import Aggregate, Count, Distinct
from siloquent.explore.spec.language.refusals import quote_name
from siloquent.explore.spec.language.render import render, render_aggregate, render_offer
from siloquent.explore.spec.promises import Accuracy
from siloquent.explore.spec.query import EVERY_ROW, Cube, GroupBy, Query, Ranges, SomeGroups
from siloquent.fixes import AskWith, FixLike
from siloquent.maths.sensitivity.linear import Sensitivity
from siloquent.schema import MAX_CELLS, Attribute, TableSchema


def check_distinct(query: Query, schema: TableSchema) -> None:
    """Refuse COUNT(DISTINCT a) of an attribute that neither names the users nor has declared values.

    Raises:
        RequestError: it is a text, an id, or the rows of the table are units.
    """
    for aggregate in query.bounded:
        if not isinstance(aggregate, Distinct):
            continue
        attribute = schema.domain[aggregate.attribute]
        if attribute.is_countable and passes(attribute.steps, MAX_CELLS) and not _names_users(attribute, schema):
            raise _build_too_many(attribute, fix=_suggest_without(query, aggregate))
        if attribute.is_countable or _names_users(attribute, schema):
            continue
        if schema.unit.kind == "row":
            raise RequestError(
                f"Each row of {schema.name!r} is a person of its own, so COUNT(*) counts them; which values "
                f"{attribute.name!r} has is not declared.",
                fix=_suggest(query, aggregate, Count(test=aggregate.test)),
            )
        raise RequestError(
            f"Which values {attribute.name!r} has is not declared, so they cannot be counted.",
            fix=_suggest(query, aggregate, replace(aggregate, attribute=schema.unit.column)),
        )


def _suggest(query: Query, wrong: Aggregate, right: Aggregate) -> FixLike:
    """Return ``query`` with ``right`` in place of ``wrong``; without a question, if it would have ``right`` twice."""
    if right in query.bounded:
        return f"remove {render_aggregate(wrong)}"
    return AskWith(render(replace_aggregate(query, wrong, right)), render_aggregate(right))


def _suggest_without(query: Query, wrong: Aggregate) -> FixLike:
    """Return ``query`` without ``wrong``, if it asks for something else and shows its aggregates as they are."""
    left = [place for place, item in enumerate(query.items) if item.aggregate != wrong]
    if not left or query.presentation is not None or query.having is not None or query.top is not None:
        return "declare a coarser grid"
    promise = query.promise
    if isinstance(promise, Accuracy):
        first, *more = (promise.bounds[place] for place in left)
        promise = replace(promise, error=first.error, percent=first.percent, more=tuple(more))
    item, *others = (query.items[place] for place in left)
    asked = replace(query, aggregate=item.aggregate, alias=item.alias, others=tuple(others), promise=promise)
    return AskWith(render_offer(asked), f"{render_aggregate(item.aggregate)} without {render_aggregate(wrong)}")


def _build_too_many(attribute: Attribute, where: str = "", *, fix: FixLike) -> RequestError:
    return RequestError(
        f"COUNT(DISTINCT {quote_name(attribute.name)}) would tell apart {attribute.steps:,} values{where}; "
        f"the limit is {MAX_CELLS:,} in total.",
        fix=fix,
    )


def _names_users(attribute: Attribute, schema: TableSchema) -> bool:
    return schema.unit.kind != "row" and schema.domain[schema.unit.column] is attribute


def compile_distinct(query: Query, schema: TableSchema) -> CompiledWorkload:
    """Compile COUNT(DISTINCT a) of every group of ``query``.

    Raises:
        UnknownName, RequestError: as for ``compile_workload``; or groups overlap.
    """
    assert isinstance(query.aggregate, Distinct)
    check_distinct(query, schema)
    attribute = schema.domain[query.aggregate.attribute]
    if _names_users(attribute, schema):
        return _compile_units(query, schema, attribute.name)
    return _compile_values(query, schema, attribute)


def _compile_units(query: Query, schema: TableSchema, name: str) -> CompiledWorkload:
    compiled = compile_workload(replace(query, aggregate=Count(), groups_each=None), schema)
    if len(compiled.parts) > 1 or not (compiled.disjoint or compiled.answers == 1):
        raise RequestError(
            "COUNT(DISTINCT ...) takes groups that do not overlap.", fix="GROUP BY, or one question for each predicate"
        )
    (part,) = compiled.parts
    if part.block.computed:
        raise RequestError(
            f"Users are counted by conditions and keys of one attribute each, not by {part.block.computed[0].name}.",
            fix=_suggest(query, query.aggregate, Count(test=query.aggregate.test)),
        )
    groups = list_groups(part)
    number = len(np.unique(groups[groups >= 0]))
    each = schema.unit.max_rows if query.groups_each is None else query.groups_each
    each = min(each, number)
    return replace(
        compiled,
        sensitivity=_bound_units(each, number, replace_one=compiled.replace_one),
        rows=max(each, 1),
        distinct=DistinctUnits(name, each, groups),
    )


def _bound_units(each: int, groups: int, *, replace_one: bool) -> Sensitivity:
    """Bound the change of the numbers of units in ``groups`` groups, each unit in ``each`` of them, by one unit."""
    moved = min(2 * each, groups) if replace_one else each
    return Sensitivity(moved, moved, min(each, 1))


def list_groups(part: WorkloadPart) -> NDArray[np.int64]:
    """List the answer of each cell, -1 for cells that do not count."""
    if part.weights is None:
        return part.column
    answers = np.append(np.where(part.weights.any(axis=0), part.weights.argmax(axis=0), -1), -1)
    return np.asarray(answers[part.column], dtype=np.int64)


def _compile_values(query: Query, schema: TableSchema, attribute: Attribute) -> CompiledWorkload:
    query, schema = inline_computed(inline_join(query, schema), schema)
    workload = query.workload
    every = workload.all_groups if isinstance(workload, SomeGroups) else workload
    if not isinstance(every, (GroupBy, Cube, Ranges)) and every != EVERY_ROW:
        raise RequestError(
            "COUNT(DISTINCT ...) takes groups that do not overlap.",
            fix=f"SELECT COUNT(DISTINCT {quote_name(attribute.name)}) with WHERE, one question for each predicate",
        )
    keys, is_prefix = ([], False) if every == EVERY_ROW else list_keys(every, schema.domain, schema.list_referring())
    if is_prefix:
        raise RequestError("COUNT(DISTINCT ...) takes groups that do not overlap.", fix="HISTOGRAM instead of PREFIX")
    _require_few_values(attribute, keys)
    chosen = workload.chosen if isinstance(workload, SomeGroups) else None
    bare = replace(query, aggregate=Count(), groups_each=None)
    compiled = compile_keys(keys, build_value_key(attribute, 1), bare, schema, chosen=chosen)
    (part,) = compiled.parts
    columns = np.unique(part.column[part.column >= 0])
    room = np.bincount(columns // attribute.steps, minlength=compiled.answers)
    found = _bound_change(room, schema.unit.max_rows, replace_one=compiled.replace_one)
    return replace(compiled, sensitivity=found, distinct=DistinctValues(attribute.name, attribute.steps))


def _require_few_values(attribute: Attribute, keys: Sequence[GroupKey]) -> None:
    """Refuse too many values, in all groups together, before any memory is taken for them."""
    groups = math.prod(len(key.labels) for key in keys if key.attribute != attribute.name)
    if passes(groups * attribute.steps, MAX_CELLS):
        where = f" in each of {groups:,} groups" if groups > 1 else ""
        fix = "group by fewer or coarser keys" if groups > 1 else "declare a coarser grid"
        raise _build_too_many(attribute, where, fix=fix)


def _bound_change(room: NDArray[np.int64], rows: int, *, replace_one: bool) -> Sensitivity:
    """Bound the change of the numbers of values that occur by one unit.

    Args:
        room: The number of values that may occur in each group, shape (answers,).
        rows: The most rows of one unit.
    """
    largest = min(rows, int(room.max(initial=0)))
    if not replace_one or np.count_nonzero(room) <= 1:
        return Sensitivity(min(rows, int(room.sum())), _fill(room, rows), largest)
    squared = min(2 * _fill(room, rows), _fill(np.minimum(room, rows), 2 * rows))
    return Sensitivity(min(2 * rows, int(room.sum())), squared, largest)


def _fill(room: NDArray[np.int64], rows: int) -> int:
    """Return the largest sum of squares of whole numbers up to ``room`` that add up to at most ``rows``."""
    total = 0
    for size in sorted(room.tolist(), reverse=True):
        taken = min(size, rows)
        total, rows = total + taken * taken, rows - taken
        if not rows:
            break
    return total


def describe_distinct(workloads: Sequence[CompiledWorkload]) -> list[str]:
    """Return the notes on users that are counted in some of their groups only, and on what counts as a value."""
    notes = []
    for one in workloads:
        if isinstance(one.distinct, DistinctUnits) and one.distinct.groups_each < one.answers:
            each = one.distinct.groups_each
            groups = "one group" if each == 1 else f"at most {each:,} groups"
            notes.append(
                f"each {one.distinct.attribute} counts in {groups}, drawn among those with rows of it: groups of those "
                f"with more are too low (AT MOST {each + 1} GROUPS EACH counts more of them, at a higher price)"
            )
        elif isinstance(one.distinct, DistinctValues):
            notes.append(f"distinct values of {one.distinct.attribute} are those declared")
    return list(dict.fromkeys(notes))
