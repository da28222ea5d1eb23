"""Versioned rules of query evaluation.

Conditions and keys that compute with fractions are evaluated exactly, whereas earlier versions rounded to doubles:
their old answers belong to other queries. The same holds for bins one of which begins at hi.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any

from siloquent.errors import UnknownName
from siloquent.explore.plan.cells.numbers import is_fraction
from siloquent.explore.spec.predicate import Arithmetic, Call, Column, Compare, InList, Through, Value
from siloquent.explore.spec.query import Cube, GroupBy, Query, SomeGroups
from siloquent.explore.spec.rewriting.members import list_fields
from siloquent.explore.spec.rewriting.name_resolution import list_joined
from siloquent.schema import Attribute, TableSchema, list_bin_rules

EXACT = "exact fractions"
_DIGITS = 15  # decimals of at most this many digits keep their order as doubles


def list_reading_rules(query: Query, schema: TableSchema) -> tuple[str, ...]:
    """Return the part of the identity of ``query`` besides its text; empty if all versions evaluate it alike."""
    exact = (EXACT,) if any(_is_exact(node, query, schema) for node in _iter_nodes(query)) else ()
    return (*exact, *list_bin_rules(_iter_keys(query, schema)))


def list_read_columns(query: Query, schema: TableSchema) -> set[str]:
    """Return the declared columns that the answer to ``query`` may follow from: every one that it names, and its base.

    A constant that is spelled like a column counts as one: rather one too many than one too few.
    """
    words = {text.casefold() for text in _iter_texts(query)}
    named = [one for one in schema.domain if one.name.casefold() in words]
    return {name for one in named for name in (one.name, one.argument) if name}


def _iter_texts(value: Any) -> Iterator[str]:
    """Yield all texts within ``value``."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple):
        for part in value:
            yield from _iter_texts(part)
    elif (own := list_fields(type(value))) is not None:
        for part in own:
            yield from _iter_texts(getattr(value, part.name))


def _iter_keys(query: Query, schema: TableSchema) -> Iterator[Attribute]:
    """Yield the attributes by whose declared bins ``query`` may group."""
    workload = query.workload
    groups = workload.all_groups if isinstance(workload, SomeGroups) else workload
    names: Sequence[str] = groups.attributes if isinstance(groups, Cube) else ()
    expressions = groups.keys if isinstance(groups, GroupBy) else [Column(name) for name in names]
    for key in expressions:
        attribute = _find_attribute(key.name, query, schema) if isinstance(key, Column) else None
        attribute = key.attribute if isinstance(key, Through) else attribute
        if attribute is not None:
            yield attribute


def _is_exact(node: object, query: Query, schema: TableSchema) -> bool:
    if isinstance(node, Arithmetic):
        return any(_is_fractional(leaf, query, schema) for leaf in _iter_nodes(node))
    if isinstance(node, InList):
        return isinstance(node.expression, Call) and any(_is_long(value) for value in node.values)
    if isinstance(node, Compare):
        sides = (node.left, node.right)
        return any(isinstance(side, Call) for side in sides) and any(
            isinstance(side, Value) and _is_long(side.value) for side in sides
        )
    return False


def _iter_nodes(value: Any) -> Iterator[Any]:
    """Yield all nodes of ``value``, down to attributes and constants."""
    if isinstance(value, tuple):
        for part in value:
            yield from _iter_nodes(part)
    elif (own := list_fields(type(value))) is not None:
        yield value
        if not isinstance(value, (Column, Value, Through)):
            for part in own:
                yield from _iter_nodes(getattr(value, part.name))


def _is_fractional(leaf: object, query: Query, schema: TableSchema) -> bool:
    if isinstance(leaf, Value):
        return is_fraction(leaf.value)
    attribute = _find_attribute(leaf.name, query, schema) if isinstance(leaf, Column) else None
    attribute = leaf.attribute if isinstance(leaf, Through) else attribute
    return attribute is not None and attribute.is_numeric and attribute.grid != int(attribute.grid or 0)


def _find_attribute(name: str, query: Query, schema: TableSchema) -> Attribute | None:
    with suppress(UnknownName):
        return schema.domain[name]
    tables = list_joined(query, schema)
    return next((found.attribute for one in tables if (found := one.column(name)) is not None), None)


def _is_long(value: object) -> bool:
    """Return whether a double could confuse ``value`` with a neighbouring value."""
    if isinstance(value, Decimal):
        return len(value.as_tuple().digits) > _DIGITS
    return not isinstance(value, bool) and is_fraction(value)
