"""Joins with public tables: their values are functions of the key, so no row counts more than once.

A query is compiled as if the public attributes were computed from the key. Rows whose key is missing from the public
table do not count, as in SQL's inner join. Private tables are not joined: see docs/decisions/joins.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from siloquent.errors import RequestError, UnknownName
from siloquent.explore.plan.rules import list_reading_rules
from siloquent.explore.spec.language.refusals import quote_name
from siloquent.explore.spec.predicate import And, Column, Compare, Through, Value
from siloquent.explore.spec.query import Query
from siloquent.explore.spec.rewriting.canonical import format_canonical
from siloquent.explore.spec.rewriting.name_resolution import replace_columns
from siloquent.schema import Attribute, ForeignKey, TableSchema
from siloquent.schema.public_tables.joined import join_public
from siloquent.schema.public_tables.loaded import PublicTable

_MET = Attribute("met", "boolean")


def find_public_table(query: Query, schema: TableSchema) -> PublicTable | None:
    """Find the public table that ``query`` joins; None if it joins none.

    Raises:
        RequestError: it is not public, is not declared by a foreign key, or is joined on another attribute.
    """
    join = query.join
    if join is None:
        return None
    for table in schema.public:
        if table.name == join.table and table.via is None and schema.domain[join.key].name == table.key:
            return table
    declared = [one for one in schema.constraints if isinstance(one, ForeignKey) and one.table == join.table]
    if declared and join.table in {table.name for table in schema.public}:
        raise RequestError(
            f"{schema.name!r} refers to {join.table!r} by {', '.join(declared[0].columns)}, not by {join.key!r}.",
            fix=f"USING ({', '.join(map(quote_name, declared[0].columns))})",
        )
    what = f'{{ kind = "foreign_key", columns = ["{join.key}"], references = "{join.table}({join.key})" }}'
    raise RequestError(
        f"{join.table!r} is not a public table that {schema.name!r} refers to. Only public tables are joined: after "
        "joining a private one, the rows that count would have to be bounded again.",
        fix=f"declare public/{join.table}.toml, and {what} among the constraints of {schema.name}",
    )


def check_joined(query: Query, schema: TableSchema) -> PublicTable | None:
    """Do the same as ``find_public_table``, and refuse sums, averages and quantiles of that table's own numbers.

    Raises:
        RequestError: as for ``find_public_table``; or a number of the public table is summed.
    """
    table = find_public_table(query, schema)
    pairs = [(aggregate, one) for one in find_joined(query, schema) for aggregate in query.bounded]
    for aggregate, joined in pairs:
        name = getattr(aggregate, "attribute", "")
        is_bare = name and getattr(aggregate, "computed", None) is None
        if is_bare and joined.column(name) is not None and not (query.publics and _is_declared(schema, name)):
            table = joined
            raise RequestError(
                f"{name!r} belongs to the public table {table.name!r}; sums, averages and quantiles are of numbers of "
                f"{schema.name!r}.",
                fix=f"group by {quote_name(name)}, or compare with it",
            )
    return table


def find_joined(query: Query, schema: TableSchema) -> list[PublicTable]:
    """Find the public tables that ``query`` joins, each by the attribute that leads to its rows.

    Raises:
        RequestError: as for ``find_public_table`` and ``join_public``.
    """
    if query.publics:
        return join_public(schema, query.publics)
    table = find_public_table(query, schema)
    return [] if table is None else [table]


def inline_join(query: Query, schema: TableSchema) -> Query:
    """Return ``query`` without its join: public attributes as functions of the key, rows without a match left out.

    Raises:
        RequestError: as for ``check_joined``. UnknownName: an attribute belongs to a public table that is not joined.
    """
    check_joined(query, schema)
    tables = find_joined(query, schema)
    if not tables:
        return replace_columns(query, _refuse_unjoined(schema)) if schema.public else query
    through = build_through(tables, schema)
    met = [Compare(Through(one.key, _MET, one.met), "=", Value(True)) for one in tables]
    inner = met[0] if len(met) == 1 else And(tuple(met))
    bare: Query = replace_columns(replace(query, join=None, publics=()), through)
    return replace(bare, where=inner if bare.where is None else And((inner, bare.where)))


def build_through(tables: Sequence[PublicTable], schema: TableSchema) -> Callable[[Column], Column | Through]:
    """Build a function that returns columns of public ``tables`` as functions of the attributes that lead to them."""

    def through(column: Column) -> Column | Through:
        for table in tables:
            found = table.column(column.name)
            if found is not None and (len(tables) == 1 or not _is_declared(schema, column.name)):
                return Through(table.key, found.attribute, found.places)
        return column

    return through


def _is_declared(schema: TableSchema, name: str) -> bool:
    return name.casefold() in (one.casefold() for one in schema.domain.names)


def _refuse_unjoined(schema: TableSchema) -> Callable[[Column], Column]:
    """Build a function that returns attributes unchanged and refuses those of a public table, with the missing join."""
    own = {name.casefold() for name in schema.domain.names}

    def same(column: Column) -> Column:
        for public in schema.public if column.name.casefold() not in own else ():
            if public.via is None and public.column(column.name) is not None:
                join = f"JOIN {quote_name(public.name)} USING ({quote_name(public.key)})"
                raise UnknownName(
                    "attribute",
                    column.name,
                    schema.domain.names,
                    fix=f"FROM {quote_name(schema.name)} {join}: it is an attribute of the public table {public.name}",
                )
        return column

    return same


def build_canonical_request(query: Query, schema: TableSchema) -> tuple[str, ...]:
    """Build the identity of ``query``: its text, the contents of a joined public table, and rules of evaluation."""
    return (*build_first_canonical_request(query, schema), *list_reading_rules(query, schema))


def build_first_canonical_request(query: Query, schema: TableSchema) -> tuple[str, ...]:
    """Build the identity of ``query`` used for keys before rules of evaluation had names."""
    return (format_canonical(query), *(one.digest for one in find_joined(query, schema)))
