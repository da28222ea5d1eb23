"""Attributes and tables in words, and attributes from short texts, for people who write no TOML."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from siloquent.schema.build import parse_attribute
from siloquent.schema.declaring.columns import Column
from siloquent.schema.declaring.draft import parse_null
from siloquent.schema.declaring.meanings import compose_entry, convert_attribute, describe_meaning, parse_meaning
from siloquent.schema.toml import read_toml

if TYPE_CHECKING:
    from siloquent.schema.attribute import Attribute
    from siloquent.schema.table import TableSchema

MAX_LISTED = 60
_NULLS = {"drop": "without empty cells", "cell": "empty cells are a group"}


def parse_short(name: str, meaning: str, *, null: str) -> Attribute:
    """Return the attribute that a short text declares.

    Raises:
        RequestError: the text is not understood.
    """
    parsed = parse_meaning(meaning, Column(name))
    if parsed.has_cells:
        parsed = replace(parsed, null=parse_null(null, parsed))
    return parse_attribute(read_toml(f"entry = {compose_entry(name, parsed)}")["entry"])


def describe_attribute(attribute: Attribute) -> str:
    """Describe an attribute in one line, in the words in which it may be typed.

    >>> from siloquent.schema import Attribute
    >>> describe_attribute(Attribute.parse("age", "0..120"))
    'age: 0..120; beyond counts as the bound; without empty cells'
    """
    text = f"{attribute.name}: {describe_meaning(convert_attribute(attribute))}"
    if attribute.function:
        text += f"; {attribute.function} of {attribute.argument}"
    if attribute.lo is not None:
        text += "; beyond counts as the bound" if attribute.outside == "clamp" else "; beyond is left out"
    if attribute.kind == "category":
        text += "; others are a group" if attribute.other == "cell" else "; others are left out"
    if attribute.is_countable:
        text += f"; {_NULLS.get(attribute.null, f'empty cells are {attribute.null_value}')}"
    return text


def describe_table(schema: TableSchema) -> str:
    """Describe a table: its attributes, unit and budget, one a line."""
    attributes = list(schema.domain)
    lines = [f"Table {schema.name}: {len(attributes):,} columns{f' of {schema.source}' if schema.source else ''}"]
    lines += [f"  {describe_attribute(attribute)}" for attribute in attributes[:MAX_LISTED]]
    lines += [f"  and {len(attributes) - MAX_LISTED:,} more"] if len(attributes) > MAX_LISTED else []
    lines += [f"  hidden: {schema.unit.description}", f"  budget: {schema.budget}"]
    return "\n".join(lines)
