"""Queries in SQL: SELECT keys and aggregates FROM a table, then the accuracy tail."""

from __future__ import annotations

from dataclasses import dataclass, field

from siloquent.errors import RequestError, SyntaxProblem
from siloquent.explore.spec.language.clauses import (
    is_at_aggregate,
    read_aggregate,
    read_alias,
    read_having,
    read_tail,
    read_top,
)
from siloquent.explore.spec.language.conditions import read_expression, read_predicate
from siloquent.explore.spec.language.cursor import Cursor
from siloquent.explore.spec.language.refusals import CLAUSES, TAIL, WHY_NOT, Refusal, quote_name
from siloquent.explore.spec.predicate import And, Expression, Value
from siloquent.explore.spec.query import GroupBy, Item, Join, Predicates, Query, Workload
from siloquent.fixes import AskWith

EVERY_ROW = Predicates((And(()),))
"""The workload of a SELECT without GROUP BY: one part that includes every row."""

_TABLE_ALIAS = Refusal("Aliases for tables and attributes are not supported.", "use only the declared names")
_KEY_ALIAS = Refusal("A key cannot be renamed.", "remove AS; only aggregates can be renamed")
_NO_GROUPS = Refusal("HAVING and ORDER BY ... LIMIT require GROUP BY.", "add GROUP BY")


@dataclass(slots=True)
class _Items:
    """The items between SELECT and FROM."""

    keys: list[tuple[int, Expression]] = field(default_factory=list)
    shown: list[Item] = field(default_factory=list)


def read_select(cursor: Cursor, *, explain: bool = False) -> Query:
    """Parse the whole query from SELECT to its end."""
    cursor.expect("SELECT")
    items = _read_items(cursor)
    table, join = _read_source(cursor)
    where = read_predicate(cursor) if cursor.take("WHERE") else None
    workload = _read_groups(cursor, items)
    if workload == EVERY_ROW and cursor.is_at("HAVING", "ORDER"):
        raise cursor.build_refusal(_NO_GROUPS)
    having = read_having(cursor, items.shown)
    top = read_top(cursor, items.shown, largest=False)
    asked = [item.aggregate for item in items.shown]
    # The error bound of an aggregate that only HAVING uses comes last.
    asked += [found for found, _ in filter(None, (having, top)) if found not in asked]
    if not asked:
        raise cursor.build_problem("HAVING", "ORDER BY") if not cursor.is_over else _build_nothing_asked(cursor)
    promise, tail = read_tail(cursor, asked)
    check_qualifiers(cursor, table, join)
    return Query(
        table=table,
        workload=workload,
        promise=promise,
        aggregate=asked[0],
        where=where,
        having=having[1] if having else None,
        top=top[1] if top else None,
        shows_values=bool(items.shown),
        alias=items.shown[0].alias if items.shown else "",
        others=tuple(items.shown[1:]),
        join=join,
        reuse=tail.reuse,
        optimistic=tail.optimistic,
        explain=explain,
    )


def check_qualifiers(cursor: Cursor, table: str, join: Join | None = None) -> None:
    """Refuse ``other.age``: the name before the point must be a table of the query."""
    known = [table] if join is None else [table, join.table]
    for token in cursor.qualifiers:
        if token.text not in known:
            raise SyntaxProblem(
                f"{token.text[:40]!r} is not a table of this query",
                position=token.start,
                expected=f"{' or '.join(map(repr, known))}, or no table name",
                fix="remove the prefix",
            )


def _read_items(cursor: Cursor) -> _Items:
    items = _Items()
    while True:
        if cursor.is_at("*", "DISTINCT"):
            raise cursor.build_problem()
        if is_at_aggregate(cursor):
            items.shown.append(Item(read_aggregate(cursor), read_alias(cursor)))
            if _is_bare_alias(cursor, ",", "FROM"):
                raise cursor.build_refusal(
                    Refusal("A column name in the answer must follow AS.", f"AS {cursor.token.text[:40]}")
                )
        else:
            items.keys.append((cursor.token.start, read_expression(cursor)))
            if cursor.is_at("AS") or _is_bare_alias(cursor, ",", "FROM"):
                raise cursor.build_refusal(_KEY_ALIAS)
        if not cursor.take(","):
            return items


def _read_source(cursor: Cursor) -> tuple[str, Join | None]:
    cursor.expect("FROM")
    table = read_table_name(cursor)
    join = None
    if cursor.take("JOIN"):
        other = read_table_name(cursor)
        if cursor.is_at("ON"):
            raise _build_on_error(cursor, table, other)
        if not cursor.take("USING"):
            raise cursor.build_refusal(WHY_NOT["JOIN"])
        cursor.expect("(")
        join = Join(other, cursor.take_name("an attribute"))
        cursor.expect(")")
    if cursor.is_at(",", "JOIN"):
        raise cursor.build_refusal(WHY_NOT["JOIN"])
    return table, join


def _build_on_error(cursor: Cursor, table: str, other: str) -> RequestError:
    """Build the error for ``ON visits.ward = wards.ward``; the fix is USING with the same key."""
    position = cursor.advance().start
    key = ".."
    while cursor.token.kind in ("word", "quoted"):
        key = quote_name(cursor.advance().text)
        if not cursor.take("."):
            break
    return RequestError(
        f"{WHY_NOT['JOIN'].reason.removesuffix('.')} ('ON' at character {position}).",
        fix=f"FROM {quote_name(table)} JOIN {quote_name(other)} USING ({key})",
    )


def read_table_name(cursor: Cursor) -> str:
    """Parse one table's plain name."""
    if cursor.is_at("("):
        raise cursor.build_refusal(WHY_NOT["SELECT"])
    table = cursor.take_name("a table")
    if cursor.is_at("."):
        raise cursor.build_refusal(Refusal("A table name cannot include a database or schema.", "FROM visits"))
    if cursor.is_at("AS"):
        raise cursor.build_refusal(Refusal("Table aliases are not supported.", "remove the alias"))
    if _is_bare_alias(cursor, ",", "JOIN", "USING", "ON", *_CLAUSES, *TAIL) or (
        cursor.token.kind in ("word", "quoted") and cursor.following.kind == "end" and cursor.token.word not in _WORDS
    ):
        raise cursor.build_refusal(_TABLE_ALIAS)
    return table


_CLAUSES = tuple(clause.split()[0] for clause in CLAUSES)
_WORDS = frozenset((*_CLAUSES, *TAIL, *WHY_NOT, "ON", "AS", "JOIN"))


def _is_bare_alias(cursor: Cursor, *behind: str) -> bool:
    """Return whether a name here is an SQL alias of the preceding item, followed by one of ``behind``."""
    is_name = cursor.token.kind == "quoted" or (cursor.token.kind == "word" and cursor.token.word not in _WORDS)
    return is_name and cursor.following.word in behind


def _read_groups(cursor: Cursor, items: _Items) -> Workload:
    if not cursor.take("GROUP"):
        if not cursor.is_over and not cursor.is_at("HAVING", "ORDER", *TAIL):
            raise cursor.build_problem(*CLAUSES[1:])
        if items.keys:
            raise SyntaxProblem(
                "Values can be selected only for groups, not for single rows",
                position=items.keys[0][0],
                expected="GROUP BY",
                fix=cursor.format_example(AskWith("SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 200")),
            )
        return EVERY_ROW
    cursor.expect("BY")
    keys = [_read_key(cursor)]
    while cursor.take(","):
        keys.append(_read_key(cursor))
    workload, known = GroupBy(tuple(keys)), set(keys)
    for start, key in items.keys:
        if key not in known:
            wrong = "is not one of the GROUP BY keys" if key not in keys else "appears twice"
            raise SyntaxProblem(
                f"This item {wrong}",
                position=start,
                fix=cursor.format_example(AskWith("SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 200")),
            )
        known.discard(key)
    return workload


def _read_key(cursor: Cursor) -> Expression:
    if is_at_aggregate(cursor):
        raise cursor.build_refusal(Refusal("GROUP BY takes attributes, not aggregates.", "GROUP BY ward"))
    if cursor.token.word in ("CUBE", "ROLLUP", "GROUPING") and cursor.following.word in ("(", "SETS"):
        raise cursor.build_refusal(WHY_NOT["ROLLUP"])
    if cursor.is_at("ALL") and not cursor.following.word == ",":
        raise cursor.build_refusal(Refusal("GROUP BY keys must be listed individually.", "GROUP BY ward, sex"))
    start = cursor.token.start
    key = read_expression(cursor)
    if isinstance(key, Value):
        raise SyntaxProblem(
            "GROUP BY keys must be names, not positions",
            position=start,
            expected="an attribute",
            fix=cursor.format_example("GROUP BY ward"),
        )
    return key


def _build_nothing_asked(cursor: Cursor) -> SyntaxProblem:
    return SyntaxProblem(
        "The query requests nothing about its groups",
        position=cursor.token.start,
        expected="an aggregate in the SELECT list, HAVING, or ORDER BY ... LIMIT",
        fix=cursor.format_example(AskWith("SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 200")),
    )
