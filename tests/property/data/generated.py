"""Random tables of many attributes, their places by SQL and by Python side by side."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pyarrow as pa

from benchmarks.trials.random_tables import random_attribute, random_column
from siloquent.data.column_mapping import map_columns
from siloquent.data.engines.base import Engine
from siloquent.data.units.contribution_bounding import select_bounded_rows
from siloquent.schema import Attribute, Domain, TableBudget, TableSchema


def random_table(seed: int, *, attributes: int, rows: int) -> tuple[TableSchema, pa.Table]:
    """A declaration of random attributes, and a table whose first column numbers the rows."""
    rng = np.random.default_rng(seed)
    declared = tuple(random_attribute(rng, f"a{i}") for i in range(attributes))
    columns = {attribute.name: random_column(rng, attribute, rows) for attribute in declared}
    return schema_of(*declared), pa.table({"row": pa.array(range(rows)), **columns})


def schema_of(*attributes: Attribute) -> TableSchema:
    """A row table with these attributes and the rows' numbers."""
    return TableSchema("t", Domain((Attribute("row", "id"), *attributes)), TableBudget("pure", Fraction(1)))


def disagreements(schema: TableSchema, table: pa.Table, make: Callable[[pa.Table], Engine]) -> list[str]:
    """Every value whose place in SQL is not the one in Python, in words."""
    engine = make(table)
    layout = map_columns(schema, engine.list_columns())
    for column in layout:
        if column.lookup:
            engine.look_up(column.lookup, column.attribute.values)
    query = select_bounded_rows(layout, schema.unit, salt="", wanted=layout)
    found = pa.Table.from_batches(list(engine.read_batches(query))).sort_by("r0")
    engine.close()
    wrong = []
    for column in layout[1:]:
        values = table.column(column.source).to_pylist()
        for value, place in zip(values, found.column(column.index_name).to_pylist(), strict=True):
            expected = column.attribute.index(value)
            if place != expected:
                wrong.append(f"{column.attribute}: {value!r} is {place} in SQL and {expected} in Python")
    return wrong
