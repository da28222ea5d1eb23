"""The only holder of an engine: it gives exact numbers only to callers with an open permit of its account."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import compress, count
from operator import not_
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Protocol, TypeVar

import numpy as np
from sqlglot import exp

from siloquent.data.cell_queries import CellQueries, Request
from siloquent.data.column_mapping import map_columns
from siloquent.data.computed_columns import ComputedColumn
from siloquent.data.decode import DecodedKernel, Decoder
from siloquent.data.engines.base import OWNER_LOG, Engine
from siloquent.data.grouped_counts import (
    COUNT,
    KEPT,
    GroupedCount,
    build_conditions,
    build_count_kernel,
    build_group_query,
    combine_sums,
    find_needed,
    list_computed,
    scatter_groups,
)
from siloquent.data.sql.indices import SourceColumn, quote_name
from siloquent.data.units.contribution_bounding import NOTHING, select_bounded_rows
from siloquent.data.units.distinct_keys import KeyCounts, build_key_query, count_keys
from siloquent.data.units.distinct_units import build_unit_query
from siloquent.errors import DataError, NotAllowed, RequestError, SiloquentError
from siloquent.privacy import Composed, Disjoint, Event
from siloquent.schema import Attribute, Block, TableSchema

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from siloquent.data.engines.base import Kernel, Merge
    from siloquent.ledger.base import Permit

R = TypeVar("R")
MAX_QUERIES = 256


class PermitChecker(Protocol):
    """The part of a ledger that the data package needs."""

    def require_open(self, permit: Permit, *, account: str | None = None) -> None:
        """Raise NotAllowed unless ``permit`` is open and belongs to ``account`` or to one of its shares."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class CellSums:
    """The sums of indices and the counts of rows with an index, of one block and one number, each of shape (cells,).

    In grid steps, the sum of the values themselves is ``index_sums + (lo / grid) * counts``, exactly. ``index_sums``
    is int64, or Python integers for a number of more than 2^20 steps: no row can make a sum overflow.
    """

    index_sums: NDArray[Any]
    counts: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class AskedCells:
    """A request for exact numbers: of each cell of ``blocks``, a count, or the sum of an attribute by its name.

    ``counted``: as for ``PrivateTable.count_by_cell``.
    """

    blocks: Sequence[Block]
    summed: str | Attribute | None
    counted: Sequence[NDArray[np.bool_]] | None = None


class PrivateTable:
    """The rows of one declared table, accessible only with permits.

    It has no length, is not iterable, shows only its name, and is neither copied nor pickled.

    Args:
        schema: The table's declaration.
        engine: Opened on the table's source.
        permits: The ledger that pays.
        salt: Hex text, fixed for the table and epoch, that selects which rows of a user count.
    Raises:
        SchemaError: the source does not fit the declaration.
    """

    __slots__ = (
        "_cell_lock",
        "_cells",
        "_columns",
        "_engine",
        "_in_memory",
        "_lock",
        "_numbers",
        "_permits",
        "_queries",
        "_related",
        "_salt",
        "_schema",
    )

    def __init__(self, schema: TableSchema, engine: Engine, permits: PermitChecker, *, salt: str) -> None:
        self._open(schema, engine, permits, map_columns(schema, engine.list_columns()), salt=salt)

    def _open(
        self,
        schema: TableSchema,
        engine: Engine,
        permits: PermitChecker,
        columns: tuple[SourceColumn, ...],
        *,
        salt: str = "",
    ) -> None:
        self._schema, self._engine, self._permits, self._salt = schema, engine, permits, salt
        self._columns = columns
        self._in_memory: bool | None = None
        self._lock = threading.Lock()
        self._numbers = count()  # of lent relations
        self._queries: dict[tuple[object, ...], exp.Query] = {}
        self._related: dict[str, PrivateTable] = {}
        self._cells, self._cell_lock = CellQueries(engine.lend, engine.take_back), threading.Lock()

    def __repr__(self) -> str:
        return f"PrivateTable({self._schema.name!r})"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise NotAllowed(f"{self!r} cannot be copied or stored.")

    @property
    def name(self) -> str:
        """The table's declared name."""
        return self._schema.name

    @property
    def schema(self) -> TableSchema:
        """The table's declaration."""
        return self._schema

    @property
    def is_current(self) -> bool:
        """Whether the source is still the one that was opened; check before a charge, later it is an error."""
        return self._engine.is_current()

    def compute_source_digest(self) -> bytes:
        """Return a hash of the source, which the session keys: unkeyed it would confirm a guess of the file.

        Raises:
            DataError: the source cannot be read, or is no longer the one that was opened.
        """
        return self._engine.compute_digest()

    def count_by_cell(
        self, blocks: Sequence[Block], permit: Permit, *, counted: Sequence[NDArray[np.bool_]] | None = None
    ) -> list[NDArray[np.int64]]:
        """Count the rows in each cell: an array of shape (block.size,) per block, row-major, zeros included.

        Args:
            counted: The cells of each block that the caller uses, shapes (block.size,); the numbers in others have no
                meaning, and their rows are passed over where that is faster.
        Raises:
            NotAllowed: ``permit`` is not an open one of this table.
            RequestError: a block names an attribute without cells.
            DataError: the source failed; the charge remains.
        Privacy:
            Exact, hence only for measure packages. With all blocks side by side, adding or removing one unit changes
            the counts by at most max_rows in L1 for each block, and replacing one by twice that.
        """
        scans = self._build_scans(blocks, counted)
        return [measured[COUNT] for measured in self._measure(scans, None, permit)]

    def sum_by_cell(
        self,
        blocks: Sequence[Block],
        attribute: str | Attribute,
        permit: Permit,
        *,
        counted: Sequence[NDArray[np.bool_]] | None = None,
    ) -> list[CellSums]:
        """Sum the indices of ``attribute``, declared or computed, in each cell, over the rows with a number there.

        Rows that are OUTSIDE or NULL in ``attribute`` add nothing, neither to sums nor to counts, even if NULL has its
        own cell.

        Raises:
            NotAllowed, DataError: as ``count_by_cell``.
            RequestError: as ``count_by_cell``, or ``attribute`` is not a number.
        Privacy:
            Exact, hence only for measure packages. One row changes a sum of values by at most max(abs(lo), abs(hi)) /
            grid grid steps.
        """
        summed = self._find_column(attribute) if isinstance(attribute, str) else self._build_computed(attribute)
        if not summed.attribute.is_numeric:
            raise RequestError(f"Attribute {summed.attribute.name!r} is not a number, so it has no sum.")
        measured = self._measure(self._build_scans(blocks, counted), summed, permit)
        return [CellSums(index_sums=combine_sums(found, summed), counts=found[COUNT]) for found in measured]

    def measure_together(self, asked: Sequence[AskedCells], permit: Permit) -> list[list[CellSums]]:
        """Count, or sum a number, in each cell of several requests: as ``count_by_cell`` and ``sum_by_cell`` do.

        Requests of the same cells are answered in one pass over the rows, if these are kept. ``index_sums`` of a count
        are its counts.

        Raises:
            NotAllowed, RequestError, DataError: as for ``sum_by_cell``.
        Privacy:
            Exact, hence only for measure packages: that of each request by itself.
        """
        built = [self._build_request(one) for one in asked]
        self._require(permit)
        found = self._call_charged(lambda: self._run_together(built))
        return [
            [
                CellSums(index_sums=one[COUNT] if summed is None else combine_sums(one, summed), counts=one[COUNT])
                for one in each
            ]
            for (_, summed), each in zip(built, found, strict=True)
        ]

    def fold(
        self,
        kernel: Kernel,
        merge: Merge,
        columns: Sequence[str],
        permit: Permit,
        *,
        encoded: bool | Literal["countable"] = False,
    ) -> NDArray[Any]:
        """Apply ``kernel`` to every batch of the rows that count (at least one, empty if need be); merge the results.

        Args:
            kernel: Maps a record batch with ``columns`` to a numpy array without objects. With the Spark engine it runs
                in other processes, so it must be importable there.
            merge: Associative and commutative.
            encoded: Indices (int64) instead of values; "countable": for all columns except texts and ids.
        Raises:
            NotAllowed, DataError: as ``count_by_cell``. UnknownName, RequestError: as ``read_rows``.
        """
        chosen = self._choose_columns(columns, encoded=encoded is True)
        self._require(permit)
        decoded = DecodedKernel(kernel, Decoder(tuple(chosen), bool(encoded)))
        return self._call_charged(lambda: self._engine.map_merge(decoded, merge, self._select_rows(chosen)))

    def read_rows(self, columns: Sequence[str], permit: Permit, *, encoded: bool = False) -> Iterator[pa.RecordBatch]:
        """Yield the rows that count, a batch at a time, in no meaningful order.

        Values are only those declared: numbers on their grid and within their bounds, listed categories, NULL where a
        row is OUTSIDE or NULL. Texts and ids are as stored in the source.

        Args:
            encoded: Indices (int64, OUTSIDE is -1) instead of values; texts and ids have none.
        Raises:
            NotAllowed, DataError: as ``count_by_cell``.
            UnknownName: a column is not declared.
            RequestError: indices of a text or id are requested.
        """
        chosen = self._choose_columns(columns, encoded=encoded)
        self._require(permit)
        return self._read_batches(chosen, encoded)

    def count_units_by_key(self, attribute: str, permit: Permit, *, keys_each: int) -> Iterator[KeyCounts]:
        """Yield the distinct keys of a text or category as stored, and how many units count for each, part by part.

        A key is a text of at most 256 bytes; a category's values need not be declared ones. All rows of a unit are
        considered, not only the first ``max_rows``.

        Args:
            keys_each: The number of keys that one unit counts for.
        Raises:
            NotAllowed, DataError: as ``count_by_cell``.
            RequestError: the attribute is neither text nor category.
        Privacy:
            Exact, hence only for measure packages; which keys there are is private too. Adding or removing one unit
            changes at most ``keys_each`` counts, each by 1.
        """
        column = self._find_column(attribute)
        if column.attribute.kind not in ("text", "category") or column.attribute.function:
            raise RequestError(f"Attribute {column.attribute.name!r} has no keys: it is {column.attribute.kind}.")
        self._require(permit)

        def build(prefix: str) -> exp.Query:
            return build_key_query(self._columns, self._schema.unit, column.attribute.name, salt=self._salt,
                                   keys_each=keys_each, prefix=prefix)  # fmt: skip

        parts = count_keys(self._engine.read_batches, build)
        while (part := self._call_charged(lambda: next(parts, None))) is not None:
            yield part

    def count_units_by_group(
        self, block: Block, groups: NDArray[np.int64], number: int, permit: Permit, *, groups_each: int | None
    ) -> NDArray[np.int64]:
        """Count the units with rows in each group of cells, shape (number,).

        All rows of a unit are considered, not only the first ``max_rows``.

        Args:
            groups: The group of each of the block's cells, -1 for cells that do not count, shape (block.size,).
            groups_each: The number of groups that one unit counts for; None for all that it has rows in.
        Raises:
            NotAllowed, RequestError, DataError: as ``count_by_cell``. RequestError: the table's units are rows.
        Privacy:
            Exact, hence only for measure packages. Adding or removing one unit changes at most ``groups_each`` counts,
            each by 1.
        """
        if self._schema.unit.kind == "row":
            raise RequestError(f"The units of {self._schema.name!r} are rows.", fix="count_by_cell")
        scan, user = self._build_scan(block), self._find_column(self._schema.unit.column)
        self._require(permit)
        return self._call_charged(lambda: self._count_units(scan, groups, number, user, groups_each))

    def open_for_owner(self) -> tuple[Engine, tuple[SourceColumn, ...], str]:
        """Return the engine, the columns and the salt, for ``check`` only: its results are the owner's."""
        self._look_up()
        return self._engine, self._columns, self._salt

    def close(self) -> None:
        """Release rows, files and connections."""
        self._engine.close()

    def _require(self, permit: Permit) -> None:
        if _is_free(permit.event):
            raise NotAllowed(
                "This permit reserved no cost, so it allows no release.", fix="reserve the cost of the release"
            )
        self._permits.require_open(permit, account=self._schema.account)

    def _find_column(self, attribute: str) -> SourceColumn:
        declared = self._schema.domain[attribute]
        return next(column for column in self._columns if column.attribute is declared)

    def _build_computed(self, attribute: Attribute) -> ComputedColumn:
        assert attribute.computed is not None
        return ComputedColumn(attribute, tuple(map(self._find_column, attribute.computed.inputs)))

    def _build_request(self, asked: AskedCells) -> Request:
        attribute = asked.summed
        scans = self._build_scans(asked.blocks, asked.counted)
        if attribute is None:
            return scans, None
        summed = self._find_column(attribute) if isinstance(attribute, str) else self._build_computed(attribute)
        if not summed.attribute.is_numeric:
            raise RequestError(f"Attribute {summed.attribute.name!r} is not a number, so it has no sum.")
        return scans, summed

    def _find_in_block(self, name: str, block: Block) -> SourceColumn | ComputedColumn:
        computed = block.find_computed(name)
        return self._find_column(name) if computed is None else self._build_computed(computed)

    def _build_scans(self, blocks: Sequence[Block], counted: Sequence[NDArray[np.bool_]] | None) -> list[GroupedCount]:
        if counted is None:
            return [self._build_scan(block) for block in blocks]
        return [
            replace(self._build_scan(block), needed=find_needed(block, used))
            for block, used in zip(blocks, counted, strict=True)
        ]

    def _build_scan(self, block: Block) -> GroupedCount:
        columns = tuple(self._find_in_block(name, block) for name in block.attributes)
        for column, classes in zip(columns, block.classes, strict=True):
            if not column.attribute.is_countable:
                raise RequestError(f"Attribute {column.attribute.name!r} has no cells: it is {column.attribute.kind}.")
            if classes.shape != (column.attribute.size + 1,):
                raise RequestError(f"A class map of {column.attribute.name!r} has {column.attribute.size + 1} entries.")
        return GroupedCount(block, columns)

    def _choose_columns(self, columns: Sequence[str], *, encoded: bool) -> list[SourceColumn]:
        chosen = [self._find_column(attribute) for attribute in columns]
        for column in chosen:
            if encoded and not column.attribute.is_countable:
                raise RequestError(f"Attribute {column.attribute.name!r} has no places: it is {column.attribute.kind}.")
        return chosen

    def _measure(
        self, scans: list[GroupedCount], summed: SourceColumn | ComputedColumn | None, permit: Permit
    ) -> list[NDArray[np.int64]]:
        """Return counts for each scan, and both halves of sums where requested, shape (1 or 3, cells)."""
        self._require(permit)
        return self._call_charged(lambda: self._run_scans(scans, summed))

    def _run_scans(
        self, scans: list[GroupedCount], summed: SourceColumn | ComputedColumn | None
    ) -> list[NDArray[np.int64]]:
        # A source that is reread each time is read once for all blocks, not once for each.
        return self._scan_rows(scans, summed, exp.to_table(KEPT), in_memory=self._keep())

    def _run_together(self, requests: Sequence[Request]) -> list[list[NDArray[np.int64]]]:
        if not (self._keep() and self._engine.computes_cells):
            return [self._run_scans(*one) for one in requests]
        with self._cell_lock:
            return self._cells.run(requests, exp.to_table(KEPT), self._engine.aggregate, self._run_scans)

    def _scan_rows(
        self,
        scans: list[GroupedCount],
        summed: SourceColumn | ComputedColumn | None,
        rows: exp.Table | exp.Subquery,
        *,
        in_memory: bool,
    ) -> list[NDArray[np.int64]]:
        """Group ``rows`` in the engine where that is faster, and batch by batch otherwise."""
        stored = None if isinstance(summed, ComputedColumn) else summed
        in_sql = [in_memory and scan.is_narrow and not scan.is_computed and stored is summed for scan in scans]
        grouped = iter(self._group(list(compress(scans, in_sql)), stored, rows))
        counted = iter(self._count(list(compress(scans, map(not_, in_sql))), summed, rows))
        return [next(grouped if grouping else counted) for grouping in in_sql]

    def _group(
        self, scans: list[GroupedCount], summed: SourceColumn | None, rows: exp.Table | exp.Subquery
    ) -> list[NDArray[np.int64]]:
        if not scans:
            return []
        found = self._engine.aggregate(self._build_query(scans, summed, rows))
        return [scatter_groups(scan, number, found, summed=summed is not None) for number, scan in enumerate(scans)]

    def _build_query(
        self, scans: list[GroupedCount], summed: SourceColumn | None, rows: exp.Table | exp.Subquery
    ) -> exp.Query:
        """Return the grouped query of these columns; building it takes longer than running it on a small table."""
        places = [
            tuple(
                (column.index_name, scan.find_ranges(column.index_name), scan.find_fixed(position))
                for position, column in enumerate(scan.columns)
            )
            for scan in scans
        ]
        key = (summed and summed.position, *places)
        if key not in self._queries:
            if len(self._queries) >= MAX_QUERIES:
                self._queries.clear()
            self._queries[key] = build_group_query(scans, summed, rows)
        return self._queries[key]

    def _count(
        self,
        scans: list[GroupedCount],
        summed: SourceColumn | ComputedColumn | None,
        rows: exp.Table | exp.Subquery,
    ) -> list[NDArray[np.int64]]:
        if not scans:
            return []
        columns = [column for scan in scans for column in scan.columns] + ([summed] if summed else [])
        needed = {column.index_name for column in columns if isinstance(column, SourceColumn)}
        needed |= {one.index_name for column in list_computed(scans, summed) for one in column.inputs}
        shown: list[exp.Expr] = [quote_name(place) for place in sorted(needed)] or [NOTHING.copy()]
        query = exp.select(*shown).where(*build_conditions(scans), copy=False)
        counted = self._engine.map_merge(build_count_kernel(scans, summed), np.add, query.from_(rows.copy()))
        ends = np.cumsum([scan.block.size for scan in scans])[:-1]
        return np.split(counted, ends, axis=1)

    def _count_units(
        self, scan: GroupedCount, groups: NDArray[np.int64], number: int, user: SourceColumn, groups_each: int | None
    ) -> NDArray[np.int64]:
        lent: list[str] = []

        def lend(columns: dict[str, NDArray[np.int64]]) -> str:
            lent.append(f"lent_{next(self._numbers)}")
            self._engine.lend(lent[-1], columns)
            return lent[-1]

        self._look_up()
        try:
            query = build_unit_query(scan, groups, user, salt=self._salt, groups_each=groups_each, lend=lend)
            found = self._engine.aggregate(query)
        finally:
            for name in lent:
                self._engine.take_back(name)
        counts = np.zeros(number, dtype=np.int64)
        np.add.at(counts, found.column("key").to_numpy().astype(np.int64), found.column("units").to_numpy())
        return counts

    def _keep(self) -> bool:
        """Keep the indices of the rows that count from the first permitted use on; return whether in memory."""
        with self._lock:
            if self._in_memory is None:
                countable = [column for column in self._columns if column.attribute.is_countable]
                self._look_up()
                self._in_memory = self._engine.keep(KEPT, self._select_bounded(countable))
            return self._in_memory

    def _look_up(self) -> None:
        for column in self._columns:
            if column.lookup:
                self._engine.look_up(column.lookup, column.attribute.values)

    def _select_bounded(self, wanted: Sequence[SourceColumn]) -> exp.Query:
        link = self._schema.link
        joined = (
            *((link.columns or ()) if link is not None else ()),
            *(o.attribute.name for o in self._schema.looked_up),
        )
        return select_bounded_rows(self._columns, self._schema.unit, salt=self._salt, wanted=wanted, joined=joined)

    def _select_rows(self, chosen: list[SourceColumn]) -> exp.Query:
        """Return the rows that count with ``chosen``, from the kept indices if they hold all requested columns."""
        self._keep()
        if any(not column.attribute.is_countable for column in chosen):
            return self._select_bounded(chosen)
        return exp.select(*(quote_name(column.index_name) for column in chosen)).from_(exp.to_table(KEPT))

    def _read_batches(self, chosen: list[SourceColumn], encoded: bool) -> Iterator[pa.RecordBatch]:
        decode = Decoder(tuple(chosen), encoded)
        batches = self._call_charged(lambda: self._engine.read_batches(self._select_rows(chosen)))
        while (batch := self._call_charged(lambda: next(batches, None))) is not None:
            yield decode(batch)

    def _call_charged(self, call: Callable[[], R]) -> R:
        """Call ``call``; its failures say only that the charge remains."""
        try:
            return call()
        except SiloquentError as known:
            if not isinstance(known, DataError):
                raise
        except Exception:  # allowed: what fails over rows, and how, must not depend on them
            OWNER_LOG.exception("a measurement of %s failed", self.name)
        raise DataError(charged=True)


def _is_free(event: Event) -> bool:
    """Return whether ``event`` has no privacy cost, however it is composed."""
    return isinstance(event, (Composed, Disjoint)) and all(_is_free(part) for part in event.parts)
