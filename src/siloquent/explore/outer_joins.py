"""LEFT JOIN of a linked table: the rows of the inner join where rows without a match add nothing, or NOT EXISTS."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from siloquent.errors import RequestError
from siloquent.explore.spec import Query
from siloquent.explore.spec.aggregates import Aggregate, Count
from siloquent.explore.spec.language.render import render_offer
from siloquent.explore.spec.predicate import (
    And,
    Call,
    Case,
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
from siloquent.explore.spec.rewriting.normal_form import iter_expressions, list_attributes
from siloquent.fixes import AskWith
from siloquent.schema.linked.joins import find_base
from siloquent.schema.table import TableSchema


def bind_outer(query: Query, left: TableSchema, right: TableSchema) -> Query:
    """Return ``query``, whose table ``left`` is joined with ``right`` also where nothing matches, without that join.

    A row that matches nothing has NULL in the columns of ``right``: it fails every comparison of them, and adds
    nothing to their counts, sums and averages. Where only that is asked, the inner join has the same answer.

    Raises:
        RequestError: rows that match nothing would count themselves.
    """
    if find_base([left, right]) is right:
        mine = {one.casefold() for one in left.domain.names}
        theirs = {one.casefold() for one in right.domain.names} - mine
        of_persons = query.per_unit is not None
        parts = _list_parts(query.where if query.per_unit is None else query.per_unit.where)
        missing = [one for one in parts if isinstance(one, IsNull) and _names(one) & theirs]
        if missing and not of_persons and _asks_only_for_rows_without(query, parts, missing, theirs, right):
            return _look_up(query, [one for one in parts if one not in missing], left, right)
        adds_nothing = not of_persons and _adds_nothing(query, theirs)  # a person without a match has a row of its own
        if not missing and (adds_nothing or any(_rejects_null(one, theirs) for one in parts)):
            return replace(query, is_outer=False)
    asked = replace(query, is_outer=False)
    raise RequestError(
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
    query: Query, parts: Iterable[Predicate], missing: Sequence[Predicate], theirs: set[str], right: TableSchema
) -> bool:
    """Return whether ``query`` is about rows without a match: the id of one is NULL, and no other column is named."""
    others = {name for one in parts if one not in missing for name in _names(one)}
    others |= _list_key_names(query) | {name.casefold() for one in query.bounded for name in _list_names(one)}
    ids = all(right.domain[name].kind == "id" for one in missing for name in _names(one))
    return ids and not others & theirs


def _look_up(query: Query, rest: Sequence[Predicate], left: TableSchema, right: TableSchema) -> Query:
    pairs = tuple((own.name, other.name) for own, other in (_turn(pair, left) for pair in query.on))
    one = Related(name_related(len(query.related)), right.name, pairs)
    where = And((*rest, Not(one.test)))
    return replace(query, is_outer=False, joins=(), on=(), where=where, related=(*query.related, one))


def _turn(pair: tuple[JoinedColumn, JoinedColumn], left: TableSchema) -> tuple[JoinedColumn, JoinedColumn]:
    """Return the columns of an equality, that of ``left`` first."""
    own, other = pair
    named = own.table or (left.name if other.table and other.table.casefold() != left.name.casefold() else "")
    folded = {one.casefold() for one in left.domain.names}
    is_own = named.casefold() == left.name.casefold() if named else own.name.casefold() in folded
    return (own, other) if is_own else (other, own)


def _rejects_null(part: Predicate, theirs: set[str]) -> bool:
    """Return whether a condition is not TRUE of a row that has NULL in the columns ``theirs``."""
    if isinstance(part, Not) and isinstance(part.part, (IsNull, Compare, InList, Like)):
        return _is_strict(part.part, theirs)
    if isinstance(part, And):
        return any(_rejects_null(one, theirs) for one in part.parts)
    return isinstance(part, (Compare, InList, Like)) and _is_strict(part, theirs)


def _is_strict(test: Compare | InList | Like | IsNull, theirs: set[str]) -> bool:
    plain = not any(isinstance(one, (Call, Case)) for one in iter_expressions(test))
    return plain and bool(_names(test) & theirs)


def _adds_nothing(query: Query, theirs: set[str]) -> bool:
    """Return whether rows without a match add nothing to any aggregate, and form no group."""
    return not _list_key_names(query) & theirs and all(_skips_null(one, theirs) for one in query.bounded)


def _skips_null(aggregate: Aggregate, theirs: set[str]) -> bool:
    if aggregate.test is not None and _rejects_null(aggregate.test, theirs):
        return True
    is_column = not isinstance(aggregate, Count) and aggregate.computed is None
    return is_column and aggregate.attribute.casefold() in theirs  # type: ignore[union-attr]
