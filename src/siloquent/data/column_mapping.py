"""The mapping from declared attributes to source columns, by name, when a table is opened."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches

from siloquent.data.engines.base import get_source_kind
from siloquent.data.sql.indices import SHORT_DIGITS, SourceColumn
from siloquent.errors import SchemaError, UnknownName
from siloquent.schema import Attribute, TableSchema
from siloquent.schema.formats.source_kinds import READABLE, SourceKind
from siloquent.schema.formats.value_formats import Family


def map_columns(schema: TableSchema, columns: Mapping[str, str]) -> tuple[SourceColumn, ...]:
    """Return the schema's attributes in declared order, each with its column.

    Args:
        columns: The source's columns with DuckDB's type names.
    Raises:
        UnknownName: an attribute has no column (with suggestions).
        SchemaError: several attributes have no column, or a column's type cannot be read as the declared one.
    """
    stored = [schema.domain[a.argument] if a.function else a for a in schema.domain]
    _require_all(schema, dict.fromkeys(attribute.name for attribute in stored), columns)
    found = [_find_column(attribute.name, columns) for attribute in stored]
    kinds = [get_source_kind(columns[source]) for source in found]
    for attribute, source, kind in zip(stored, found, kinds, strict=True):
        _require_readable(schema, attribute, kind, columns[source])
    return tuple(
        SourceColumn(
            attribute,
            position,
            source,
            kind,
            form=schema.reading.get_format(read.name),
            family=get_family(read),
            zoned=columns[source].upper().startswith(_ZONED),
            short=_is_short(columns[source]),
        )
        for position, (attribute, read, source, kind) in enumerate(
            zip(schema.domain, stored, found, kinds, strict=True)
        )
    )


_NESTED = ("ARRAY<", "STRUCT", "MAP", "UNION")
_ZONED = ("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ")
_DECIMAL = re.compile(r"DECIMAL\((\d+), ?\d+\)")


def _is_short(type_name: str) -> bool:
    found = _DECIMAL.fullmatch(type_name.upper())
    return found is not None and int(found[1]) <= SHORT_DIGITS


def get_family(attribute: Attribute) -> Family:
    """Return what the values of an attribute are, as far as formats tell them apart."""
    if attribute.is_numeric:
        return "number"
    if attribute.kind == "date" or attribute.kind == "datetime" or attribute.kind == "boolean":
        return attribute.kind
    return "text"


def require_types(schema: TableSchema, columns: Mapping[str, tuple[SourceKind, str]]) -> None:
    """Refuse columns whose types cannot be read as declared, for sources that return all rows as text.

    Args:
        columns: The kind of each column, and the source's name of its type.
    Raises:
        SchemaError: a column's type cannot be read as the declared one.
    """
    for attribute in schema.domain:
        source = "" if attribute.function else _find_column(attribute.name, columns)
        if source:
            _require_readable(schema, attribute, *columns[source])


def _require_readable(schema: TableSchema, attribute: Attribute, kind: SourceKind, holds: str) -> None:
    if kind not in READABLE[attribute.kind]:
        raise SchemaError(
            f"Attribute {attribute.name!r} of {schema.name!r} is declared as {attribute.kind}, but its column "
            f"holds {holds}; {attribute.kind} reads {', '.join(READABLE[attribute.kind])}.",
            fix=f'declare another type for "{attribute.name}" in schemas/{schema.name}.toml, or change the column',
        )
    if holds.endswith("]") or holds.upper().startswith(_NESTED):
        raise SchemaError(
            f"The column of attribute {attribute.name!r} of {schema.name!r} holds {holds}; expected one value per row.",
            fix=f'remove "{attribute.name}" from schemas/{schema.name}.toml, or make a view with one value per row',
        )


def _require_all(schema: TableSchema, wanted: Iterable[str], columns: Mapping[str, str]) -> None:
    missing = [attribute for attribute in wanted if not _find_column(attribute, columns)]
    kind, fix = (
        f"column in the source of {schema.name!r}",
        f"attributes and columns of {schema.name} must have the same names",
    )
    if len(missing) == 1:
        raise UnknownName(kind, missing[0], columns, fix=fix)
    if missing:
        near = {attribute: get_close_matches(attribute, columns, n=1) for attribute in missing}
        each = ", ".join(f"{a!r}{f' (did you mean {found[0]!r}?)' if found else ''}" for a, found in near.items())
        raise SchemaError(f"{len(missing)} attributes have no {kind}: {each}. Known: {', '.join(columns)}.", fix=fix)


def _find_column(wanted: str, columns: Mapping[str, object]) -> str:
    """Return the column of that name, or the only one that differs only in case; empty if there is none."""
    if wanted in columns:
        return wanted
    alike = [column for column in columns if column.casefold() == wanted.casefold()]
    return alike[0] if len(alike) == 1 else ""
