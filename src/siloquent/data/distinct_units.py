"""The number of units in each group, each unit once a group and in at most a stated number of groups.

All rows of a unit are considered. If they are in more groups than count, a salted hash of unit and group chooses among
the unit's own groups: no other unit's rows have an influence. Proof: docs/explanation/distinct.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from siloquent.data.contribution_bounding import HASHED, select_indexed
from siloquent.data.distinct_keys import rank_own_keys
from siloquent.data.engines.base import IN_PART
from siloquent.data.grouped_counts import GroupedCount
from siloquent.data.index_sql import SourceColumn, build_case, build_int_literal, quote_name
from siloquent.schema import Classes, ClassRuns

Integers = NDArray[np.int64]
Lend = Callable[[dict[str, Integers]], str]
"""Makes columns of public numbers a relation, and returns its name."""
MAX_BRANCHES = 256
"""The most pieces of a map that is written into the query; larger ones are joined as relations."""
_USER, _CELL, _KEY, _UNITS, _RANK = "u", "cell", "key", "units", "r"
_FIRST, _LAST, _VALUE = "map_first", "map_last", "map_value"


@dataclass(frozen=True, slots=True)
class _Mapped:
    """A place mapped to a number: its expression, and the relation that it comes from, if any, with its condition."""

    value: exp.Expr
    relation: str = ""
    on: exp.Expr | None = None

    @property
    def is_counted(self) -> exp.Expr:
        """The condition that the number is at least 0."""
        return exp.GTE(this=exp.Paren(this=self.value.copy()), expression=build_int_literal(0))


def build_unit_query(
    scan: GroupedCount,
    groups: Integers,
    user: SourceColumn,
    *,
    salt: str,
    groups_each: int | None,
    lend: Lend,
) -> exp.Select:
    """Return the query of each group (``key``) and its number of ``units``.

    An engine may answer it for parts of the users: then a group's numbers are to be added up.

    Args:
        groups: The group of each of the block's cells, -1 for those that do not count, shape (cells,).
        groups_each: The number of groups that one unit counts for; None if no unit can be in more.
        lend: Makes a large map a relation of the engine.
    """
    stored = [column for column in scan.columns if isinstance(column, SourceColumn)]  # plans ask for no others
    rows = select_indexed([*dict.fromkeys((*stored, user))], user=user).subquery("placed")
    classes = [
        _map_place(_shift_outside(quote_name(column.index_name), len(one)), one, lend)
        for column, one in zip(scan.columns, scan.block.classes, strict=True)
    ]
    shape = scan.block.shape
    strides = [int(np.prod(shape[place + 1 :], dtype=np.int64)) for place in range(len(shape))]
    terms: list[exp.Expr] = [
        exp.Mul(this=exp.Paren(this=one.value), expression=build_int_literal(stride))
        for one, stride in zip(classes, strides, strict=True)
    ]
    cell = reduce(lambda left, right: exp.Add(this=left, expression=right), terms or [build_int_literal(0)])
    shown = exp.alias_(exp.cast(exp.Paren(this=cell), "BIGINT"), _CELL, quoted=True)
    cells = _join(exp.select(quote_name(_USER), shown).from_(rows), classes)
    group = _map_place(quote_name(_CELL), groups, lend)
    key = exp.alias_(group.value, _KEY, quoted=True)
    pairs = _join(exp.select(quote_name(_USER), key).from_(cells.subquery("celled")), [group])
    held = (
        exp.select(quote_name(_USER), quote_name(_KEY))
        .distinct()
        .from_(pairs.subquery("pairs"))
        .where(exp.not_(exp.Is(this=quote_name(_USER), expression=exp.Null())))
        .where(exp.Anonymous(this=IN_PART, expressions=[quote_name(_USER)]))
    )
    counted = held if groups_each is None else _keep_some(held, user, salt, groups_each)
    return (
        exp.select(quote_name(_KEY), exp.alias_(exp.Count(this=exp.Star()), _UNITS, quoted=True))
        .from_(counted.subquery("counted"))
        .group_by(quote_name(_KEY))
    )


def _keep_some(held: exp.Select, user: SourceColumn, salt: str, groups_each: int) -> exp.Select:
    text = exp.cast(quote_name(_KEY), "VARCHAR")
    rank = exp.alias_(rank_own_keys(salt, text, hashed=user.kind in HASHED), _RANK, quoted=True)
    ranked = exp.select(quote_name(_KEY), rank).from_(held.subquery("held"))
    most = exp.LTE(this=quote_name(_RANK), expression=build_int_literal(groups_each))
    return exp.select(quote_name(_KEY)).from_(ranked.subquery("ranked")).where(most)


def _join(query: exp.Select, mapped: Sequence[_Mapped]) -> exp.Select:
    """Join ``query`` with the relations of ``mapped`` places, and leave out what they do not count."""
    for one in mapped:
        query = query.join(exp.to_table(one.relation), on=one.on) if one.relation else query.where(one.is_counted)
    return query


def _shift_outside(index: exp.Column, length: int) -> exp.Expr:
    """Return an attribute's index as a place in its classes: that of OUTSIDE is -1, and its class stands last."""
    is_outside = exp.LT(this=index, expression=build_int_literal(0))
    return build_case((is_outside, build_int_literal(length - 1)), default=index.copy())


def _map_place(place: exp.Expr, classes: Classes, lend: Lend) -> _Mapped:
    starts, values, rising = _split_pieces(classes)
    if len(starts) <= MAX_BRANCHES:
        return _Mapped(_build_tree(place, starts, values, rising))
    if isinstance(classes, ClassRuns):
        last = np.append(starts[1:], len(classes)) - 1
        kept = values >= 0
        name = lend({_FIRST: starts[kept], _LAST: last[kept], _VALUE: values[kept]})
        low = exp.GTE(this=place, expression=quote_name(_FIRST, name))
        high = exp.LTE(this=place.copy(), expression=quote_name(_LAST, name))
        return _Mapped(quote_name(_VALUE, name), name, exp.and_(low, high))
    cells = np.flatnonzero(classes >= 0)
    name = lend({_FIRST: cells, _VALUE: classes[cells]})
    return _Mapped(quote_name(_VALUE, name), name, exp.EQ(this=place, expression=quote_name(_FIRST, name)))


def _split_pieces(classes: Classes) -> tuple[Integers, Integers, NDArray[np.bool_]]:
    """Return where pieces of a map begin, the value there, and whether values rise by 1 from place to place."""
    if isinstance(classes, ClassRuns):
        return classes.starts, classes.classes, np.zeros(len(classes.starts), dtype=np.bool_)
    steps = np.diff(classes)
    # A piece goes on while each step is as the one before it, and 0 or 1.
    goes_on = ((steps == 0) | (steps == 1)) & np.append(True, steps[1:] == steps[:-1])[: len(steps)]
    starts = np.flatnonzero(np.append(True, ~goes_on))
    last = np.append(starts[1:], len(classes)) - 1
    return starts, classes[starts].astype(np.int64), classes[last] != classes[starts]


def _build_tree(place: exp.Expr, starts: Integers, values: Integers, rising: NDArray[np.bool_]) -> exp.Expr:
    """Return the value at ``place`` as a balanced tree of comparisons."""
    if len(starts) > 1:
        middle = len(starts) // 2
        is_below = exp.LT(this=place.copy(), expression=build_int_literal(int(starts[middle])))
        below = _build_tree(place, starts[:middle], values[:middle], rising[:middle])
        above = _build_tree(place, starts[middle:], values[middle:], rising[middle:])
        return build_case((is_below, below), default=above)
    if not rising[0]:
        return exp.cast(build_int_literal(int(values[0])), "BIGINT")
    shift = build_int_literal(int(values[0] - starts[0]))
    return exp.Add(this=exp.cast(place.copy(), "BIGINT"), expression=exp.Paren(this=shift))
