"""Joins of a linked table with the tables that it refers to, as one relation: their columns become columns of its rows.

A relation of ``l`` with ``o`` and ``cu`` is named ``l+o+cu``. Proof: docs/explanation/linked-units.md.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace

from siloquent.errors import RequestError
from siloquent.schema.domain import Domain
from siloquent.schema.formats.reading import Reading
from siloquent.schema.formats.value_formats import PLAIN_FORMAT
from siloquent.schema.public_tables.loaded import PublicTable
from siloquent.schema.table import PLUS, Link, TableSchema


def name_relation(tables: Sequence[TableSchema]) -> str:
    """Return the name of the relation of ``tables``: the one whose rows count first, then those joined to it.

    Raises:
        RequestError: they are not linked, or several rows of one unit may be in two of them.
    """
    base = find_base(tables)
    return PLUS.join((base.name, *sorted(one.name for one in tables if one is not base)))


def find_base(tables: Sequence[TableSchema]) -> TableSchema:
    """Return the table whose rows count in a join of ``tables``: the one furthest from the unit.

    Raises:
        RequestError: two of them are the same, or are about different units.
    """
    _require_linked(tables)
    return max(tables, key=lambda one: (len(one.ancestors), one.unit.max_rows))


def _require_linked(tables: Sequence[TableSchema]) -> None:
    """Refuse tables of several units, only one of which would be charged, and a table that is there twice."""
    names = [one.name for one in tables]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise RequestError(
            f"{twice!r} is joined with itself: a person's rows are joined with those of other tables only.",
            fix="ask about its groups, and compare these",
        )
    if len({one.account for one in tables}) > 1 or tables[0].unit.kind != "shared":
        raise RequestError(
            f"{', '.join(names[:-1])} and {names[-1]} are not linked to one unit.",
            fix=f"declare units/{tables[0].unit.of or 'NAME'}.toml, and how the rows of each find it",
        )


def join_tables(base: TableSchema, others: Sequence[TableSchema]) -> TableSchema:
    """Return the rows of ``base``, each with the columns of the rows of ``others`` that it refers to.

    Columns that two tables have are those of the nearer one; see ``list_ambiguous``.

    Raises:
        RequestError: they are of several units, or ``base`` does not refer to one of them, directly or through others.
    """
    _require_linked([base, *others])
    name = PLUS.join((base.name, *sorted(one.name for one in others)))
    joined = _join(base, {one.name: one for one in others})
    digest = hashlib.sha256(json.dumps([name, base.digest, *(one.digest for one in others)]).encode()).hexdigest()
    return replace(joined, name=name, digest=digest, public=_list_public(joined, [base, *others]))


def _list_public(joined: TableSchema, tables: Sequence[TableSchema]) -> tuple[PublicTable, ...]:
    """List the public tables that ``tables`` refer to by attributes of ``joined``, each once."""
    owners = _find_owners(joined)
    found = {
        one.name: one
        for table in tables
        for one in sorted(table.public, key=lambda one: one.via is None)
        if one.via is not None or owners.get(one.key.casefold()) == table.name
    }
    return tuple(found.values())


def _find_owners(joined: TableSchema) -> dict[str, str]:
    """Find the table that each column of ``joined`` is of, by the column's name in lower case."""
    owners: dict[str, str] = {}
    table: TableSchema | None = joined
    while table is not None:
        link = table.link
        added = () if link is None or link.columns is None else link.columns
        theirs = {one.casefold() for one in added}
        for one in table.domain.names:
            if one.casefold() not in theirs:
                owners.setdefault(one.casefold(), table.name.partition(PLUS)[0])
        table = link.parent if link is not None and link.columns is not None else None
    return owners


def _join(base: TableSchema, others: dict[str, TableSchema]) -> TableSchema:
    if not others:
        return base
    link = base.link
    if link is not None and link.parent.name in others:
        rest = {name: one for name, one in others.items() if name != link.parent.name}
        parent = _join(link.parent, rest)
        return _add_columns(base, Link(parent, link.on, _list_added(base, parent)))
    other, *more = others.values()
    if link is not None or more or other.link is not None or other.unit.max_rows > 1:
        raise _build_unlinked(base, other)
    same = ((base.unit.column, other.unit.column),)
    return _add_columns(base, Link(other, same, _list_added(base, other), owns=False))


def _build_unlinked(base: TableSchema, other: TableSchema) -> RequestError:
    if base.link is not None:
        return RequestError(
            f"{base.name!r} refers to {base.link.parent.name!r}, and not to {other.name!r} directly.",
            fix=f"FROM {base.name}{_describe_way(base, other)}",
        )
    if other.link is not None or other.unit.max_rows > 1:
        return RequestError(
            f"One {other.unit.of} may have several rows of {base.name!r} and of {other.name!r}: their pairs are not "
            "joined.",
            fix=f"ask about {base.name} and about {other.name}",
        )
    return RequestError(
        f"{base.name!r} is joined with one table of its {other.unit.of} at a time.", fix=f"leave {other.name} out"
    )


def _describe_way(base: TableSchema, other: TableSchema) -> str:
    """Return the joins that lead from ``base`` to ``other``, as far as its links do."""
    way = ""
    while base.link is not None and base.name != other.name:
        parent = base.link.parent
        way += f" JOIN {parent.name} ON {' AND '.join(f'{base.name}.{a} = {parent.name}.{b}' for a, b in base.link.on)}"
        base = parent
    if base.name != other.name and other.link is None:
        way += f" JOIN {other.name} ON {base.name}.{base.unit.column} = {other.name}.{other.unit.column}"
    return way


def _list_added(base: TableSchema, parent: TableSchema) -> tuple[str, ...]:
    """Return the parent's attributes that ``base`` does not have: by their names and those that they derive from."""
    taken = {one.name.casefold() for one in base.domain} | {base.unit.column.casefold()}
    if parent.link is not None and parent.link.owns:
        taken.add(parent.unit.column.casefold())
    return tuple(
        one.name
        for one in parent.domain
        if one.name.casefold() not in taken and not (one.function and one.argument.casefold() in taken)
    )


def _add_columns(base: TableSchema, link: Link) -> TableSchema:
    assert link.columns is not None
    added = tuple(link.parent.domain[name] for name in link.columns)
    # The parent's engine gives their values as every source has them.
    formats = tuple((one.name, PLAIN_FORMAT) for one in added if not one.function)
    reading = base.reading if base.reading.values == PLAIN_FORMAT else _add_formats(base.reading, formats)
    return replace(base, domain=Domain((*base.domain, *added)), link=link, reading=reading)


def _add_formats(reading: Reading, formats: tuple[tuple[str, object], ...]) -> Reading:
    return replace(reading, columns=(*reading.columns, *formats))  # type: ignore[arg-type]


def list_pairs(relation: TableSchema) -> list[tuple[str, str, tuple[tuple[str, str], ...]]]:
    """Return the joins of ``relation``: each table, the one that its rows refer to, and the columns that are equal."""
    found = []
    while relation.link is not None and relation.link.columns is not None:
        parent = relation.link.parent
        found.append((relation.name.partition(PLUS)[0], parent.name, relation.link.on))
        relation = parent
    return found


def list_ambiguous(tables: Sequence[TableSchema], relation: TableSchema) -> dict[str, list[str]]:
    """Return the names that several tables have, in lower case, with these tables; without keys that are equal."""
    pairs = [pair for _, _, on in list_pairs(relation) for pair in on]
    equal = {own.casefold() for own, other in pairs if own.casefold() == other.casefold()}
    owners: dict[str, list[str]] = {}
    units: set[str] = set()
    for table in tables:
        for one in table.domain:
            if one.name == table.unit.column:  # the same in all of them, as rows are joined within a unit
                units.add(one.name.casefold())
                if table.link is not None:
                    continue
            owners.setdefault(one.name.casefold(), []).append(table.name)
    several = {name: found for name, found in owners.items() if len(found) > 1 and name not in equal}
    hidden = {
        one.name.casefold(): [relation.name.partition(PLUS)[0], table.name]
        for table in tables
        for one in table.domain
        if one.name.casefold() in units and one.name != table.unit.column
    }
    return hidden | several
