"""Attributes from short texts, for people who write no TOML."""

from __future__ import annotations

from dataclasses import replace

from siloquent.schema.attribute import Attribute
from siloquent.schema.build import parse_attribute
from siloquent.schema.declaring.columns import ColumnHeader
from siloquent.schema.declaring.draft import parse_null
from siloquent.schema.declaring.meanings import parse_meaning
from siloquent.schema.files.toml import read_toml
from siloquent.schema.meaning import compose_entry


def declare_attribute(name: str, meaning: str, *, null: str = "drop") -> Attribute:
    """Return an attribute by a short text: ``0..120``, ``F, M``, ``2024-01-01..2024-12-31``, ``yes/no``, ``id``.

    Args:
        null: The meaning of NULL: ``drop``, ``cell``, or a value.
    Raises:
        RequestError: the text is not understood; the message says how one looks.

    >>> declare_attribute("age", "0..120").hi
    Decimal('120')
    >>> print(declare_attribute("age", "0..120"))
    age: 0..120; beyond counts as the bound; without empty cells
    """
    parsed = parse_meaning(meaning, ColumnHeader(name))
    if parsed.has_cells:
        parsed = replace(parsed, null=parse_null(null, parsed))
    return parse_attribute(read_toml(f"entry = {compose_entry(name, parsed)}")["entry"])
