"""Programs of computed columns as SQL over kept indices, so that an engine groups and sums without handing out rows.

A value that is not known, NULL or left out, is NULL in SQL. Programs that tell these two apart, and those whose numbers
could leave 62 bits in some row, have no SQL: they run batch by batch (``schema.computed``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from sqlglot import exp

from siloquent.data.sql.indices import SourceColumn, build_case, build_int_literal, quote_name
from siloquent.data.sql.place_maps import MAX_BRANCHES, build_tree, split_pieces
from siloquent.schema.computed import (
    KNOWN,
    Absolute,
    Cell,
    CellComparison,
    CellNode,
    Choose,
    Combine,
    Fixed,
    Joined,
    Lookup,
    Opposite,
    Recode,
    Round,
    Scale,
    Shared,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from siloquent.data.computed_columns import ComputedColumn
    from siloquent.data.sql.place_maps import Lend

MAX_NODES = 400
"""The most parts of one program that are written into a query."""
MAX_RANGES = 16
"""The most ranges of cells that are written as a condition."""
_LARGEST = 2**62


@dataclass(frozen=True, slots=True)
class SqlValue:
    """A value in SQL, NULL where it is not known, with the bounds of known values.

    ``reach``: the largest number that any row can have here, whether its cells are known or not: engines may compute
    values before they pass over a row. 0 if it is the larger bound.
    """

    value: exp.Expr
    low: int
    high: int
    reach: int = 0

    @property
    def largest(self) -> int:
        """The largest absolute value that an engine may have to compute."""
        return max(self.reach, abs(self.low), abs(self.high))


@dataclass(frozen=True, slots=True)
class _Plain:
    """A value that is known where all of ``known`` are TRUE: the conditions that its cells are known, by attribute."""

    value: SqlValue
    known: dict[str, exp.Expr]

    def guard(self) -> SqlValue:
        """Return the value, NULL where it is not known."""
        bare = self.value
        if not self.known:
            return replace(bare, value=exp.cast(bare.value, "BIGINT", copy=False))
        known = exp.and_(*self.known.values())
        return replace(bare, value=exp.Paren(this=build_case((known, bare.value))))


def _compare(node: CellComparison, left: _Plain, right: _Plain) -> list[exp.Expr]:
    """Return that both sides are known, and compare as asked."""
    kind = {"=": exp.EQ, "<": exp.LT, "<=": exp.LTE}[node.op]
    sides = [left.value.value, right.value.value]
    one, other = node.left, node.right
    if isinstance(one, Cell) and isinstance(other, Cell) and (one.first, one.scale) == (other.first, other.scale):
        sides = [next(side.find_all(exp.Column)).copy() for side in sides]
    known = left.known | right.known
    return [*known.values(), kind(this=exp.Paren(this=sides[0]), expression=exp.Paren(this=sides[1]))]


def _list_true(node: Lookup) -> list[tuple[int, int]] | None:
    """List the ranges of cells at which a test of one attribute is TRUE; None if it is none, or they are many."""
    is_true = (node.states == KNOWN) & (node.data == 1)
    if not ((node.data == 0) | (node.data == 1)).all() or is_true[-1]:  # of OUTSIDE, whose place is -1
        return None
    starts = np.flatnonzero(np.diff(np.concatenate([[False], is_true, [False]]).astype(np.int8)))
    if len(starts) > 2 * MAX_RANGES:
        return None
    return [
        (int(node.starts[low]), int(node.starts[high]) - 1) for low, high in zip(starts[::2], starts[1::2], strict=True)
    ]


class NoSql(Exception):
    """A program that is left to batches."""


@dataclass(slots=True)
class SqlWriter:
    """Writes programs in SQL; large tables are lent to the engine and joined.

    Attributes:
        joins: The relations that values come from, with their conditions: rows without a match have none.
        inner: Those by which rows without a match are left out, each after the share of cells that have one.
    """

    columns: Mapping[str, SourceColumn]
    lend: Lend
    joins: list[tuple[str, exp.Expr]]
    inner: list[tuple[float, str, exp.Expr]] = field(default_factory=list)
    nodes: int = 0

    def write(self, node: CellNode) -> SqlValue:
        """Return ``node`` in SQL.

        Raises:
            NoSql: it tells NULL from values left out, is too long, or its numbers may be too large.
        """
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise NoSql
        plain = self._write_plain(node)
        found = self._write(node) if plain is None else plain.guard()
        if found.largest >= _LARGEST:
            raise NoSql
        return found

    def _write(self, node: CellNode) -> SqlValue:
        if isinstance(node, (CellComparison, Opposite, Joined)):
            return self._write_truth(node)
        match node:
            case Lookup():
                return self._write_lookup(node)
            case Fixed():
                return SqlValue(exp.cast(exp.Null(), "BIGINT", copy=False), 0, 0)
            case Shared():
                return self.write(node.inner)
            case Combine():
                return self._combine(self.write(node.left), node.op, self.write(node.right))
            case Choose():
                return self._choose(node)
        return self._write_mapped(node)

    def _write_mapped(self, node: CellNode) -> SqlValue:
        match node:
            case Scale():
                return self._combine(self.write(node.inner), "*", _build_fixed(node.factor))
            case Recode():
                return self._recode(node)
            case Absolute():
                return self._write_absolute(node)
            case Round():
                return self._write_round(node)
        raise NoSql

    def _write_truth(self, node: CellComparison | Opposite | Joined) -> SqlValue:
        match node:
            case CellComparison():
                left, right = self.write(node.left), self.write(node.right)
                kind = {"=": exp.EQ, "<": exp.LT, "<=": exp.LTE}[node.op]
                return _build_truth(kind(this=exp.Paren(this=left.value), expression=exp.Paren(this=right.value)))
            case Opposite():
                return _build_truth(exp.Not(this=self.write_test(node.inner)))
        parts = [self.write_test(part) for part in node.parts]
        return _build_truth((exp.or_ if node.any_of else exp.and_)(*parts, copy=False))

    def write_condition(self, node: CellNode) -> list[exp.Expr]:
        """Return conditions that are all TRUE where a node of 0 and 1 is 1; otherwise some is FALSE or UNKNOWN.

        Raises:
            NoSql: as for ``write``.
        """
        if isinstance(node, Shared):
            return self.write_condition(node.inner)
        if isinstance(node, Joined):
            parts = [self.write_condition(part) for part in node.parts]
            if not node.any_of:
                return [one for part in parts for one in part]
            return [exp.Paren(this=exp.or_(*(exp.and_(*part) for part in parts)))]
        if isinstance(node, CellComparison):
            left, right = self._write_plain(node.left), self._write_plain(node.right)
            if left is not None and right is not None:
                return _compare(node, left, right)
        if isinstance(node, Lookup) and (ranges := _list_true(node)) is not None:
            place = quote_name(self.columns[node.attribute].index_name)
            within = [
                exp.Between(this=place.copy(), low=build_int_literal(low), high=build_int_literal(high))
                for low, high in ranges
            ]
            return [exp.Paren(this=exp.or_(*within)) if within else exp.false()]
        return [self.write_test(node)]

    def _write_plain(self, node: CellNode) -> _Plain | None:
        """Return a sum, difference or product of cells and constants, which is known where all cells are."""
        if isinstance(node, Shared):
            return self._write_plain(node.inner)
        if isinstance(node, Fixed) and node.state == KNOWN:
            return _Plain(SqlValue(build_int_literal(node.value), node.value, node.value), {})
        if isinstance(node, Cell):
            return self._write_place(node)
        if isinstance(node, Scale):
            inner, factor = self._write_plain(node.inner), SqlValue(build_int_literal(node.factor), *[node.factor] * 2)
            return None if inner is None else _Plain(self._combine(inner.value, "*", factor), inner.known)
        if isinstance(node, Combine) and node.op in ("+", "-", "*"):
            left, right = self._write_plain(node.left), self._write_plain(node.right)
            if left is None or right is None:
                return None
            found = self._combine(left.value, node.op, right.value)
            if found.largest >= _LARGEST:
                raise NoSql
            return _Plain(found, left.known | right.known)
        return None

    def _write_place(self, node: Cell) -> _Plain:
        place = quote_name(self.columns[node.attribute].index_name)
        ends = (node.first, (node.steps - 1) * node.scale + node.first)
        value: exp.Expr = exp.cast(place, "BIGINT", copy=False)
        if node.scale != 1:
            value = exp.Mul(this=value, expression=build_int_literal(node.scale))
        if node.first:
            value = exp.Paren(this=exp.Add(this=value, expression=exp.Paren(this=build_int_literal(node.first))))
        known = exp.Between(this=place.copy(), low=build_int_literal(0), high=build_int_literal(node.steps - 1))
        beyond = (node.first - node.scale, self.columns[node.attribute].attribute.size * node.scale + node.first)
        return _Plain(SqlValue(value, min(ends), max(ends), max(map(abs, beyond))), {node.attribute: known})

    def write_test(self, node: CellNode) -> exp.Expr:
        """Return a node of 0 and 1 as a condition, UNKNOWN where it is not known."""
        found = self.write(node).value
        if isinstance(found, exp.Cast) and isinstance(found.this, exp.Paren) and found.args.get("truth"):
            return found.this
        return exp.Paren(this=exp.EQ(this=exp.Paren(this=found), expression=build_int_literal(1)))

    def _write_lookup(self, node: Lookup) -> SqlValue:
        index = quote_name(self.columns[node.attribute].index_name)
        outside = exp.LT(this=index, expression=build_int_literal(0))
        place = exp.Paren(this=build_case((outside, build_int_literal(node.size)), default=index.copy()))
        data, states = node.data, node.states
        if len(node.starts) <= node.size:
            if node.size >= _WIDE:
                raise NoSql
            cells = np.searchsorted(node.starts, np.arange(node.size + 1), side="right") - 1
            data, states = data[cells], states[cells]
        known = states == KNOWN
        low, high = (int(data[known].min()), int(data[known].max())) if known.any() else (0, 0)
        return SqlValue(self._map(place, data, known), low, high)

    def _map(self, place: exp.Expr, data: NDArray[np.int64], known: NDArray[np.bool_]) -> exp.Expr:
        """Return ``data`` at a place, NULL where it is not known."""
        shifted = np.where(known, data - (int(data[known].min()) if known.any() else 0), -1)
        base = int(data[known].min()) if known.any() else 0
        starts, values, rising = split_pieces(shifted)
        if len(starts) <= MAX_BRANCHES:
            found: exp.Expr = exp.Paren(this=build_tree(place, starts, values, rising))
        else:
            cells = np.flatnonzero(known)
            name = self.lend({"map_first": cells.astype(np.int64), "map_value": shifted[cells].astype(np.int64)})
            self.joins.append((name, exp.EQ(this=place, expression=quote_name("map_first", name))))
            found = quote_name("map_value", name)
        moved: exp.Expr = found.copy()
        if base:
            moved = exp.Add(this=moved, expression=exp.Paren(this=build_int_literal(base)))
        if known.all():
            return exp.Paren(this=moved)
        is_known = exp.GTE(this=found, expression=build_int_literal(0))
        return exp.Paren(this=build_case((is_known, moved)))

    def _combine(self, left: SqlValue, op: str, right: SqlValue) -> SqlValue:
        kinds: dict[str, type[exp.Binary]] = {"+": exp.Add, "-": exp.Sub, "*": exp.Mul}
        if op not in kinds:
            raise NoSql
        value = exp.Paren(this=kinds[op](this=left.value, expression=right.value))
        if op == "*":
            ends = [a * b for a in (left.low, left.high) for b in (right.low, right.high)]
            return SqlValue(value, min(ends), max(ends), left.largest * right.largest)
        reach = left.largest + right.largest
        if op == "+":
            return SqlValue(value, left.low + right.low, left.high + right.high, reach)
        return SqlValue(value, left.low - right.high, left.high - right.low, reach)

    def _recode(self, node: Recode) -> SqlValue:
        inner = self.write(node.inner)
        last = len(node.data) - 1
        place = exp.func("LEAST", exp.func("GREATEST", inner.value, build_int_literal(0)), build_int_literal(last))
        known = np.full(last + 1, True) if node.states is None else node.states == KNOWN
        is_null = exp.Is(this=inner.value.copy(), expression=exp.Null())
        found = self._map(place, node.data.astype(np.int64), known)
        value = exp.Paren(this=build_case((is_null, exp.cast(exp.Null(), "BIGINT")), default=found))
        return SqlValue(value, min(int(node.data.min()), 0), max(int(node.data.max()), 0))

    def _write_absolute(self, node: Absolute) -> SqlValue:
        inner = self.write(node.inner)
        if node.sign:
            return SqlValue(exp.cast(exp.func("SIGN", inner.value), "BIGINT", copy=False), -1, 1)
        return SqlValue(exp.func("ABS", inner.value), 0, max(abs(inner.low), abs(inner.high)))

    def _write_round(self, node: Round) -> SqlValue:
        if node.how != "floor" or node.factor != 1 or node.divisor < 1:
            raise NoSql
        inner = self.write(node.inner)
        if inner.low < 0:
            raise NoSql  # DuckDB's // rounds towards 0
        value = exp.Paren(this=exp.IntDiv(this=inner.value, expression=build_int_literal(node.divisor)))
        return SqlValue(value, inner.low // node.divisor, inner.high // node.divisor)

    def _choose(self, node: Choose) -> SqlValue:
        tests = [self.write_test(test) for test in node.tests]
        values = [self.write(value) for value in node.values]
        pairs = [(test, one.value) for test, one in zip(tests, values, strict=False)]
        found = exp.Paren(this=build_case(*pairs, default=values[-1].value))
        return SqlValue(found, min(one.low for one in values), max(one.high for one in values))


_WIDE = 2**20


def _build_fixed(value: int) -> SqlValue:
    return SqlValue(build_int_literal(value), value, value)


def _build_truth(test: exp.Expr) -> SqlValue:
    found = exp.cast(exp.Paren(this=test), "BIGINT", copy=False)
    found.set("truth", True)
    return SqlValue(found, 0, 1)


def write_index(column: ComputedColumn, writer: SqlWriter) -> exp.Expr:
    """Return a computed column's index, NULL where it has no value.

    Raises:
        NoSql: as for ``SqlWriter.write``.
    """
    program = column.program
    found = writer.write(program.node)
    index: exp.Expr = found.value
    if program.first:
        index = exp.Sub(this=index, expression=exp.Paren(this=build_int_literal(program.first)))
    if program.first <= found.low and found.high < program.first + program.steps:
        return exp.Paren(this=index)
    inside = exp.Between(
        this=exp.Paren(this=index), low=build_int_literal(0), high=build_int_literal(program.steps - 1)
    )
    return exp.Paren(this=build_case((inside, exp.Paren(this=index.copy()))))


def write_cell(column: ComputedColumn, writer: SqlWriter) -> exp.Expr:
    """Return a computed column's cell, with those of NULL and -1 for OUTSIDE.

    Raises:
        NoSql: as for ``SqlWriter.write``; or NULL has a cell and values may be left out.
    """
    program = column.program
    if program.null >= 0 and not program.is_test:
        raise NoSql
    index = write_index(column, writer)
    return exp.func("COALESCE", index, build_int_literal(program.null if program.is_test else -1))
