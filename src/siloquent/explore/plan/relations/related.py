"""Conditions on related tables, without data: each is a boolean attribute of the rows that a query is about.

Proof: docs/explanation/related-rows.md.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace

from siloquent.errors import RequestError
from siloquent.explore.plan.row_tests import compile_test, count_steps_between, require_few_pieces
from siloquent.explore.spec.language.refusals import quote_name
from siloquent.explore.spec.predicate import CompareOp
from siloquent.explore.spec.query import Query
from siloquent.explore.spec.related import Related
from siloquent.explore.spec.rewriting.canonical import build_document
from siloquent.schema import Attribute, Domain, TableSchema
from siloquent.schema.related import RelatedColumn
from siloquent.schema.unit_rows import ComparedColumns


def relate_rows(query: Query, schema: TableSchema) -> TableSchema:
    """Return ``schema`` with an attribute for each condition of ``query`` on a related table.

    Raises:
        UnknownName, RequestError: a condition does not fit the declarations.
    """
    if not query.related or schema.looked_up:
        return schema
    columns = tuple(_build_column(one, schema) for one in query.related)
    require_few_pieces([one.test for one in columns])
    names = {name.casefold() for name in schema.domain.names}
    for one in columns:
        if one.attribute.name.casefold() in names:
            raise RequestError(
                f"An attribute of {schema.name} is named {one.attribute.name!r}, as a condition of this query is.",
                fix="give it another name in the table file and its source",
            )
    added = (*schema.domain, *(one.attribute for one in columns))
    identity = _compute_identity(query, schema)
    return replace(schema, domain=Domain(added, relation=identity), extended=schema.declared, looked_up=columns)


def _build_column(related: Related, schema: TableSchema) -> RelatedColumn:
    other = next((one for one in schema.related if one.name == related.table), None)
    if other is None:
        raise RequestError(
            f"{related.table!r} is not a table whose rows belong to the persons of {schema.name!r}.",
            fix=f"declare units/NAME.toml, and how the rows of {schema.name} and of {related.table} find it",
        )
    on = tuple(pair for pair in related.on if not is_unit_pair(pair, schema, other))
    test = compile_test(related.where, other, "a subquery of EXISTS or IN")
    compared = next((_compare(*one, schema, other) for one in related.compared), None)
    return RelatedColumn(Attribute(related.name, "boolean", null="drop"), other.name, on, test, compared)


def _compare(own: str, op: CompareOp, theirs: str, schema: TableSchema, other: TableSchema) -> ComparedColumns:
    """Return the comparison of an attribute of the rows with one of the table that is looked up.

    Raises:
        UnknownName: an attribute is not declared. RequestError: they are not comparable cell by cell.
    """
    left, right = schema.domain[own], other.domain[theirs]
    offset = count_steps_between(left, right)
    if left.kind == right.kind == "category" and left.values == right.values and op in ("=", "!="):
        offset = 0
    if offset is None or left.function or right.function:
        raise RequestError(
            f"{left.name!r} of {schema.name} and {right.name!r} of {other.name} are not numbers or dates of one grid, "
            "nor categories with the same values compared by <>.",
            fix="compare attributes that are declared alike",
        )
    return ComparedColumns(left.name, op, right.name, offset)


def is_unit_pair(pair: tuple[str, str], schema: TableSchema, other: TableSchema) -> bool:
    """Return whether a pair of columns is that of the attributes which name the unit of both tables."""
    own, theirs = pair
    return names_unit(own, schema) and names_unit(theirs, other)


def names_unit(name: str, schema: TableSchema) -> bool:
    """Return whether ``name`` is the attribute that names the unit of the rows, their own or that of a joined table."""
    if name.casefold() == schema.unit.column.casefold():
        return True
    link = schema.link
    while link is not None and link.columns is not None:
        parent = link.parent
        if name.casefold() == parent.unit.column.casefold():
            return True
        link = parent.link
    return False


def list_key_pairs(schema: TableSchema, other: TableSchema) -> list[tuple[tuple[str, str], ...]]:
    """List the pairs of columns, besides the unit, in which rows of both tables may be equal: those of their links."""
    found = []
    base, joined = schema, []
    while True:
        joined.append(base.name.partition("+")[0].partition("~")[0])
        if base.link is None:
            break
        if base.link.parent.name.partition("+")[0] == other.name:
            found.append(base.link.on)
        if other.link is not None and base.name.partition("+")[0] == other.name:
            found.append(tuple((own, own) for own, _ in other.link.on))
        base = base.link.parent
    if other.link is not None and other.link.parent.name in joined:
        found.append(tuple((theirs, own) for own, theirs in other.link.on))
    if other.link is not None and schema.link is not None and schema.link.on == other.link.on:
        found.append(tuple((own, own) for own, _ in other.link.on))
    return list(dict.fromkeys(found))


def describe_tie(schema: TableSchema, other: TableSchema) -> str:
    """Return how a subquery on ``other`` is tied to the rows of ``schema``."""
    unit = f"{quote_name(other.name)}.{quote_name(other.unit.column)}"
    return f"{unit} = {quote_name(schema.name.partition('~')[0].partition('+')[0])}.{quote_name(schema.unit.column)}"


def _compute_identity(query: Query, schema: TableSchema) -> str:
    """Compute a digest of the conditions and of the declarations that they follow from."""
    documents = [build_document(one) for one in query.related]
    tables = sorted({one.table for one in query.related})
    read = [[repr(attribute) for attribute in one.domain] for one in schema.related if one.name in tables]
    codes = [(one.unit.code, one.unit.column, str(one.link)) for one in schema.related if one.name in tables]
    return hashlib.sha256(repr((documents, read, codes)).encode()).hexdigest()[:32]
