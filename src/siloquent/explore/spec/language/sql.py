"""Queries in SQL: SELECT keys and aggregates FROM a table, then the accuracy tail."""

from __future__ import annotations

from dataclasses import dataclass, field

from siloquent.errors import RequestError, SyntaxProblem
from siloquent.explore.spec.aggregates import Aggregate
from siloquent.explore.spec.language.clauses import is_at_aggregate, read_aggregate, read_having, read_tail
from siloquent.explore.spec.language.conditions import read_expression, read_predicate
from siloquent.explore.spec.language.cursor import Cursor
from siloquent.explore.spec.language.ordering import (
    SelectList,
    build_choice,
    read_first,
    read_limit,
    read_order,
    read_position,
)
from siloquent.explore.spec.language.refusals import CLAUSES, LIMITS, TAIL, WHY_NOT, Refusal
from siloquent.explore.spec.language.sources import check_qualifiers, is_bare_alias, read_source
from siloquent.explore.spec.normal_form import find_attribute
from siloquent.explore.spec.predicate import And, Column, Expression, Value
from siloquent.explore.spec.presentation import Presentation
from siloquent.explore.spec.query import GroupBy, Item, Predicates, Query, Top, Workload
from siloquent.fixes import AskWith

EVERY_ROW = Predicates((And(()),))
"""The workload of a SELECT without GROUP BY: one part that includes every row."""

_NO_GROUPS = Refusal("HAVING and ORDER BY ... LIMIT require GROUP BY.", "add GROUP BY")
_EXAMPLE = AskWith("SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 200")


@dataclass(frozen=True, slots=True)
class _Key:
    """A key in the SELECT list."""

    start: int
    expression: Expression
    alias: str


@dataclass(slots=True)
class _Items:
    """The items between SELECT and FROM, in order: keys, and the positions of aggregates among ``shown``."""

    written: list[_Key | int] = field(default_factory=list)
    shown: list[Item] = field(default_factory=list)

    @property
    def keys(self) -> list[_Key]:
        return [one for one in self.written if isinstance(one, _Key)]


def read_select(cursor: Cursor, *, explain: bool = False) -> Query:
    """Parse the whole query from SELECT to its end."""
    cursor.expect("SELECT")
    distinct = cursor.build_problem() if cursor.is_at("DISTINCT") else None
    if distinct is not None:
        cursor.advance()
    first = read_first(cursor)
    items = _read_items(cursor)
    source = read_source(cursor)
    where = read_predicate(cursor) if cursor.take("WHERE") else None
    if distinct is not None and items.keys and not cursor.is_at("GROUP"):
        raise distinct
    workload = _read_groups(cursor, items)
    selected = _list_columns(items, workload)
    if distinct is not None and not _are_rows_distinct(items, workload):
        raise distinct
    if workload == EVERY_ROW and cursor.is_at("HAVING"):
        raise cursor.build_refusal(_NO_GROUPS)
    having = read_having(cursor, items.shown)
    top, presentation, hidden = _read_presentation(cursor, selected, workload, first, is_chosen=having is not None)
    asked = [item.aggregate for item in items.shown]
    # The error bound of an aggregate that only HAVING uses comes last.
    asked += [found for found in (having[0] if having else None, hidden) if found is not None and found not in asked]
    if not asked:
        raise cursor.build_problem("HAVING", "ORDER BY") if not cursor.is_over else _build_nothing_asked(cursor)
    promise, tail = read_tail(cursor, asked)
    check_qualifiers(cursor, source.names)
    return Query(
        table=source.table,
        workload=workload,
        promise=promise,
        aggregate=asked[0],
        where=where,
        having=having[1] if having else None,
        top=top,
        shows_values=bool(items.shown),
        alias=items.shown[0].alias if items.shown else "",
        others=tuple(items.shown[1:]),
        join=source.join,
        reuse=tail.reuse,
        optimistic=tail.optimistic,
        explain=explain,
        presentation=presentation,
    )


def _read_items(cursor: Cursor) -> _Items:
    items = _Items()
    while True:
        if cursor.is_at("*", "DISTINCT"):
            raise cursor.build_problem()
        if is_at_aggregate(cursor):
            items.written.append(len(items.shown))
            aggregate = read_aggregate(cursor)
            items.shown.append(Item(aggregate, _read_item_alias(cursor)))
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
    keys = [_read_key(cursor, items)]
    while cursor.take(","):
        keys.append(_read_key(cursor, items))
    workload, known = GroupBy(tuple(keys)), set(keys)
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
    if cursor.token.word in ("CUBE", "ROLLUP", "GROUPING") and cursor.following.word in ("(", "SETS"):
        raise cursor.build_refusal(WHY_NOT["ROLLUP"])
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


def _require_key(cursor: Cursor, written: _Key | int, start: int) -> Expression:
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
    attribute = find_attribute(key.expression)
    is_itself = isinstance(key.expression, Column)
    if attribute is not None and attribute.casefold() == key.alias.casefold() and not is_itself:
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
    positions = [
        keys.index(one.expression) if isinstance(one, _Key) else len(keys) + one
        for one in items.written
        if not isinstance(one, _Key) or one.expression in keys
    ]
    return SelectList(keys, renamed, items.shown, positions)


def _are_rows_distinct(items: _Items, workload: Workload) -> bool:
    """Return whether SELECT DISTINCT leaves all rows: all keys are selected, or there is only one row."""
    keys = workload.keys if isinstance(workload, GroupBy) else ()
    return {key.expression for key in items.keys} == set(keys)


def _read_presentation(
    cursor: Cursor, selected: SelectList, workload: Workload, first: int | None, *, is_chosen: bool
) -> tuple[Top | None, Presentation | None, Aggregate | None]:
    """Parse ORDER BY and LIMIT; the last value is the aggregate that sorts groups without being selected."""
    order = read_order(cursor, selected)
    limit, offset = read_limit(cursor)
    limit = first if limit is None else limit
    if workload == EVERY_ROW and selected.items:
        return None, None, None  # one row stays as it is, whatever its order
    top, presentation = build_choice(cursor, selected, order, limit, offset, is_chosen=is_chosen)
    return top, presentation, next((one.hidden for one in order if one.hidden is not None), None)


def _build_nothing_asked(cursor: Cursor) -> RequestError:
    return SyntaxProblem(
        "The query requests nothing about its groups",
        position=cursor.token.start,
        expected="an aggregate in the SELECT list, HAVING, or ORDER BY ... LIMIT",
        fix=cursor.format_example(_EXAMPLE),
    )
