"""GROUP BY of SELECT: its keys, each an expression, a position, or the name of an item."""

from __future__ import annotations

from siloquent.errors import SyntaxProblem
from siloquent.explore.spec.language.clauses import is_at_aggregate
from siloquent.explore.spec.language.cursor import Cursor
from siloquent.explore.spec.language.expressions.conditions import read_expression
from siloquent.explore.spec.language.refusals import CLAUSES, LIMITS, TAIL, Refusal
from siloquent.explore.spec.language.select.grouping_sets import read_keys
from siloquent.explore.spec.language.select.items import EXAMPLE, SelectedKey, SelectedValue, SelectItems
from siloquent.explore.spec.language.select.ordering import read_position
from siloquent.explore.spec.predicate import Column, Expression, Value
from siloquent.explore.spec.query import EVERY_ROW, GroupBy, Workload
from siloquent.explore.spec.rewriting.normal_form import list_attributes


def read_group_by(cursor: Cursor, items: SelectItems) -> Workload:
    """Parse GROUP BY, if there is one: each key that is selected is one of its keys."""
    if not cursor.take("GROUP"):
        if not cursor.is_over and not cursor.is_at("HAVING", "ORDER", *LIMITS, *TAIL):
            raise cursor.build_problem(*CLAUSES[1:])
        if items.keys:
            raise SyntaxProblem(
                "Values can be selected only for groups, not for single rows",
                position=items.keys[0].start,
                expected="GROUP BY",
                fix=cursor.format_example(EXAMPLE),
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
            raise SyntaxProblem(f"This item {wrong}", position=key.start, fix=cursor.format_example(EXAMPLE))
        known.discard(key.expression)
    return workload


def _read_key(cursor: Cursor, items: SelectItems) -> Expression:
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


def _require_key(cursor: Cursor, written: SelectedKey | SelectedValue, start: int) -> Expression:
    if isinstance(written, SelectedKey):
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


def _require_other_name(cursor: Cursor, key: SelectedKey, position: int) -> None:
    """Refuse ``age // 10 AS age ... GROUP BY age``, where SQL would group by the attribute itself."""
    names = {name.casefold() for name in list_attributes(key.expression)}
    is_itself = isinstance(key.expression, Column)
    if key.alias.casefold() in names and not is_itself:
        raise SyntaxProblem(
            f"{key.alias[:40]!r} is both an attribute and the name of another key",
            position=cursor.token.start,
            fix=f"GROUP BY {position}",
        )


def are_rows_distinct(items: SelectItems, workload: Workload) -> bool:
    """Return whether SELECT DISTINCT leaves all rows: all keys are selected, or there is only one row."""
    keys = workload.keys if isinstance(workload, GroupBy) else ()
    return {key.expression for key in items.keys} == set(keys)
