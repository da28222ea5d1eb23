"""Small tables for sketches, and sessions over them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

import siloquent as sq
from siloquent.schema import TableSchema
from siloquent.sketch import Budget, PStable, SketchSpec

TOML = """
format = 1
attribute = [
  {{ name = "person", type = "id" }},
  {{ name = "x", type = "real", lo = 0, hi = 10, grid = 0.01, outside = "{outside}", null = "drop" }},
  {{ name = "y", type = "integer", lo = 0, hi = 100, outside = "clamp", null = "cell" }},
  {{ name = "kind", type = "category", values = ["a", "b"], null = "drop" }},
  {{ name = "wet", type = "boolean", null = "drop" }},
  {{ name = "item", type = "integer", lo = 0, hi = 999, outside = "drop", null = "drop" }},
  {{ name = "line", type = "text", max_bytes = 200 }},
]
[table]
name = "points"
adjacency = "{adjacency}"
{size}
unit = {unit}
[budget]
{budget}
"""
ZCDP = 'accountant = "zcdp"\nrho = "1000"\ndelta = "1e-6"'
PURE = 'accountant = "pure"\nepsilon = "1000"'
ROW = '{ kind = "row" }'
USER = '{ kind = "user", column = "person", max_rows = 3 }'


def schema(
    *,
    budget: str = ZCDP,
    unit: str = ROW,
    adjacency: str = "add-remove",
    size: int | None = 2_000,
    outside: str = "drop",
) -> TableSchema:
    hint = f"size_hint = {size}" if size else ""
    return sq.read_schema(TOML.format(budget=budget, unit=unit, adjacency=adjacency, size=hint, outside=outside))


def rows(count: int = 2_000, seed: int = 0) -> pa.Table:
    """Two clouds of points, one a kind; items and words go with the kind."""
    random = np.random.default_rng(seed)
    kind = random.random(count) < 0.4
    x = np.clip(np.where(kind, 2.5, 7.0) + random.normal(0, 0.8, count), 0, 10).round(2)
    y = np.clip(np.where(kind, 30, 65) + random.normal(0, 8, count), 0, 100).astype(int)
    return pa.table(
        {
            "person": pa.array([f"p{i:04d}" for i in random.integers(0, max(count // 2, 1), count)]),
            "x": x,
            "y": y,
            "kind": np.where(kind, "a", "b").astype(object),
            "wet": random.random(count) < np.where(kind, 0.9, 0.2),
            "item": np.where(kind, 0, 500) + random.integers(0, 400, count),
            "line": np.where(kind, "disk full on node", "user logged in").astype(object),
        }
    )


def session(folder: Path, frame: pa.Table | None = None, **declared: object) -> sq.Session:
    """A workspace in ``folder`` with the table ``points``."""
    sq.create_workspace(folder / "place")
    opened = sq.open(folder / "place")
    opened.add_frame(schema(**declared), rows() if frame is None else frame)  # type: ignore[arg-type]
    return opened


def spec(**changed: object) -> SketchSpec:
    """A sketch of x and y that says something at once."""
    given: dict[str, object] = {
        "table": "points",
        "features": ("x", "y"),
        "kernel": PStable(2, 0.3),
        "scale": "range",
        "rows": 256,
        "budget": Budget(epsilon="2"),
    }
    return SketchSpec(**{**given, **changed})  # type: ignore[arg-type]
