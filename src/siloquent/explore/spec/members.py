"""The fields of the classes that questions are made of, looked up once a class: questions are walked at every ask."""

from __future__ import annotations

from dataclasses import Field, fields, is_dataclass
from typing import Any

_known: dict[type, tuple[Field[Any], ...] | None] = {}


def fields_of(kind: type) -> tuple[Field[Any], ...] | None:
    """The fields of a dataclass; None for any other class."""
    if kind not in _known:
        _known[kind] = fields(kind) if is_dataclass(kind) else None
    return _known[kind]
