"""How many users there are, how many rows they have, and how long their texts are, never decides on an answer.

Under a limit on memory that the rows of all users do not fit into, every measurement gives what it gives without one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from siloquent.data import PrivateTable, ReadLimits, open_source
from siloquent.data.engines import parts
from siloquent.errors import DataError
from siloquent.schema import Block, TableSchema
from siloquent.schema.build import parse_schema
from siloquent.schema.workspace import Workspace
from unit.data.clinic import SALT, full_block, ledger_for, permit_of

SMALL = ReadLimits(memory_bytes=2**25, kept_bytes=2**14, threads=1)
LARGE = ReadLimits(threads=1)


def declared(source: str) -> TableSchema:
    return parse_schema(f"""
format = 1
attribute = [
  {{ name = "who", type = "id" }},
  {{ name = "ward", type = "category", values = ["0", "1", "2"], null = "drop" }},
  {{ name = "note", type = "text" }},
]
[table]
name = "visits"
source = "{source}"
adjacency = "add-remove"
unit = {{ kind = "user", column = "who", max_rows = 3 }}
[budget]
accountant = "pure"
epsilon = "1"
""")


def visits(rows: int, users: int, length: int) -> pa.Table:
    """``rows`` of ``users`` whose names have some ``length`` bytes."""
    rng = np.random.default_rng(rows + users)
    names = pa.array([f"{i:07d}{'x' * length}" for i in range(users)])
    return pa.table(
        {
            "who": names.take(pa.array(rng.integers(0, users, rows))),
            "ward": pa.array(rng.integers(0, 3, rows).astype(np.int32)),
            "note": pa.array(["n"] * rows),
        }
    )


def opened(schema: TableSchema, limits: ReadLimits, folder: Path, frame: object) -> tuple[PrivateTable, Any]:
    ledger = ledger_for(schema)
    engine = open_source(schema, Workspace(folder), frame=frame, limits=limits)
    return PrivateTable(schema, engine, ledger, salt=SALT), permit_of(ledger, schema.account)


def measured(schema: TableSchema, limits: ReadLimits, folder: Path, frame: object) -> list[Any]:
    """Counts, the rows themselves and a fold: through all ways in which an engine reads."""
    table, permit = opened(schema, limits, folder, frame)
    try:
        counted = table.count_by_cell([full_block(schema, "ward"), Block((), ())], permit)
        notes = sum(batch.num_rows for batch in table.read_rows(["note", "ward"], permit))
        folded = table.fold(count, np.add, ["ward"], permit, encoded=True)
        return [*(one.tolist() for one in counted), notes, folded.tolist()]
    finally:
        table.close()


def count(batch: pa.RecordBatch) -> np.ndarray[Any, Any]:
    """How many rows have each place."""
    return np.bincount(batch.column(0).to_numpy() + 1, minlength=4)


TABLES = {
    "many users": ("", 60_000, 60_000, 700),
    "one user": ("", 90_000, 1, 700),
    "a file": ("parquet:rows", 20_000, 20_000, 2_000),
}


@pytest.mark.parametrize("name", TABLES)
def test_rows_of_users_that_do_not_fit_into_memory_count_the_same(name: str, tmp_path: Path) -> None:
    source, *sizes = TABLES[name]
    frame, schema = visits(*sizes), declared(source)
    if source:
        pq.write_table(frame, tmp_path / "rows", row_group_size=3_000)
    given = None if source else frame
    assert measured(schema, SMALL, tmp_path, given) == measured(schema, LARGE, tmp_path, given)


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("many users", (parts, "MAX_PARTS", 1)),
        ("a file", (parts, "MAX_PARTS", 1)),
        ("one user", (parts, "_by_one_key", lambda window: window)),
    ],
)
def test_without_parts_they_would_fail_after_the_charge(name: str, fault: Any, tmp_path: Path) -> None:
    source, *sizes = TABLES[name]
    frame = visits(*sizes)
    if source:
        pq.write_table(frame, tmp_path / "rows", row_group_size=3_000)
    with patch.object(*fault), pytest.raises(DataError, match="stays charged"):
        measured(declared(source), SMALL, tmp_path, None if source else frame)
