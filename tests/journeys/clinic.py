"""A small clinic for journeys: rows in any kind of file, a declaration, and a person at the command line."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from forked import build_command
from journeys.documents import misfits

SOURCES = ("csv", "parquet", "duckdb")
WARDS = "SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 200 CONFIDENCE 0.99"
TOML = """\
format = 1
attribute = [
  { name = "patient", type = "id" },
  { name = "age", type = "integer", lo = 0, hi = 120, outside = "clamp", null = "drop", bins = { width = 20 } },
  { name = "ward", type = "category", values = ["A", "B", "=1+1", "icu"], null = "drop" },
  { name = "cost", type = "real", lo = 0, hi = 1000, grid = 0.01, outside = "clamp", null = "drop" },
  { name = "note", type = "text", max_bytes = 100 },
]

[table]
name = "visits"
source = "SOURCE"
adjacency = "add-remove"
size_hint = 3000
unit = { kind = "row" }

[budget]
accountant = "zcdp"
epsilon = "1"
delta = "1e-6"
analysts = { ana = "1", bo = "0.001" }
"""


def rows() -> pa.Table:
    """3,000 visits: 1,200 in A, 900 in B, 600 in =1+1, 300 in the icu."""
    rng = np.random.default_rng(7)
    wards = np.repeat(np.array(["A", "B", "=1+1", "icu"], dtype=object), [1200, 900, 600, 300])
    return pa.table(
        {
            "patient": pa.array([f"p{i:04d}" for i in rng.integers(0, 2000, 3000)]),
            "age": pa.array(rng.integers(0, 100, 3000)),
            "ward": pa.array(wards),
            "cost": pa.array(np.round(rng.uniform(0, 900, 3000), 2)),
            "note": pa.array(["seen"] * 3000),
        }
    )


def write_source(folder: Path, kind: str) -> str:
    """Write the rows below ``folder`` as ``kind`` and give the text of ``source``."""
    (folder / "data").mkdir(exist_ok=True)
    table = rows()
    if kind == "csv":
        import pyarrow.csv

        pyarrow.csv.write_csv(table, folder / "data" / "visits.csv")
        return "csv:data/visits.csv"
    if kind == "parquet":
        import pyarrow.parquet

        pyarrow.parquet.write_table(table, folder / "data" / "visits.parquet")
        return "parquet:data/visits.parquet"
    import duckdb

    with duckdb.connect(str(folder / "data" / "clinic.duckdb")) as connection:
        connection.register("rows", table)
        connection.execute("CREATE TABLE visits AS SELECT * FROM rows")
    return "duckdb:data/clinic.duckdb#visits"


@dataclass(frozen=True, slots=True)
class Done:
    """How a command ended and what it said."""

    status: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """The one JSON document on standard output, as its schema says."""
        assert self.out.count("\n") == 1, f"not one document: {self.out!r}"
        found: dict[str, Any] = json.loads(self.out)
        wrong = misfits(found)
        assert not wrong, wrong
        return found

    @property
    def again(self) -> tuple[str, ...]:
        """The words after ``siloquent`` that, it said, ask the same again for nothing."""
        (line,) = [line for line in self.err.splitlines() if line.startswith("To repeat this at no cost: siloquent ")]
        return tuple(shlex.split(line)[7:])


Types = Callable[..., Done]


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody at the command line, in a folder; no terminal, so nobody is asked."""

    folder: Path

    def types(self, *words: str, stdin: str = "", environment: dict[str, str] | None = None) -> Done:
        """``siloquent WORDS`` as a process of its own."""
        done = subprocess.run(
            [*build_command(), *words],
            cwd=self.folder,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env={**os.environ, "COLUMNS": "120", "NO_COLOR": "1", **(environment or {})},
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def spent(self, account: str = "visits@1") -> int:
        """What the account has spent, in whole units."""
        from siloquent.schema.workspace import read_workspace
        from siloquent.session import open_workspace_ledger

        ledger = open_workspace_ledger(read_workspace(self.folder))
        try:
            return next((one.spent.amount for one in ledger.list_accounts() if one.name == account), 0)
        finally:
            ledger.close()

    def head(self) -> str:
        """The ledger's head file: it changes with every entry."""
        return (self.folder / "ledger.head").read_text()
