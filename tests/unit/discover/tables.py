"""A small clinic whose diagnoses nobody declared, and sessions over it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

import siloquent as sq
from siloquent.api import Session
from siloquent.schema import TableSchema

ZCDP = 'accountant = "zcdp"\nepsilon = "4"\ndelta = "1e-6"\ndelta_events = "5e-7"'
PURE = 'accountant = "pure"\nepsilon = "4"'
ROW = '{ kind = "row" }'
USER = '{ kind = "user", column = "patient", max_rows = 3 }'
TEXT = '{ name = "diagnosis", type = "text", max_bytes = 1000 }'
CATEGORY = '{ name = "diagnosis", type = "category", values = ["flu"], other = "cell", null = "drop" }'
TOML = """
format = 1
attribute = [
  {{ name = "patient", type = "id" }},
  {diagnosis},
  {{ name = "cost", type = "real", lo = -1000000, hi = 1000000, grid = 0.01, outside = "clamp", null = "cell" }},
  {{ name = "day", type = "date", lo = 1900-01-01, hi = 2100-12-31, outside = "drop", null = "drop" }},
  {{ name = "smoker", type = "boolean", null = "drop" }},
]
[[derived]]
name = "year"
type = "integer"
from = ["day"]
function = "year"
lo = 1900
hi = 2100
outside = "drop"
null = "drop"
[table]
name = "visits"
adjacency = "{adjacency}"
{table}
unit = {unit}
[budget]
{budget}
"""


def declare(
    *,
    budget: str = ZCDP,
    unit: str = USER,
    adjacency: str = "add-remove",
    diagnosis: str = TEXT,
    table: str = "",
    more: str = "",
) -> str:
    text = TOML.format(budget=budget, unit=unit, adjacency=adjacency, diagnosis=diagnosis, table=table)
    return text.replace("[[derived]]", f"{more}\n[[derived]]", 1)


def schema(**given: str) -> TableSchema:
    return sq.read_schema(declare(**given))


def rows(*held: tuple[str | None, str | None, int]) -> pa.Table:
    """For each (prefix of patients, diagnosis, n): n patients with a row of that diagnosis."""
    people = [(None if who is None else f"{who}{i}", what) for who, what, n in held for i in range(n)]
    return table([who for who, _ in people], [what for _, what in people])


def table(patients: list[str | None], diagnoses: list[str | None]) -> pa.Table:
    """Rows of these patients and diagnoses; the further columns are all alike."""
    import datetime

    size = len(patients)
    return pa.table(
        {
            "patient": pa.array(patients, pa.string()),
            "diagnosis": pa.array(diagnoses, pa.string()),
            "cost": pa.array([12.5] * size, pa.float64()),
            "day": pa.array([datetime.date(2024, 2, 29)] * size, pa.date32()),
            "smoker": pa.array([True] * size, pa.bool_()),
        }
    )


def open_clinic(folder: Path, frame: object, **given: str) -> Session:
    """A session over ``frame`` in a new workspace."""
    sq.create_workspace(folder)
    session = sq.open(folder)
    session.add_frame(schema(**given), frame)
    return session
