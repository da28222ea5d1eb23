"""Rewriting of queries: with attributes named as declared, or with one name corrected."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from siloquent.errors import UnknownName
from siloquent.explore.spec.members import fields_of
from siloquent.explore.spec.predicate import Column, InList, Value
from siloquent.explore.spec.query import Query
from siloquent.schema import TableSchema


@dataclass(frozen=True, slots=True)
class _Rewriter:
    """The replacement of attribute names and of text constants."""

    attribute: Callable[[str], str] = str
    constant: Callable[[str], str] = str
    column: Callable[[Column], Any] | None = None

    def rewrite(self, value: Any, field: str = "") -> Any:
        """Return ``value`` rewritten; the same object if nothing changes."""
        if isinstance(value, str):
            is_name = field in ("attribute", "attributes")
            return self.attribute(value) if is_name else self.constant(value) if field == "constant" else value
        if isinstance(value, tuple):
            parts = tuple(self.rewrite(part, field) for part in value)
            return value if all(a is b for a, b in zip(parts, value, strict=True)) else parts
        if isinstance(value, Column) and self.column is not None:
            return self.column(value)
        own = fields_of(type(value))
        if own is None:
            return value
        changed = {}
        for part in own:
            before = getattr(value, part.name)
            after = self.rewrite(before, _classify_field(value, part.name)) if part.init else before
            if after is not before and after != before:
                changed[part.name] = after
        return replace(value, **changed) if changed else value


def _classify_field(value: Any, name: str) -> str:
    """Classify a text in this field: a constant, an attribute's name, or neither."""
    if (isinstance(value, Value) and name == "value") or (isinstance(value, InList) and name == "values"):
        return "constant"
    return "attribute" if isinstance(value, Column) and name == "name" else name


def resolve_names(query: Query, schema: TableSchema) -> Query:
    """Return ``query`` with every attribute's name as declared, so that spelling it in another case changes nothing.

    Names that are not declared are kept; later stages refuse them.
    """
    public = [table for table in schema.public if query.join is not None and table.name == query.join.table]

    def declared(name: str) -> str:
        with suppress(UnknownName):
            return schema.domain[name].name
        found = public[0].column(name) if public else None
        return name if found is None else found.attribute.name

    words = _Rewriter(attribute=declared)
    spelled: Query = words.rewrite(query)
    if query.join is None or query.join.key == declared(query.join.key):
        return spelled
    return replace(spelled, join=replace(query.join, key=declared(query.join.key)))


def replace_columns(query: Query, expression: Callable[[Column], Any]) -> Query:
    """Return ``query`` with ``expression`` applied to every attribute in its keys and conditions."""
    return _Rewriter(column=expression).rewrite(query)  # type: ignore[no-any-return]


def correct_name(query: Query, wrong: UnknownName) -> Query | None:
    """Return ``query`` with the name or value reported by ``wrong`` corrected; None if there is no suggestion."""
    if wrong.near is None:
        return None

    def meant(text: str) -> str:
        return str(wrong.near) if text == wrong.name else text

    words = _Rewriter(constant=meant) if wrong.kind.startswith("value of ") else _Rewriter(attribute=meant)
    found: Query = words.rewrite(query)
    return None if found == query else found
