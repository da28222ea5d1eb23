"""From blocks to arrays of exact counts: grouped by places in the engine, or batch by batch where that is too wide."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

import numpy as np
from sqlglot import exp

from siloquent.data.places import Column, name, try_cast
from siloquent.schema import MOST_CELLS, Block

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

KEPT = "kept"
"""The relation of bounded rows as places."""
COUNT, LOW, HIGH = 0, 1, 2
LARGEST_SUM = 2.0**62
_HALF = 20
"""Sums are kept in two halves of this many bits of the index, so that no batch or total can overflow."""


@dataclass(frozen=True, slots=True, eq=False)
class Scan:
    """One block with its columns: ``codes`` are the whole numbers that stand for one combination of places."""

    block: Block
    columns: tuple[Column, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """How many places each column has, OUTSIDE included."""
        return tuple(len(classes) for classes in self.block.classes)

    @property
    def is_narrow(self) -> bool:
        """Whether grouping by the places themselves gives at most 10^6 rows."""
        return math.prod(self.shape) <= MOST_CELLS

    def cells(self, places: Sequence[NDArray[Any]], rows: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The block's cell of each row of ``places``, and whether the row is in the block at all, shapes (rows,)."""
        cell = np.zeros(rows, dtype=np.int64)
        inside = np.ones(rows, dtype=np.bool_)
        for classes, length, place in zip(self.block.classes, self.block.shape, places, strict=True):
            chosen = classes[place]  # OUTSIDE is -1, which is the last entry
            inside &= chosen >= 0
            cell = cell * length + chosen
        return cell, inside

    @property
    def strides(self) -> tuple[int, ...]:
        """What one place more of each column adds to a code."""
        shape = self.shape
        return tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))

    def decode(self, codes: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """The places that each code stands for, one array a column: the code is the sum of places times strides."""
        strides = self.strides
        rest = codes + sum(strides)  # the least place is -1
        places = []
        for stride in strides:
            places.append(rest // stride - 1)
            rest = rest % stride
        return places


def group_query(scans: Sequence[Scan], summed: Column | None) -> exp.Query:
    """One row for each scan and combination of places that occurs: scan, code, n and, with ``summed``, its s."""
    queries = [_group(scan, number, summed) for number, scan in enumerate(scans)]
    query: exp.Query = queries[0]
    for other in queries[1:]:
        query = query.union(other, distinct=False, copy=False)
    return query


def _group(scan: Scan, number: int, summed: Column | None) -> exp.Select:
    terms: list[exp.Expr] = [
        # A column alone is left as it is: the engine groups it by a table of its values instead of by a hash.
        name(column.place_name)
        if stride == 1
        else exp.Mul(this=exp.cast(name(column.place_name), "BIGINT"), expression=exp.Literal.number(stride))
        for column, stride in zip(scan.columns, scan.strides, strict=True)
    ]
    code = reduce(lambda left, right: exp.Add(this=left, expression=right), terms or [exp.Literal.number(0)])
    measured = [exp.alias_(exp.Count(this=exp.Star()), "n")]
    if summed is not None:
        # Sums of BIGINT fail in Spark where they overflow; this one is NULL where it does not fit.
        total = exp.Sum(this=exp.cast(name(summed.place_name), "DECIMAL(38, 0)"))
        fits = try_cast(exp.func("COALESCE", total, exp.Literal.number(0)), "BIGINT")
        measured.append(exp.alias_(fits, "s"))
    query = exp.select(exp.alias_(exp.Literal.number(number), "scan"), exp.alias_(code, "code"), *measured)
    query = query.from_(exp.to_table(KEPT))
    if summed is not None:
        query = query.where(_is_value(summed))
    return query.group_by(exp.Literal.number(2)) if scan.columns else query


def _is_value(column: Column) -> exp.Expr:
    """Neither OUTSIDE nor NULL's own cell: a place that stands for a number."""
    place, steps = name(column.place_name), exp.Literal.number(column.attribute.steps)
    return exp.and_(exp.GTE(this=place, expression=exp.Literal.number(0)), exp.LT(this=place.copy(), expression=steps))


def spread(scan: Scan, number: int, grouped: pa.Table, *, summed: bool) -> NDArray[np.int64]:
    """What was grouped for one scan in the block's own cells: rows COUNT, and with ``summed`` LOW; (1 or 2, cells).

    Raises:
        OverflowError: a sum is 2^62 or more.
    """
    numbers = grouped.column("scan").to_numpy()
    chosen = numbers == number
    codes = grouped.column("code").to_numpy()[chosen].astype(np.int64)
    measured = [grouped.column("n").to_numpy()[chosen]]
    if summed:
        if grouped.column("s").null_count:
            raise OverflowError("a sum of indices is too large")
        measured.append(_fitting(grouped.column("s").to_numpy()[chosen]))
    cells, inside = scan.cells(scan.decode(codes), len(codes))
    result = np.zeros((len(measured), scan.block.size), dtype=np.int64)
    for row, values in zip(result, measured, strict=True):
        np.add.at(row, cells[inside], values[inside])
    return result


def _fitting(sums: NDArray[Any]) -> NDArray[Any]:
    """``sums`` that add up to less than 2^62, so that no cell overflows, however classes merge them."""
    if float(sums.sum(dtype=np.float64)) >= LARGEST_SUM:
        raise OverflowError("a sum of indices is too large")
    return sums


def count_kernel(scans: Sequence[Scan], summed: Column | None = None) -> partial[NDArray[np.int64]]:
    """A kernel for ``map_merge`` that counts all scans in one pass; it and its result can travel between processes."""
    plain = [(scan, tuple(column.place_name for column in scan.columns)) for scan in scans]
    value = None if summed is None else (summed.place_name, summed.attribute.steps)
    return partial(_count_batch, plain, value)


def _count_batch(
    scans: list[tuple[Scan, tuple[str, ...]]], value: tuple[str, int] | None, batch: pa.RecordBatch
) -> NDArray[np.int64]:
    """Counts, and both halves of the sums, of all scans' cells side by side, shape (1 or 3, cells)."""
    columns = {field: batch.column(field).to_numpy() for field in batch.schema.names}
    keep = np.ones(batch.num_rows, dtype=np.bool_)
    parts: list[NDArray[np.int64]] = []
    if value is not None:
        index = columns[value[0]].astype(np.int64)
        keep = (index >= 0) & (index < value[1])
        parts = [index & (2**_HALF - 1), index >> _HALF]
    results = []
    for scan, names in scans:
        cells, inside = scan.cells([columns[field] for field in names], batch.num_rows)
        inside &= keep
        # A batch has at most 2^31 rows and a half 2^20 values: the doubles of bincount hold every sum exactly.
        weights = [None, *(part[inside] for part in parts)]
        results.append([np.bincount(cells[inside], weights=w, minlength=scan.block.size) for w in weights])
    return np.concatenate(results, axis=1).astype(np.int64)


def whole_sums(counted: NDArray[np.int64]) -> NDArray[np.int64]:
    """Counts and sums, shape (2, cells), from counts and both halves of the sums.

    Raises:
        OverflowError: a sum is 2^62 or more.
    """
    _fitting(counted[HIGH] * 2.0**_HALF)
    return np.stack([counted[COUNT], counted[LOW] + (counted[HIGH] << _HALF)])
