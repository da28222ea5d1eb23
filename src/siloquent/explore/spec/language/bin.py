"""Queries over explicit workloads: BIN table ON aggregate WHERE W = workload, then as in SQL."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Literal

from siloquent.errors import SyntaxProblem
from siloquent.explore.spec.language.clauses import read_aggregate, read_alias, read_having, read_tail, read_top
from siloquent.explore.spec.language.cursor import Cursor
from siloquent.explore.spec.language.expressions.conditions import read_conjunction, read_predicate
from siloquent.explore.spec.language.select.sources import check_qualifiers, read_table_name
from siloquent.explore.spec.query import Cube, Item, Predicates, Query, Ranges, Workload


def read_bin(cursor: Cursor, *, explain: bool = False) -> Query:
    """Parse the whole query from BIN to its end."""
    start = cursor.token.start
    cursor.expect("BIN")
    table = read_table_name(cursor)
    cursor.expect("ON")
    aggregate = read_aggregate(cursor)
    alias = read_alias(cursor)
    cursor.expect("WHERE")
    cursor.expect("W")
    cursor.expect("=")
    workload = _read_workload(cursor)
    where = read_conjunction(cursor) if cursor.take("AND") else None
    items = [Item(aggregate, alias)]
    having = read_having(cursor, items)
    if having and having[0] != aggregate:
        raise SyntaxProblem(
            "BIN can choose parts only by the aggregate after ON", position=start, fix="run two queries"
        )
    top = read_top(cursor, items, largest=True)
    promise, tail = read_tail(cursor, [aggregate])
    check_qualifiers(cursor.qualifiers, [table])
    return Query(
        table=table,
        workload=workload,
        promise=promise,
        aggregate=aggregate,
        where=where,
        having=having[1] if having else None,
        top=top[1] if top else None,
        shows_values=not (having or top),
        alias=alias,
        reuse=tail.reuse,
        optimistic=tail.optimistic,
        groups_each=tail.groups_each,
        default_share=tail.default_share,
        explain=explain,
    )


def _read_workload(cursor: Cursor) -> Workload:
    shape = cursor.expect("{", "HISTOGRAM", "PREFIX", "CUBE")
    return _SHAPES[shape](cursor)


def _read_predicates(cursor: Cursor) -> Predicates:
    cursor.enter_parenthesis()
    parts = [read_predicate(cursor)]
    while cursor.take(","):
        parts.append(read_predicate(cursor))
    cursor.leave_parenthesis("}")
    return Predicates(tuple(parts))


def _read_ranges(cursor: Cursor, shape: Literal["histogram", "prefix"]) -> Ranges:
    cursor.expect("(")
    attribute = cursor.take_name("an attribute")
    bounds: list[Decimal] = []
    for what in ("lo", "hi", "width"):
        cursor.expect(",")
        bounds.append(cursor.take_number(what))
    cursor.expect(")")
    return Ranges(shape, attribute, *bounds)


def _read_histogram(cursor: Cursor) -> Ranges:
    return _read_ranges(cursor, "histogram")


def _read_prefix(cursor: Cursor) -> Ranges:
    return _read_ranges(cursor, "prefix")


def _read_cube(cursor: Cursor) -> Cube:
    cursor.expect("(")
    names = [cursor.take_name("an attribute")]
    while cursor.take(","):
        names.append(cursor.take_name("an attribute"))
    cursor.expect(")")
    return Cube(tuple(names))


_SHAPES: dict[str, Callable[[Cursor], Workload]] = {
    "{": _read_predicates,
    "HISTOGRAM": _read_histogram,
    "PREFIX": _read_prefix,
    "CUBE": _read_cube,
}
