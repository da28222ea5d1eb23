"""Where the declared attributes stand in a source: found by name when a table is opened, or refused."""

from __future__ import annotations

from collections.abc import Mapping

from siloquent.data.engines.base import SourceKind, source_kind
from siloquent.data.places import Column
from siloquent.errors import SchemaError, UnknownName
from siloquent.schema import Attribute, TableSchema

_ANY: tuple[SourceKind, ...] = ("text", "integer", "decimal", "real", "boolean", "date", "datetime", "other")
_NUMBERS: tuple[SourceKind, ...] = ("text", "integer", "decimal", "real", "boolean")
_MOMENTS: tuple[SourceKind, ...] = ("text", "date", "datetime")
READABLE: dict[str, tuple[SourceKind, ...]] = {
    "integer": _NUMBERS,
    "real": _NUMBERS,
    "boolean": _NUMBERS,
    "category": ("text", "integer", "boolean"),
    "date": _MOMENTS,
    "datetime": _MOMENTS,
    "id": _ANY,
    "text": ("text",),
}
"""Which columns of a source can be read as an attribute of which type."""


def lay_out(schema: TableSchema, columns: Mapping[str, str]) -> tuple[Column, ...]:
    """The schema's attributes in declared order, each with its column.

    Args:
        columns: The source's columns with DuckDB's type names.
    Raises:
        UnknownName: An attribute has no column (did you mean).
        SchemaError: A column's type cannot be read as the declared one.
    """
    return tuple(_column(schema, attribute, i, columns) for i, attribute in enumerate(schema.domain))


def _column(schema: TableSchema, attribute: Attribute, position: int, columns: Mapping[str, str]) -> Column:
    stored = schema.domain[attribute.argument] if attribute.function else attribute
    source = _find(schema, stored.name, columns)
    kind = source_kind(columns[source])
    if kind not in READABLE[stored.kind]:
        raise SchemaError(
            f"Attribute {stored.name!r} of {schema.name!r} is declared as {stored.kind}, but its column holds "
            f"{columns[source]}; {stored.kind} reads {', '.join(READABLE[stored.kind])}.",
            fix=f'declare another type for "{stored.name}" in schemas/{schema.name}.toml, or change the column',
        )
    return Column(attribute, position, source, kind)


def _find(schema: TableSchema, wanted: str, columns: Mapping[str, str]) -> str:
    if wanted in columns:
        return wanted
    alike = [column for column in columns if column.casefold() == wanted.casefold()]
    if len(alike) != 1:
        raise UnknownName(f"column in the source of {schema.name!r}", wanted, columns)
    return alike[0]
