"""Labels of the values in an answer's groups: words beside values, from the declaration as it is now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from siloquent.charts.text import format_label
from siloquent.errors import UnknownName
from siloquent.explore.spec.predicate import Column
from siloquent.explore.spec.query import Cube, GroupBy, Query, SomeGroups
from siloquent.explore.spec.rewriting.name_resolution import list_joined
from siloquent.schema import Attribute, TableSchema


@dataclass(frozen=True, slots=True)
class ColumnLabels:
    """The labels of one column of an answer, as (value, label)."""

    column: str
    labels: tuple[tuple[Any, str], ...]

    def to_json(self) -> dict[str, Any]:
        """Return the labels as part of a document."""
        return {"column": self.column, "values": [{"value": value, "label": label} for value, label in self.labels]}


def parse_labels(plain: Iterable[Mapping[str, Any]]) -> tuple[ColumnLabels, ...]:
    """Parse the labels of a document."""
    return tuple(
        ColumnLabels(one["column"], tuple((value["value"], value["label"]) for value in one["values"])) for one in plain
    )


def find_labels(query: Query, schema: TableSchema) -> tuple[ColumnLabels, ...]:
    """Find the labels of the attributes that ``query`` groups by as they are, bins apart."""
    workload = query.workload.all_groups if isinstance(query.workload, SomeGroups) else query.workload
    names: Sequence[str] = workload.attributes if isinstance(workload, Cube) else ()
    shown: dict[str, str] = {}
    if isinstance(workload, GroupBy):
        names = [key.name for key in workload.keys if isinstance(key, Column)]
        renamed = query.presentation.renamed if query.presentation is not None else ()
        pairs = zip(workload.keys, renamed, strict=False)
        shown = {key.name: alias for key, alias in pairs if isinstance(key, Column) and alias}
    found = [(find_key_attribute(name, query, schema), shown.get(name)) for name in names]
    return tuple(
        ColumnLabels(alias or one.name, one.labels)
        for one, alias in found
        if one is not None and one.labels and not one.edges
    )


def find_key_attribute(name: str, query: Query, schema: TableSchema) -> Attribute | None:
    """Find an attribute of the table or of the public table that ``query`` joins; None if neither declares it."""
    with suppress(UnknownName):
        return schema.domain[name]
    tables = list_joined(query, schema)
    return next((found.attribute for one in tables if (found := one.column(name)) is not None), None)


def name_label_column(column: str, columns: Sequence[str]) -> str:
    """Return the name of the column of labels beside ``column``, which no other of ``columns`` has.

    >>> name_label_column("sex", ["sex", "count"])
    'sex_label'
    """
    name = f"{column}_label"
    while name in columns:
        name += "_"
    return name


def add_label_columns(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], labels: Iterable[ColumnLabels]
) -> tuple[list[str], list[list[Any]]]:
    """Return columns and rows with a column of labels after each labelled one; None where a value has no label."""
    names, cells = list(columns), [list(row) for row in rows]
    for one in labels:
        if one.column not in names:
            continue
        place = names.index(one.column)
        words = {(type(value), value): label for value, label in one.labels}
        names.insert(place + 1, name_label_column(one.column, names))
        for row in cells:
            row.insert(place + 1, words.get((type(row[place]), row[place])))
    return names, cells


def label_values(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], labels: Iterable[ColumnLabels]
) -> Iterator[list[Any]]:
    """Yield the rows with each labelled value as text, followed by its label: ``1 female``, for charts."""
    words = {
        (list(columns).index(one.column), type(value), value): f"{format_label(value)} {label}"
        for one in labels
        if one.column in columns
        for value, label in one.labels
    }
    for row in rows:
        yield [words.get((place, type(value), value), value) if words else value for place, value in enumerate(row)]
