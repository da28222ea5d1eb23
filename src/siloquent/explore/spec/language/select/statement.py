"""Queries in SQL: SELECT keys and aggregates FROM a table, then the accuracy tail."""

from __future__ import annotations

from dataclasses import replace

from siloquent.errors import RequestError, SyntaxProblem
from siloquent.explore.spec.aggregates import Aggregate
from siloquent.explore.spec.language.clauses import read_tail
from siloquent.explore.spec.language.cursor import Cursor
from siloquent.explore.spec.language.select.group_by import are_rows_distinct, read_group_by
from siloquent.explore.spec.language.select.having import build_threshold, read_select_having
from siloquent.explore.spec.language.select.items import EXAMPLE, list_columns, name_measured, name_values, read_items
from siloquent.explore.spec.language.select.ordering import SelectList, build_choice, read_first, read_limit, read_order
from siloquent.explore.spec.language.select.sources import NO_VIEWS, Views, check_qualifiers
from siloquent.explore.spec.language.select.subqueries import NO_GROUPS, read_rows
from siloquent.explore.spec.presentation import Presentation
from siloquent.explore.spec.query import EVERY_ROW, Query, Top, Workload


def read_select(cursor: Cursor, *, explain: bool = False, views: Views = NO_VIEWS) -> Query:
    """Parse the whole query from SELECT to its end."""
    cursor.expect("SELECT")
    cursor.call_tables(views)
    distinct = cursor.build_problem() if cursor.is_at("DISTINCT") else None
    if distinct is not None:
        cursor.advance()
    elif cursor.following.kind in ("word", "quoted") and cursor.following.word not in ("FROM", "AS"):
        cursor.take("ALL")  # the opposite of DISTINCT, which changes nothing
    first = read_first(cursor)
    items = read_items(cursor)
    items, passing, source, on, where = read_rows(cursor, items, views)
    if distinct is not None and items.keys and not cursor.is_at("GROUP"):
        raise distinct
    workload = read_group_by(cursor, items) if source.groups is None else source.groups.workload
    selected = list_columns(items, workload)
    if source.view is not None:
        selected = replace(selected, names=source.view.rename_keys(selected.keys, selected.names))
    if distinct is not None and not are_rows_distinct(items, workload):
        raise distinct
    if workload == EVERY_ROW and cursor.is_at("HAVING"):
        raise cursor.build_refusal(NO_GROUPS)
    having, kept = read_select_having(cursor, selected)
    kept = (*passing, *kept)
    if having is None and len(kept) == 1:
        having = build_threshold(kept[0], selected.measured)
        kept = () if having is not None else kept
    is_chosen = having is not None or bool(kept)
    top, presentation, hidden = _read_presentation(cursor, selected, workload, first, is_chosen=is_chosen)
    asked = list(selected.measured)
    # The error bound of an aggregate that only HAVING uses comes last.
    asked += [found for found in (having[0] if having else None, hidden) if found is not None and found not in asked]
    if not asked:
        raise cursor.build_problem("HAVING", "ORDER BY") if not cursor.is_over else _build_nothing_asked(cursor)
    promise, tail = read_tail(cursor, asked)
    check_qualifiers(cursor.qualifiers, source.names)
    shown = name_values(items, selected.hidden)
    measured = name_measured(items, shown)
    shown = () if selected.is_plain else shown
    presentation = replace(presentation, shown=shown, kept=kept, hidden=len(selected.hidden))
    query = Query(
        table=source.table,
        workload=workload,
        promise=promise,
        aggregate=asked[0],
        where=where,
        having=having[1] if having else None,
        top=top,
        shows_values=bool(measured),
        alias=measured[0].alias if measured else "",
        others=tuple(measured[1:]),
        join=source.join,
        reuse=tail.reuse,
        optimistic=tail.optimistic,
        groups_each=tail.groups_each,
        default_share=tail.default_share,
        explain=explain,
        presentation=presentation,
        joins=source.joins,
        on=on,
        per_unit=source.per_unit,
        is_outer=source.is_outer,
    )
    return query if source.view is None else source.view.inline(query)


def _read_presentation(
    cursor: Cursor, selected: SelectList, workload: Workload, first: int | None, *, is_chosen: bool
) -> tuple[Top | None, Presentation, Aggregate | None]:
    """Parse ORDER BY and LIMIT; the last value is the aggregate that sorts groups without being selected."""
    before = len(selected.measured)
    order = read_order(cursor, selected)
    limit, offset = read_limit(cursor)
    limit = first if limit is None else limit
    if workload == EVERY_ROW and selected.values:
        selected.hidden.clear()  # one row stays as it is, whatever its order
        del selected.measured[before:]
        return None, Presentation(), None
    top, presentation = build_choice(cursor, selected, order, limit, offset, is_chosen=is_chosen)
    return top, presentation, next((one.hidden for one in order if one.hidden is not None), None)


def _build_nothing_asked(cursor: Cursor) -> RequestError:
    return SyntaxProblem(
        "The query requests nothing about its groups",
        position=cursor.token.start,
        expected="an aggregate in the SELECT list, HAVING, or ORDER BY ... LIMIT",
        fix=cursor.format_example(EXAMPLE),
    )
