"""A small table for tests of synthesis: words, numbers, dates, missing values, and a rule of every kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import siloquent as sq
from siloquent.api import Session, read_schema
from siloquent.schema import TableSchema
from siloquent.synth import Budget, SynthSpec
from siloquent.synth.plan.tree import TreePlan, plan_tree

COLUMNS = """\
  { name = "id", type = "id" },
  { name = "age", type = "integer", lo = 0, hi = 99, outside = "clamp", null = "drop" },
  { name = "ward", type = "category", values = ["A", "B", "C", "D"], null = "cell", other = "cell" },
  { name = "floor", type = "integer", lo = 0, hi = 3, outside = "clamp", null = "drop" },
  { name = "weight", type = "real", lo = 0, hi = 200, grid = 0.5, outside = "clamp", null = "drop" },
  { name = "day", type = "date", lo = 2024-01-01, hi = 2024-12-31, grid = "day", outside = "drop", null = "drop" },
  { name = "smoker", type = "boolean", null = "drop" },
  { name = "note", type = "text", max_bytes = 100 },
"""
RULES = """\
constraint = [
  { kind = "fd", lhs = ["ward"], rhs = "floor" },
  { kind = "denial", not = "t1.age > t2.age and t1.weight < t2.weight" },
  { kind = "denial", not = "age < 12 and smoker = true" },
]
"""
BUDGETS = {
    "zcdp": '[budget]\naccountant = "zcdp"\nepsilon = "100"\ndelta = "1e-6"\n',
    "pure": '[budget]\naccountant = "pure"\nepsilon = "100"\n',
}
ROW, USER = '{ kind = "row" }', '{ kind = "user", column = "id", max_rows = 2 }'


def toml(
    *,
    columns: str = COLUMNS,
    rules: str = RULES,
    accountant: str = "zcdp",
    adjacency: str = "add-remove",
    unit: str = ROW,
    size_hint: int | None = 2_000,
) -> str:
    """The declaration's text."""
    hint = "" if size_hint is None else f"size_hint = {size_hint}\n"
    table = f'[table]\nname = "people"\nadjacency = "{adjacency}"\nunit = {unit}\n{hint}'
    return f"format = 1\nattribute = [\n{columns}]\n{rules}\n{table}\n{BUDGETS[accountant]}"


def schema(**given: Any) -> TableSchema:
    """The declaration."""
    return read_schema(toml(**given))


def rows(count: int = 2_000, seed: int = 1) -> pa.Table:
    """Rows that keep every rule; the ward says much about age and smoking."""
    random = np.random.default_rng(seed)
    ward = random.integers(0, 4, count)
    age = np.clip(random.normal(20 + 18 * ward, 8), 0, 99).astype(np.int64)
    weight = np.round(np.clip(age * 1.5, 0, 200) * 2) / 2
    smoker = (random.random(count) < 0.1 + 0.2 * ward) & (age >= 12)
    names = np.array(["A", "B", "C", "D"], dtype=object)[ward]
    names[random.random(count) < 0.02] = None
    known = np.where(names == None, 0, ward)  # noqa: E711 - elementwise
    day = np.datetime64("2024-01-01") + random.integers(0, 366, count).astype("timedelta64[D]")
    return pa.table(
        {
            "id": pa.array(np.arange(count).astype(str)),
            "age": pa.array(age),
            "ward": pa.array(names, pa.string()),
            "floor": pa.array(known),
            "weight": pa.array(weight),
            "day": pa.array(day.astype("datetime64[D]")),
            "smoker": pa.array(smoker),
            "note": pa.array(["seen"] * count),
        }
    )


def opened(folder: Path, table: pa.Table | None = None, **given: Any) -> Session:
    """A workspace with the table in it."""
    sq.create_workspace(folder)
    session = sq.open(folder)
    session.add_frame(schema(**given), rows() if table is None else table)
    return session


def spec(**given: Any) -> SynthSpec:
    """A request for few, cheap steps."""
    return SynthSpec(**{"table": "people", "budget": Budget(epsilon="2"), "quality": "fast", **given})


def planned(of: TableSchema | None = None, **given: Any) -> TreePlan:
    """The plan of ``spec``."""
    return plan_tree(spec(**given), of or schema())
