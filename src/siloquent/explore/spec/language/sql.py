"""Queries in SQL: SELECT keys and aggregates FROM a table, then the accuracy tail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from siloquent.errors import RequestError, SyntaxProblem
from siloquent.explore.spec.aggregates import Aggregate, name_column
from siloquent.explore.spec.derived import Derived, Function, Kept, Measured, OverGroups, ShownValue, iter_windows
from siloquent.explore.spec.language.clauses import is_at_aggregate, read_tail
from siloquent.explore.spec.language.conditions import read_expression
from siloquent.explore.spec.language.cursor import Cursor
from siloquent.explore.spec.language.derived import ValueReader
from siloquent.explore.spec.language.grouping import read_keys
from siloquent.explore.spec.language.having import build_threshold, read_select_having
from siloquent.explore.spec.language.ordering import (
    SelectList,
    build_choice,
    read_first,
    read_limit,
    read_order,
    read_position,
)
from siloquent.explore.spec.language.per_unit import build_per_unit, find_unit_key
from siloquent.explore.spec.language.refusals import (
    AGGREGATES,
    CLAUSES,
    LIMITS,
    OTHER_AGGREGATES,
    TAIL,
    WHY_NOT,
    Refusal,
)
from siloquent.explore.spec.language.render_conditions import render_expression
from siloquent.explore.spec.language.sources import (
    NO_VIEWS,
    Views,
    check_qualifiers,
    is_bare_alias,
    read_source,
    read_where,
)
from siloquent.explore.spec.language.views import GroupedView, Source, adopt, adopt_kept, join_conditions
from siloquent.explore.spec.normal_form import list_attributes
from siloquent.explore.spec.predicate import And, Column, Expression, Predicate, Value
from siloquent.explore.spec.presentation import Presentation
from siloquent.explore.spec.query import GroupBy, Item, Predicates, Query, Top, Workload
from siloquent.fixes import AskWith

EVERY_ROW = Predicates((And(()),))
"""The workload of a SELECT without GROUP BY: one part that includes every row."""

_NO_GROUPS = Refusal("HAVING and ORDER BY ... LIMIT require GROUP BY.", "add GROUP BY")
_OF_GROUPS = Refusal(
    "A query over a subquery's groups selects their columns, computes with them, and chooses among them.",
    "ask the inner query by itself, and compute with the answer at no cost",
)
_WINDOWS_INSIDE = Refusal(
    "A subquery's windows are over all its groups, so an outer WHERE cannot choose among these.",
    "put the condition into the subquery's HAVING, or leave it out",
)
_SAME_NAME = Refusal("Two columns of the subquery have the same name.", "AVG(cost) AS mean_cost")
_EXAMPLE = AskWith("SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 200")


@dataclass(frozen=True, slots=True)
class _Key:
    """A key in the SELECT list."""

    start: int
    expression: Expression
    alias: str


@dataclass(frozen=True, slots=True)
class _Value:
    """A value in the SELECT list."""

    value: Derived
    alias: str


@dataclass(slots=True)
class _Items:
    """The items between SELECT and FROM, in order; ``measured``: the aggregates in them, each once."""

    written: list[_Key | _Value] = field(default_factory=list)
    measured: list[Aggregate] = field(default_factory=list)

    @property
    def keys(self) -> list[_Key]:
        return [one for one in self.written if isinstance(one, _Key)]

    @property
    def values(self) -> list[_Value]:
        return [one for one in self.written if isinstance(one, _Value)]


def read_select(cursor: Cursor, *, explain: bool = False, views: Views = NO_VIEWS) -> Query:
    """Parse the whole query from SELECT to its end."""
    cursor.expect("SELECT")
    distinct = cursor.build_problem() if cursor.is_at("DISTINCT") else None
    if distinct is not None:
        cursor.advance()
    elif cursor.following.kind in ("word", "quoted") and cursor.following.word not in ("FROM", "AS"):
        cursor.take("ALL")  # the opposite of DISTINCT, which changes nothing
    first = read_first(cursor)
    items = _read_items(cursor)
    items, passing, source, on, where = _read_rows(cursor, items, views)
    if distinct is not None and items.keys and not cursor.is_at("GROUP"):
        raise distinct
    workload = _read_groups(cursor, items) if source.groups is None else source.groups.workload
    selected = _list_columns(items, workload)
    if source.view is not None:
        selected = replace(selected, names=source.view.rename_keys(selected.keys, selected.names))
    if distinct is not None and not _are_rows_distinct(items, workload):
        raise distinct
    if workload == EVERY_ROW and cursor.is_at("HAVING"):
        raise cursor.build_refusal(_NO_GROUPS)
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
    shown = _name_values(items, selected.hidden)
    measured = _name_measured(items, shown)
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
    )
    return query if source.view is None else source.view.inline(query)


def _read_rows(
    cursor: Cursor, items: _Items, views: Views
) -> tuple[_Items, list[Kept], Source, tuple[tuple[str, str], ...], Predicate | None]:
    """Parse FROM and WHERE; over a subquery's groups, return the items in terms of its own, and conditions on them."""
    source = read_source(cursor, views, read_groups)
    join, on, where = read_where(cursor, source)
    groups = source.groups
    if groups is None:
        joins = source.joins if source.view is None else source.view.source.joins
        return items, [], replace(source, join=join, joins=joins), on, where
    if items.measured or cursor.is_at("GROUP") or not groups.values:
        if find_unit_key(groups) is None:
            raise cursor.build_refusal(_OF_GROUPS)
        source, where = _choose_units(source, groups, where)
        return items, [], source, groups.on, where
    items, passing, source = _compute_with_groups(cursor, items, groups, where, source)
    return items, passing, source, groups.on, groups.where


def read_groups(cursor: Cursor, views: Views) -> GroupedView:
    """Parse ``(SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward HAVING n > 5)``."""
    cursor.expect("(")
    cursor.enter_parenthesis()
    before, takes_extremes = len(cursor.qualifiers), cursor.takes_extremes
    cursor.takes_extremes = True
    cursor.expect("SELECT")
    is_distinct = bool(cursor.take("DISTINCT"))
    items = _read_items(cursor)
    source = read_source(cursor, views, read_groups)
    join, on, where = read_where(cursor, source)
    if is_distinct and (items.values or not cursor.is_at(")")):
        raise cursor.build_refusal(WHY_NOT["DISTINCT"])
    if is_distinct:
        workload: Workload = GroupBy(tuple(key.expression for key in items.keys))
    else:
        workload = EVERY_ROW if cursor.is_at(")") and not items.keys else _read_groups(cursor, items)
    selected = _list_columns(items, workload)
    kept: list[Kept] = []
    if cursor.take("HAVING"):
        reader = selected.build_reader(cursor, _OF_GROUPS)
        kept = reader.read_conditions()
        items.measured[:] = reader.measured
    cursor.takes_extremes = takes_extremes
    if not cursor.is_at(")") or source.groups is not None or not (items.values or items.keys):
        raise cursor.build_refusal(_OF_GROUPS)
    cursor.leave_parenthesis()
    check_qualifiers(cursor.qualifiers[before:], source.names)
    del cursor.qualifiers[before:]
    keys = {one.alias or render_expression(one.expression): one.expression for one in items.keys}
    named = _name_values(items, ())
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
    )


def _choose_units(source: Source, groups: GroupedView, where: Predicate | None) -> tuple[Source, Predicate | None]:
    """Return the rows of units as the source, and the condition on them that WHERE and the subquery's HAVING make."""
    per_unit, kept = build_per_unit(groups)
    source = replace(source, join=None, view=None, groups=None, per_unit=per_unit, joins=groups.joins)
    return source, join_conditions(kept, where)


def _compute_with_groups(
    cursor: Cursor, items: _Items, groups: GroupedView, where: Predicate | None, source: Source
) -> tuple[_Items, list[Kept], Source]:
    """Return the items over the groups of a subquery, and the conditions that choose among these."""
    found = _Items()
    for one in items.keys:
        named = groups.find_key(one.expression)
        if named is not None:
            key = groups.keys[named]
            alias = one.alias or ("" if key == Column(named) else named)
            found.written.append(_Key(one.start, key, alias))
            continue
        value = adopt(groups.convert(one.expression), groups.measured, found.measured)
        alias = one.alias or (one.expression.name if isinstance(one.expression, Column) else "")
        found.written.append(_Value(value, alias))
    kept = [*groups.kept, *(groups.keep(where) if where is not None else ())]
    if kept and groups.workload == EVERY_ROW:
        raise cursor.build_refusal(_NO_GROUPS)
    if where is not None and any(any(iter_windows(one.value)) for one in found.values):
        raise cursor.build_refusal(_WINDOWS_INSIDE)
    passing = [adopt_kept(one, groups.measured, found.measured) for one in kept]
    return found, passing, replace(source, table=groups.table, join=groups.join, view=groups.view, joins=groups.joins)


def _name_values(items: _Items, hidden: Sequence[Derived]) -> tuple[ShownValue, ...]:
    """Name each value: as written, or after its aggregate or function, with a number where that name is taken."""
    taken: set[str] = set()  # two equal names that are written are refused, and not changed
    shown = []
    for one in items.values:
        name = one.alias or _take_name(_get_default_name(one.value, items.measured), taken)
        shown.append(ShownValue(name, one.value))
    taken |= {one.name for one in shown}
    return (
        *shown,
        *(ShownValue(_take_name(_get_default_name(value, items.measured), taken), value) for value in hidden),
    )


def _get_default_name(value: Derived, measured: Sequence[Aggregate]) -> str:
    if isinstance(value, Measured):
        return name_column(measured[value.place])
    return value.name if isinstance(value, (Function, OverGroups)) else "value"


def _take_name(name: str, taken: set[str]) -> str:
    """Return ``name``, with a number if it is among ``taken``; and add it to them."""
    number, found = 1, name
    while found in taken:
        number += 1
        found = f"{name}_{number}"
    taken.add(found)
    return found


def _name_measured(items: _Items, shown: Sequence[ShownValue]) -> list[Item]:
    """Build the measured items; each has the name under which it is shown first, if it is."""
    plain = [Measured(place) for place in range(len(items.measured))]
    is_plain = [one.value for one in items.values] == plain
    names = {one.value: one.name for one in reversed(shown) if isinstance(one.value, Measured)}
    written = {one.value: one.alias for one in items.values}
    taken = {*names.values()}
    found = []
    for aggregate, value in zip(items.measured, plain, strict=True):
        default = name_column(aggregate)
        name = names[value] if value in names else _take_name(default, taken)
        # A name that is written is kept as it is: it belongs to the question's digest.
        found.append(Item(aggregate, (written[value] if is_plain else "") or ("" if name == default else name)))
    return found


def _read_items(cursor: Cursor) -> _Items:
    items = _Items()
    while True:
        if cursor.is_at("*", "DISTINCT"):
            raise cursor.build_problem()
        if cursor.has_in_item((*AGGREGATES, *OTHER_AGGREGATES)):
            value = ValueReader(cursor, items.measured).read()
            items.written.append(_Value(value, _read_item_alias(cursor)))
        else:
            start = cursor.token.start
            expression = read_expression(cursor)
            items.written.append(_Key(start, expression, _read_item_alias(cursor)))
        if not cursor.take(","):
            return items


def _read_item_alias(cursor: Cursor) -> str:
    """Parse ``AS name`` or a name alone; empty without it."""
    if cursor.take("AS") or is_bare_alias(cursor, ",", "FROM"):
        return cursor.take_name("a column of the answer")
    return ""


def _read_groups(cursor: Cursor, items: _Items) -> Workload:
    if not cursor.take("GROUP"):
        if not cursor.is_over and not cursor.is_at("HAVING", "ORDER", *LIMITS, *TAIL):
            raise cursor.build_problem(*CLAUSES[1:])
        if items.keys:
            raise SyntaxProblem(
                "Values can be selected only for groups, not for single rows",
                position=items.keys[0].start,
                expected="GROUP BY",
                fix=cursor.format_example(_EXAMPLE),
            )
        return EVERY_ROW
    cursor.expect("BY")
    if cursor.is_at("ALL") and cursor.following.word != ",":
        cursor.advance()
        listed = [key.expression for key in items.keys]
        return GroupBy(tuple(dict.fromkeys(listed))) if listed else EVERY_ROW
    workload = read_keys(cursor, lambda at: _read_key(at, items))
    keys = workload.keys
    known = set(keys)
    for key in items.keys:
        if key.expression not in known:
            wrong = "is not one of the GROUP BY keys" if key.expression not in keys else "appears twice"
            raise SyntaxProblem(f"This item {wrong}", position=key.start, fix=cursor.format_example(_EXAMPLE))
        known.discard(key.expression)
    return workload


def _read_key(cursor: Cursor, items: _Items) -> Expression:
    """Parse a key of GROUP BY: an expression, a position in the SELECT list, or the name that a key has there."""
    if is_at_aggregate(cursor):
        raise cursor.build_refusal(Refusal("GROUP BY takes attributes, not aggregates.", "GROUP BY ward"))
    start = cursor.token.start
    if cursor.token.kind == "number" and cursor.following.word not in ("+", "-", "*", "//", "%"):
        place = read_position(cursor, "GROUP BY", range(len(items.written)))
        return _require_key(cursor, items.written[place], start)
    if cursor.token.kind in ("word", "quoted") and cursor.following.word not in ("(", "."):
        named = [key for key in items.keys if key.alias and key.alias.casefold() == cursor.token.text.casefold()]
        if named:
            _require_other_name(cursor, named[0], items.written.index(named[0]) + 1)
            cursor.advance()
            return _require_key(cursor, named[0], start)
    return _require_attribute(cursor, read_expression(cursor), start)


def _require_key(cursor: Cursor, written: _Key | _Value, start: int) -> Expression:
    if isinstance(written, _Key):
        return _require_attribute(cursor, written.expression, start)
    raise SyntaxProblem(
        "This position of the SELECT list is an aggregate",
        position=start,
        expected="the position of a key",
        fix=cursor.format_example("GROUP BY ward"),
    )


def _require_attribute(cursor: Cursor, key: Expression, start: int) -> Expression:
    if isinstance(key, Value):
        raise SyntaxProblem(
            "GROUP BY keys must be names or positions in the SELECT list, not constants",
            position=start,
            expected="an attribute",
            fix=cursor.format_example("GROUP BY ward"),
        )
    return key


def _require_other_name(cursor: Cursor, key: _Key, position: int) -> None:
    """Refuse ``age // 10 AS age ... GROUP BY age``, where SQL would group by the attribute itself."""
    names = {name.casefold() for name in list_attributes(key.expression)}
    is_itself = isinstance(key.expression, Column)
    if key.alias.casefold() in names and not is_itself:
        raise SyntaxProblem(
            f"{key.alias[:40]!r} is both an attribute and the name of another key",
            position=cursor.token.start,
            fix=f"GROUP BY {position}",
        )


def _list_columns(items: _Items, workload: Workload) -> SelectList:
    keys = workload.keys if isinstance(workload, GroupBy) else ()
    names = {key.expression: key.alias for key in items.keys}
    given = [names.get(key, "") for key in keys]
    # A key that is given the name it has anyway is not renamed.
    renamed = [
        "" if isinstance(key, Column) and key.name == name else name for key, name in zip(keys, given, strict=True)
    ]
    values = items.values
    positions = [
        keys.index(one.expression) if isinstance(one, _Key) else len(keys) + number
        for one, number in zip(items.written, _count_values(items), strict=True)
        if isinstance(one, _Value) or one.expression in keys
    ]
    return SelectList(
        keys, renamed, [one.value for one in values], [one.alias for one in values], items.measured, positions
    )


def _count_values(items: _Items) -> list[int]:
    """Count the values before each item."""
    before, found = 0, []
    for one in items.written:
        found.append(before)
        before += isinstance(one, _Value)
    return found


def _are_rows_distinct(items: _Items, workload: Workload) -> bool:
    """Return whether SELECT DISTINCT leaves all rows: all keys are selected, or there is only one row."""
    keys = workload.keys if isinstance(workload, GroupBy) else ()
    return {key.expression for key in items.keys} == set(keys)


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
        fix=cursor.format_example(_EXAMPLE),
    )
