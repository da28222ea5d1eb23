"""Rewriting of queries: with attributes named as declared, or with one name corrected."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from typing import Any

from siloquent.errors import RequestError, UnknownName
from siloquent.explore.spec.aggregates import Aggregate, Deviation, Extreme, Variance
from siloquent.explore.spec.numbers import read_number
from siloquent.explore.spec.per_unit import PerUnit
from siloquent.explore.spec.predicate import Column, Compare, InList, Predicate, Value
from siloquent.explore.spec.query import Query
from siloquent.explore.spec.related import Related
from siloquent.explore.spec.rewriting.members import list_fields
from siloquent.schema import Attribute, TableSchema
from siloquent.schema.files.coercion import read_boolean
from siloquent.schema.public_tables.joined import PublicJoin, join_public
from siloquent.schema.public_tables.loaded import PublicTable


@dataclass(frozen=True, slots=True)
class _Rewriter:
    """The replacement of attribute names and of text constants."""

    attribute: Callable[[str], str] = str
    constant: Callable[[str], str] = str
    column: Callable[[Column], Any] | None = None
    test: Callable[[Any], Any] | None = None
    in_aggregates: bool = False

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
        if isinstance(value, (Compare, InList)) and self.test is not None:
            return self.test(value)
        # The names within these are those of the table, or of another one.
        own = None if isinstance(value, (PerUnit, Related, PublicJoin)) else list_fields(type(value))
        if own is None:
            return value
        changed: dict[str, Any] = {}
        for part in own:
            before = getattr(value, part.name)
            if self.in_aggregates and part.name == "attribute" and hasattr(value, "computed"):
                changed |= self._replace_attribute(value)
                continue
            after = self.rewrite(before, _classify_field(value, part.name)) if part.init else before
            if after is not before and after != before:
                changed[part.name] = after
        return replace(value, **changed) if changed else value

    def _replace_attribute(self, aggregate: Any) -> dict[str, Any]:
        """Return the fields of ``aggregate`` that change if its attribute is a column to replace."""
        if aggregate.computed is not None or self.column is None:
            return {}
        found = self.column(Column(aggregate.attribute))
        return {"attribute": found.name} if isinstance(found, Column) else {"computed": found}


def _classify_field(value: Any, name: str) -> str:
    """Classify a text in this field: a constant, an attribute's name, or neither."""
    if (isinstance(value, Value) and name == "value") or (isinstance(value, InList) and name == "values"):
        return "constant"
    return "attribute" if isinstance(value, Column) and name == "name" else name


def resolve_names(query: Query, schema: TableSchema) -> Query:
    """Return ``query`` with every attribute's name as declared, so that spelling it in another case changes nothing.

    Names that are not declared are kept; later stages refuse them.
    """
    if query.related:
        query = replace(query, related=tuple(_resolve_related(one, schema) for one in query.related))
    if query.per_unit is not None:
        return _resolve_units(query, query.per_unit, schema)
    public = list_joined(query, schema)

    def declared(name: str) -> str:
        found = find(name)
        return name if found is None else found.name

    def find(name: str) -> Attribute | None:
        with suppress(UnknownName):
            return schema.domain[name]
        return next((found.attribute for one in public if (found := one.column(name)) is not None), None)

    words = _Rewriter(attribute=declared)
    spelled: Query = words.rewrite(query)
    spelled = _Rewriter(test=lambda test: _read_codes(test, find)).rewrite(spelled)
    if query.join is None or query.join.key == declared(query.join.key):
        return spelled
    return replace(spelled, join=replace(query.join, key=declared(query.join.key)))


def list_joined(query: Query, schema: TableSchema) -> list[PublicTable]:
    """List the public tables that ``query`` joins, as far as ``schema`` refers to them."""
    if query.publics:
        with suppress(RequestError):
            return join_public(schema, query.publics)
        return []
    return [table for table in schema.public if query.join is not None and table.name == query.join.table]


def _resolve_related(related: Related, schema: TableSchema) -> Related:
    """Return a condition on another table's rows with names as that table declares them, and its own as ``schema``."""
    other = next((one for one in schema.related if one.name.casefold() == related.table.casefold()), None)
    if other is None:
        return related

    def declared(name: str, where: TableSchema) -> str:
        with suppress(UnknownName):
            return where.domain[name].name
        return name

    on = tuple((declared(own, schema), declared(theirs, other)) for own, theirs in related.on)
    where = None if related.where is None else resolve_predicate(related.where, other)
    compared = tuple((declared(own, schema), op, declared(theirs, other)) for own, op, theirs in related.compared)
    return replace(related, table=other.name, on=on, where=where, compared=compared)


def resolve_predicate(predicate: Predicate, schema: TableSchema) -> Predicate:
    """Return a condition on the rows of ``schema`` with names and constants as it declares them."""

    def declared(name: str) -> str:
        with suppress(UnknownName):
            return schema.domain[name].name
        return name

    def find(name: str) -> Attribute | None:
        with suppress(UnknownName):
            return schema.domain[name]
        return None

    spelled = _Rewriter(attribute=declared).rewrite(predicate)
    read: Predicate = _Rewriter(test=lambda test: _read_codes(test, find)).rewrite(spelled)
    return read


def _resolve_units(query: Query, per_unit: PerUnit, schema: TableSchema) -> Query:
    """Do the same for a query about the rows of units: the subquery's names are the table's, others the subquery's."""

    def declared(name: str) -> str:
        with suppress(UnknownName):
            return schema.domain[name].name
        return name

    def find_declared(name: str) -> Attribute | None:
        with suppress(UnknownName):
            return schema.domain[name]
        return None

    def named(name: str) -> str:
        found = per_unit.find(name)
        return name if found is None else found.name

    def find_column(name: str) -> Attribute | None:
        found = per_unit.find(name)
        is_value = found is not None and isinstance(found.aggregate, Extreme)
        return find_declared(found.aggregate.attribute) if is_value else None  # type: ignore[union-attr]

    inner = _Rewriter(attribute=declared)
    codes = _Rewriter(test=lambda test: _read_codes(test, find_declared))
    values = tuple(replace(one, aggregate=codes.rewrite(inner.rewrite(one.aggregate))) for one in per_unit.values)
    where = codes.rewrite(inner.rewrite(per_unit.where))
    rows = PerUnit(declared(per_unit.unit), values, where)
    outer: Query = _Rewriter(attribute=named).rewrite(query)
    outer = _Rewriter(test=lambda test: _read_codes(test, find_column)).rewrite(outer)
    return replace(outer, per_unit=rows)


def _read_codes(test: Compare | InList, find: Callable[[str], Attribute | None]) -> Compare | InList:
    """Return ``test`` with constants as declared: a boolean's 0 or 1, a category's code, a number's text, a label."""
    if isinstance(test, InList):
        attribute = find(test.expression.name) if isinstance(test.expression, Column) else None
        return (
            test if attribute is None else replace(test, values=tuple(read_code(attribute, one) for one in test.values))
        )
    for constant, other in ((test.right, test.left), (test.left, test.right)):
        attribute = find(other.name) if isinstance(other, Column) and isinstance(constant, Value) else None
        if attribute is None or not (test.op in ("=", "!=") or attribute.is_numeric):
            continue
        assert isinstance(constant, Value)
        read = Value(read_code(attribute, constant.value))
        return replace(test, right=read) if constant is test.right else replace(test, left=read)
    return test


def read_code(attribute: Attribute, constant: Any) -> Any:
    """Return the declared value that ``constant`` stands for; ``constant`` itself if it stands for none.

    >>> read_code(Attribute("smoker", "boolean"), 1), read_code(Attribute("smoker", "boolean"), "f")
    (True, False)
    """
    if constant is None or isinstance(constant, (bool, date)):
        return constant
    if isinstance(constant, str) and not (attribute.kind == "category" and constant in attribute.values):
        labelled = attribute.find_labelled(constant)
        if labelled is not None:
            return labelled
    if attribute.kind == "boolean":
        truth = read_boolean(constant)
        return constant if truth is None else truth
    if attribute.kind in ("integer", "real") and isinstance(constant, str):
        number = read_number(constant)  # as SQL reads a text that is compared with a number
        return constant if number is None else number
    is_whole = isinstance(constant, (int, Decimal)) and constant == int(constant)
    if attribute.kind == "category" and is_whole and str(int(constant)) in attribute.values:
        return str(int(constant))
    return constant


def list_names(query: Query) -> set[str]:
    """Return all names of its tables' attributes in ``query``, in lower case."""
    found: set[str] = set()

    def note(name: str) -> str:
        found.add(name.casefold())
        return name

    names = _Rewriter(attribute=note)
    if query.per_unit is None:
        names.rewrite(query)
    else:
        note(query.per_unit.unit)
        names.rewrite((query.per_unit.where, *(one.aggregate for one in query.per_unit.values)))
    return found


def list_related(query: Query) -> list[Related]:
    """List the conditions with a subquery that ``query`` uses."""
    found: set[str] = set()

    def note(column: Column) -> Column:
        found.add(column.name)
        return column

    inner = () if query.per_unit is None else (query.per_unit.where, *(one.aggregate for one in query.per_unit.values))
    substitute_columns((replace(query, related=()), *inner), note)
    return [one for one in query.related if one.name in found]


def replace_columns(query: Query, expression: Callable[[Column], Any]) -> Query:
    """Return ``query`` with ``expression`` applied to every attribute in its keys and conditions."""
    return _Rewriter(column=expression).rewrite(query)  # type: ignore[no-any-return]


def substitute_columns(value: Any, expression: Callable[[Column], Any]) -> Any:
    """Return a query or a part of one with ``expression`` applied to every attribute in it, in aggregates too."""
    return _Rewriter(column=expression, in_aggregates=True).rewrite(value)


def read_as_population(query: Query) -> Query:
    """Return ``query`` with VAR and STDDEV as earlier versions read them: divided by the number of rows."""

    def read(one: Aggregate) -> Aggregate:
        return replace(one, sample=False) if isinstance(one, (Variance, Deviation)) else one

    others = tuple(replace(item, aggregate=read(item.aggregate)) for item in query.others)
    return replace(query, aggregate=read(query.aggregate), others=others)


def correct_name(query: Query, wrong: UnknownName) -> Query | None:
    """Return ``query`` with the name or value reported by ``wrong`` corrected; None if there is no suggestion."""
    if wrong.near is None:
        return None

    def meant(text: str) -> str:
        return str(wrong.near) if text == wrong.name else text

    words = _Rewriter(constant=meant) if wrong.kind.startswith("value of ") else _Rewriter(attribute=meant)
    found: Query = words.rewrite(query)
    return None if found == query else found
