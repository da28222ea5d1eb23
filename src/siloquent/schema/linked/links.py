"""The unit of a linked table: its owners are in a column of its own, or reached through the table that it names.

Nothing here rests on keys that are unique: a key that several owners claim gives its rows to each of them.
Proof: docs/explanation/linked-units.md.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from siloquent.errors import LinkError, SchemaError, UnknownName
from siloquent.fixes import WriteLines
from siloquent.schema.attribute import Attribute
from siloquent.schema.domain import Domain
from siloquent.schema.domains import DomainFolder
from siloquent.schema.files.models import SharedUnitEntry
from siloquent.schema.files.toml import hash_declaration, read_toml
from siloquent.schema.linked.units import SharedUnit, read_unit
from siloquent.schema.table import EXACT_KINDS, Link, TableSchema, Unit

MAX_DEPTH = 8
"""The most links between a table and the column that names its unit."""
MAX_PAIRS = 8

Parse = Callable[[str], TableSchema]


@dataclass(frozen=True, slots=True)
class LinkedUnit:
    """The unit of a linked table, with the promise and the budget that it shares.

    ``owner``: the attribute that names the unit, of a table without a column for it; None otherwise.
    """

    shared: SharedUnit
    unit: Unit
    link: Link | None
    owner: Attribute | None
    digest: str


def is_linked(raw: Mapping[str, Any]) -> bool:
    """Return whether a table file's entries share a unit with other tables."""
    return bool(_get_unit(raw).keys() & {"of", "via", "on"})


def _get_unit(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    table = raw.get("table")
    unit = table.get("unit") if isinstance(table, dict) else None
    return unit if isinstance(unit, dict) else {}


def refuse_own_promise(raw: Mapping[str, Any]) -> None:
    """Refuse a budget or neighbour relation in a table file whose unit declares it for all of its tables.

    Raises:
        LinkError: there is one.
    """
    table, of = raw["table"], str(_get_unit(raw).get("of", ""))
    name = str(table.get("name", ""))
    if "kind" in _get_unit(raw):
        raise LinkError(
            f"The unit of {name!r} is declared in units/{of}.toml, so it has no kind of its own.",
            fix=f'remove kind from unit = {{ of = "{of}", ... }}',
        )
    for key, where in (("budget", raw), ("adjacency", table)):
        if key in where:
            what, remove = ("a budget", "[budget]") if key == "budget" else ("an adjacency", "adjacency")
            raise LinkError(
                f"Table {name!r} states {what} of its own, but units/{of}.toml states the one of all tables of {of!r}.",
                fix=f"remove {remove} from schemas/{name}.toml",
            )


def resolve_unit(
    raw: Mapping[str, Any], entry: SharedUnitEntry, domain: Domain, context: DomainFolder | None, parse: Parse
) -> LinkedUnit:
    """Resolve the unit of the table ``raw``, whose own attributes are ``domain``.

    Args:
        context: The workspace's folder; None for a declaration outside a workspace.
        parse: Parses the parent's table file.
    Raises:
        LinkError: the link has no owner or two, forms a circle, is too long, leads to another unit, or compares columns
            that are not alike. UnknownName: a unit, table or column is not declared. SchemaError: a file is invalid.
    """
    name = str(raw["table"]["name"])
    if context is None:
        raise LinkError(
            f"Table {name!r} shares the unit {entry.of!r}, which a workspace declares; here is only the table's text.",
            fix=f"put it into the workspace as schemas/{name}.toml, beside units/{entry.of}.toml",
        )
    shared = read_unit(entry.of, context)
    _require_one_owner(name, entry)
    digest = hash_declaration(raw)
    if not entry.via:
        unit = Unit("shared", entry.column, entry.max_rows, entry.of)
        return LinkedUnit(shared, unit, None, None, _join_digests(digest, shared.digest))
    parent = _parse_parent(entry.via, _find_parent_text(name, entry, context), parse)
    link = Link(parent, tuple(_match(name, domain, parent, own, other) for own, other in entry.on.items()))
    taken = {one.name.casefold() for one in domain}
    owner = Attribute(entry.of if entry.of.casefold() not in taken else f"{entry.of}_unit", "id")
    unit = Unit("shared", owner.name, entry.max_rows, entry.of)
    return LinkedUnit(shared, unit, link, owner, _join_digests(digest, shared.digest, parent.digest))


def _join_digests(*digests: str) -> str:
    return hashlib.sha256(json.dumps(digests).encode()).hexdigest()


def _require_one_owner(name: str, entry: SharedUnitEntry) -> None:
    given = f'unit = {{ of = "{entry.of}", column = "...", max_rows = {entry.max_rows} }}'
    if entry.via and entry.column:
        raise LinkError(
            f"Table {name!r} has two owners: the column {entry.column!r}, and those of its rows of {entry.via!r}.",
            fix=f'unit = {{ of = "{entry.of}", column = "{entry.column}", max_rows = {entry.max_rows} }}',
        )
    if entry.via and not 1 <= len(entry.on) <= MAX_PAIRS:
        raise LinkError(
            f"Table {name!r} does not say which of its columns refer to {entry.via!r}; at most {MAX_PAIRS} pairs may.",
            fix=f'on = {{ {entry.via}_id = "id" }} in unit',
        )
    if not entry.via and (entry.on or not entry.column):
        what = "columns that refer to another table, but not which one" if entry.on else f"no owner in {entry.of!r}"
        raise LinkError(f"Table {name!r} names {what}.", fix=f'{given}, or via = "TABLE" and on = {{ ... }}')


def _find_parent_text(name: str, entry: SharedUnitEntry, context: DomainFolder) -> str:
    """Return the text of the parent's file, once the way from it to the unit is known to end.

    Raises:
        LinkError, UnknownName: as for ``resolve_unit``.
    """
    texts, seen, via = [], [name], entry.via
    while via:
        if via in seen:
            circle = " -> ".join((*seen[seen.index(via) :], via))
            raise LinkError(
                f"The links of {name!r} form a circle: {circle}.",
                fix=f'unit = {{ of = "{entry.of}", column = "...", max_rows = 1 }} in schemas/{via}.toml',
            )
        seen.append(via)
        if len(seen) > MAX_DEPTH + 1:
            raise LinkError(
                f"Table {name!r} is more than {MAX_DEPTH} links away from its unit.",
                fix=f"add the column of {entry.of} to a table on the way",
            )
        file = context.folder / "schemas" / f"{via}.toml"
        text = context.read_file(file) if via.isidentifier() else None
        if text is None:
            tables = (context.folder / "schemas").glob("*.toml")  # not beside ``file``: a name may lead elsewhere
            raise UnknownName("table", via, (one.stem for one in tables if one.stem != name))
        texts.append(text)
        unit = _read_unit_entry(via, text)
        if unit.get("of") != entry.of:
            other = f"belongs to the unit {unit['of']!r}" if unit.get("of") else "has a unit of its own"
            raise LinkError(
                f"{name!r} shares the unit {entry.of!r}, but {via!r}, through which it is linked, {other}.",
                fix=f'unit = {{ of = "{entry.of}", column = "...", max_rows = 1 }} in schemas/{via}.toml',
            )
        via = str(unit.get("via", ""))
    return texts[0]


def _read_unit_entry(table: str, text: str) -> Mapping[str, Any]:
    try:
        return _get_unit(read_toml(text))
    except SchemaError as wrong:
        wrong.detail = f"schemas/{table}.toml: {wrong.detail}"
        raise


def _parse_parent(table: str, text: str, parse: Parse) -> TableSchema:
    try:
        parent = parse(text)
    except SchemaError as wrong:
        file = f"schemas/{table}.toml"
        if not wrong.detail.startswith("schemas/"):
            wrong.detail = f"{file}: {wrong.detail}"
        wrong.remedy = wrong.remedy.map(WriteLines, lambda one: one if one.file else replace(one, file=file))
        raise
    if parent.name != table:
        raise SchemaError(f"schemas/{table}.toml declares the table {parent.name!r}.", fix=f'name = "{table}"')
    return parent


def _match(name: str, domain: Domain, parent: TableSchema, own: str, other: str) -> tuple[str, str]:
    """Return the declared names of two columns that a link compares."""
    child_key, parent_key = replace(domain, table=name)[own], parent.domain[other]
    for table, column in ((name, child_key), (parent.name, parent_key)):
        if column.function or column.kind not in EXACT_KINDS or column.name == _find_owner_name(parent, column):
            raise LinkError(
                f"A link compares keys exactly, but the column {column.name!r} of {table!r} is of type {column.kind}.",
                fix=f'{{ name = "{column.name}", type = "id" }} in schemas/{table}.toml',
            )
    if child_key.kind != parent_key.kind:
        raise LinkError(
            f"The link of {name!r} compares unlike columns: {child_key.name!r} is of type {child_key.kind}, and "
            f"{parent_key.name!r} of {parent.name!r} of type {parent_key.kind}.",
            fix=f'{{ name = "{child_key.name}", type = "{parent_key.kind}" }} in schemas/{name}.toml',
        )
    return child_key.name, parent_key.name


def _find_owner_name(parent: TableSchema, column: Attribute) -> str:
    """Return the name of the attribute that a link adds to ``parent``, if ``column`` is that one."""
    return parent.unit.column if parent.link is not None and parent.domain[parent.unit.column] is column else ""
