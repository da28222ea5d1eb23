"""Joins with several public tables: what each is joined on, and the names of its columns in the question."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import compress
from operator import not_
from typing import TYPE_CHECKING

from siloquent.errors import RequestError
from siloquent.explore.spec import Query
from siloquent.explore.spec.language.marks import MARK
from siloquent.explore.spec.language.refusals import quote_name
from siloquent.explore.spec.language.select.views import join_conditions
from siloquent.explore.spec.predicate import Column, Compare, JoinedColumn
from siloquent.explore.spec.query import Join
from siloquent.explore.spec.rewriting.name_resolution import substitute_columns
from siloquent.schema.linked.joins import name_relation
from siloquent.schema.public_tables.joined import PublicJoin, join_public
from siloquent.schema.table import PLUS, TableSchema

if TYPE_CHECKING:
    from siloquent.session import WorkspaceSession

Pair = tuple[JoinedColumn, JoinedColumn]


def bind_public(session: WorkspaceSession, query: Query, *, may_see: Callable[[str], bool]) -> Query:
    """Return ``query`` with the public tables that it joins apart from the private ones.

    Raises:
        RequestError: a table is not public, or is not joined on its key; a public table's number is summed by itself.
    """
    if not any(MARK in one for one in query.joins):
        return query
    names = {one.casefold(): one for one in session.list_tables() if may_see(one)}
    called = [one.partition(MARK)[::2] for one in query.joins]
    private = [one for one in (query.table, *(table for table, _ in called)) if PLUS in one or one.casefold() in names]
    private = list(dict.fromkeys(private))
    instances = [(table, name) for table, name in called if name and table not in private]
    if not private:
        raise RequestError(f"{query.table!r} is not a private table.", fix="name the private table first")
    tables = [session.schema(names.get(one.casefold(), one)) for one in private]
    schema = tables[0] if len(tables) == 1 else session.schema(name_relation(tables))
    mark = _Marks(schema, tables, instances)
    pairs = tuple((mark.tell(own), mark.tell(other)) for own, other in query.on)
    joins, left = _tie(schema, pairs, instances)
    names_of = _Names(schema, joins)
    marked: Query = substitute_columns(replace(query, joins=(), on=()), mark.change)
    bare: Query = substitute_columns(marked, names_of.change)
    if bare.per_unit is not None:
        raise RequestError(
            "A subquery by person takes no public table.", fix="leave the public table out, or ask about rows"
        )
    is_link = [len(private) > 1 and MARK not in own.name + other.name for own, other in left]
    on = tuple(compress(left, is_link))
    where = bare.where
    for own, other in compress(left, map(not_, is_link)):
        equal = Compare(Column(names_of.resolve(own.name)), "=", Column(names_of.resolve(other.name)))
        where = join_conditions(where, equal)
    found = replace(bare, table=private[0], joins=tuple(private[1:]), on=on, where=where)
    if len(joins) == 1 and joins[0].own.casefold() == joins[0].key.casefold():  # one meaning, one form
        return replace(found, join=Join(joins[0].table, schema.domain[joins[0].own].name))
    return replace(found, publics=tuple(joins))


class _Marks:
    """The columns that belong to one public table only, which need no table's name in front of theirs."""

    def __init__(
        self, schema: TableSchema, tables: Sequence[TableSchema], instances: Sequence[tuple[str, str]]
    ) -> None:
        own = {name.casefold() for one in (schema, *tables) for name in one.domain.names}
        self._instances = {name.casefold() for _, name in instances}
        self._owners: dict[str, list[str]] = {}
        for table, name in instances:
            for column in _list_names(schema, table) - own:
                self._owners.setdefault(column, []).append(name)

    def tell(self, column: JoinedColumn) -> JoinedColumn:
        """Return ``column`` with its public table in front; that of a private table by its own name."""
        before, _, name = column.name.rpartition(MARK)
        if before.casefold() in self._instances:
            return column
        return replace(column, name=self._mark(name))

    def change(self, column: Column) -> Column:
        """Do the same for a column of a condition or of an aggregate."""
        return column if MARK in column.name else Column(self._mark(column.name))

    def _mark(self, name: str) -> str:
        owners = self._owners.get(name.casefold(), [])
        return f"{owners[0]}{MARK}{name}" if len(owners) == 1 else name


def _list_names(schema: TableSchema, table: str) -> set[str]:
    """List the names of the columns of a public table, in lower case."""
    found = next((one for one in schema.public if one.name.casefold() == table.casefold()), None)
    return (
        set()
        if found is None
        else {found.own_key.casefold(), *(one.attribute.name.casefold() for one in found.columns)}
    )


class _Names:
    """The names of columns in a question, by those that they have with their tables in front."""

    def __init__(self, schema: TableSchema, joins: Sequence[PublicJoin]) -> None:
        found = join_public(schema, joins)
        self._named = {one.name.casefold(): (one, table) for one, table in zip(joins, found, strict=True)}

    def resolve(self, name: str) -> str:
        before, _, column = name.rpartition(MARK)
        if before.casefold() not in self._named:
            return column
        join, table = self._named[before.casefold()]
        if column.casefold() in (join.key.casefold(), table.own_key.casefold()):
            return join.own
        known = table.column(f"{join.name}.{column}") or table.column(column)
        return column if known is None else known.attribute.name

    def change(self, column: Column) -> Column:
        return Column(self.resolve(column.name)) if MARK in column.name else column


def _find_key(schema: TableSchema, table: str) -> str:
    return next((one.key for one in schema.public if one.name.casefold() == table.casefold()), "")


def _find_own_key(schema: TableSchema, table: str) -> str:
    return next((one.own_key or one.key for one in schema.public if one.name.casefold() == table.casefold()), "")


def _tie(
    schema: TableSchema, pairs: Sequence[Pair], instances: Sequence[tuple[str, str]]
) -> tuple[list[PublicJoin], list[Pair]]:
    """Find the pair that joins each public table on its key; return the joins in order, and the pairs that are left."""
    left, waiting, found = list(pairs), list(instances), list[PublicJoin]()
    while waiting:
        before = len(waiting)
        for table, name in list(waiting):
            key, own_key = _find_key(schema, table), _find_own_key(schema, table)
            if not key:
                join_public(schema, [PublicJoin(table, name, key, "")])  # refuses it
            for pair in left:
                own = _find_own(pair, name, {key.casefold(), own_key.casefold()}, [one for _, one in waiting])
                if own is not None:
                    found.append(PublicJoin(_find_name(schema, table), name, key, _Names(schema, found).resolve(own)))
                    left.remove(pair)
                    waiting.remove((table, name))
                    break
        if len(waiting) == before:
            table, name = waiting[0]
            key = quote_name(_find_own_key(schema, table))
            raise RequestError(
                f"The public table {table!r} is joined on its key {key}.",
                fix=f"JOIN {quote_name(table)} ON {quote_name(name)}.{key} = ...",
            )
    return found, left


def _find_name(schema: TableSchema, table: str) -> str:
    return next(one.name for one in schema.public if one.name.casefold() == table.casefold())


def _find_own(pair: Pair, name: str, keys: set[str], waiting: Sequence[str]) -> str | None:
    """Return the side of ``pair`` that a key of the public table ``name`` is equal to, if it is known by now."""
    first, last = (one.name for one in pair)
    for one, other in ((first, last), (last, first)):
        before, _, column = one.rpartition(MARK)
        is_key = column.casefold() in keys
        if is_key and before.casefold() == name.casefold():
            source = other.rpartition(MARK)[0].casefold()
            return None if source in [each.casefold() for each in waiting] else other
        if is_key and not before and first.casefold() == last.casefold():  # USING
            return other
    return None
