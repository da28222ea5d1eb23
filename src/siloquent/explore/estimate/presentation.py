"""The order, the number and the names of an answer's rows: free, since only released values are compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from siloquent.explore.estimate.reconstruct import EstimatedRows
from siloquent.explore.spec.answers.labels import find_key_attribute
from siloquent.explore.spec.predicate import Column, Expression
from siloquent.explore.spec.presentation import SortKey
from siloquent.explore.spec.query import GroupBy, Query
from siloquent.schema import TableSchema

Rows = list[tuple[Any, ...]]


def present(
    query: Query, schema: TableSchema, estimate: EstimatedRows, labels: Sequence[tuple[Any, ...]]
) -> EstimatedRows:
    """Return ``estimate`` sorted, cut and renamed as ``query`` says.

    Args:
        labels: All groups' key values, in declared order.
    """
    shown = query.presentation
    if shown is None or not isinstance(query.workload, GroupBy):
        return estimate
    rows: Rows = list(estimate.rows)
    for sort in reversed(shown.order):  # sorting is stable, so the last key is sorted by first
        place = _find_column(query, estimate.columns, sort.place)
        if place is not None:
            rank = _build_rank(query, schema, query.workload.keys, labels, sort.place)
            rows = _sort(rows, sort, place, rank)
    end = None if shown.limit is None else shown.offset + shown.limit
    names = list(estimate.columns)
    hidden = _find_hidden(query, names)
    for place, name in enumerate(shown.renamed):
        names[place] = name or names[place]
    visible = [place for place in range(len(names)) if place not in hidden]
    kept = (tuple(row[place] for place in visible) for row in rows[shown.offset : end])
    return EstimatedRows(tuple(names[place] for place in visible), tuple(kept), estimate.notes)


def _find_hidden(query: Query, names: Sequence[str]) -> set[int]:
    """Find the columns of values that only sort, with their intervals."""
    shown = query.presentation
    last = () if shown is None or not shown.hidden else shown.shown[-shown.hidden :]
    found = {f"{one.name}{end}" for one in last for end in ("", "_low", "_high")}
    return {place for place, name in enumerate(names) if name in found}


def _find_column(query: Query, columns: Sequence[str], place: int) -> int | None:
    """Find the column of a key or of a value; None if the value was not measured, since a second step was refused."""
    assert isinstance(query.workload, GroupBy)
    keys = len(query.workload.keys)
    if place < keys:
        return place
    name = query.columns[place - keys]
    return list(columns).index(name, keys) if name in columns[keys:] else None


def _build_rank(
    query: Query, schema: TableSchema, keys: Sequence[Expression], labels: Sequence[tuple[Any, ...]], place: int
) -> Callable[[Any], Any]:
    """Return the function whose values are compared: bins keep declared order, everything else is compared itself."""
    key = keys[place] if place < len(keys) else None
    attribute = find_key_attribute(key.name, query, schema) if isinstance(key, Column) else None
    if attribute is None or not attribute.edges:
        return lambda value: value
    order = {value: rank for rank, value in enumerate(dict.fromkeys(label[place] for label in labels))}
    return order.__getitem__


def _sort(rows: Rows, sort: SortKey, place: int, rank: Callable[[Any], Any]) -> Rows:
    known = [row for row in rows if row[place] is not None]
    unknown = [row for row in rows if row[place] is None]
    known.sort(key=lambda row: rank(row[place]), reverse=sort.descending)
    return [*unknown, *known] if sort.nulls_first else [*known, *unknown]
