"""A table's declaration inside a model file, so that the model works where the table is not declared.

Only the classes named here are written and read; a file can name no other code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

from siloquent.errors import ReleaseError, SiloquentError
from siloquent.fixes import run
from siloquent.schema import (
    Attribute,
    AttributeRef,
    Comparison,
    DenialConstraint,
    Domain,
    ForeignKey,
    FunctionalDependency,
    Key,
    TableBudget,
    TableSchema,
    Unit,
)

# The names are part of the file format: they stay as they are when a class is renamed.
_CLASSES: Mapping[str, type[Any]] = {
    "Attribute": Attribute,
    "Budget": TableBudget,
    "Comparison": Comparison,
    "DenialConstraint": DenialConstraint,
    "Domain": Domain,
    "ForeignKey": ForeignKey,
    "FunctionalDependency": FunctionalDependency,
    "Key": Key,
    "Place": AttributeRef,
    "TableSchema": TableSchema,
    "Unit": Unit,
}
_NAMES = {kind: name for name, kind in _CLASSES.items()}
_LEFT_OUT = (
    *("labels", "reading", "defaults", "link", "computed", "extended"),
    *("grouped", "relation", "related", "looked_up"),
)
"""Fields that do not affect a model: labels, how the source is read and linked, and what queries compute."""
_LATER = ("of",)
"""Fields that are left out where they are empty, as in the files of earlier versions."""
_TEXTS: Mapping[str, type[Any]] = {"Decimal": Decimal, "Fraction": Fraction}


def dump_value(value: Any) -> Any:
    """Return ``value`` as JSON values."""
    if is_dataclass(value) and not isinstance(value, type):
        kept = {one.name: getattr(value, one.name) for one in fields(value) if one.name not in _LEFT_OUT}
        if isinstance(value, TableSchema):
            kept["public"] = ()  # the file has the tables that a model refers to beside the declaration
        inner = {name: dump_value(part) for name, part in kept.items() if part or name not in _LATER}
        return {"is": _NAMES[type(value)], **inner}
    if isinstance(value, tuple):
        return [dump_value(each) for each in value]
    if isinstance(value, datetime):
        return {"is": "datetime", "text": value.isoformat()}
    if isinstance(value, Decimal | Fraction):
        return {"is": type(value).__name__, "text": str(value)}
    return value


def parse_schema_document(plain: object) -> TableSchema:
    """Parse the declaration that ``dump_value`` wrote.

    Raises:
        ReleaseError: It is something else, or was changed into an inconsistent declaration.
    """
    try:
        found = _parse_value(plain)
    except (SiloquentError, TypeError, ValueError, KeyError, ArithmeticError, RecursionError):
        found = None
    if not isinstance(found, TableSchema):
        raise ReleaseError("The model file does not contain a table's declaration.", fix=run("verify", "RELEASE"))
    return found


def _parse_value(plain: Any) -> Any:
    if isinstance(plain, list):
        return tuple(_parse_value(each) for each in plain)
    if not isinstance(plain, dict):
        return plain
    kind = plain["is"]
    if kind == "datetime":
        return datetime.fromisoformat(plain["text"])
    if kind in _TEXTS:
        return _TEXTS[kind](plain["text"])
    return _CLASSES[kind](**{name: _parse_value(each) for name, each in plain.items() if name != "is"})
