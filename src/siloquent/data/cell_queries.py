"""Several exact numbers of the same cells in one pass over kept rows, with classes and computed columns in SQL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import count
from typing import TYPE_CHECKING

import numpy as np
from sqlglot import exp

from siloquent.data.computed_columns import ComputedColumn
from siloquent.data.grouped_counts import COUNT, GroupedCount, build_conditions
from siloquent.data.sql.indices import SourceColumn, build_case, build_int_literal, quote_name
from siloquent.data.sql.place_maps import map_place, shift_outside
from siloquent.data.sql.programs import NoSql, SqlWriter, write_cell, write_index

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

Number = SourceColumn | ComputedColumn | None
"""The column to sum; None to count rows."""
Request = tuple[list[GroupedCount], Number]
Aggregate = Callable[[exp.Query], "pa.Table"]
RunAlone = Callable[[list[GroupedCount], Number], "list[NDArray[np.int64]]"]
_CELL, _ROWS = "cell", "n"
_HALF = 20
MAX_KEPT = 64
MAX_LENT = 4_000_000
"""Entries of the public maps that are lent for queries which are kept; each takes 16 bytes."""
_TRUE = 1
_numbers = count()


@dataclass(frozen=True, slots=True, eq=False)
class CellQuery:
    """A query of the cells of one block: the number of rows, and of each number its rows and both halves of its sum.

    ``lent``: the relations that it reads besides the kept rows.
    """

    query: exp.Select
    lent: tuple[str, ...]


@dataclass(slots=True)
class CellQueries:
    """The newest queries of one table, with the public maps that they read.

    Args:
        lend: Makes columns of public numbers a relation of the engine; ``take_back`` drops it.
    """

    lend: Callable[[str, dict[str, NDArray[np.int64]]], None]
    take_back: Callable[[str], None]
    _kept: dict[object, CellQuery | None] = field(default_factory=dict)
    _lent: int = 0

    def run(
        self, requests: Sequence[Request], rows: exp.Table, aggregate: Aggregate, run_alone: RunAlone
    ) -> list[list[NDArray[np.int64]]]:
        """Return the exact numbers of ``requests``, a list for each as ``run_alone`` returns it.

        Scans of the same cells are one query; ``run_alone`` measures those that have no SQL, or need none of this.
        """
        alike: dict[object, list[tuple[int, int]]] = {}
        for number, (scans, _) in enumerate(requests):
            for place, scan in enumerate(scans):
                alike.setdefault(identify_scan(scan), []).append((number, place))
        results: list[list[NDArray[np.int64] | None]] = [[None] * len(scans) for scans, _ in requests]
        for places in alike.values():
            number, place = places[0]
            scan, numbers = requests[number][0][place], [requests[one][1] for one, _ in places]
            needs_no_sql = scan.is_narrow and not scan.is_computed and not isinstance(numbers[0], ComputedColumn)
            if len(places) == 1 and needs_no_sql:
                continue  # grouped by the indices themselves
            built = self.find(scan, numbers, rows)
            if built is not None:
                measured = scatter_cells(scan, numbers, aggregate(built.query))
                for (one, where), found in zip(places, measured, strict=True):
                    results[one][where] = found
        return [_complete(*request, done, run_alone) for request, done in zip(requests, results, strict=True)]

    def find(self, scan: GroupedCount, numbers: Sequence[Number], rows: exp.Table) -> CellQuery | None:
        """Return the query of ``numbers`` in the cells of ``scan``; None if it has no SQL."""
        key = (identify_scan(scan), tuple(map(_identify_number, numbers)))
        if key not in self._kept:
            if len(self._kept) >= MAX_KEPT or self._lent > MAX_LENT:
                self.clear()
            self._kept[key] = self._build(scan, numbers, rows)
        return self._kept[key]

    def clear(self) -> None:
        """Forget all queries, and drop what was lent for them."""
        for one in self._kept.values():
            for name in () if one is None else one.lent:
                self.take_back(name)
        self._kept.clear()
        self._lent = 0

    def _build(self, scan: GroupedCount, numbers: Sequence[Number], rows: exp.Table) -> CellQuery | None:
        lent: list[str] = []

        def lend(columns: dict[str, NDArray[np.int64]]) -> str:
            lent.append(f"cells_{next(_numbers)}")
            self.lend(lent[-1], columns)
            self._lent += len(next(iter(columns.values())))
            return lent[-1]

        try:
            return CellQuery(_build_query(scan, numbers, rows, lend), tuple(lent))
        except NoSql:
            for name in lent:
                self.take_back(name)
            return None


def _complete(
    scans: list[GroupedCount], summed: Number, done: list[NDArray[np.int64] | None], run_alone: RunAlone
) -> list[NDArray[np.int64]]:
    """Return ``done`` with the scans that are missing, measured together."""
    missing = [scan for scan, one in zip(scans, done, strict=True) if one is None]
    found = iter(run_alone(missing, summed) if missing else ())
    return [next(found) if one is None else one for one in done]


def identify_scan(scan: GroupedCount) -> object:
    """Return what two scans with the same cells and the same rows share."""
    return tuple(
        (_identify_number(column), repr(classes) if not isinstance(classes, np.ndarray) else classes.tobytes(), needed)
        for column, classes, needed in zip(scan.columns, scan.block.classes, _list_needed(scan), strict=True)
    )


def _list_needed(scan: GroupedCount) -> list[bytes]:
    needed = scan.needed or (None,) * len(scan.columns)
    return [b"" if one is None else one.tobytes() for one in needed]


def _identify_number(column: Number) -> object:
    if isinstance(column, ComputedColumn):
        program = column.program
        return (program.identity, program.first, program.steps, program.null)
    return None if column is None else column.position


def _build_query(
    scan: GroupedCount,
    numbers: Sequence[Number],
    rows: exp.Table,
    lend: Callable[[dict[str, NDArray[np.int64]]], str],
) -> exp.Select:
    """Build the query.

    Raises:
        NoSql: a computed column has none, or classes are runs.
    """
    inputs = {one.attribute.name: one for one in _list_stored(scan, numbers)}
    writer = SqlWriter(inputs, lend, [])
    conditions, terms = build_conditions([scan]), list[exp.Expr]()
    shape = scan.block.shape
    for position, column in enumerate(scan.columns):
        stride = int(np.prod(shape[position + 1 :], dtype=np.int64))
        term = _build_class(scan, position, column, writer, conditions)
        terms.append(exp.Mul(this=exp.Paren(this=term), expression=build_int_literal(stride)) if stride != 1 else term)
    cell = reduce(lambda left, right: exp.Add(this=left, expression=right), terms) if terms else build_int_literal(0)
    shown = [exp.alias_(exp.cast(exp.Paren(this=cell), "BIGINT"), _CELL), exp.alias_(exp.Count(this=exp.Star()), _ROWS)]
    for place, number in enumerate(numbers):
        if number is not None:
            shown += _sum(place, _write_number(number, writer))
    query = exp.select(*shown, copy=False).from_(rows.copy(), copy=False)
    for name, on in writer.joins:
        query = query.join(exp.to_table(name), on=on, join_type="LEFT", copy=False)
    for _, name, on in sorted(writer.inner, key=lambda one: one[0]):  # those that leave most rows out come first
        query = query.join(exp.to_table(name), on=on, copy=False)
    query = query.where(*conditions, copy=False)
    return query.group_by(exp.Literal.number(1), copy=False) if scan.columns else query


def _list_stored(scan: GroupedCount, numbers: Sequence[Number]) -> list[SourceColumn]:
    found: list[SourceColumn] = []
    for column in (*scan.columns, *numbers):
        if isinstance(column, ComputedColumn):
            found += column.inputs
        elif column is not None:
            found.append(column)
    return found


def _build_class(
    scan: GroupedCount,
    position: int,
    column: SourceColumn | ComputedColumn,
    writer: SqlWriter,
    conditions: list[exp.Expr],
) -> exp.Expr:
    """Return the class of a row in one column; rows without one are left out by ``conditions`` or a join."""
    classes = scan.block.classes[position]
    if not isinstance(classes, np.ndarray):
        raise NoSql
    needed = scan.needed[position] if scan.needed else None
    if needed is not None:
        classes = np.where(needed, classes, -1)
    if isinstance(column, ComputedColumn):
        counted = np.flatnonzero(classes >= 0)
        if column.attribute.kind == "boolean" and counted.tolist() == [_TRUE]:
            conditions += writer.write_condition(column.program.node)
            return build_int_literal(int(classes[_TRUE]))
        place: exp.Expr = exp.Paren(this=write_cell(column, writer))
        place = exp.Paren(
            this=build_case(
                (exp.LT(this=place, expression=build_int_literal(0)), build_int_literal(len(classes) - 1)),
                default=place.copy(),
            )
        )
    else:
        fixed = scan.find_fixed(position)
        if fixed is not None:
            return build_int_literal(int(classes[fixed]))  # OUTSIDE is -1, the last entry
        index = quote_name(column.index_name)
        if (classes == np.append(np.arange(len(classes) - 1), -1)).all():
            conditions.append(exp.GTE(this=index, expression=build_int_literal(0)))
            return exp.cast(index.copy(), "BIGINT", copy=False)
        if classes[-1] < 0:  # rows that are OUTSIDE do not count
            conditions.append(exp.GTE(this=index.copy(), expression=build_int_literal(0)))
            place = index
        else:
            place = exp.Paren(this=shift_outside(index, len(classes)))
    found = map_place(place, classes, writer.lend)
    if found.relation:
        assert found.on is not None
        writer.inner.append((float((classes >= 0).mean()), found.relation, found.on))
    elif (classes < 0).any():
        conditions.append(found.is_counted)
    return exp.Paren(this=found.value)


def _write_number(number: SourceColumn | ComputedColumn, writer: SqlWriter) -> exp.Expr:
    if isinstance(number, ComputedColumn):
        return write_index(number, writer)
    index = quote_name(number.index_name)
    last = build_int_literal(number.attribute.steps - 1)
    return build_case((exp.Between(this=index, low=build_int_literal(0), high=last), exp.cast(index.copy(), "BIGINT")))


def _sum(place: int, value: exp.Expr) -> list[exp.Expr]:
    """Return the rows with a value, and both halves of the sum: engines add 64 bits up in 128, so nothing overflows."""
    total = exp.func("COALESCE", exp.Sum(this=value), build_int_literal(0))
    half = build_int_literal(2**_HALF)
    return [
        exp.alias_(exp.Count(this=value.copy()), f"n{place}"),
        exp.alias_(exp.cast(exp.Mod(this=exp.Paren(this=total), expression=half), "BIGINT"), f"low{place}"),
        exp.alias_(
            exp.cast(exp.IntDiv(this=exp.Paren(this=total.copy()), expression=half.copy()), "BIGINT"), f"high{place}"
        ),
    ]


def scatter_cells(scan: GroupedCount, numbers: Sequence[Number], found: pa.Table) -> list[NDArray[np.int64]]:
    """Scatter a query's groups into the block's cells: COUNT, LOW and HIGH of each number, shape (1 or 3, cells)."""
    cells = found.column(_CELL).to_numpy().astype(np.int64)
    results = []
    for place, number in enumerate(numbers):
        fields = (_ROWS,) if number is None else (f"n{place}", f"low{place}", f"high{place}")
        result = np.zeros((len(fields), scan.block.size), dtype=np.int64)
        for row, name in zip(result, fields, strict=True):
            np.add.at(row, cells, found.column(name).to_numpy().astype(np.int64))
        results.append(result)
    assert COUNT == 0
    return results
