"""Columns as a ledger records them, read back into the declaration of the time of a charge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from itertools import islice, product
from typing import TYPE_CHECKING, Any

from siloquent.errors import SchemaError
from siloquent.schema.attribute import Attribute
from siloquent.schema.changes import FILE, describe_column, describe_declaration
from siloquent.schema.table import list_tables_of

if TYPE_CHECKING:
    from siloquent.schema.table import Link, TableSchema

_SAME = ("source", "version", "reading", "unit", "adjacency", "accountant", "disclosures", "epoch", "constraints")
_SHOWN = ("labels", "description")
_LISTS = ("values", "edges")
_MAX_TRIED = 2_500
"""Combinations of earlier declarations of related tables."""


def restore_columns(
    schema: TableSchema, recorded: Mapping[str, Any], related: Sequence[Sequence[TableSchema]] = ()
) -> TableSchema | None:
    """Return ``schema`` with the columns that ``recorded`` declares, as a declaration of its own.

    A request charged under it can be finished as it was priced: over the same rows, for the same promise, with the
    bounds, bins and values of then. Of a relation, joined columns are restored with those of its own rows.

    Args:
        recorded: A result of ``describe_declaration``.
        related: The known declarations of each of ``schema.related``.
    Returns:
        None if the rows, the promise or the constraints are others; if a column was removed or has another type since,
        which its owner decided; or if a column cannot be read back, such as one with a long list of other values.
    """
    today = describe_declaration(schema)
    if any(name not in recorded or recorded[name] != today[name] for name in _SAME):
        return None
    attributes = []
    known = {attribute.name: attribute for attribute in schema.domain.attributes}
    for column in recorded.get("columns", ()):
        now = known.get(str(column["name"]))
        attribute = None if now is None or now.kind != column["kind"] else _restore_column(now, column)
        if attribute is None:
            return None
        attributes.append(attribute)
    if FILE not in recorded or (schema.public and attributes != list(schema.domain.attributes)):
        return None  # which public rows count hangs on the columns that refer to them
    link = _restore_link(schema.link, {one.name: one for one in attributes})
    domain = replace(schema.domain, attributes=tuple(attributes))
    then = replace(schema, domain=domain, link=link, digest=recorded[FILE], extended=None)
    return _find_related(then, recorded, related)


def _restore_link(link: Link | None, restored: Mapping[str, Attribute]) -> Link | None:
    """Return ``link`` with the joined columns of its tables as ``restored``."""
    if link is None or link.columns is None:
        return link
    parent = link.parent
    columns = tuple(restored.get(one.name, one) if one.name in link.columns else one for one in parent.domain)
    domain = replace(parent.domain, attributes=columns)
    return replace(link, parent=replace(parent, domain=domain, link=_restore_link(parent.link, restored)))


def _find_related(
    then: TableSchema, recorded: Mapping[str, Any], related: Sequence[Sequence[TableSchema]]
) -> TableSchema | None:
    """Return ``then`` with those declarations of its related tables that were recorded; None if they are not known."""
    own = list_tables_of(then.name)[0]
    known = [
        [replace(then, name=one.name, related=()) if one.name == own and then.link is None else one, *more]
        for one, more in zip(then.related, related or [()] * len(then.related), strict=True)
    ]
    for choice in islice(product(*known), _MAX_TRIED):
        found = replace(then, related=choice) if choice else then
        if describe_declaration(found).get("links") == recorded.get("links"):
            return found
    return None


def _restore_column(now: Attribute, column: Mapping[str, Any]) -> Attribute | None:
    """Return the column as recorded; None if it cannot be read back."""
    wanted = {name: value for name, value in column.items() if name not in _SHOWN}
    if {name: value for name, value in describe_column(now).items() if name not in _SHOWN} == wanted:
        return now
    try:
        given = {name: _parse_facet(now, name, value) for name, value in wanted.items() if name not in ("name", "kind")}
        found = Attribute(name=now.name, kind=now.kind, **given)
        found = replace(found, labels=tuple(one for one in now.labels if _is_labelled(found, one[0])))
    except (SchemaError, ValueError, InvalidOperation):
        return None
    plain = {name: value for name, value in describe_column(found).items() if name not in _SHOWN}
    return found if plain == wanted else None


def _is_labelled(found: Attribute, value: Any) -> bool:
    try:
        replace(found, labels=((value, "-"),))
    except SchemaError:
        return False
    return True


def _parse_facet(now: Attribute, name: str, value: Any) -> Any:
    if name in _LISTS:
        return _parse_list(now, name, value)
    if name in ("lo", "hi"):
        return datetime.fromisoformat(value) if now.is_temporal else Decimal(value)
    if name == "grid":
        return Decimal(value)
    if name == "max_bytes":
        return int(value)
    if name == "null_value":
        return now.null_value if str(now.null_value) == value else _parse_value(now, value)
    return value


def _parse_list(now: Attribute, name: str, value: list[str]) -> tuple[Any, ...]:
    """Return the listed values; those of today where a digest was recorded, which is compared afterwards."""
    if len(value) == 2 and value[1].startswith("sha256:"):
        return tuple(getattr(now, name))
    return tuple(value) if name == "values" else tuple(map(Decimal, value))


def _parse_value(now: Attribute, text: str) -> Any:
    if now.kind == "boolean":
        return text == "True"
    if now.kind == "category":
        return text
    if now.is_temporal:
        return datetime.fromisoformat(text) if len(text) > 10 else date.fromisoformat(text)
    return int(text) if now.kind == "integer" else Decimal(text)
