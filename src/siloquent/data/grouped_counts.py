"""Exact counts of blocks: grouped by indices in the engine, or batch by batch where that is too wide."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

import numpy as np
from sqlglot import exp

from siloquent.data.computed_columns import ComputedColumn
from siloquent.data.sql.indices import SourceColumn, build_int_literal, quote_name
from siloquent.schema import MAX_CELLS, OUTSIDE, Block

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

KEPT = "kept"
"""The relation of bounded rows as indices."""
COUNT, LOW, HIGH = 0, 1, 2
MAX_RANGES = 8
"""Conditions on more ranges of one column are left to the fold of the counts."""
Ranges = tuple[tuple[int, int], ...]
_HALF = 20
"""The number of bits of the index in each of the two halves of a sum, so that no batch or total can overflow.

An overflow would be an error caused by one row, and so would reveal it.
"""


@dataclass(frozen=True, slots=True, eq=False)
class GroupedCount:
    """One block with its columns: ``codes`` are the whole numbers for combinations of indices."""

    block: Block
    columns: tuple[SourceColumn | ComputedColumn, ...]
    needed: tuple[NDArray[np.bool_] | None, ...] = ()
    """The indices of each column whose rows are counted at all, the last for OUTSIDE; None or nothing for all."""

    def find_ranges(self, name: str) -> Ranges | None:
        """Return the needed indices of the column ``name`` as ranges; None if all are needed or there are too many."""
        for column, needed in zip(self.columns, self.needed, strict=False):
            if needed is not None and column.index_name == name and isinstance(column, SourceColumn):
                return _list_ranges(needed)
        return None

    def find_fixed(self, position: int) -> int | None:
        """Return an index that stands for all needed ones of the column at ``position``, if they are of one class."""
        mask = self.needed[position] if self.needed else None
        if mask is None or self.find_ranges(self.columns[position].index_name) is None:
            return None
        needed = np.flatnonzero(mask)
        classes = self.block.classes[position][needed]
        if not len(needed) or (classes != classes[0]).any():
            return None
        return int(needed[0]) if needed[0] < len(self.block.classes[position]) - 1 else OUTSIDE

    @property
    def is_computed(self) -> bool:
        """Whether a column is computed from others, which is done batch by batch."""
        return any(isinstance(column, ComputedColumn) for column in self.columns)

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of indices of each column, OUTSIDE included."""
        return tuple(len(classes) for classes in self.block.classes)

    @property
    def is_narrow(self) -> bool:
        """Whether grouping by the indices themselves gives at most 10^6 rows."""
        return math.prod(self.shape) <= MAX_CELLS

    def compute_cells(self, places: Sequence[NDArray[Any]], rows: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the block's cell of each row of ``places``, and whether the row is in the block, shapes (rows,)."""
        cell = np.zeros(rows, dtype=np.int64)
        inside = np.ones(rows, dtype=np.bool_)
        for classes, length, place in zip(self.block.classes, self.block.shape, places, strict=True):
            chosen = classes[place]  # OUTSIDE is -1, which is the last entry
            inside &= chosen >= 0
            cell = cell * length + chosen
        return cell, inside

    @property
    def strides(self) -> tuple[int, ...]:
        """The difference of codes for one step in each column."""
        shape = self.shape
        return tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))

    def decode(self, codes: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Return the indices of each code, one array per column: the code is the sum of indices times strides."""
        strides = self.strides
        rest = codes + sum(strides)  # the least index is -1
        places = []
        for stride in strides:
            places.append(rest // stride - 1)
            rest = rest % stride
        return places


def find_needed(block: Block, counted: NDArray[np.bool_] | None) -> tuple[NDArray[np.bool_] | None, ...]:
    """Return which indices of each column of ``block`` lie in a cell that is ``counted``, shape (cells,)."""
    if counted is None or counted.all():
        return ()
    cells = counted.reshape(block.shape)
    found: list[NDArray[np.bool_] | None] = []
    for axis, classes in enumerate(block.classes):
        if not isinstance(classes, np.ndarray):
            found.append(None)
            continue
        by_class = np.asarray(cells.any(axis=tuple(other for other in range(cells.ndim) if other != axis)))
        needed = (classes >= 0) & by_class[classes]
        found.append(None if needed.all() else needed)
    return tuple(found)


def _list_ranges(needed: NDArray[np.bool_]) -> Ranges | None:
    edges = np.flatnonzero(np.diff(np.concatenate([[False], needed[:-1], [False]]).astype(np.int8)))
    ranges = [(int(low), int(high) - 1) for low, high in zip(edges[::2], edges[1::2], strict=True)]
    if needed[-1]:
        ranges.append((OUTSIDE, OUTSIDE))
    return tuple(ranges) if len(ranges) <= MAX_RANGES else None


def build_conditions(scans: Sequence[GroupedCount]) -> list[exp.Expr]:
    """Return conditions that every row meets which one of ``scans`` counts: the engine passes over the others."""
    first, *others = scans
    conditions: list[exp.Expr] = []
    for column in first.columns:
        name = column.index_name
        ranges = [scan.find_ranges(name) for scan in (first, *others)]
        if any(one is None for one in ranges):
            continue
        place = quote_name(name)
        within: list[exp.Expr] = [
            exp.Between(this=place.copy(), low=build_int_literal(low), high=build_int_literal(high))
            for low, high in dict.fromkeys(pair for one in ranges for pair in one or ())
        ]
        conditions.append(exp.or_(*within) if within else exp.false())
    return conditions


def build_group_query(
    scans: Sequence[GroupedCount], summed: SourceColumn | None, rows: exp.Table | exp.Subquery
) -> exp.Query:
    """Return a query with a row for each scan and combination that occurs: scan, code, n, halves of ``summed``."""
    queries = [_select_groups(scan, number, summed, rows) for number, scan in enumerate(scans)]
    query: exp.Query = queries[0]
    for other in queries[1:]:
        query = query.union(other, distinct=False, copy=False)
    return query


def _select_groups(
    scan: GroupedCount, number: int, summed: SourceColumn | None, rows: exp.Table | exp.Subquery
) -> exp.Select:
    terms = [_build_term(scan, position) for position in range(len(scan.columns))]
    code = reduce(lambda left, right: exp.Add(this=left, expression=right), terms or [exp.Literal.number(0)])
    measured = [exp.alias_(exp.Count(this=exp.Star()), "n")]
    if summed is not None:
        measured += [exp.alias_(half, alias) for half, alias in zip(_sum_halves(summed), ("low", "high"), strict=True)]
    query = exp.select(exp.alias_(exp.Literal.number(number), "scan"), exp.alias_(code, "code"), *measured)
    query = query.from_(rows.copy(), copy=False).where(*build_conditions([scan]), copy=False)
    if summed is not None:
        query = query.where(_is_value(summed), copy=False)
    return query.group_by(exp.Literal.number(2), copy=False) if scan.columns else query


def _build_term(scan: GroupedCount, position: int) -> exp.Expr:
    """Return a column's part of the code: its index times its stride, a constant where one index stands for all."""
    stride, fixed = scan.strides[position], scan.find_fixed(position)
    if fixed is not None:
        return build_int_literal(fixed * stride)
    index = quote_name(scan.columns[position].index_name)
    # A single column is left as it is: the engine groups it by a table of its values instead of by a hash.
    return index if stride == 1 else exp.Mul(this=exp.cast(index, "BIGINT"), expression=exp.Literal.number(stride))


def _sum_halves(summed: SourceColumn) -> tuple[exp.Expr, exp.Expr]:
    """Return the sum of the low halves of the indices, and that of the high ones; 0 for no rows."""
    place = exp.cast(quote_name(summed.index_name), "BIGINT")
    if summed.attribute.steps <= 2**_HALF:
        return _sum_or_zero(place), exp.cast(exp.Literal.number(0), "BIGINT")
    half = exp.Literal.number(2**_HALF)
    return (
        _sum_or_zero(exp.Mod(this=place, expression=half)),
        _sum_or_zero(exp.Paren(this=exp.IntDiv(this=place.copy(), expression=half.copy()))),
    )


def _sum_or_zero(value: exp.Expr) -> exp.Expr:
    return exp.cast(exp.func("COALESCE", exp.Sum(this=value), exp.Literal.number(0)), "BIGINT")


def _is_value(column: SourceColumn) -> exp.Expr:
    """Return the condition that an index stands for a number: neither OUTSIDE nor NULL's own cell."""
    place, steps = quote_name(column.index_name), exp.Literal.number(column.attribute.steps)
    return exp.and_(exp.GTE(this=place, expression=exp.Literal.number(0)), exp.LT(this=place.copy(), expression=steps))


def scatter_groups(scan: GroupedCount, number: int, grouped: pa.Table, *, summed: bool) -> NDArray[np.int64]:
    """Scatter one scan's groups into the block's cells: COUNT, with ``summed`` LOW and HIGH; shape (1 or 3, cells)."""
    chosen = grouped.column("scan").to_numpy() == number
    codes = grouped.column("code").to_numpy()[chosen].astype(np.int64)
    fields = ("n", "low", "high") if summed else ("n",)
    cells, inside = scan.compute_cells(scan.decode(codes), len(codes))
    result = np.zeros((len(fields), scan.block.size), dtype=np.int64)
    for row, field in zip(result, fields, strict=True):
        np.add.at(row, cells[inside], grouped.column(field).to_numpy()[chosen][inside])
    return result


def build_count_kernel(
    scans: Sequence[GroupedCount], summed: SourceColumn | ComputedColumn | None = None
) -> partial[NDArray[np.int64]]:
    """Return a kernel for ``map_merge`` that counts all scans in one pass; it and its result are picklable."""
    plain = [(scan, tuple(column.index_name for column in scan.columns)) for scan in scans]
    value = None if summed is None else (summed.index_name, summed.attribute.steps)
    return partial(_count_batch, plain, value, list_computed(scans, summed))


def list_computed(
    scans: Sequence[GroupedCount], summed: SourceColumn | ComputedColumn | None
) -> tuple[ComputedColumn, ...]:
    """List the computed columns of some scans and of a summed number, each once."""
    columns = [column for scan in scans for column in scan.columns] + ([] if summed is None else [summed])
    found = {column.index_name: column for column in columns if isinstance(column, ComputedColumn)}
    return tuple(found.values())


def _count_batch(
    scans: list[tuple[GroupedCount, tuple[str, ...]]],
    value: tuple[str, int] | None,
    computed: tuple[ComputedColumn, ...],
    batch: pa.RecordBatch,
) -> NDArray[np.int64]:
    """Return counts, and both halves of the sums, of all scans' cells side by side, shape (1 or 3, cells)."""
    columns = {field: batch.column(field).to_numpy(zero_copy_only=False) for field in batch.schema.names}
    columns |= {column.index_name: column.compute_cells(columns) for column in computed}
    keep = np.ones(batch.num_rows, dtype=np.bool_)
    parts: list[NDArray[np.int64]] = []
    if value is not None:
        index = columns[value[0]].astype(np.int64)
        keep = (index >= 0) & (index < value[1])
        parts = [index & (2**_HALF - 1), index >> _HALF]
    results = []
    for scan, names in scans:
        cells, inside = scan.compute_cells([columns[field] for field in names], batch.num_rows)
        inside &= keep
        # A batch has at most 2^31 rows and a half 2^20 values: bincount's doubles represent every sum exactly.
        weights = [None, *(part[inside] for part in parts)]
        results.append([np.bincount(cells[inside], weights=w, minlength=scan.block.size) for w in weights])
    return np.concatenate(results, axis=1).astype(np.int64)


def combine_sums(counted: NDArray[np.int64], summed: SourceColumn | ComputedColumn) -> NDArray[Any]:
    """Return the sums of cells, shape (cells,), from LOW and HIGH: int64, or Python integers where HIGH is in use."""
    kind = np.int64 if summed.attribute.steps <= 2**_HALF else object
    return np.asarray(counted[LOW].astype(kind) + (counted[HIGH].astype(kind) << _HALF))
