"""Rows with the attributes that follow from other tables' rows of the same unit, as one relation of the engine.

Each attribute is a function of the rows of one unit: equal keys count only within it. Which rows count is decided
without these attributes. Proof: docs/explanation/related-rows.md.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

from sqlglot import exp

from siloquent.data.column_mapping import map_columns
from siloquent.data.engines.base import IN_PART, SOURCE
from siloquent.data.sql.formats import drop_missing, is_rewritten
from siloquent.data.sql.indices import SourceColumn, build_int_literal, index_column, quote_name, read_column
from siloquent.data.units.contribution_bounding import select_indexed
from siloquent.data.units.linked_rows import OwnerStream, build_key, is_whole_type
from siloquent.data.units.unit_rows import build_test
from siloquent.errors import RequestError
from siloquent.schema import TableSchema
from siloquent.schema.related import RelatedColumn
from siloquent.schema.unit_rows import ComparedColumns

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from siloquent.data.engines.base import Kernel, LineFault, Merge
    from siloquent.data.engines.duckdb import DuckDBEngine

R = TypeVar("R")
_numbers = count()
_SHARE = 8
"""The rows of one question may take so small a part of the memory."""
_PLACED = "placed"
_LOW, _HIGH, _OTHER = "low", "high", "other"
_OWN, _USER = "own", "u"


@dataclass(frozen=True, slots=True, eq=False)
class RelatedSource:
    """An engine opened on a table whose rows are looked up, and that table's columns by their attributes' names.

    Raises:
        SchemaError, UnknownName: as for ``map_columns``, when it is made and not when rows are read.
    """

    schema: TableSchema
    engine: DuckDBEngine
    columns: Mapping[str, SourceColumn] = field(init=False)

    def __post_init__(self) -> None:
        mapped = map_columns(self.schema, self.engine.list_columns())
        object.__setattr__(self, "columns", {one.attribute.name: one for one in mapped})


class RelatedEngine:
    """The rows of ``engine``, with a boolean for each of ``looked_up``.

    Args:
        schema: The declaration of the rows of ``engine``.
        sources: The tables whose rows are looked up, by name, opened for this engine alone.
    """

    computes_cells = True

    def __init__(
        self,
        schema: TableSchema,
        engine: DuckDBEngine,
        sources: Mapping[str, RelatedSource],
        looked_up: Sequence[RelatedColumn] = (),
    ) -> None:
        self._schema, self._engine, self._sources, self._looked_up = schema, engine, sources, tuple(looked_up)
        self._views: dict[str, exp.Query] = {}
        self._kept: dict[str, str] = {}
        # Built before anything is charged, so that a query that cannot be built is refused free.
        own = {one.attribute.name: one for one in map_columns(schema, engine.list_columns())} if looked_up else {}
        self._keys = [self._build_keys(one, own) for one in self._looked_up]

    def look_up_rows(self, looked_up: Sequence[RelatedColumn]) -> RelatedEngine:
        """Return the same rows with ``looked_up`` attributes; reads nothing."""
        return RelatedEngine(self._schema, self._engine, self._sources, looked_up)

    def list_columns(self) -> Mapping[str, str]:
        """Return the source's columns in order, with DuckDB's type names, and then the attributes."""
        added = {one.attribute.name: "BOOLEAN" for one in self._looked_up}
        return {**{name: kind for name, kind in self._engine.list_columns().items() if name not in added}, **added}

    def keep(self, name: str, query: exp.Query) -> bool:
        """Copy the rows of ``query`` into memory as relation ``name``; if they do not fit, compute it each time.

        They are let go with this object.
        """
        if self._looked_up:
            kept = f"{name}_{next(_numbers)}"
            weakref.finalize(self, self._engine.forget, kept)
            with self._lent() as source:
                is_kept = self._engine.keep(kept, self._place(query, source), share=_SHARE)
            if is_kept:
                self._kept[name] = kept
                return True
        self._views[name] = query
        return False

    def look_up(self, name: str, values: Sequence[str]) -> None:
        """Make the public ``values`` a relation ``name`` with the columns value and place."""
        self._engine.look_up(name, values)

    def lend(self, name: str, columns: Mapping[str, NDArray[np.int64]]) -> None:
        """Make public numbers a relation ``name``, until ``take_back``."""
        self._engine.lend(name, columns)

    def take_back(self, name: str) -> None:
        """Drop the relation ``name`` that was lent."""
        self._engine.take_back(name)

    def aggregate(self, query: exp.Query) -> pa.Table:
        """Return the rows of a grouped count or sum of indices; their order has no meaning."""
        with self._placed(query) as placed:
            return self._engine.aggregate(placed)

    def map_merge(self, kernel: Kernel, merge: Merge, query: exp.Query) -> NDArray[Any]:
        """Apply ``kernel`` to every batch of the rows of ``query`` and merge the results."""
        with self._placed(query) as placed:
            return self._engine.map_merge(kernel, merge, placed)

    def read_batches(self, query: exp.Query) -> Iterator[pa.RecordBatch]:
        """Yield the rows of ``query``, a batch at a time."""
        with self._placed(query) as placed, closing(self._engine.read_batches(placed)) as batches:  # type: ignore[type-var]
            yield from batches

    def is_current(self) -> bool:
        """Return whether the sources of all tables are still those that were opened."""
        return self._engine.is_current() and all(one.engine.is_current() for one in self._sources.values())

    def compute_digest(self) -> bytes:
        """Return a digest of the rows of all tables; that of the table itself if it is the only one."""
        import hashlib

        own = self._engine.compute_digest()
        others = [one.engine.compute_digest() for name, one in self._sources.items() if self._schema.payer != name]
        return hashlib.sha256(b"".join((own, *others))).digest() if others else own

    def count_unreadable_lines(self) -> Mapping[LineFault, int]:
        """Return the counts of the source's unreadable lines, by fault."""
        return self._engine.count_unreadable_lines()

    def close(self) -> None:
        """Close the engines of all tables."""
        self._engine.close()
        for one in self._sources.values():
            one.engine.close()

    @contextmanager
    def _placed(self, query: exp.Query) -> Iterator[exp.Query]:
        """Yield ``query`` over the rows with their attributes: those that are kept, or computed now."""
        names = {node.name for node in query.find_all(exp.Table)}
        if SOURCE not in names and not names & {*self._views}:
            if _PLACED not in query.meta:
                query.meta[_PLACED] = self._place(query, query)
            yield query.meta[_PLACED]
            return
        with self._lent() as source:
            yield self._place(query, source)

    def _place(self, query: exp.Query, source: exp.Query) -> exp.Query:
        """Return ``query`` over the rows with their attributes."""

        def place(node: exp.Expr) -> exp.Expr:
            if isinstance(node, exp.Table) and node.name in self._views:
                return self._views[node.name].subquery(node.name).transform(place)
            if isinstance(node, exp.Table) and node.name in self._kept:
                return exp.to_table(self._kept[node.name])
            if isinstance(node, exp.Table) and node.name == SOURCE:
                return source.subquery(SOURCE)
            return node

        found: exp.Query = query.transform(place)  # type: ignore[assignment]
        return found

    @contextmanager
    def _lent(self) -> Iterator[exp.Query]:
        """Lend the keys that are looked up to the engine; yield the query of its rows with their attributes."""
        lent: list[str] = []
        names = self._list_names()
        shown: list[exp.Expr] = [quote_name(name, _OWN) for name in self._engine.list_columns() if name not in names]
        read = [
            exp.alias_(one.own_read, one.own.read_name, quoted=True)
            for one in self._keys
            if one.own is not None and one.own_read is not None
        ]
        rows = exp.select(exp.Star(), *dict.fromkeys(read)).from_(exp.to_table(SOURCE))
        query = exp.select(*shown).from_(rows.subquery(_OWN) if read else exp.to_table(SOURCE).as_(_OWN))
        try:
            for one, looked_up in zip(self._looked_up, self._keys, strict=True):
                keys, stream = looked_up.keys, looked_up.stream
                name = f"related_{next(_numbers)}"
                self._engine.lend_rows(name, stream)
                lent.append(name)
                same = [
                    exp.EQ(this=key.copy(), expression=quote_name(_name_key(place), name))
                    for place, key in enumerate(keys)
                ]
                met: exp.Expr = exp.not_(exp.Is(this=quote_name(_name_key(0), name), expression=exp.Null()))
                if one.compared is not None and looked_up.own is not None:
                    met = exp.and_(met, _compare(one.compared, looked_up.own, name))
                query = query.join(exp.to_table(name), on=exp.and_(*same), join_type="LEFT")
                query = query.select(exp.alias_(met, one.attribute.name, quoted=True))
            yield query
        finally:
            for name in lent:
                self._engine.take_back(name)

    def _list_names(self) -> set[str]:
        return {one.attribute.name for one in self._looked_up}

    def _build_keys(self, column: RelatedColumn, own: Mapping[str, SourceColumn]) -> _LookedUp:
        """Return the keys of a row of ``own``, the unit first, and the stream of those that are looked up.

        Raises:
            RequestError: an attribute that is compared is not one whose values are read as they are stored.
        """
        source = self._sources[column.table]
        theirs, types, columns = source.columns, source.engine.list_columns(), self._engine.list_columns()
        pairs = list_pairs(column, self._schema, source.schema)
        keys, shown = [], []
        for place, (mine, other) in enumerate(pairs):
            left, right = own[mine], theirs[other]
            is_whole = is_whole_type(columns[left.source]) and is_whole_type(types[right.source])
            keys.append(_qualify(drop_missing(left, build_key(read_column(left), left, is_whole))))
            read = quote_name(right.read_name)
            shown.append(exp.alias_(build_key(read, right, is_whole), _name_key(place), quoted=True))
        query = select_keys(column, shown, theirs, [theirs[other] for _, other in pairs])
        for one in theirs.values():
            if one.lookup:
                source.engine.look_up(one.lookup, one.attribute.values)
        stream = OwnerStream(source.engine, query, source.engine.describe(query))
        if column.compared is None:
            return _LookedUp(keys, stream)
        left = own[column.compared.left]
        if left.lookup or is_rewritten(left):
            raise RequestError(
                f"{left.attribute.name!r} has too long a list of values, or too special a format, to be compared in "
                "EXISTS.",
                fix="store it as a whole number",
            )
        return _LookedUp(keys, stream, left, drop_missing(left, read_column(left)))


def list_pairs(column: RelatedColumn, schema: TableSchema, other: TableSchema) -> list[tuple[str, str]]:
    """List the attributes of both tables that are equal: those of the unit first, whatever else is compared."""
    return [(schema.unit.column, other.unit.column), *column.on]


def select_keys(
    column: RelatedColumn, shown: Sequence[exp.Expr], theirs: Mapping[str, SourceColumn], keys: Sequence[SourceColumn]
) -> exp.Select:
    """Return the distinct keys of the rows that pass the test of ``column``, the unit first."""
    used = [theirs[name] for name in (column.test.attributes if column.test is not None else ())]
    other = None if column.compared is None else theirs[column.compared.right]
    if other is not None:
        used.append(other)
    placed = select_indexed([*dict.fromkeys((*keys, *used))], user=keys[0]).subquery("placed")
    known: list[exp.Expr] = [exp.Anonymous(this=IN_PART, expressions=[quote_name(_USER)])]
    if column.test is not None:
        known.append(build_test(column.test, theirs.__getitem__))
    names = [quote_name(one.alias) for one in shown]
    met = [exp.not_(exp.Is(this=name.copy(), expression=exp.Null())) for name in names]
    if other is not None:
        known.append(_is_value(quote_name(other.index_name), other))
        shown = [*shown, exp.alias_(exp.cast(quote_name(other.index_name), "BIGINT"), _OTHER)]
    rows = exp.select(*shown).from_(placed).where(*known)
    if other is not None:  # any row compares as asked if the least or the largest does
        ends = [exp.alias_(kind(this=exp.column(_OTHER)), name) for kind, name in ((exp.Min, _LOW), (exp.Max, _HIGH))]
        return exp.select(*names, *ends).from_(rows.subquery("keys")).where(*met).group_by(*names)
    return exp.select(*names).distinct().from_(rows.subquery("keys")).where(*met)


@dataclass(frozen=True, slots=True, eq=False)
class _LookedUp:
    """The keys of a row, and the stream of those that are looked up.

    ``own``: the column that is compared with theirs, and ``own_read`` as what it is read.
    """

    keys: list[exp.Expr]
    stream: OwnerStream
    own: SourceColumn | None = None
    own_read: exp.Expr | None = None


def _is_value(place: exp.Expr, column: SourceColumn) -> exp.Expr:
    return exp.and_(
        exp.GTE(this=place, expression=build_int_literal(0)),
        exp.LT(this=place.copy(), expression=build_int_literal(column.attribute.steps)),
    )


def _compare(compared: ComparedColumns, own: SourceColumn, name: str) -> exp.Expr:
    """Return whether a row compares as asked with the least or the largest of the rows that have its keys."""
    place = _qualify(exp.Paren(this=index_column(own)))
    moved = exp.Add(this=exp.cast(place, "BIGINT"), expression=exp.Paren(this=build_int_literal(compared.offset)))
    low, high = quote_name(_LOW, name), quote_name(_HIGH, name)
    ends = {"<": [high], "<=": [high], ">": [low], ">=": [low]}.get(compared.op, [low, high])
    kinds: dict[str, type[exp.Binary]] = {
        "!=": exp.NEQ, "<": exp.LT, "<=": exp.LTE, ">": exp.GT, ">=": exp.GTE
    }  # fmt: skip
    found = [kinds[compared.op](this=exp.Paren(this=moved.copy()), expression=end) for end in ends]
    return exp.and_(_is_value(place.copy(), own), exp.or_(*found))


def _qualify(value: exp.Expr) -> exp.Expr:
    """Return ``value`` with each column as one of the table's own rows."""
    for column in value.find_all(exp.Column):
        column.set("table", exp.to_identifier(_OWN))
    return value


def _name_key(place: int) -> str:
    return f"key{place}"
