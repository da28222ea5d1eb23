"""The number of units in each group, each unit once a group and in at most a stated number of groups.

All rows of a unit are considered. If they are in more groups than count, a salted hash of unit and group chooses among
the unit's own groups: no other unit's rows have an influence. Proof: docs/explanation/distinct.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
from sqlglot import exp

from siloquent.data.engines.base import IN_PART
from siloquent.data.grouped_counts import GroupedCount
from siloquent.data.sql.indices import SourceColumn, build_int_literal, quote_name
from siloquent.data.sql.place_maps import Integers, Lend, MappedPlace, map_place, shift_outside
from siloquent.data.units.contribution_bounding import HASHED, select_indexed
from siloquent.data.units.distinct_keys import rank_own_keys

_USER, _CELL, _KEY, _UNITS, _RANK = "u", "cell", "key", "units", "r"


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
        map_place(shift_outside(quote_name(column.index_name), len(one)), one, lend)
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
    group = map_place(quote_name(_CELL), groups, lend)
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


def _join(query: exp.Select, mapped: Sequence[MappedPlace]) -> exp.Select:
    """Join ``query`` with the relations of ``mapped`` places, and leave out what they do not count."""
    for one in mapped:
        query = query.join(exp.to_table(one.relation), on=one.on) if one.relation else query.where(one.is_counted)
    return query
