"""Reading of public tables with the readers of private ones: the same index functions and file limits."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from siloquent.data.column_mapping import map_columns
from siloquent.data.sources import open_source
from siloquent.data.units.contribution_bounding import select_bounded_rows
from siloquent.errors import SchemaError
from siloquent.schema import Attribute, Domain, TableBudget, TableSchema
from siloquent.schema.public_tables.declaration import PublicFile
from siloquent.schema.public_tables.loaded import PublicColumn, PublicTable
from siloquent.schema.workspace import Workspace

MAX_KEYS = 1_000_000


def read_public(
    declared: PublicFile, key: Attribute, workspace: Workspace, *, is_public_key: bool = False
) -> PublicTable:
    """Return the public table ``declared``, by the indices of the private table's attribute ``key``.

    Args:
        is_public_key: Whether ``key`` is an attribute of another public table.

    Raises:
        SchemaError: the key has no cells or too many, is derived, or occurs twice; or the file does not fit.
        DataError: the file cannot be read.
    """
    if not key.is_countable or key.function or key.size > MAX_KEYS:
        raise SchemaError(
            f"{key.name!r} cannot refer to a public table: a key must be an attribute of at most {MAX_KEYS:,} cells.",
            fix=f'declare "{key.name}" as a category with its values, or as an integer with bounds',
        )
    # A public row whose key is empty, not listed or out of bounds matches no private row.
    strict = replace(key, name=declared.key, outside="drop", other="drop", null="drop", null_value=None)
    domain = Domain((strict, *declared.attributes))
    schema = TableSchema(
        declared.name,
        domain,
        TableBudget("pure", epsilon=Fraction(1)),
        source=declared.source,
        reading=declared.reading,
    )
    engine = open_source(schema, workspace)
    try:
        columns = map_columns(schema, engine.list_columns())
        for column in columns:
            if column.lookup:
                engine.look_up(column.lookup, column.attribute.values)
        query = select_bounded_rows(columns, schema.unit, salt="", wanted=columns)
        found = [[np.asarray(part) for part in batch.columns] for batch in engine.read_batches(query)]
    finally:
        engine.close()
    empty = [[np.zeros(0, dtype=np.int64)] * len(columns)]
    keys, *others = (np.concatenate(parts).astype(np.int64) for parts in zip(*(found or empty), strict=True))
    met = keys >= 0
    if len(np.unique(keys[met])) < met.sum():
        raise SchemaError(
            f"The key {declared.key!r} of the public table {declared.name!r} occurs twice, as {key.name!r} reads it.",
            fix=f"one row a {declared.key} in {declared.source.partition(':')[2]}",
        )
    known = np.zeros(key.size, dtype=bool)
    known[keys[met]] = True
    return PublicTable(
        declared.name,
        key.name,
        tuple(known.tolist()),
        tuple(
            PublicColumn(attribute, tuple(_arrange_by_key(keys[met], places[met], key.size)))
            for attribute, places in zip(declared.attributes, others, strict=True)
        ),
        declared.key,
        key if is_public_key else None,
    )


def _arrange_by_key(keys: np.ndarray, places: np.ndarray, size: int) -> list[int]:
    by_key = np.full(size, -1, dtype=np.int64)
    by_key[keys] = places
    found: list[int] = by_key.tolist()
    return found
