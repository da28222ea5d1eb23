"""LEFT JOIN of a linked table: the rows of the inner join where rows without a match add nothing, or NOT EXISTS."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from siloquent.errors import RequestError
from siloquent.explore.spec import Query
from siloquent.explore.spec.aggregates import Aggregate, Count
from siloquent.explore.spec.language.marks import MARK
from siloquent.explore.spec.language.refusals import quote_name
from siloquent.explore.spec.language.render import render_offer
from siloquent.explore.spec.language.select.views import join_conditions
from siloquent.explore.spec.predicate import (
    And,
    Call,
    Case,
    Column,
    Compare,
    InList,
    IsNull,
    JoinedColumn,
    Like,
    Not,
    Predicate,
)
from siloquent.explore.spec.query import GroupBy
from siloquent.explore.spec.related import Related, name_related
from siloquent.explore.spec.rewriting.name_resolution import substitute_columns
from siloquent.explore.spec.rewriting.normal_form import iter_expressions, list_attributes
from siloquent.fixes import AskWith
from siloquent.schema.constraints import Key
from siloquent.schema.linked.joins import find_base
from siloquent.schema.table import TableSchema


def bind_outer(query: Query, left: TableSchema, right: TableSchema, *, keys: Collection[str] = ()) -> Query:
    """Return ``query``, whose table ``left`` is joined with ``right`` also where nothing matches, without that join.

    A row that matches nothing has NULL in the columns of ``right``: it fails every comparison of them, and adds
    nothing to their counts, sums and averages. Where only that is asked, the inner join has the same answer.

    Args:
        keys: The ids of ``right`` by which other tables refer to its rows.
    Raises:
        RequestError: rows that match nothing would count themselves.
    """
    pairs = tuple((own.name, other.name) for own, other in (_turn(pair, left) for pair in query.on))
    theirs = _Columns(left, right)
    asked: Query = substitute_columns(replace(query, is_outer=False), _leave_table)
    if find_base([left, right]) is not right:
        raise _build_refusal(left, right, asked)
    of_persons = query.per_unit is not None
    parts = _list_parts(query.where if query.per_unit is None else query.per_unit.where)
    missing = [one for one in parts if isinstance(one, IsNull) and theirs.are_among(_names(one))]
    if not missing:
        adds_nothing = not of_persons and _adds_nothing(query, theirs)  # a person without a match has a row of its own
        if adds_nothing or any(_rejects_null(one, theirs) for one in parts):
            return asked
        raise _build_refusal(left, right, asked)
    if of_persons:
        raise _build_refusal(left, right, asked)
    rest: list[Predicate] = [substitute_columns(one, _leave_table) for one in parts if one not in missing]
    found = replace(asked, joins=(), on=(), where=join_conditions(None, And(tuple(rest)) if rest else None))
    if not _asks_only_for_rows_without(query, parts, missing, theirs):
        raise _build_refusal(left, right, replace(asked, where=found.where))
    sure = {other.casefold() for _, other in pairs} | {one.casefold() for one in (*keys, *_list_declared_keys(right))}
    for one in missing:
        name = next(iter(_names(one))).rpartition(MARK)[2]
        if right.domain[name].kind != "id" or name not in sure:
            same = Column(f"{right.name}{MARK}{pairs[0][1]}")
            changed = And(tuple(IsNull(same) if each is one else each for each in parts))
            raise RequestError(
                f"A row of {right.name!r} may have no {name!r}, and then {quote_name(name)} IS NULL holds for it as "
                f"well as for rows of {left.name!r} without a match.",
                fix=AskWith(render_offer(replace(query, where=changed))),
            )
    return _look_up(found, rest, pairs, right)


class _Columns:
    """The columns of the joined table, by their names in a query: those that the other one has, too, with its name."""

    def __init__(self, left: TableSchema, right: TableSchema) -> None:
        mine = {one.casefold() for one in left.domain.names}
        self._names = {one.casefold() for one in right.domain.names} - mine

    def are_among(self, names: Iterable[str]) -> bool:
        """Return whether one of ``names``, in lower case, is of the joined table."""
        return any(MARK in name or name in self._names for name in names)


def _leave_table(column: Column) -> Column:
    return Column(column.name.rpartition(MARK)[2]) if MARK in column.name else column


def _list_declared_keys(right: TableSchema) -> list[str]:
    """List the columns that identify a row of ``right`` by its declaration."""
    return [one.columns[0] for one in right.constraints if isinstance(one, Key) and len(one.columns) == 1]


def _build_refusal(left: TableSchema, right: TableSchema, asked: Query) -> RequestError:
    return RequestError(
        f"A LEFT JOIN is answered if rows of {left.name!r} without a match add nothing: with COUNT, SUM or AVG of "
        f"columns of {right.name!r}, or with a condition that an id of these is NULL.",
        fix=AskWith(render_offer(asked)),
    )


def _list_parts(where: Predicate | None) -> tuple[Predicate, ...]:
    return () if where is None else where.parts if isinstance(where, And) else (where,)


def _names(predicate: Predicate) -> set[str]:
    found = (name for one in iter_expressions(predicate) for name in list_attributes(one))
    return {name.casefold() for name in found}


def _list_key_names(query: Query) -> set[str]:
    keys = query.workload.keys if isinstance(query.workload, GroupBy) else ()
    return {name.casefold() for key in keys for name in list_attributes(key)}


def _list_names(aggregate: Aggregate) -> Iterable[str]:
    if not isinstance(aggregate, Count):
        yield from ([aggregate.attribute] if aggregate.computed is None else list_attributes(aggregate.computed))
    if aggregate.test is not None:
        yield from _names(aggregate.test)


def _asks_only_for_rows_without(
    query: Query, parts: Iterable[Predicate], missing: Sequence[Predicate], theirs: _Columns
) -> bool:
    """Return whether ``query`` names no other column of the joined table than those that are NULL."""
    others = {name for one in parts if one not in missing for name in _names(one)}
    others |= _list_key_names(query) | {name.casefold() for one in query.bounded for name in _list_names(one)}
    return not theirs.are_among(others)


def _look_up(query: Query, rest: Sequence[Predicate], pairs: tuple[tuple[str, str], ...], right: TableSchema) -> Query:
    one = Related(name_related(len(query.related)), right.name, pairs)
    return replace(query, where=And((*rest, Not(one.test))), related=(*query.related, one))


def _turn(pair: tuple[JoinedColumn, JoinedColumn], left: TableSchema) -> tuple[JoinedColumn, JoinedColumn]:
    """Return the columns of an equality, that of ``left`` first."""
    own, other = pair
    named = own.table or (left.name if other.table and other.table.casefold() != left.name.casefold() else "")
    folded = {one.casefold() for one in left.domain.names}
    is_own = named.casefold() == left.name.casefold() if named else own.name.casefold() in folded
    return (own, other) if is_own else (other, own)


def _rejects_null(part: Predicate, theirs: _Columns) -> bool:
    """Return whether a condition is not TRUE of a row that has NULL in the columns ``theirs``."""
    if isinstance(part, Not) and isinstance(part.part, (IsNull, Compare, InList, Like)):
        return _is_strict(part.part, theirs)
    if isinstance(part, And):
        return any(_rejects_null(one, theirs) for one in part.parts)
    return isinstance(part, (Compare, InList, Like)) and _is_strict(part, theirs)


def _is_strict(test: Compare | InList | Like | IsNull, theirs: _Columns) -> bool:
    plain = not any(isinstance(one, (Call, Case)) for one in iter_expressions(test))
    return plain and theirs.are_among(_names(test))


def _adds_nothing(query: Query, theirs: _Columns) -> bool:
    """Return whether rows without a match add nothing to any aggregate, and form no group."""
    return not theirs.are_among(_list_key_names(query)) and all(_skips_null(one, theirs) for one in query.bounded)


def _skips_null(aggregate: Aggregate, theirs: _Columns) -> bool:
    if aggregate.test is not None and _rejects_null(aggregate.test, theirs):
        return True
    is_column = not isinstance(aggregate, Count) and aggregate.computed is None
    return is_column and theirs.are_among([aggregate.attribute.casefold()])  # type: ignore[union-attr]
