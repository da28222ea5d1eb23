"""Which of a user's rows count is drawn anew for each table, epoch and ledger, and stays within them."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pytest

from siloquent.api import Session
from siloquent.ledger import MemoryLedger
from siloquent.privacy import FREE
from siloquent.schema.build import parse_schema
from siloquent.schema.workspace import Workspace

TEXT = """
format = 1
attribute = [
  { name = "who", type = "id" },
  { name = "place", type = "integer", lo = 0, hi = 199, outside = "drop", null = "drop", bins = { width = 1 } },
]
[table]
name = "NAME"
adjacency = "add-remove"
unit = { kind = "user", column = "who", max_rows = 1 }
[budget]
accountant = "pure"
epsilon = "100000"
"""
ROWS = pa.table({"who": [f"p{i // 2}" for i in range(200)], "place": list(range(200))})


def counted(*, epoch: int = 1, name: str = "visits", ledger_id: str = "ab") -> list[int]:
    """The places whose row counts, of 100 users with two rows each, through the session's own door."""
    schema = parse_schema(TEXT.replace("NAME", name))
    schema = replace(schema, budget=replace(schema.budget, epoch=epoch))
    with patch("secrets.token_hex", lambda _=32: ledger_id * 16):
        ledger = MemoryLedger()
    with tempfile.TemporaryDirectory() as folder, Session(Workspace(Path(folder)), ledger) as session:
        if epoch == 2:
            session.add_frame(replace(schema, budget=replace(schema.budget, epoch=1)), ROWS)
            session.open_account(f"{name}@1", FREE, table=name)
            ledger.open_epoch(f"{name}@1", schema.account, statement="these are new people")
        session.add_frame(schema, ROWS)
        answer = session.ask(f"SELECT place, COUNT(*) FROM {name} GROUP BY place ERROR 0.4 CONFIDENCE 0.999999999")
        return [int(row[0]) for row in answer.rows if int(row[1]) == 1]


def test_the_same_rows_count_whenever_the_same_table_is_opened() -> None:
    first = counted()
    assert len(first) == 100
    assert [place // 2 for place in first] == list(range(100))
    assert counted() == first


@pytest.mark.parametrize(
    "other", [{"epoch": 2}, {"name": "stays"}, {"ledger_id": "cd"}], ids=["epoch", "table", "ledger"]
)
def test_other_rows_count_in_another_epoch_table_or_ledger(other: dict[str, object]) -> None:
    """Else what two releases tell of a user's rows would be about the same ones. Equal by chance: 1 in 2^100."""
    assert counted(**other) != counted()  # type: ignore[arg-type]
