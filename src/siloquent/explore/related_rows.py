"""Conditions with a subquery: each is about the rows of a table that shares the persons, or about a public table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from siloquent.errors import RequestError, UnknownName
from siloquent.explore.plan.cells.distinct import list_groups
from siloquent.explore.plan.cells.predicates import compile_workload
from siloquent.explore.plan.relations.related import is_unit_pair, list_key_pairs, names_unit
from siloquent.explore.plan.row_tests import ANY_ACCURACY
from siloquent.explore.spec import Query
from siloquent.explore.spec.aggregates import Count, name_column
from siloquent.explore.spec.language.refusals import quote_name
from siloquent.explore.spec.language.render import attach_related, render_offer
from siloquent.explore.spec.language.render_conditions import render_predicate
from siloquent.explore.spec.language.select.views import join_conditions
from siloquent.explore.spec.predicate import And, Column, Compare, InList, IsNull, Not, Or, Predicate
from siloquent.explore.spec.promises import Accuracy
from siloquent.explore.spec.query import EVERY_ROW, Item, Join
from siloquent.explore.spec.related import Related, is_related, name_related
from siloquent.explore.spec.rewriting.members import list_fields
from siloquent.explore.spec.rewriting.name_resolution import resolve_predicate
from siloquent.explore.spec.rewriting.normal_form import iter_expressions, list_attributes
from siloquent.fixes import AskWith
from siloquent.schema.linked.related import name_with_related
from siloquent.schema.table import PLUS, TILDE, TableSchema

MAX_LISTED = 20_000
"""The most characters of a list of public keys."""

if TYPE_CHECKING:
    from siloquent.schema.public_tables.loaded import PublicTable
    from siloquent.session import WorkspaceSession


def bind_related(session: WorkspaceSession, query: Query, *, may_see: Callable[[str], bool]) -> Query:
    """Return ``query`` about the relation of its table and those that its conditions look up.

    Args:
        may_see: Whether the analyst may learn that a table exists; others are refused like tables that do not.
    Raises:
        RequestError: a table has not the same persons, or is tied to the rows otherwise than by these or by a link.
        UnknownName, SchemaError: as for ``session.schema``.
    """
    query = _test_ids(session, query)
    if not query.related:
        return query
    names = {name.casefold(): name for name in session.list_tables() if may_see(name)}
    base = query.table.partition(TILDE)[0]
    schema = session.schema(names.get(base.casefold(), base))
    public = {one.name.casefold(): one for one in schema.public}
    bound: list[Related] = []
    for one in query.related:
        table = public.get(one.table.casefold())
        if table is not None:
            query = _list_keys(query, one, schema, table)
        elif one.table == schema.name and one.is_own and all(_is_id(schema, own) for own, _ in one.on):
            bound.append(one)
        elif one.table.casefold() not in names:
            raise _build_unrelated(query, one, schema)
        else:
            bound.append(_bind(query, one, schema, session.schema(names[one.table.casefold()])))
    if query.per_unit is not None:
        query = _choose_persons(query)
    if not bound:
        return replace(query, related=())
    query = replace(query, table=name_with_related(schema.name, [one.table for one in bound]), related=())
    return attach_related(query, bound)


def _test_ids(session: WorkspaceSession, query: Query) -> Query:
    """Return ``query`` with the tests of ids for NULL as those of whether the row itself is found by its id."""
    tested = {one.expression.name for one in _iter_nodes(query) if _is_test_of_column(one)}
    base = query.table.partition(TILDE)[0]
    if not tested or (PLUS not in base and base not in session.list_tables()):
        return query
    schema = session.schema(base)
    ids = {name for name in tested if _has(schema, name) and schema.domain[name].kind == "id"}
    if not ids or schema.unit.kind == "row":
        return query
    query = _name_counts(query, ids)
    related = list(query.related)
    for name in sorted(ids):
        if names_unit(name, schema):  # a row without a unit counts nowhere
            query = _replace_null_test(query, name, Or(()))
            continue
        attribute = schema.domain[name].name
        related.append(Related(name_related(len(related)), schema.name, ((attribute, attribute),)))
        query = _replace_null_test(replace(query, related=tuple(related)), name, Not(related[-1].test))
    return query


def _is_test_of_column(value: object) -> bool:
    return isinstance(value, IsNull) and isinstance(value.expression, Column)


def _name_counts(query: Query, ids: set[str]) -> Query:
    """Return ``query`` with the columns of counts of ids named as ever."""

    def name(item: Item) -> str:
        is_count = isinstance(item.aggregate, Count) and item.aggregate.counted in ids
        return item.alias or (name_column(item.aggregate) if is_count else "")

    if not query.shows_values:
        return query
    others = tuple(replace(one, alias=name(one)) for one in query.others)
    return replace(query, alias=name(Item(query.aggregate, query.alias)), others=others)


def _replace_null_test(query: Query, name: str, test: Predicate) -> Query:
    found: Query = _change(query, lambda one: test if _is_test_of_column(one) and one.expression.name == name else None)
    return found


def _bind(query: Query, related: Related, schema: TableSchema, other: TableSchema) -> Related:
    """Return a condition on the rows of ``other`` as its declaration names them, tied by the unit or by a link."""
    if other.account != schema.account or "row" in (schema.unit.kind, other.unit.kind):
        raise _build_unrelated(query, related, schema)
    pairs, rest = list(related.on), []
    for part in _list_parts(related.where):
        pair = _find_pair(part, schema, other)
        if pair is None:
            rest.append(part)
        else:
            pairs.append(pair)
    keys = [pair for pair in pairs if not is_unit_pair(pair, schema, other)]
    if not _are_keys(keys, len(pairs), schema, other):
        raise _build_untied(query, related, schema, other)
    if keys and related.listed and _is_negated(query, related):
        right = Related(related.name, other.name, tuple(keys), _join(rest))
        asked = replace(query, related=tuple(right if one is related else one for one in query.related))
        raise RequestError(
            "NOT IN with a subquery takes the column that names the person; of a key, it depends on whether one is "
            "NULL.",
            fix=AskWith(render_offer(asked)),
        )
    on = tuple(keys) or ((schema.unit.column, other.unit.column),)
    where = _join(rest)
    where = None if where is None else resolve_predicate(where, other)
    for mine, _, theirs in related.compared:
        for name, rows in ((mine, schema), (theirs, other)):
            if not _has(rows, name):
                raise UnknownName("attribute", name, rows.domain.names)
    return Related(related.name, other.name, on, where, listed=not keys, compared=related.compared)


def _join(parts: Sequence[Predicate]) -> Predicate | None:
    return And(tuple(parts)) if len(parts) > 1 else next(iter(parts), None)


def _list_parts(where: Predicate | None) -> tuple[Predicate, ...]:
    return () if where is None else where.parts if isinstance(where, And) else (where,)


def _find_pair(part: Predicate, schema: TableSchema, other: TableSchema) -> tuple[str, str] | None:
    """Find the pair of columns of both tables that an equality without tables' names ties."""
    if not (isinstance(part, Compare) and part.op == "="):
        return None
    left, right = part.left, part.right
    if not (isinstance(left, Column) and isinstance(right, Column)):
        return None
    for own, theirs in ((left.name, right.name), (right.name, left.name)):
        if _has(schema, own) and not _has(other, own) and _has(other, theirs):
            return own, theirs
    return None


def _is_id(schema: TableSchema, name: str) -> bool:
    return _has(schema, name) and schema.domain[name].kind == "id"


def _has(schema: TableSchema, name: str) -> bool:
    with suppress(UnknownName):
        return bool(schema.domain[name])
    return False


def _are_keys(keys: list[tuple[str, str]], pairs: int, schema: TableSchema, other: TableSchema) -> bool:
    """Return whether the pairs that are not the unit's are those of a link; without any, the unit's must be there."""
    if not keys:
        return pairs > 0
    folded = {(own.casefold(), theirs.casefold()) for own, theirs in keys}
    linked = [{(a.casefold(), b.casefold()) for a, b in one} for one in list_key_pairs(schema, other)]
    return folded in linked and not any(
        schema.domain[own].is_countable or other.domain[theirs].is_countable for own, theirs in keys
    )


def _is_negated(query: Query, related: Related) -> bool:
    """Return whether a NOT is around the condition somewhere in ``query``."""
    return any(isinstance(one, Not) and related.name in _list_names(one) for one in _iter_nodes(query))


def _list_names(predicate: Predicate) -> set[str]:
    return {name for one in iter_expressions(predicate) for name in list_attributes(one)}


def _iter_nodes(value: Any) -> Iterator[Any]:
    if isinstance(value, tuple):
        for part in value:
            yield from _iter_nodes(part)
    elif (own := list_fields(type(value))) is not None:
        yield value
        for field in own:
            yield from _iter_nodes(getattr(value, field.name))


def _choose_persons(query: Query) -> Query:
    """Return a query about persons' rows whose conditions on other tables choose the rows that these come from.

    Raises:
        RequestError: such a condition and one on the persons' own values are joined otherwise than by AND.
    """
    assert query.per_unit is not None
    inner: list[Predicate] = []
    outer: list[Predicate] = []
    for part in _list_parts(query.where):
        related = [is_related(name) for name in _list_names(part)]
        if any(related) and not all(related):
            raise RequestError(
                "Conditions on a person's rows of another table and on columns of the subquery are joined by AND only.",
                fix="join them by AND, or leave one of them out",
            )
        (inner if all(related) else outer).append(part)
    rows = query.per_unit.where
    for part in inner:
        rows = join_conditions(rows, part)
    return replace(query, where=_join(outer), per_unit=replace(query.per_unit, where=rows))


def _list_keys(query: Query, related: Related, schema: TableSchema, table: PublicTable) -> Query:
    """Return ``query`` with the keys of the rows of a public table that pass, in place of a condition on it."""
    key = table.key
    if [(own.casefold(), theirs.casefold()) for own, theirs in related.on] != [(key.casefold(), key.casefold())]:
        raise RequestError(
            f"{schema.name!r} refers to the public table {table.name!r} by {key!r}, not by other columns.",
            fix=f"{quote_name(key)} IN (SELECT {quote_name(key)} FROM {quote_name(table.name)} WHERE ...)",
        )
    asked = Query(schema.name, EVERY_ROW, ANY_ACCURACY, where=related.where, join=Join(table.name, key))
    (part,) = compile_workload(asked, schema).parts
    attribute, groups = schema.domain[key], list_groups(part)
    classes = part.block.classes[0]
    keys = np.arange(attribute.steps)
    chosen = keys[groups[classes[keys]] == 0]
    join = f"FROM {quote_name(schema.name)} JOIN {quote_name(table.name)} USING ({quote_name(key)})"
    too_many = RequestError(f"{len(chosen):,} keys of {table.name!r} pass, too many for a list.", fix=join)
    if len(chosen) * len("1, ") > MAX_LISTED:  # before they are named: there may be a million
        raise too_many
    passing = tuple(map(attribute.label, chosen.tolist()))
    test: Predicate = InList(Column(attribute.name), passing) if passing else Or(())
    if len(render_predicate(test)) > MAX_LISTED:
        raise too_many
    return _replace_test(query, related.name, test)


def _replace_test(query: Query, name: str, test: Predicate) -> Query:
    """Return ``query`` with ``test`` wherever the condition ``name`` stands."""

    found: Query = _change(query, lambda one: test if isinstance(one, Compare) and one.left == Column(name) else None)
    return found


def _change(value: Any, find: Callable[[Any], Any]) -> Any:
    """Return a query or a part of one with what ``find`` returns, unless it is None, in place of each node."""
    if isinstance(value, tuple):
        parts = tuple(_change(one, find) for one in value)
        return value if all(a is b for a, b in zip(parts, value, strict=True)) else parts
    own = list_fields(type(value))
    if own is None or isinstance(value, Related):
        return value
    if (found := find(value)) is not None:
        return found
    changed = {one.name: _change(getattr(value, one.name), find) for one in own if one.init}
    changed = {name: one for name, one in changed.items() if one is not getattr(value, name)}
    return replace(value, **changed) if changed else value


def _build_unrelated(query: Query, related: Related, schema: TableSchema) -> RequestError:
    return RequestError(
        f"{related.table!r} is neither a public table that {schema.name!r} refers to, nor one whose rows belong to the "
        "same persons: only these can be looked up by EXISTS and IN.",
        fix=_suggest_without(query),
    )


def _build_untied(query: Query, related: Related, schema: TableSchema, other: TableSchema) -> RequestError:
    on = ((schema.unit.column, other.unit.column),)
    parts = [one for one in _list_parts(related.where) if _find_pair(one, schema, other) is None]
    right = Related(related.name, other.name, on, _join(parts), listed=True)
    asked = replace(query, related=tuple(right if one is related else one for one in query.related))
    return RequestError(
        f"Rows of {other.name!r} can be looked up only by person, or by the columns of their link with "
        f"{schema.name!r}: other columns could lead to rows of other people.",
        fix=AskWith(render_offer(asked)),
    )


def _suggest_without(query: Query) -> AskWith:
    """Return the question without its conditions on other tables."""
    where = [one for one in _list_parts(query.where) if not any(map(is_related, _list_names(one)))]
    promise = query.promise
    if isinstance(promise, Accuracy):
        promise = replace(promise, more=(), at_least=None)
    bare = Query(query.table.partition(TILDE)[0], EVERY_ROW, promise, where=And(tuple(where)) if where else None)
    return AskWith(render_offer(bare))
