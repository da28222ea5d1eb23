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


def has_more_parts(value: Any, most: int) -> bool:
    """Return whether ``value``, a part of a query, has more than ``most`` parts; a part in two places counts twice."""
    left, found = [value], 0
    while left and found <= most:
        one = left.pop()
        if isinstance(one, tuple):
            left += one
        elif (own := list_fields(type(one))) is not None:
            found += 1
            left += [getattr(one, part.name) for part in own]
    return found > most
