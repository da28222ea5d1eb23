"""The rows of a linked table, each with its owner: joined with the table that it is linked through.

The parent's engine gives its keys with their owners; the child's engine joins them with its own rows. A key that
several owners claim gives its rows to each of them once, and a row without an owner keeps NULL, so that it never
counts. Proof: docs/explanation/linked-units.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from siloquent.data.column_mapping import map_columns
from siloquent.data.engines.base import IN_PART, OWN_ROWS, OWNERS, SOURCE
from siloquent.data.sql.formats import drop_missing, is_rewritten, select_rewritten
from siloquent.data.sql.indices import SourceColumn, build_case, cast_to_text, quote_name, read_column, try_cast
from siloquent.schema import Domain, TableSchema, Unit

if TYPE_CHECKING:
    import pyarrow as pa

    from siloquent.data.engines.base import Engine
    from siloquent.data.engines.duckdb import DuckDBEngine
    from siloquent.schema.table import Link

_OWNER, _OWN = "owner", "own"
_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")
_EXACT = 2**53
"""Doubles hold whole numbers exactly up to here."""


@dataclass(frozen=True, slots=True, eq=False)
class OwnerStream:
    """A parent's keys with their owners and columns, read anew from its engine each time."""

    engine: Engine
    query: exp.Query
    schema: pa.Schema

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return a new Arrow stream of all of them."""
        import pyarrow as pa

        batches = (batch.cast(self.schema) for batch in self.engine.read_batches(self.query))
        return pa.RecordBatchReader.from_batches(self.schema, batches).__arrow_c_stream__(requested_schema)


@dataclass(frozen=True, slots=True, eq=False)
class LinkedRows:
    """The join of a linked table's own rows with their owners, for the engine that holds these rows.

    ``parent``: an engine opened on the table that it is linked through; it is closed with the child's.
    """

    schema: TableSchema
    parent: DuckDBEngine

    def build_view(self, columns: Mapping[str, str]) -> tuple[exp.Query, OwnerStream]:
        """Build the rows with their owners as a query over ``OWN_ROWS`` and ``OWNERS``, and the latter relation.

        In a relation that a question joins, rows have the parent's columns as well, and are left out without a parent.

        Args:
            columns: The columns of the table's own rows with DuckDB's names of their types.
        Raises:
            SchemaError, UnknownName: as for ``map_columns``.
        """
        link = self.schema.link
        assert link is not None
        theirs = self.parent.list_columns()
        own = {one.attribute.name: one for one in map_columns(leave_parent_out(self.schema), columns)}
        others = {one.attribute.name: one for one in map_columns(link.parent, theirs)}
        pairs = [(own[child], others[parent]) for child, parent in link.on]
        whole = [is_whole_type(columns[child.source]) and is_whole_type(theirs[other.source]) for child, other in pairs]
        parent_keys = [
            (_name_key(place), other, is_whole)
            for place, ((_, other), is_whole) in enumerate(zip(pairs, whole, strict=True))
        ]
        owner = others[link.parent.unit.column]
        if link.owns:
            parent_keys.append((_OWNER, owner, is_whole_type(theirs[owner.source])))
        added = _list_stored(link, others)
        query = _select_parent(parent_keys, added, keeps_all=link.columns is not None)
        stream = OwnerStream(self.parent, query, self.parent.describe(query))
        shown = [(_name_added(name), name) for name in added]
        shown += [(_OWNER, self.schema.unit.column)] if link.owns else []

        taken = {name.casefold() for _, name in shown}
        kept = [column for column in columns if column.casefold() not in taken]
        own_keys = _name_own_keys(len(pairs), columns)
        keys = [
            _name(drop_missing(child, build_key(read_column(child), child, is_whole)), name)
            for (child, _), is_whole, name in zip(pairs, whole, own_keys, strict=True)
        ]
        rows = exp.select(*map(quote_name, kept), *keys).from_(exp.to_table(OWN_ROWS)).subquery(_OWN)
        same = [
            exp.EQ(this=quote_name(name, _OWN), expression=quote_name(_name_key(place), OWNERS))
            for place, name in enumerate(own_keys)
        ]
        joined = exp.select(
            *(quote_name(column, _OWN) for column in kept),
            *(_name(quote_name(name, OWNERS), shown_as) for name, shown_as in shown),
        ).from_(rows)
        kind = "LEFT" if link.columns is None else "INNER"
        return joined.join(exp.to_table(OWNERS), on=exp.and_(*same), join_type=kind), stream

    def is_current(self) -> bool:
        """Return whether the sources of all tables on the way to the unit are still those that were opened."""
        return self.parent.is_current()

    def compute_digest(self, own: bytes) -> bytes:
        """Return a digest of a table's own rows, whose digest is ``own``, and of those that it is linked through."""
        return hashlib.sha256(own + self.parent.compute_digest()).digest()

    def close(self) -> None:
        """Close the parent's engine."""
        self.parent.close()


def count_keys_of_several(engine: Engine, keys: int) -> int:
    """Count the keys of ``keys`` columns that several owners have, in the parent of the table of ``engine``."""
    names = [quote_name(_name_key(place)) for place in range(keys)]
    several = exp.GT(this=exp.Count(this=exp.Star()), expression=exp.Literal.number(1))
    grouped = exp.select(*names).from_(exp.to_table(OWNERS)).group_by(*names).having(several)
    counted = exp.select(exp.alias_(exp.Count(this=exp.Star()), "n")).from_(grouped.subquery("grouped"))
    return int(engine.aggregate(counted).column("n")[0].as_py())


def leave_parent_out(schema: TableSchema) -> TableSchema:
    """Return a linked table as its own rows have it: without the attributes that come from its parent."""
    link = schema.link
    assert link is not None
    theirs = {*(link.columns or ()), *([schema.unit.column] if link.owns else [])}
    own = Domain(tuple(one for one in schema.domain if one.name not in theirs))
    return replace(schema, name=schema.name.partition("+")[0], domain=own, unit=Unit(), link=None, constraints=())


def _list_stored(link: Link, others: Mapping[str, SourceColumn]) -> dict[str, SourceColumn]:
    """Return the stored columns of the parent that the joined attributes are read from, by their attributes' names."""
    names = [link.parent.domain[name] for name in link.columns or ()]
    return {stored: others[stored] for one in names if (stored := one.argument if one.function else one.name)}


def _select_parent(
    keys: Sequence[tuple[str, SourceColumn, bool]], added: Mapping[str, SourceColumn], *, keeps_all: bool
) -> exp.Query:
    """Return the parent's keys with their owners, and its ``added`` columns as every source has them.

    Without columns the pairs are distinct: an owner who has a key twice there owns a child's row once. With them each
    row is there, as in SQL's join.

    Args:
        keys: The names, columns and kinds of keys and of the owner: whether they are compared as whole numbers.
    """
    columns = [*dict.fromkeys((*(column for _, column, _ in keys), *added.values()))]
    stored: exp.Expr = exp.to_table(SOURCE)
    if any(is_rewritten(column) for column in columns):
        stored = select_rewritten(columns, raw=False).subquery("rewritten")
    shown = [_name(build_key(read_column(column), column, is_whole), name) for name, column, is_whole in keys]
    shown += [_name(quote_name(column.source), _name_added(name)) for name, column in added.items()]
    rows = exp.select(*shown).from_(stored)
    known: list[exp.Expr] = [exp.not_(exp.Is(this=quote_name(name), expression=exp.Null())) for name, _, _ in keys]
    if keys[-1][0] == _OWNER:
        known.append(exp.Anonymous(this=IN_PART, expressions=[quote_name(_OWNER)]))
    query = exp.select("*").from_(rows.subquery("keys")).where(*known)
    return query if keeps_all else query.distinct()


def build_key(value: exp.Expr, column: SourceColumn, is_whole: bool) -> exp.Expr:
    """Return a key as read so that equal keys of two sources are equal: as a whole number, or as its text."""
    if is_whole:
        return exp.cast(value, "BIGINT")
    if column.kind != "real":
        return cast_to_text(value)
    number = exp.and_(
        exp.LT(this=exp.Abs(this=value.copy()), expression=exp.Literal.number(_EXACT)),
        exp.EQ(this=exp.Floor(this=value.copy()), expression=value.copy()),
    )
    return build_case((number, cast_to_text(try_cast(value, "BIGINT"))), default=cast_to_text(value.copy()))


def is_whole_type(type_name: str) -> bool:
    """Return whether a column of DuckDB's type has whole numbers."""
    return type_name.upper() in _WHOLE


def _name(value: exp.Expr, name: str) -> exp.Expr:
    return exp.alias_(value, name, quoted=True)


def _name_added(name: str) -> str:
    return f"added_{name}"


def _name_key(place: int) -> str:
    return f"key{place}"


def _name_own_keys(number: int, columns: Iterable[str]) -> list[str]:
    """Return names of keys beside a table's own ``columns``, none of which is one of these."""
    taken, prefix = {one.casefold() for one in columns}, "key"
    while any(one.startswith(prefix) for one in taken):
        prefix += "_"
    return [f"{prefix}{place}" for place in range(number)]
