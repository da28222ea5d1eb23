"""Which rows of a user count is decided by these rows, also where the hash, which reads no floats, leaves it open."""

from __future__ import annotations

from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest

from siloquent.data import open_table
from siloquent.ledger import MemoryLedger, Permit
from siloquent.privacy import DiscreteLaplace
from siloquent.privacy.accountants import build_limit
from siloquent.schema.build import parse_schema

SCHEMA = """
format = 1
attribute = [{ name = "who", type = "id" }, { name = "at", type = "id" }]
[table]
name = "t"
adjacency = "add-remove"
unit = { kind = "user", column = "who", max_rows = 5 }
[budget]
accountant = "pure"
epsilon = "1"
"""


def chosen(rows: pa.Table) -> list[Any]:
    schema, ledger = parse_schema(SCHEMA), MemoryLedger()
    ledger.open_account(
        "t@1", limit=build_limit("pure", "1"), accountant="pure", unit=schema.unit.code, adjacency=schema.adjacency
    )
    permit = ledger.reserve("t@1", DiscreteLaplace(scale=Fraction(10), l1=1), key=None, digest="d")
    assert isinstance(permit, Permit)
    table = open_table(schema, None, ledger, salt="ab", frame=rows)
    try:
        return sorted(value for batch in table.read_rows(["at"], permit) for value in batch.column("at").to_pylist())
    finally:
        table.close()


@pytest.mark.parametrize(
    "values",
    [[i + 0.5 for i in range(30)], [datetime(2024, 1, 1) + timedelta(hours=i) for i in range(30)]],
    ids=["floats", "times"],
)
def test_the_order_of_rows_that_the_hash_cannot_tell_apart_decides_nothing(values: list[Any]) -> None:
    rows = pa.table({"who": [7] * 30, "at": values})
    first = chosen(rows)
    assert len(first) == 5
    assert chosen(rows.take(pa.array(range(29, -1, -1)))) == first
