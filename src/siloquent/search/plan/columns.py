"""An offer's columns and keys from declarations: only domains, no rows."""

from __future__ import annotations

import math
from datetime import datetime
from fractions import Fraction

from siloquent.errors import SchemaError
from siloquent.schema import Attribute, TableSchema
from siloquent.search.domains import Feature, JoinKey, KeyPart
from siloquent.search.spec import MAX_CELLS, KeyOf, OfferSpec

MAX_COLUMNS = 2_000


def build_features(spec: OfferSpec, schema: TableSchema) -> tuple[Feature, ...]:
    """Build the features with their units.

    Raises:
        UnknownName, SchemaError: One was never declared, is a text, or has only one value.
    """
    found = tuple(build_feature(schema.domain[name], indicator=name in spec.indicators) for name in spec.features)
    if sum(len(feature.columns) for feature in found) > MAX_COLUMNS:
        raise SchemaError(
            f"The features have too many columns: the limit is {MAX_COLUMNS:,}.", fix="omit wide categories"
        )
    return found


def build_feature(attribute: Attribute, *, indicator: bool = False) -> Feature:
    """Build a feature from one attribute."""
    if not attribute.is_countable or attribute.is_temporal:
        raise SchemaError(
            f"Attribute {attribute.name!r} is of type {attribute.kind}; features are numbers, booleans and categories.",
            fix="derive a number from it in the table file, such as its year or length",
        )
    if attribute.steps < 2:
        raise SchemaError(f"Attribute {attribute.name!r} has only one declared value, so it carries no information.")
    if attribute.kind == "category":
        return Feature(attribute.name, "category", values=attribute.values, indicator=indicator)
    if attribute.kind == "boolean":
        return Feature(attribute.name, "boolean", indicator=indicator)
    lo, hi, grid = (str(Fraction(bound)) for bound in (attribute.lo, attribute.hi, attribute.grid))  # type: ignore[arg-type]
    return Feature(attribute.name, attribute.kind, lo, hi, grid, indicator=indicator)


def is_always_inside(attribute: Attribute) -> bool:
    """Return whether no row has a value OUTSIDE: undeclared values are clamped or have a cell, and so has NULL."""
    if attribute.null == "drop":
        return False
    return attribute.outside == "clamp" if attribute.is_numeric else attribute.other == "cell"


def build_join_key(key: KeyOf, schema: TableSchema) -> JoinKey:
    """Build one key with its cells.

    Raises:
        UnknownName, SchemaError: An attribute was never declared, has no finite domain, or there are too many cells.
    """
    parts = tuple(_build_key_part(schema.domain[name]) for name in key.attributes)
    cells = math.prod(part.cells for part in parts)
    if cells > MAX_CELLS:
        raise SchemaError(
            f"The key {key.name} has {cells:,} values; the limit is {MAX_CELLS:,}.", fix="join by a coarser attribute"
        )
    if key.parent is not None and parts[0].kind != "category":
        raise SchemaError(f"The parent of {key.name} is a prefix of its text, so the key must be a category.")
    return JoinKey(parts, key.parent)


def _build_key_part(attribute: Attribute) -> KeyPart:
    if not attribute.is_countable:
        raise SchemaError(
            f"The key {attribute.name!r} is of type {attribute.kind}, whose values are not declared "
            "and would reveal rows.",
            fix=f'type = "category" with values = [...] for the attribute "{attribute.name}"',
        )
    more = attribute.size - attribute.steps
    if attribute.kind in ("category", "boolean"):
        return KeyPart(attribute.name, attribute.kind, attribute.steps, values=attribute.values, more=more)
    if attribute.steps > MAX_CELLS:
        raise SchemaError(f"The key {attribute.name!r} has {attribute.steps:,} values; the limit is {MAX_CELLS:,}.")
    lo, grid = attribute.lo, attribute.grid
    first = lo.isoformat() if isinstance(lo, datetime) else str(Fraction(lo))  # type: ignore[arg-type]
    return KeyPart(attribute.name, attribute.kind, attribute.steps, first, str(Fraction(grid)), more=more)  # type: ignore[arg-type]
