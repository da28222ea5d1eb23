"""The kinds of columns in sources, and the attribute types that can be read from each."""

from __future__ import annotations

from typing import Literal

SourceKind = Literal["text", "integer", "decimal", "real", "boolean", "date", "datetime", "other"]

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
"""The source column types that can be read as each attribute type."""
