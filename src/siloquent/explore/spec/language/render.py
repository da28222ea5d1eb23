"""Rendering of a ``Query`` as text: ``parse(render(query)) == query``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import singledispatch
from itertools import zip_longest

from siloquent.explore.spec.aggregates import (
    Aggregate,
    Average,
    Count,
    Deviation,
    Distinct,
    Extreme,
    Quantile,
    Sum,
    Variance,
)
from siloquent.explore.spec.derived import Derived, Function, Kept, Measured, Number, OverGroups, ShownCondition
from siloquent.explore.spec.language.marks import MARK
from siloquent.explore.spec.language.render_conditions import (
    Written,
    render_expression,
    render_inside,
    render_name,
    render_predicate,
)
from siloquent.explore.spec.numbers import format_number, format_share
from siloquent.explore.spec.per_unit import PerUnit
from siloquent.explore.spec.predicate import Column, JoinedColumn, Or, Predicate
from siloquent.explore.spec.presentation import Presentation
from siloquent.explore.spec.promises import DEFAULT_BETA, Accuracy, Bound, Promise, Spend, Unstated
from siloquent.explore.spec.query import EVERY_ROW, Cube, GroupBy, Item, Predicates, Query, Ranges, Workload
from siloquent.explore.spec.related import Related, name_related
from siloquent.explore.spec.rewriting.name_resolution import list_related, substitute_columns
from siloquent.explore.spec.rewriting.normal_form import FLIPPED
from siloquent.schema.table import TILDE


def render(query: Query) -> str:
    """Render the query as text: in SQL if its workload is GROUP BY or every row, else in BIN.

    >>> from siloquent.explore.spec import count
    >>> render(count("visits").by("ward").within(rows=200).query())
    'SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 200 CONFIDENCE 0.9995'
    """
    if not query.related:  # then nothing is looked up in the tables that the relation names
        query = replace(query, table=query.table.partition(TILDE)[0] or query.table)
    query = _write_related(query)
    plain = isinstance(query.workload, GroupBy) or (query.workload == EVERY_ROW and query.shows_values)
    clauses = [
        "EXPLAIN PRIVACY" if query.explain else "",
        _render_select(query) if plain else _render_bin(query),
        _render_choice(query),
        _render_presentation(query, query.presentation) if query.presentation is not None else "",
        render_promise(query.promise),
        "" if query.default_share is None else f"BY DEFAULT UP TO {format_number(query.default_share)} PERCENT",
        "" if query.groups_each is None else f"AT MOST {query.groups_each} GROUPS EACH",
        "" if query.reuse == "declared" else f"REUSE {query.reuse.upper()}",
        "PREFER OPTIMISTIC" if query.optimistic else "",
    ]
    return " ".join(clause for clause in clauses if clause)


def render_offer(query: Query) -> str:
    """Render the query as it is offered in place of another one: without EXPLAIN, and without what it has anyway.

    >>> from siloquent.explore.spec import count
    >>> render_offer(count("visits").within(rows=200).query())
    'SELECT COUNT(*) FROM visits ERROR 200'
    """
    table = query.table.partition(TILDE)[0]  # what is looked up besides is said by its conditions
    text = render(replace(query, table=table, explain=False, default_share=None))
    usual = f" CONFIDENCE {format_share(1 - DEFAULT_BETA)}"
    at = text.rfind(usual)  # texts stand before it
    return text if at < 0 or query.promise.beta != DEFAULT_BETA else text[:at] + text[at + len(usual) :]


def attach_related(query: Query, related: Sequence[Related]) -> Query:
    """Return ``query`` with those of ``related`` that it uses, numbered in the order in which they are rendered."""
    if not related:
        return query
    named = list_related(replace(query, related=tuple(related)))
    text = render(replace(query, related=()))
    named.sort(key=lambda one: text.find(render_name(one.name)))
    names = {one.name: name_related(place) for place, one in enumerate(named)}

    def rename(column: Column) -> Column:
        return Column(names[column.name]) if column.name in names else column

    inner = None if query.per_unit is None else _rename_inner(query.per_unit, rename)
    asked: Query = substitute_columns(query, rename)
    return replace(asked, per_unit=inner, related=tuple(replace(one, name=names[one.name]) for one in named))


def _rename_inner(per_unit: PerUnit, rename: Callable[[Column], Column]) -> PerUnit:
    values = tuple(replace(one, aggregate=substitute_columns(one.aggregate, rename)) for one in per_unit.values)
    return replace(per_unit, values=values, where=substitute_columns(per_unit.where, rename))


def _write_related(query: Query) -> Query:
    """Return ``query`` with its conditions on other tables as they are written, in place of their attributes."""
    if not query.related:
        return query
    texts = {one.name: _render_related(one, query.table) for one in query.related}

    def write(column: Column) -> Column | Written:
        return Written(texts[column.name]) if column.name in texts else column

    inner = None if query.per_unit is None else _rename_inner(query.per_unit, write)
    written: Query = substitute_columns(replace(query, related=()), write)
    return replace(written, per_unit=inner)


def _render_related(related: Related, table: str) -> str:
    if related.listed:
        (own, other), *_ = related.on
        rows = f"SELECT {render_name(other)} FROM {render_name(related.table)}{_render_where((), related.where)}"
        return f"{render_name(own)} IN ({rows})"
    inner, outer = render_name(related.table), render_name(table)
    alias = "other" if related.table == table else related.table
    name = inner if alias == related.table else f"{inner} AS {alias}"
    tied = [f"{render_name(alias)}.{render_name(other)} = {outer}.{render_name(own)}" for own, other in related.on]
    tied += [
        f"{render_name(alias)}.{render_name(other)} {FLIPPED[op]} {outer}.{render_name(own)}"
        for own, op, other in related.compared
    ]
    text = "" if related.where is None else render_predicate(related.where)
    where = [*tied, *([f"({text})" if tied and isinstance(related.where, Or) else text] if text else [])]
    return f"EXISTS (SELECT * FROM {name} WHERE {' AND '.join(where)})"


def render_aggregate(aggregate: Aggregate) -> str:
    """Render an aggregate as in the language: ``COUNT(*)``, ``AVG(cost)``, ``QUANTILE(cost, 0.9)``."""
    if isinstance(aggregate, Count) and aggregate.counted is not None:
        return f"COUNT({render_name(aggregate.counted)})"
    if aggregate.test is not None:
        return f"{render_aggregate(replace(aggregate, test=None))} FILTER (WHERE {render_predicate(aggregate.test)})"
    if isinstance(aggregate, Count):
        return "COUNT(*)"
    name = render_name(aggregate.attribute) if aggregate.computed is None else render_expression(aggregate.computed)
    if isinstance(aggregate, Distinct):
        return f"COUNT(DISTINCT {name})"
    if isinstance(aggregate, Extreme):
        return f"{'MAX' if aggregate.largest else 'MIN'}({name})"
    if isinstance(aggregate, Quantile):
        share = format_number(aggregate.share)
        return f"MEDIAN({name})" if share == "0.5" else f"QUANTILE({name}, {share})"
    is_population = isinstance(aggregate, (Variance, Deviation)) and not aggregate.sample
    return f"{_FUNCTIONS[type(aggregate)]}{'_POP' if is_population else ''}({name})"


_FUNCTIONS: dict[type[Aggregate], str] = {Sum: "SUM", Average: "AVG", Variance: "VAR", Deviation: "STDDEV"}


def _render_select(query: Query) -> str:
    keys = query.workload.keys if isinstance(query.workload, GroupBy) else ()
    names = [render_expression(key) for key in keys]
    aliases = query.presentation.renamed if query.presentation is not None else ()
    shown = [f"{name} AS {render_name(alias)}" if alias else name for name, alias in zip_longest(names, aliases)]
    items = [*shown, *_render_values(query)]
    where = _render_where(() if query.per_unit is not None else query.on, query.where)
    # By position if a key is renamed: its new name may be that of another attribute.
    keyed = [str(place + 1) for place in range(len(names))] if aliases else names
    sets = query.workload.sets if isinstance(query.workload, GroupBy) else ()
    listed = [f"({', '.join(keyed[place] for place in one)})" for one in sets]
    grouped = f"GROUPING SETS ({', '.join(listed)})" if listed else ", ".join(keyed)
    groups = f" GROUP BY {grouped}" if names else ""
    join = f" JOIN {render_name(query.join.table)} USING ({render_name(query.join.key)})" if query.join else ""
    tables = ", ".join(_list_tables(query))
    if query.is_outer:
        pairs = [f"{_render_joined(own)} = {_render_joined(other)}" for own, other in query.on]
        tables = f"{render_name(query.table)} LEFT JOIN {render_name(query.joins[0])} ON {' AND '.join(pairs)}"
        query = replace(query, on=())
        where = _render_where((), query.where)
    if query.publics:
        called = [
            render_name(one.table) if one.table == one.name else f"{render_name(one.table)} AS {render_name(one.name)}"
            for one in query.publics
        ]
        tied = [f"{render_name(one.own)} = {render_name(one.name)}.{render_name(one.key)}" for one in query.publics]
        tables = ", ".join([tables, *called])
        where = _render_where(query.on, query.where, tied=tied)
    source = tables if query.per_unit is None else _render_per_unit(query.per_unit, tables, query.on)
    return f"SELECT {', '.join(items)} FROM {source}{join}{where}{groups}"


def _render_where(
    on: Sequence[tuple[JoinedColumn, JoinedColumn]], where: Predicate | None, *, tied: Sequence[str] = ()
) -> str:
    """Render WHERE, with the columns on which tables are joined in front."""
    conditions = [*tied, *(f"{_render_joined(own)} = {_render_joined(other)}" for own, other in on)]
    if where is not None:
        text = render_predicate(where)
        conditions.append(f"({text})" if conditions and isinstance(where, Or) else text)
    return f" WHERE {' AND '.join(conditions)}" if conditions else ""


def _list_tables(query: Query) -> list[str]:
    """List the tables of FROM, those that may be public with their names there."""
    called = [one.partition(MARK)[::2] for one in query.joins]
    own = [] if any(table == query.table and name for table, name in called) else [query.table]
    names = [
        render_name(table) if name in ("", table) else f"{render_name(table)} AS {render_name(name)}"
        for table, name in called
    ]
    return [*map(render_name, own), *names]


def _render_joined(column: JoinedColumn) -> str:
    if MARK in column.name:
        return render_name(column.name)
    return f"{render_name(column.table)}.{render_name(column.name)}" if column.table else render_name(column.name)


def _render_per_unit(per_unit: PerUnit, tables: str, on: Sequence[tuple[JoinedColumn, JoinedColumn]]) -> str:
    unit = render_name(per_unit.unit)
    values = [f"{render_aggregate(one.aggregate)} AS {render_name(one.name)}" for one in per_unit.values]
    where = _render_where(on, per_unit.where)
    return f"(SELECT {', '.join([unit, *values])} FROM {tables}{where} GROUP BY {unit})"


def _render_values(query: Query) -> list[str]:
    shown = query.presentation
    values = shown.shown[: len(shown.shown) - shown.hidden] if shown is not None else ()
    if not values:
        return [_render_item(item) for item in query.items]
    return [f"{_render_derived(one.value, query.aggregates)} AS {render_name(one.name)}" for one in values]


def _render_derived(value: Derived, aggregates: Sequence[Aggregate], *, inside: str = "") -> str:
    """Render an expression; in parentheses, if it is an operand of ``inside`` that binds as tightly or more."""
    if isinstance(value, Measured):
        return render_aggregate(aggregates[value.place])
    if isinstance(value, Number):
        text = format_number(value.number)
        return f"({text})" if text.startswith("-") and inside else text
    if isinstance(value, Function):
        arguments = [_render_derived(one, aggregates) for one in value.arguments]
        decimals = [str(value.decimals)] if value.decimals else []
        return f"{value.name.upper()}({', '.join([*arguments, *decimals])})"
    if isinstance(value, OverGroups):
        inner = _render_derived(value.value, aggregates)
        order = f"ORDER BY {inner}{' DESC' if value.descending else ''}"
        return f"SUM({inner}) OVER ()" if value.name == "sum" else f"{value.name.upper()}() OVER ({order})"
    left = _render_derived(value.left, aggregates, inside="left*" if value.op in ("*", "/") else "left+")
    right = _render_derived(value.right, aggregates, inside="right*" if value.op in ("*", "/") else "right+")
    text = f"{left} {value.op} {right}"
    is_sum = value.op in ("+", "-")
    needs = inside in ("right*", "right+") or (inside == "left*" and is_sum)
    return f"({text})" if needs else text


def _render_bin(query: Query) -> str:
    where = f" AND {render_inside(query.where, Or)}" if query.where else ""
    asked = f"BIN {render_name(query.table)} ON {_render_item(Item(query.aggregate, query.alias))}"
    return f"{asked} WHERE W = {_render_workload(query.workload)}{where}"


def _render_item(item: Item) -> str:
    alias = f" AS {render_name(item.alias)}" if item.alias else ""
    return f"{render_aggregate(item.aggregate)}{alias}"


def _render_choice(query: Query) -> str:
    choice = query.having or query.top
    aggregate = render_aggregate(choice.of or query.aggregate) if choice else ""
    kept = query.presentation.kept if query.presentation is not None else ()
    if kept:
        return f"HAVING {_render_kept(kept, query.aggregates)}"
    if query.having:
        return f"HAVING {aggregate} {query.having.op} {format_number(query.having.threshold)}"
    if query.top:
        return f"ORDER BY {aggregate} {'DESC' if query.top.largest else 'ASC'} LIMIT {query.top.k}"
    return ""


def _render_kept(kept: Sequence[Kept], aggregates: Sequence[Aggregate]) -> str:
    """Render conditions joined by AND."""
    texts = []
    for one in kept:
        if isinstance(one, ShownCondition):
            left, right = (_render_derived(side, aggregates) for side in (one.left, one.right))
            texts.append(f"{left} {one.op} {right}")
        else:
            either = " OR ".join(_render_kept(part, aggregates) for part in one.parts)
            texts.append(f"({either})" if len(kept) > 1 else either)
    return " AND ".join(texts)


def _render_presentation(query: Query, shown: Presentation) -> str:
    first = len(query.workload.keys) if isinstance(query.workload, GroupBy) else 0
    hidden = [_render_derived(one.value, query.aggregates) for one in shown.shown[len(shown.shown) - shown.hidden :]]
    end = first + len(shown.shown) - shown.hidden
    keys = [
        f"{hidden[key.place - end] if hidden and key.place >= end else key.place + 1}"
        f"{' DESC' if key.descending else ''}{' NULLS FIRST' if key.nulls_first else ''}"
        for key in shown.order
    ]
    clauses = [
        f"ORDER BY {', '.join(keys)}" if keys else "",
        "" if shown.limit is None else f"LIMIT {shown.limit}",
        f"OFFSET {shown.offset}" if shown.offset else "",
    ]
    return " ".join(filter(None, clauses))


def render_promise(promise: Promise) -> str:
    """Render the accuracy or budget: ``ERROR 2 PERCENT CONFIDENCE 0.95``."""
    if isinstance(promise, Accuracy):
        asked = f"ERROR {_join_texts(map(_render_bound, promise.bounds))}"
    elif isinstance(promise, Spend):
        delta = "" if promise.delta is None else f" DELTA {format_number(promise.delta)}"
        asked = f"BUDGET {format_number(promise.amount)} {promise.currency.upper()}{delta}"
    else:
        asked = ""
    is_sure = not isinstance(promise, Unstated) or promise.states_confidence
    sure = f"CONFIDENCE {format_share(1 - promise.beta)}{' JOINT' if promise.joint else ''}" if is_sure else ""
    rows = None if isinstance(promise, Spend) else promise.at_least
    return " ".join(filter(None, [asked, sure, "" if rows is None else f"FOR AT LEAST {rows} ROWS"]))


def _render_bound(bound: Bound) -> str:
    return f"{format_number(bound.error)}{' PERCENT' if bound.percent else ''}"


def _join_texts(texts: Iterable[str]) -> str:
    return ", ".join(texts)


@singledispatch
def _render_workload(workload: Workload) -> str:
    raise TypeError(f"{type(workload).__name__} is not a workload of BIN.")


@_render_workload.register
def _(workload: Predicates) -> str:
    return f"{{{_join_texts(map(render_predicate, workload.parts))}}}"


@_render_workload.register
def _(workload: Ranges) -> str:
    bounds = _join_texts(map(format_number, (workload.lo, workload.hi, workload.width)))
    return f"{workload.shape.upper()}({render_name(workload.attribute)}, {bounds})"


@_render_workload.register
def _(workload: Cube) -> str:
    return f"CUBE({_join_texts(map(render_name, workload.attributes))})"
