"""Generated vital signs: one cluster of healthy people, one of diabetics, overlapping."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa

ROWS = 8_000
SHARE = 0.22
"""The share of people in the diabetic cluster."""
CENTRE = (52.0, 26.0, 126.0, 96.0)
SPREAD = (15.0, 4.5, 16.0, 18.0)
SHIFT = (12.0, 4.0, 10.0, 38.0)
"""The shift of the diabetic cluster in age, weight, blood pressure and blood sugar."""
LOW, HIGH = (18.0, 14.0, 80.0, 50.0), (95.0, 55.0, 220.0, 400.0)
PEOPLE = "name,age,bmi,systolic,glucose\nasked 1,35,22.5,115,88\nasked 2,68,31,142,160\nasked 3,58,28,131,118\n"

VITALS = """\
format = 1

attribute = [
  { name = "age", type = "integer", lo = 18, hi = 95, outside = "clamp", null = "drop", bins = { width = 6 } },
  { name = "bmi", type = "real", lo = 14, hi = 55, grid = 0.1, outside = "clamp", null = "drop" },
  { name = "systolic", type = "integer", lo = 80, hi = 220, outside = "clamp", null = "drop" },
  { name = "glucose", type = "integer", lo = 50, hi = 400, outside = "clamp", null = "drop" },
  { name = "diabetic", type = "boolean", null = "drop" },
]

[table]
name = "vitals"
source = "parquet:data/vitals.parquet"
adjacency = "add-remove"
size_hint = 8000
unit = { kind = "row" }                                          # one row a person

[budget]
accountant = "zcdp"
epsilon = "2"
delta = "1e-6"
"""


def make_vitals(rng: np.random.Generator, *, rows: int = ROWS) -> pa.Table:
    """Return ``rows`` people, a share of SHARE of them diabetic."""
    import pyarrow as pa

    diabetic = rng.random(rows) < SHARE
    drawn = np.array(CENTRE) + diabetic[:, None] * np.array(SHIFT) + rng.normal(0, 1, (rows, 4)) * np.array(SPREAD)
    age, bmi, systolic, glucose = np.clip(drawn, LOW, HIGH).T
    return pa.table(
        {
            "age": np.rint(age).astype(np.int64),
            "bmi": np.round(bmi, 1),
            "systolic": np.rint(systolic).astype(np.int64),
            "glucose": np.rint(glucose).astype(np.int64),
            "diabetic": diabetic,
        }
    )


def add_vitals(workspace: Path, *, seed: int, rows: int = ROWS) -> None:
    """Write the table, its declaration, and three people to query into a workspace's folder."""
    import pyarrow.parquet

    table = make_vitals(np.random.default_rng(seed), rows=rows)
    pyarrow.parquet.write_table(table, workspace / "data" / "vitals.parquet")
    (workspace / "schemas" / "vitals.toml").write_text(VITALS, encoding="utf-8")
    (workspace / "data" / "people.csv").write_text(PEOPLE, encoding="utf-8")
