"""Attributes from short texts, for people who write no TOML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from siloquent.errors import RequestError
from siloquent.schema.attribute import Attribute
from siloquent.schema.build import parse_attribute
from siloquent.schema.declaring.columns import ColumnHeader
from siloquent.schema.declaring.declared_table import require_type
from siloquent.schema.declaring.draft import parse_null
from siloquent.schema.declaring.meanings import parse_meaning
from siloquent.schema.files.toml import read_toml
from siloquent.schema.meaning import compose_entry


def declare_attribute(
    name: str,
    meaning: str | Sequence[str],
    *,
    null: str = "drop",
    outside: Literal["clamp", "drop"] | None = None,
    other: Literal["cell", "drop"] | None = None,
) -> Attribute:
    """Return an attribute by a short text: ``0..120``, ``F, M``, ``2024-01-01..2024-12-31``, ``yes/no``, ``id``.

    Args:
        meaning: The text, or the values of a category as a list.
        null: The meaning of NULL: ``drop``, ``cell``, or a value.
        outside: What becomes of numbers and dates beyond the bounds; by default numbers are clamped, dates dropped.
        other: What becomes of values that are not listed; by default they have a cell of their own.
    Raises:
        RequestError: an argument is not understood; the message names it and says how one looks.

    >>> declare_attribute("age", "0..120").hi
    Decimal('120')
    >>> print(declare_attribute("age", "0..120"))
    age: 0..120; values beyond count as the bound; without empty cells
    """
    require_type("name", name, str, '"age"')
    require_type("meaning", meaning, (str, list, tuple), '"0..120", or ["F", "M"]')
    require_type("null", null, str, '"drop", "cell" or a value')
    if not isinstance(meaning, str):
        for value in meaning:
            require_type("each value of meaning", value, str, '"F"')
        meaning = "values " + ", ".join('"' + value.replace('"', '""') + '"' for value in meaning)
    parsed = parse_meaning(meaning, ColumnHeader(name))
    if parsed.words:
        raise RequestError(
            f"An attribute alone cannot say that {' and '.join(parsed.words)} are true and false: rows are read so.",
            fix=f"siloquent.declare(frame, {{{name!r}: {'/'.join(parsed.words)!r}}}), or 'yes/no' here",
        )
    if parsed.has_cells:
        parsed = replace(parsed, null=parse_null(null, parsed))
    parsed = replace(parsed, outside=outside or parsed.outside, other=other or parsed.other)
    return parse_attribute(read_toml(f"entry = {compose_entry(name, parsed)}")["entry"])
