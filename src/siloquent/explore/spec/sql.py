"""Questions in SQL: SELECT keys and one aggregate FROM a table, then the accuracy tail."""

from __future__ import annotations

from dataclasses import dataclass

from siloquent.errors import SyntaxProblem
from siloquent.explore.spec.clauses import at_aggregate, read_aggregate, read_alias, read_having, read_tail, read_top
from siloquent.explore.spec.conditions import read_expression, read_predicate
from siloquent.explore.spec.cursor import Cursor
from siloquent.explore.spec.predicate import And, Expression, Value
from siloquent.explore.spec.query import Aggregate, GroupBy, Predicates, Query, Workload
from siloquent.explore.spec.words import CLAUSES, SEVERAL, TAIL, WHY_NOT, Refusal

EVERY_ROW = Predicates((And(()),))
"""The workload of a SELECT without GROUP BY: one part, which every row meets."""

_KEY_ALIAS = Refusal("A key keeps its own name.", "leave AS out; only COUNT(*) and SUM may be renamed")
_NO_GROUPS = Refusal("HAVING and ORDER BY .. LIMIT choose among groups.", "add GROUP BY")


@dataclass(slots=True)
class _Items:
    """What stands between SELECT and FROM."""

    keys: list[tuple[int, Expression]]
    aggregate: Aggregate | None = None
    alias: str = ""


def read_select(cursor: Cursor, *, explain: bool = False) -> Query:
    """The whole question from SELECT to its end."""
    cursor.expect("SELECT")
    items = _read_items(cursor)
    table = _read_table(cursor)
    where = read_predicate(cursor) if cursor.take("WHERE") else None
    workload = _read_groups(cursor, items)
    if workload == EVERY_ROW and cursor.at("HAVING", "ORDER"):
        raise cursor.refused(_NO_GROUPS)
    having = read_having(cursor, items.aggregate, items.alias)
    top = read_top(cursor, items.aggregate, items.alias, largest=False)
    asked = items.aggregate or (having or top or (None,))[0]
    if asked is None:
        raise cursor.problem("HAVING", "ORDER BY") if not cursor.is_over else _nothing_asked(cursor)
    promise, tail = read_tail(cursor, asked)
    check_qualifiers(cursor, table)
    return Query(
        table=table,
        workload=workload,
        promise=promise,
        aggregate=asked,
        where=where,
        having=having[1] if having else None,
        top=top[1] if top else None,
        shows_values=items.aggregate is not None,
        alias=items.alias,
        reuse=tail.reuse,
        optimistic=tail.optimistic,
        explain=explain,
    )


def check_qualifiers(cursor: Cursor, table: str) -> None:
    """Refuse ``other.age``: what stands before the point must be the question's one table."""
    for token in cursor.qualifiers:
        if token.text != table:
            raise SyntaxProblem(
                f"{token.text[:40]!r} is not the table of this question",
                position=token.start,
                expected=f"{table!r}, or no table name",
                fix="a question has one table; leave the prefix out",
            )


def _read_items(cursor: Cursor) -> _Items:
    items = _Items([])
    while True:
        if cursor.at("*", "DISTINCT"):
            raise cursor.problem()
        if at_aggregate(cursor):
            if items.aggregate is not None:
                raise cursor.refused(SEVERAL)
            items.aggregate = read_aggregate(cursor)
            items.alias = read_alias(cursor)
        else:
            items.keys.append((cursor.token.start, read_expression(cursor)))
            if cursor.at("AS"):
                raise cursor.refused(_KEY_ALIAS)
        if not cursor.take(","):
            return items


def _read_table(cursor: Cursor) -> str:
    cursor.expect("FROM")
    table = read_table_name(cursor)
    if cursor.at(","):
        raise cursor.refused(WHY_NOT["JOIN"])
    return table


def read_table_name(cursor: Cursor) -> str:
    """One table's plain name."""
    if cursor.at("("):
        raise cursor.refused(WHY_NOT["SELECT"])
    table = cursor.name("a table")
    if cursor.at("."):
        raise cursor.refused(Refusal("Tables have one name, without database or schema.", "FROM visits"))
    if cursor.at("AS"):
        raise cursor.refused(Refusal("A question has one table, so it needs no other name.", "leave AS out"))
    return table


def _read_groups(cursor: Cursor, items: _Items) -> Workload:
    if not cursor.take("GROUP"):
        if not cursor.is_over and not cursor.at("HAVING", "ORDER", *TAIL):
            raise cursor.problem(*CLAUSES[1:])
        if items.keys:
            raise SyntaxProblem(
                "Values are shown for groups only, never for single rows",
                position=items.keys[0][0],
                expected="GROUP BY",
                fix="SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 200",
            )
        return EVERY_ROW
    cursor.expect("BY")
    keys = [_read_key(cursor)]
    while cursor.take(","):
        keys.append(_read_key(cursor))
    workload, known = GroupBy(tuple(keys)), set(keys)
    for start, key in items.keys:
        if key not in known:
            wrong = "is not one of the keys behind GROUP BY" if key not in keys else "is named twice"
            raise SyntaxProblem(f"This item {wrong}", position=start, fix="SELECT ward, COUNT(*) .. GROUP BY ward")
        known.discard(key)
    return workload


def _read_key(cursor: Cursor) -> Expression:
    if at_aggregate(cursor):
        raise cursor.refused(Refusal("Groups are made of attributes, not of aggregates.", "GROUP BY ward"))
    if cursor.token.word in ("CUBE", "ROLLUP", "GROUPING") and cursor.following.word in ("(", "SETS"):
        raise cursor.refused(WHY_NOT["ROLLUP"])
    if cursor.at("ALL") and not cursor.following.word == ",":
        raise cursor.refused(Refusal("Keys are named one by one.", "GROUP BY ward, sex"))
    start = cursor.token.start
    key = read_expression(cursor)
    if isinstance(key, Value):
        raise SyntaxProblem(
            "A key is named, not numbered", position=start, expected="an attribute", fix="GROUP BY ward"
        )
    return key


def _nothing_asked(cursor: Cursor) -> SyntaxProblem:
    return SyntaxProblem(
        "Nothing is asked about the groups",
        position=cursor.token.start,
        expected="COUNT(*) or SUM among the items, HAVING, or ORDER BY .. LIMIT",
        fix="SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 200",
    )
