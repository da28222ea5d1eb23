"""The fields of the query classes, looked up once per class, since queries are traversed at every ask."""

from __future__ import annotations

from dataclasses import Field, fields, is_dataclass
from typing import Any

_known: dict[type, tuple[Field[Any], ...] | None] = {}


def list_fields(kind: type) -> tuple[Field[Any], ...] | None:
    """Return the fields of a dataclass; None for any other class."""
    if kind not in _known:
        _known[kind] = fields(kind) if is_dataclass(kind) else None
    return _known[kind]
