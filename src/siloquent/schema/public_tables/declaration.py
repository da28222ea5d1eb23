"""Public tables: publicly known facts about a key, such as the region of a ward.

A row of a private table matches at most one row of a public one, so the public values are a function of the private
row's key. Joining therefore does not increase the effect of one row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from siloquent.errors import SchemaError, UnknownName
from siloquent.schema.attribute import Attribute
from siloquent.schema.build import parse_attributes, parse_constraints
from siloquent.schema.constraints import ForeignKey
from siloquent.schema.files.toml import quote_short, read_toml
from siloquent.schema.formats.reading import PLAIN_READING, Reading, parse_reading
from siloquent.schema.table import TableSchema

_KEYS = {"format", "name", "key", "source", "reading", "attribute", "constraint"}
_EXAMPLE = 'format = 1, name = "wards", key = "ward", source = "csv:data/wards.csv", attribute = [{ ... }]'


@dataclass(frozen=True, slots=True)
class PublicFile:
    """The contents of ``public/NAME.toml``: the location and form of the rows, the key column and the other columns.

    ``references``: the foreign keys to further public tables.
    """

    name: str
    key: str
    source: str
    attributes: tuple[Attribute, ...]
    reading: Reading = PLAIN_READING
    references: tuple[ForeignKey, ...] = ()


def parse_public(text: str) -> PublicFile:
    """Parse the public table that ``text`` declares.

    Raises:
        SchemaError: it is not TOML of this form, or an attribute has no finite domain. UnknownName: an unknown key.
    """
    raw = read_toml(text)
    unknown = sorted(set(raw) - _KEYS)
    if unknown:
        raise UnknownName("key of a public table", unknown[0][:60], _KEYS)
    if type(raw.get("format")) is not int or raw["format"] != 1:
        raise SchemaError("A public table must state format = 1, the only supported format.", fix=_EXAMPLE)
    name, key, source = (_require_text(raw, word) for word in ("name", "key", "source"))
    if source.partition(":")[0] not in ("csv", "csv-records", "xlsx", "parquet"):
        raise SchemaError(
            f"A public table must be a csv:, xlsx: or parquet: file, not {quote_short(source)}.", fix=_EXAMPLE
        )
    attributes = parse_attributes(raw.get("attribute"))
    for attribute in attributes:
        if not attribute.is_countable:
            raise SchemaError(
                f"Attribute {attribute.name!r} of the public table {name!r} is of type "
                f"{attribute.kind}, which has no cells.",
                fix='type = "category" with its values',
            )
        if attribute.name.casefold() == key.casefold():
            raise SchemaError(f"The key {key!r} must be declared only in the private table.", fix="remove it here")
    reading = parse_reading(raw.get("reading", {}), [key, *(attribute.name for attribute in attributes)])
    reading.check_kind(source.partition(":")[0])
    return PublicFile(name, key, source, attributes, reading, _parse_references(raw, name, attributes))


def _parse_references(raw: Mapping[str, Any], name: str, attributes: tuple[Attribute, ...]) -> tuple[ForeignKey, ...]:
    """Parse the foreign keys of a public table to further ones, each of one attribute.

    Raises:
        SchemaError: a constraint is of another kind, or an attribute is not declared.
    """
    found = parse_constraints(raw["constraint"]) if "constraint" in raw else ()
    names = [one.name for one in attributes]
    for one in found:
        if not isinstance(one, ForeignKey) or len(one.columns) != 1 or len(one.referenced) != 1:
            raise SchemaError(
                f"The constraints of the public table {name!r} are foreign keys of one attribute to public tables.",
                fix='constraint = [{ kind = "foreign_key", columns = ["region"], references = "regions(region)" }]',
            )
        if one.columns[0] not in names:
            raise UnknownName("attribute", one.columns[0][:60], names)
    return tuple(one for one in found if isinstance(one, ForeignKey))


def check_fits(schema: TableSchema, key: ForeignKey, declared: PublicFile) -> None:
    """Refuse a public table that ``key`` does not refer to, or that shares an attribute name with ``schema``.

    Raises:
        SchemaError: the names of tables and keys differ, or two attributes would have the same name.
    """
    check_refers(schema.name, key, declared)
    own = {name.casefold() for name in schema.domain.names}
    for attribute in declared.attributes:
        if attribute.name.casefold() in own:
            raise SchemaError(
                f"{attribute.name!r} is an attribute of {schema.name!r} and of the public table {declared.name!r}.",
                fix=f"give it another name in public/{declared.name}.toml and in its file",
            )


def check_refers(name: str, key: ForeignKey, declared: PublicFile) -> None:
    """Refuse a public table that the foreign key of the table ``name`` does not refer to.

    Raises:
        SchemaError: the names of tables and keys differ.
    """
    if declared.name != key.table or (declared.key,) != key.referenced or len(key.columns) != 1:
        raise SchemaError(
            f"It declares {declared.name}({declared.key}), and {name!r} refers to "
            f"{key.table}({', '.join(key.referenced)}).",
            fix="name the same table and key in both files",
        )


def _require_text(raw: Mapping[str, Any], key: str) -> str:
    value = raw.get(key)
    if not isinstance(value, str) or not value.strip():
        raise SchemaError(f"A public table must give its {key} as text.", fix=_EXAMPLE)
    return value
