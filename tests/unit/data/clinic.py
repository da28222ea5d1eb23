"""A small clinic for the data room's tests: its declaration, random visits, a real ledger in memory."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from siloquent.data import Engine, PrivateTable, open_table
from siloquent.ledger import MemoryLedger, Permit, SettledAnswer
from siloquent.privacy import Cost, DiscreteLaplace
from siloquent.schema import Block, TableSchema
from siloquent.schema.build import parse_schema

SALT = "5a17"
ATTRIBUTES = """
  { name = "patient", type = "id" },
  { name = "age", type = "integer", lo = 0, hi = 120, outside = "clamp", null = "drop" },
  { name = "weight", type = "real", lo = 0, hi = 300, grid = 0.1, outside = "drop", null = "cell" },
  { name = "ward", type = "category", values = ["A", "B", "C"], other = "cell", null = "cell" },
  { name = "smoker", type = "boolean", null = { value = false } },
  { name = "day", type = "date", lo = 2024-01-01, hi = 2024-12-31, outside = "drop", null = "drop" },
  { name = "note", type = "text", max_bytes = 40 },
"""


def clinic_schema(
    *, source: str = "", unit: str = '{ kind = "row" }', attributes: str = ATTRIBUTES, more: str = ""
) -> TableSchema:
    """The declaration of ``visits``; ``more`` is TOML that comes before [table]."""
    return parse_schema(f"""
format = 1
attribute = [{attributes}]
{more}
[table]
name = "visits"
source = {source!r}
adjacency = "add-remove"
unit = {unit}
[budget]
accountant = "pure"
epsilon = "1000"
""")


def visits(rows: int, seed: int = 1) -> pa.Table:
    """Random visits with everything that visits should not have: NULL, NaN, values out of bounds and not listed."""
    rng = np.random.default_rng(seed)
    days = np.datetime64("2023-12-20") + rng.integers(0, 400, rows)
    return pa.table(
        {
            "patient": _some_null(rng, pa.array(rng.integers(0, max(rows // 4, 1), rows))),
            "age": _some_null(rng, pa.array(rng.integers(-5, 130, rows))),
            "weight": pa.array(rng.choice([*rng.normal(75, 40, 50), np.nan, np.inf], rows), from_pandas=False),
            "ward": _some_null(rng, pa.array(rng.choice(["A", "B", "C", "D", ""], rows))),
            "smoker": _some_null(rng, pa.array(rng.random(rows) < 0.3)),
            "day": _some_null(rng, pa.array(days.astype("datetime64[D]"))),
            "note": _some_null(rng, pa.array(["x" * int(n) for n in rng.integers(0, 60, rows)])),
        }
    )


def _some_null(rng: np.random.Generator, column: pa.Array) -> pa.Array:
    return pa.compute.if_else(pa.array(rng.random(len(column)) < 0.1), pa.scalar(None, column.type), column)


def ledger_for(schema: TableSchema) -> MemoryLedger:
    """A ledger with the account that pays for ``schema``."""
    ledger = MemoryLedger()
    ledger.open_account(
        schema.account, limit=Cost(10**12), accountant="pure", unit=schema.unit.code, adjacency=schema.adjacency
    )
    return ledger


def permit_of(ledger: MemoryLedger, account: str) -> Permit:
    """An open permit of ``account``."""
    permit = ledger.reserve(account, DiscreteLaplace(scale=1, l1=1), key=None, digest="0" * 64)
    assert not isinstance(permit, SettledAnswer)
    return permit


def opened(schema: TableSchema, frame: object | None = None, *, salt: str = SALT) -> tuple[PrivateTable, Permit]:
    """The table and an open permit for it."""
    ledger = ledger_for(schema)
    return open_table(schema, None, ledger, salt=salt, frame=frame), permit_of(ledger, schema.account)


def on_engine(schema: TableSchema, engine: Engine, *, salt: str = SALT) -> tuple[PrivateTable, Permit]:
    """The table on ``engine`` and an open permit for it."""
    ledger = ledger_for(schema)
    return PrivateTable(schema, engine, ledger, salt=salt), permit_of(ledger, schema.account)


def full_block(schema: TableSchema, *attributes: str) -> Block:
    """Every cell of ``attributes`` as a class of its own; OUTSIDE is left out."""
    return Block(attributes, tuple(np.append(np.arange(schema.domain[a].size), -1) for a in attributes))


def with_outside(schema: TableSchema, *attributes: str) -> Block:
    """Every cell of ``attributes`` as a class of its own, and OUTSIDE as the last."""
    return Block(attributes, tuple(np.arange(schema.domain[a].size + 1) for a in attributes))


def places(schema: TableSchema, table: pa.Table, attribute: str) -> NDArray[np.int64]:
    """What ``Attribute.index`` says of a column, shape (rows,)."""
    return np.array([schema.domain[attribute].index(v) for v in table.column(attribute).to_pylist()], dtype=np.int64)
