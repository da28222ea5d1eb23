"""Joins with public tables: their values are functions of the key, so no row counts more than once.

A query is compiled as if the public attributes were computed from the key. Rows whose key is missing from the public
table do not count, as in SQL's inner join. Private tables are not joined: see docs/decisions/joins.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from siloquent.errors import RequestError, UnknownName
from siloquent.explore.plan.rules import list_reading_rules
from siloquent.explore.spec.canonical import format_canonical
from siloquent.explore.spec.language.refusals import quote_name
from siloquent.explore.spec.name_resolution import replace_columns
from siloquent.explore.spec.predicate import And, Column, Compare, Through, Value
from siloquent.explore.spec.query import Query
from siloquent.schema import Attribute, ForeignKey, TableSchema
from siloquent.schema.public_table import PublicTable

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
        if table.name == join.table and schema.domain[join.key].name == table.key:
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
    for aggregate in query.bounded if table is not None else ():
        name = getattr(aggregate, "attribute", "")
        if name and table and table.column(name) is not None:
            raise RequestError(
                f"{name!r} belongs to the public table {table.name!r}; sums, averages and quantiles are of numbers of "
                f"{schema.name!r}.",
                fix=f"group by {quote_name(name)}, or compare with it",
            )
    return table


def inline_join(query: Query, schema: TableSchema) -> Query:
    """Return ``query`` without its join: public attributes as functions of the key, rows without a match left out.

    Raises:
        RequestError: as for ``check_joined``. UnknownName: an attribute belongs to a public table that is not joined.
    """
    table = check_joined(query, schema)
    if table is None:
        return replace_columns(query, _refuse_unjoined(schema)) if schema.public else query

    def through(column: Column) -> Column | Through:
        found = table.column(column.name)
        if found is None:
            return column
        return Through(table.key, found.attribute, found.places)

    met = Through(table.key, _MET, tuple(1 if known else -1 for known in table.known))
    inner = Compare(met, "=", Value(True))
    bare: Query = replace_columns(replace(query, join=None), through)
    return replace(bare, where=inner if bare.where is None else And((inner, bare.where)))


def _refuse_unjoined(schema: TableSchema) -> Callable[[Column], Column]:
    """Build a function that returns attributes unchanged and refuses those of a public table, with the missing join."""
    own = {name.casefold() for name in schema.domain.names}

    def same(column: Column) -> Column:
        for public in schema.public if column.name.casefold() not in own else ():
            if public.column(column.name) is not None:
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
    public = find_public_table(query, schema)
    return (format_canonical(query),) if public is None else (format_canonical(query), public.digest)
