"""Several public tables joined to a private one: each as a function of an attribute of the private table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from siloquent.errors import RequestError
from siloquent.schema.attribute import Attribute
from siloquent.schema.public_tables.loaded import PublicColumn, PublicTable
from siloquent.schema.table import TableSchema

_COMPARED = ("category", "integer", "boolean", "date")


@dataclass(frozen=True, slots=True)
class PublicJoin:
    """A join of the public ``table``, called ``name``, whose ``key`` is equal to ``own``: a column of the others."""

    table: str
    name: str
    key: str
    own: str


def join_public(schema: TableSchema, joins: Sequence[PublicJoin]) -> list[PublicTable]:
    """Return the public tables of ``joins``, each by the attribute of ``schema`` that leads to its rows.

    A column that no other table has keeps its name; others are called ``name.column``.

    Raises:
        RequestError: a table is not one that ``schema`` refers to, or is joined on a column that has other values than
            its key.
    """
    place = (id(schema.public), schema.domain.names, tuple(joins))
    known = _kept.get(place)
    if known is not None and known[0] is schema.public:
        return list(known[1])
    found = _join(schema, joins)
    while len(_kept) >= _MOST_KEPT:
        _kept.pop(next(iter(_kept)), None)
    _kept[place] = (schema.public, tuple(found))
    return found


_MOST_KEPT = 32
_kept: dict[object, tuple[object, tuple[PublicTable, ...]]] = {}
"""The joins of public tables of the newest questions: a key may have 10^6 values, and each question joins several
times."""


def _join(schema: TableSchema, joins: Sequence[PublicJoin]) -> list[PublicTable]:
    loaded = [_find(schema, one) for one in joins]
    taken = [name.casefold() for name in schema.domain.names]
    taken += [column.attribute.name.casefold() for one in loaded for column in one.columns]
    found: list[PublicTable] = []
    for join, table in zip(joins, loaded, strict=True):
        root, places = _lead(schema, join, table, found)
        known = [place >= 0 and table.known[place] for place in places]
        columns = []
        for column in table.columns:
            name = column.attribute.name
            shown = name if taken.count(name.casefold()) == 1 else f"{join.name}.{name}"
            reached = tuple(column.places[place] if place >= 0 else -1 for place in places)
            columns.append(PublicColumn(replace(column.attribute, name=shown), reached))
        found.append(PublicTable(join.name, root, tuple(known), tuple(columns), table.own_key or table.key))
    return found


def _find(schema: TableSchema, join: PublicJoin) -> PublicTable:
    table = next((one for one in schema.public if one.name.casefold() == join.table.casefold()), None)
    if table is None:
        raise RequestError(
            f"{join.table!r} is not a public table that {schema.name!r} refers to.",
            fix=f"declare public/{join.table}.toml, and a foreign_key among the constraints",
        )
    return table


def _lead(
    schema: TableSchema, join: PublicJoin, table: PublicTable, found: Sequence[PublicTable]
) -> tuple[str, list[int]]:
    """Return the private attribute that leads to the rows of ``table``, and the key's cell for each of its cells."""
    key = table.via or schema.domain[table.key]
    for one in found:
        column = one.column(join.own)
        if column is not None:
            cells = _match(column.attribute, key, join)
            return one.key, [cells[place] if place >= 0 else -1 for place in column.places]
    own = schema.domain[join.own]
    return own.name, list(range(own.size)) if own is key else _match(own, key, join)


def _match(own: Attribute, key: Attribute, join: PublicJoin) -> list[int]:
    """Return the key's cell for each cell of ``own``: that of the same value.

    Raises:
        RequestError: a value is not one of the key's.
    """
    if own.kind == key.kind and own.kind in _COMPARED:
        cells = [key.index(own.label(place)) for place in np.arange(own.steps).tolist()]
        if all(0 <= cell < key.steps for cell in cells):
            return [*cells, *([-1] * (own.size - own.steps))]
    raise RequestError(
        f"{own.name!r} has other values than {key.name!r}, by which the public table {join.table!r} is known.",
        fix=f"declare a foreign_key of {own.name!r} to {join.table}",
    )
