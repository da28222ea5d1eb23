"""The rows of persons in SQL: for each unit one row, computed from all rows of that unit.

No row of another unit has an influence, and no row is left out: numbers are clamped once they are computed. Proof:
docs/explanation/per-person-subqueries.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import reduce

import numpy as np
from sqlglot import exp

from siloquent.data.engines.base import IN_PART
from siloquent.data.sql.indices import SourceColumn, build_case, build_int_literal, quote_name
from siloquent.data.sql.place_maps import build_tree, shift_outside, split_pieces
from siloquent.data.units.contribution_bounding import select_indexed
from siloquent.schema import Attribute
from siloquent.schema.unit_rows import ComparedColumns, RowTest, UnitColumn, UnitRows

FindColumn = Callable[[str], SourceColumn]
_USER, _WANTED = "u", "wanted"
_NARROW = 2**20
"""Steps up to which sums of 2^31 rows fit 64 bits by far; others are summed as decimals of 20 digits."""


def name_column(place: int) -> str:
    """Return the name of the column of indices at ``place``."""
    return f"k{place}"


def build_unit_rows(rows: UnitRows, find: FindColumn, user: SourceColumn) -> exp.Select:
    """Return the query of the units' rows as indices, named by ``name_column``.

    An engine may answer it for parts of the units: all rows of a unit are in one part.

    Args:
        find: Finds the column of a declared attribute.
    """
    tests = [rows.test, *(column.test for column in rows.columns)]
    used = [column.argument for column in rows.columns if column.argument]
    used += [name for test in tests if test is not None for name in test.attributes]
    columns = [find(name) for name in dict.fromkeys(used)]
    placed = select_indexed([*dict.fromkeys((*columns, user))], user=user).subquery("placed")
    kept: list[exp.Expr] = [exp.not_(exp.Is(this=quote_name(_USER), expression=exp.Null()))]
    kept.append(exp.Anonymous(this=IN_PART, expressions=[quote_name(_USER)]))
    if rows.test is not None:
        kept.append(build_test(rows.test, find))
    shown = [
        exp.alias_(_aggregate(column, find), name_column(place), quoted=True, copy=False)
        for place, column in enumerate(rows.columns)
    ] or [exp.alias_(build_int_literal(1), _WANTED, quoted=True)]
    return (
        exp.select(*shown, copy=False)
        .from_(placed, copy=False)
        .where(exp.and_(*kept, copy=False), copy=False)
        .group_by(quote_name(_USER), copy=False)
    )


def build_test(test: RowTest, find: FindColumn) -> exp.Expr:
    """Return the condition that a row is in a cell of group 0."""
    places = [
        _map_cells(shift_outside(quote_name(find(name).index_name), len(classes)), classes)
        for name, classes in zip(test.block.attributes, test.block.classes, strict=True)
    ]
    shape = test.block.shape
    strides = [int(np.prod(shape[place + 1 :], dtype=np.int64)) for place in range(len(shape))]
    terms: list[exp.Expr] = [
        exp.Mul(this=exp.Paren(this=place), expression=build_int_literal(stride))
        for place, stride in zip(places, strides, strict=True)
    ]
    cell = reduce(lambda left, right: exp.Add(this=left, expression=right), terms or [build_int_literal(0)])
    passes = exp.GTE(this=_map_cells(exp.Paren(this=cell), test.groups), expression=build_int_literal(0))
    inside = [exp.GTE(this=exp.Paren(this=place.copy()), expression=build_int_literal(0)) for place in places]
    found = (
        build_case((exp.and_(*inside, copy=False), exp.Paren(this=passes)), default=exp.false()) if inside else passes
    )
    return exp.and_(found, *(_compare(one, find) for one in test.compared)) if test.compared else found


_OPERATORS: dict[str, type[exp.Binary]] = {
    "=": exp.EQ, "!=": exp.NEQ, "<": exp.LT, "<=": exp.LTE, ">": exp.GT, ">=": exp.GTE
}  # fmt: skip


def _compare(compared: ComparedColumns, find: FindColumn) -> exp.Expr:
    """Return the condition that two attributes have values, and that these compare as asked."""
    left, right = (quote_name(find(name).index_name) for name in (compared.left, compared.right))
    known = [
        exp.and_(
            exp.GTE(this=place.copy(), expression=build_int_literal(0)),
            exp.LT(this=place.copy(), expression=build_int_literal(find(name).attribute.steps)),
        )
        for place, name in ((left, compared.left), (right, compared.right))
    ]
    moved = exp.Paren(
        this=exp.Add(this=exp.cast(left, "BIGINT"), expression=exp.Paren(this=build_int_literal(compared.offset)))
    )
    return exp.and_(*known, _OPERATORS[compared.op](this=moved, expression=right))


def _map_cells(place: exp.Expr, classes: object) -> exp.Expr:
    starts, values, rising = split_pieces(classes)  # type: ignore[arg-type]
    return build_tree(place, starts, values, rising)


def _aggregate(column: UnitColumn, find: FindColumn) -> exp.Expr:
    """Return the index of a unit's number."""
    test = None if column.test is None else build_test(column.test, find)
    if column.function == "count":
        counted = exp.Count(this=exp.Star() if test is None else build_case((test, build_int_literal(1))))
        return _clamp(counted, column.attribute)
    source = find(column.argument)
    place, steps = quote_name(source.index_name), source.attribute.steps
    is_value = exp.and_(
        exp.GTE(this=place, expression=build_int_literal(0)),
        exp.LT(this=place.copy(), expression=build_int_literal(steps)),
        *(() if test is None else (test,)),
    )
    if column.function == "distinct":
        valued = build_case((is_value, place.copy()))
        return _clamp(exp.Count(this=exp.Distinct(expressions=[valued])), column.attribute)
    if column.function in ("least", "largest"):
        kind = exp.Min if column.function == "least" else exp.Max
        null = build_int_literal(column.attribute.null_index)
        return exp.func("COALESCE", kind(this=build_case((is_value, place.copy()))), null)
    offset = count_steps(source.attribute)
    kind_of_sum = "BIGINT" if max(steps, abs(offset)) <= _NARROW else "DECIMAL(20, 0)"
    moved = exp.Add(this=exp.cast(place.copy(), "BIGINT", copy=False), expression=build_int_literal(offset))
    value = exp.cast(moved, kind_of_sum, copy=False)
    summed = exp.Sum(this=build_case((is_value, value)))
    is_empty = exp.Is(this=summed, expression=exp.Null())
    return build_case(
        (is_empty, build_int_literal(column.attribute.null_index)), default=_clamp(summed.copy(), column.attribute)
    )


def _clamp(number: exp.Expr, attribute: Attribute) -> exp.Expr:
    """Return a number in steps from 0 as an index of ``attribute``, at its bounds if it is beyond them."""
    first = count_steps(attribute)
    low, high = build_int_literal(first), build_int_literal(first + attribute.steps - 1)
    kept = build_case(
        (exp.LT(this=number, expression=low), low.copy()),
        (exp.GT(this=number.copy(), expression=high), high.copy()),
        default=number.copy(),
    )
    return exp.Sub(this=exp.cast(kept, "BIGINT", copy=False), expression=exp.Paren(this=low.copy()))


def count_steps(attribute: Attribute) -> int:
    """Return the lowest value of a number in its own steps, which is whole."""
    return int(Fraction(attribute.lo) / Fraction(attribute.grid or 1))  # type: ignore[arg-type]


def list_unit_columns(rows: UnitRows) -> Sequence[SourceColumn]:
    """List the columns of the units' rows, as they are counted and summed."""
    return [SourceColumn(one.attribute, place, "", "integer") for place, one in enumerate(rows.columns)]
