"""What a request is stored under does not change from version to version: else a key would be paid for again.

The digests are those that 0.1 wrote before its names were changed.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import siloquent as sq
from siloquent import search, share, sketch, synth

SCHEMA = """
format = 1
attribute = [
  { name = "ward", type = "category", values = ["A", "B", "C"], null = "drop" },
  { name = "days", type = "integer", lo = 0, hi = 60, outside = "clamp", null = "drop" },
  { name = "ill", type = "boolean", null = "drop" },
]
[table]
name = "stays"
adjacency = "add-remove"
size_hint = 4000
unit = { kind = "row" }
[budget]
accountant = "ACCOUNTANT"
epsilon = "20"
DELTA
"""
QUESTIONS = (
    "SELECT ward, COUNT(*) FROM stays GROUP BY ward ERROR 60 REUSE NONE",
    "SELECT SUM(days) FROM stays WHERE ward = 'A' AND days > 3 ERROR 3000 REUSE NONE",
    "SELECT MEDIAN(days) FROM stays WHERE NOT (ward IN ('A', 'B') OR days BETWEEN 2 AND 4) ERROR 100 REUSE NONE",
    "SELECT ward, AVG(days) FROM stays GROUP BY ward HAVING COUNT(*) > 100 "
    "ERROR 5, 60 FOR AT LEAST 500 ROWS REUSE NONE",
    "SELECT ward, COUNT(*) FROM stays GROUP BY ward ORDER BY COUNT(*) DESC LIMIT 1 ERROR 90 REUSE NONE",
)
WRITTEN = {
    "pure": {
        "q0": "1ae731a75d01f205", "q1": "fd7bb12a82fa3586", "q2": "a02db9a14b70c9bc", "q3": "4d5cf0d1d3707ed0",
        "q4": "2568b755d5af52a1", "sketch": "cebc4e27e2279f04", "synth": "45a74068db42d2a2",
        "offer": "a1886aafa9f47b7f", "share": "7ddd68f18d2b8356",
    },
    "zcdp": {
        "q0": "0fdaaaa83b58c689", "q1": "d3b82d615293fdd6", "q2": "b7aa808f968c6635", "q3": "df5730d31964272b",
        "q4": "4972cd49a72ab4fe", "sketch": "3e4c62ac24bc1ee3", "synth": "cf98bea398d474fc",
        "offer": "502fd0702b8003f6", "share": "82d3acd72370d81e",
    },
}  # fmt: skip


def stays(rows: int = 4_000) -> pa.Table:
    random = np.random.default_rng(0)
    return pa.table(
        {
            "ward": np.array(["A", "B", "C"])[random.integers(0, 3, rows)],
            "days": random.integers(0, 61, rows),
            "ill": random.random(rows) < 0.4,
        }
    )


def written(folder: Path) -> dict[str, str]:
    """The beginning of the digest that each key stands for in a workspace's ledger."""
    with sqlite3.connect(folder / "ledger.sqlite") as ledger:
        found = ledger.execute("SELECT key, digest FROM permit WHERE key LIKE 'stays@1:%'").fetchall()
    return {key.partition(":")[2]: digest[:16] for key, digest in found}


@pytest.mark.slow
@pytest.mark.parametrize("accountant", WRITTEN)
def test_the_requests_of_every_task_have_the_digests_that_they_had(tmp_path: Path, accountant: str) -> None:
    budget, two = {"epsilon": "2"}, synth.Budget(epsilon="2")
    delta = 'delta = "1e-6"' if accountant == "zcdp" else ""
    schema = SCHEMA.replace("ACCOUNTANT", accountant).replace("DELTA", delta)
    sq.create_workspace(tmp_path / "w")
    kernel = {"kind": "p-stable", "order": 2, "bandwidth": 0.3}
    with sq.open(tmp_path / "w") as session:
        session.add_frame(sq.read_schema(schema), stays())
        for number, question in enumerate(QUESTIONS):
            session.ask(question, key=f"q{number}")
        asked = sketch.parse_spec({"table": "stays", "features": ["days"], "kernel": kernel, "budget": budget})
        session.sketch.build(asked, key="sketch")
        session.synth.synthesize(synth.SynthSpec(table="stays", budget=two, rows=500), key="synth")
        offered = {"table": "stays", "features": ["days"], "keys": [["ward"]], "budget": budget}
        session.search.offer(search.parse_spec(offered), key="offer")
        session.share.release(share.ShareSpec("stays", "ill", ("ward", "days"), two), key="share")
    assert written(tmp_path / "w") == WRITTEN[accountant]
