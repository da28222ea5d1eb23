"""Joins of linked tables: the question is about their relation, whose rows are those of the table furthest out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from siloquent.errors import RequestError, SiloquentError
from siloquent.explore.outer_joins import bind_outer
from siloquent.explore.plan.computed.inlining import replace_aggregate
from siloquent.explore.plan.relations.public_joins import check_joined
from siloquent.explore.plan.relations.related import names_unit
from siloquent.explore.public_tables import bind_public
from siloquent.explore.related_rows import bind_related
from siloquent.explore.spec import Query
from siloquent.explore.spec.aggregates import Distinct, name_column
from siloquent.explore.spec.language.refusals import quote_name
from siloquent.explore.spec.language.render import render_offer
from siloquent.explore.spec.language.select.views import join_conditions
from siloquent.explore.spec.predicate import Column, Compare, JoinedColumn
from siloquent.explore.spec.promises import Accuracy
from siloquent.explore.spec.query import EVERY_ROW
from siloquent.explore.spec.rewriting.name_resolution import list_names
from siloquent.fixes import AskWith, build_fix
from siloquent.schema.linked.joins import list_ambiguous, list_pairs, name_relation
from siloquent.schema.table import PLUS, TableSchema

if TYPE_CHECKING:
    from siloquent.session import WorkspaceSession


def list_linked_tables(session: WorkspaceSession, may_see: Callable[[str], bool]) -> list[str]:
    """Return the tables that share a unit with others, as far as the analyst may know of them."""
    if not (session.workspace.folder / "units").is_dir():
        return []
    found = []
    for name in session.list_tables():
        with suppress(SiloquentError):  # a table that cannot be read is told where it is asked for
            if may_see(name) and session.schema(name).unit.kind == "shared":
                found.append(name)
    return found


def bind_joins(session: WorkspaceSession, query: Query, *, may_see: Callable[[str], bool] = lambda _: True) -> Query:
    """Return ``query`` about the relation of the linked tables that it joins.

    Args:
        may_see: Whether the analyst may learn that a table exists; others are refused like tables that do not.
    Raises:
        RequestError: the tables are not linked, the columns that it compares are not those of their links, or a name
            belongs to several tables. UnknownName, SchemaError: as for ``session.schema``.
    """
    query = bind_public(session, query, may_see=may_see)
    return bind_related(session, _bind_linked(session, query, may_see), may_see=may_see)


def _bind_linked(session: WorkspaceSession, query: Query, may_see: Callable[[str], bool]) -> Query:
    query = _read_plain_join(session, query, may_see)
    if not query.joins:
        return query
    names = {name.casefold(): name for name in session.list_tables()}
    if query.is_outer:
        two = [session.schema(names.get(one.casefold(), one)) for one in (query.table, query.joins[0])]
        query = bind_outer(query, *two, keys=_list_keys(session, two[1].name, may_see))
        if not query.joins:
            return query
    tables = [session.schema(names.get(one.casefold(), one)) for one in (query.table, *query.joins)]
    try:
        relation = session.schema(name_relation(tables))
    except RequestError as refused:
        if not all(may_see(one.name) for table in tables for one in table.ancestors):  # named by what leads to the unit
            told = f"{' and '.join(repr(one.name) for one in tables)} are not linked directly."
            raise RequestError(told, fix=_suggest(query, "")) from None
        refused.remedy = build_fix(_suggest(query, str(refused.fix)))
        raise
    left = _leave_keys_out(query, relation)
    if left is None:
        raise _build_refusal(query, relation)
    rows = query.where if query.per_unit is None else query.per_unit.where
    for own, other in left:
        rows = join_conditions(rows, Compare(Column(own.name), "=", Column(other.name)))
    bound = replace(_count_own_units(query, relation), table=relation.name, joins=(), on=())
    if query.per_unit is None:
        bound = replace(bound, where=rows)
    else:
        bound = replace(bound, per_unit=replace(query.per_unit, where=rows))
    _require_clear_names(bound, tables, relation)
    return bound


def _list_keys(session: WorkspaceSession, table: str, may_see: Callable[[str], bool]) -> set[str]:
    """List the columns of ``table`` in which another table that the analyst may know of refers to its rows."""
    links = [session.schema(name).link for name in list_linked_tables(session, may_see)]
    return {other for link in links if link is not None and link.parent.name == table for _, other in link.on}


def _read_plain_join(session: WorkspaceSession, query: Query, may_see: Callable[[str], bool]) -> Query:
    """Return ``query`` with its join on one key as one of linked tables, if both are linked."""
    join = query.join
    if join is None:
        return query
    if not may_see(join.table):  # whether it is there or not, unless it is public
        if query.table in session.list_tables():
            check_joined(query, session.schema(query.table))
        return query
    if not {query.table, join.table} <= {*list_linked_tables(session, may_see)}:
        return query
    return replace(query, join=None, joins=(join.table,), on=((JoinedColumn(join.key), JoinedColumn(join.key)),))


def _suggest(query: Query, way: str) -> AskWith:
    """Return ``query`` with the joins that ``way`` says, if it says any; else the number of its first table's rows."""
    if way.startswith("FROM "):
        asked = render_offer(replace(query, joins=(), on=()))
        return AskWith(asked.replace(f"FROM {quote_name(query.table)}", way, 1), way)
    promise = query.promise
    if isinstance(promise, Accuracy):
        promise = replace(promise, more=(), at_least=None)
    return AskWith(render_offer(Query(query.table, EVERY_ROW, promise)), f"the rows of {quote_name(query.table)} alone")


def _count_own_units(query: Query, relation: TableSchema) -> Query:
    """Return ``query`` with units that are counted by a joined table's column counted by the one of the rows' own."""
    if query.per_unit is not None:
        return query
    items = query.items
    for one in dict.fromkeys(query.bounded):
        if not isinstance(one, Distinct) or one.attribute.casefold() == relation.unit.column.casefold():
            continue
        if names_unit(one.attribute, relation):
            query = replace_aggregate(query, one, replace(one, attribute=relation.unit.column))
    if query.items == items or not query.shows_values:
        return query
    names = [item.alias or name_column(item.aggregate) for item in items]
    others = tuple(replace(one, alias=name) for one, name in zip(query.others, names[1:], strict=True))
    return replace(query, alias=names[0], others=others)


def _leave_keys_out(query: Query, relation: TableSchema) -> list[tuple[JoinedColumn, JoinedColumn]] | None:
    """Return the equalities of ``query`` that are not those of the links of ``relation``; None if one of these lacks.

    Tables may name their keys alike: each link needs an equality of its own, and those that name their tables come
    first.
    """
    left = sorted(query.on, key=lambda pair: -sum(bool(one.table) for one in pair))
    keys = [
        (JoinedColumn(own, table), JoinedColumn(other, parent.partition(PLUS)[0]))
        for table, parent, on in list_pairs(relation)
        for own, other in on
    ]
    for key in keys:
        found = next((place for place, pair in enumerate(left) if _is_same(pair, key)), None)
        if found is None:
            return None
        del left[found]
    return [pair for pair in left if not any(_is_same(pair, key) for key in keys)]


def _is_same(pair: tuple[JoinedColumn, JoinedColumn], key: tuple[JoinedColumn, JoinedColumn]) -> bool:
    """Return whether ``pair`` says the equality ``key``, either way round."""
    return any(all(map(_may_be, sides, key)) for sides in (pair, pair[::-1]))


def _may_be(one: JoinedColumn, column: JoinedColumn) -> bool:
    return one.name.casefold() == column.name.casefold() and one.table.casefold() in ("", column.table.casefold())


def _build_refusal(query: Query, relation: TableSchema) -> RequestError:
    """Build the refusal of joins on other columns than those of the links, with the joins as declared."""
    joined, told = "", []
    for table, parent, on in list_pairs(relation):
        name = quote_name(parent.partition(PLUS)[0])
        pairs = [f"{quote_name(table)}.{quote_name(own)} = {name}.{quote_name(other)}" for own, other in on]
        joined += f" JOIN {name} ON {' AND '.join(pairs)}"
        told += pairs
    asked = render_offer(replace(query, table=relation.name, joins=(), on=()))
    base = quote_name(relation.name.partition(PLUS)[0])
    return RequestError(
        f"These tables are joined where {' and '.join(told)}, as their links say.",
        fix=AskWith(asked.replace(f'FROM "{relation.name}"', f"FROM {base}{joined}", 1)),
    )


def _require_clear_names(query: Query, tables: Sequence[TableSchema], relation: TableSchema) -> None:
    """Refuse a name that several of the tables have, unless it is that of a key in which they are equal."""
    several = list_ambiguous(tables, relation)
    for name in sorted(list_names(query)):
        if name in several:
            first, *others = several[name]
            raise RequestError(
                f"{name!r} is a column of {first} and of {' and of '.join(others)}: which one is meant is not clear.",
                fix=f"ask only about {first}, or give it another name in schemas/{others[0]}.toml and its source",
            )
