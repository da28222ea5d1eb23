"""Subqueries of groups in FROM: their columns, and the query over them."""

from __future__ import annotations

from dataclasses import replace

from siloquent.explore.spec.derived import Kept, iter_windows
from siloquent.explore.spec.language.cursor import Cursor
from siloquent.explore.spec.language.refusals import WHY_NOT, Refusal
from siloquent.explore.spec.language.render_conditions import render_expression
from siloquent.explore.spec.language.select.group_by import read_group_by
from siloquent.explore.spec.language.select.items import (
    SelectedKey,
    SelectedValue,
    SelectItems,
    list_columns,
    name_values,
    read_items,
)
from siloquent.explore.spec.language.select.per_unit import build_per_unit, find_unit_key
from siloquent.explore.spec.language.select.sources import Views, check_qualifiers, read_source, read_where
from siloquent.explore.spec.language.select.views import GroupedView, Source, adopt, adopt_kept, join_conditions
from siloquent.explore.spec.predicate import Column, JoinedColumn, Predicate
from siloquent.explore.spec.query import EVERY_ROW, GroupBy, Workload

NO_GROUPS = Refusal("HAVING and ORDER BY ... LIMIT require GROUP BY.", "add GROUP BY")
_OF_GROUPS = Refusal(
    "A query over a subquery's groups selects their columns, computes with them, and chooses among them.",
    "ask the inner query by itself, and compute with the answer at no cost",
)
_WINDOWS_INSIDE = Refusal(
    "A subquery's windows are over all its groups, so an outer WHERE cannot choose among these.",
    "put the condition into the subquery's HAVING, or leave it out",
)
_SAME_NAME = Refusal("Two columns of the subquery have the same name.", "AVG(cost) AS mean_cost")


def read_groups(cursor: Cursor, views: Views) -> GroupedView:
    """Parse ``(SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward HAVING n > 5)``."""
    cursor.expect("(")
    cursor.enter_parenthesis()
    before, takes_extremes = len(cursor.qualifiers), cursor.takes_extremes
    cursor.takes_extremes = True
    cursor.expect("SELECT")
    called = cursor.call_tables(views)
    is_distinct = bool(cursor.take("DISTINCT"))
    items = read_items(cursor)
    source = read_source(cursor, views, read_groups)
    join, on, where = read_where(cursor, source)
    if is_distinct and (items.values or not cursor.is_at(")")):
        raise cursor.build_refusal(WHY_NOT["DISTINCT"])
    if is_distinct:
        workload: Workload = GroupBy(tuple(key.expression for key in items.keys))
    else:
        workload = EVERY_ROW if cursor.is_at(")") and not items.keys else read_group_by(cursor, items)
    selected = list_columns(items, workload)
    kept: list[Kept] = []
    if cursor.take("HAVING"):
        reader = selected.build_reader(cursor, _OF_GROUPS)
        kept = reader.read_conditions()
        items.measured[:] = reader.measured
    cursor.takes_extremes = takes_extremes
    if not cursor.is_at(")") or source.groups is not None or not (items.values or items.keys):
        raise cursor.build_refusal(_OF_GROUPS)
    cursor.leave_parenthesis()
    cursor.called = called
    check_qualifiers(cursor.qualifiers[before:], source.names)
    del cursor.qualifiers[before:]
    keys = {one.alias or render_expression(one.expression): one.expression for one in items.keys}
    named = name_values(items, ())
    names = [name.casefold() for name in (*keys, *(shown.name for shown in named))]
    if len(set(names)) < len(items.keys) + len(items.values):
        raise cursor.build_refusal(_SAME_NAME)
    values = {shown.name: shown.value for shown in named}
    return GroupedView(
        source.table,
        source.view,
        join,
        where,
        workload,
        keys,
        values,
        tuple(items.measured),
        tuple(kept),
        source.joins if source.view is None else source.view.source.joins,
        on,
        source.keeps_unmatched,
    )


def read_rows(
    cursor: Cursor, items: SelectItems, views: Views
) -> tuple[SelectItems, list[Kept], Source, tuple[tuple[JoinedColumn, JoinedColumn], ...], Predicate | None]:
    """Parse FROM and WHERE; over a subquery's groups, return the items in terms of its own, and conditions on them."""
    source = read_source(cursor, views, read_groups)
    join, on, where = read_where(cursor, source)
    groups = source.groups
    if groups is None:
        joins = source.joins if source.view is None else source.view.source.joins
        return items, [], replace(source, join=join, joins=joins, is_outer=source.keeps_unmatched), on, where
    if items.measured or cursor.is_at("GROUP") or not groups.values:
        if find_unit_key(groups) is None:
            raise cursor.build_refusal(_OF_GROUPS)
        source, where = _choose_units(source, groups, where)
        return items, [], source, groups.on, where
    items, passing, source = _compute_with_groups(cursor, items, groups, where, source)
    return items, passing, source, groups.on, groups.where


def _choose_units(source: Source, groups: GroupedView, where: Predicate | None) -> tuple[Source, Predicate | None]:
    """Return the rows of units as the source, and the condition on them that WHERE and the subquery's HAVING make."""
    per_unit, kept = build_per_unit(groups)
    source = replace(source, join=None, view=None, groups=None, per_unit=per_unit, joins=groups.joins)
    source = replace(source, is_outer=groups.is_outer)
    return source, join_conditions(kept, where)


def _compute_with_groups(
    cursor: Cursor, items: SelectItems, groups: GroupedView, where: Predicate | None, source: Source
) -> tuple[SelectItems, list[Kept], Source]:
    """Return the items over the groups of a subquery, and the conditions that choose among these."""
    found = SelectItems()
    for one in items.keys:
        named = groups.find_key(one.expression)
        if named is not None:
            key = groups.keys[named]
            alias = one.alias or ("" if key == Column(named) else named)
            found.written.append(SelectedKey(one.start, key, alias))
            continue
        value = adopt(groups.convert(one.expression), groups.measured, found.measured)
        alias = one.alias or (one.expression.name if isinstance(one.expression, Column) else "")
        found.written.append(SelectedValue(value, alias))
    kept = [*groups.kept, *(groups.keep(where) if where is not None else ())]
    if kept and groups.workload == EVERY_ROW:
        raise cursor.build_refusal(NO_GROUPS)
    if where is not None and any(any(iter_windows(one.value)) for one in found.values):
        raise cursor.build_refusal(_WINDOWS_INSIDE)
    passing = [adopt_kept(one, groups.measured, found.measured) for one in kept]
    rows = replace(source, table=groups.table, join=groups.join, view=groups.view)
    return found, passing, replace(rows, joins=groups.joins, is_outer=groups.is_outer)
