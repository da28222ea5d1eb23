"""Small tables for search, and sessions over them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

import siloquent as sq
from siloquent.schema import TableSchema
from siloquent.search import Budget, KeyOf, OfferSpec

TOML = """
format = 1
attribute = [
  {{ name = "person", type = "id" }},
  {{ name = "town", type = "category", values = ["aa", "ab", "ba", "bb"], null = "drop" }},
  {{ name = "year", type = "integer", lo = 2020, hi = 2023, outside = "drop", null = "drop" }},
  {{ name = "x", type = "real", lo = 0, hi = 10, grid = 0.01, outside = "clamp", null = "drop" }},
  {{ name = "y", type = "integer", lo = 0, hi = 100, outside = "clamp", null = "cell" }},
  {{ name = "kind", type = "category", values = ["p", "q", "r"], null = "drop" }},
  {{ name = "wet", type = "boolean", null = "drop" }},
  {{ name = "one", type = "integer", lo = 5, hi = 5, outside = "clamp", null = "drop" }},
  {{ name = "line", type = "text", max_bytes = 200 }},
]
[table]
name = "{name}"
adjacency = "{adjacency}"
size_hint = {size}
unit = {unit}
[budget]
{budget}
"""
ZCDP = 'accountant = "zcdp"\nrho = "1000"\ndelta = "1e-6"'
PURE = 'accountant = "pure"\nepsilon = "1000"'
ROW = '{ kind = "row" }'
USER = '{ kind = "user", column = "person", max_rows = 3 }'
TOWNS = ("aa", "ab", "ba", "bb")


def schema(
    *,
    name: str = "places",
    budget: str = ZCDP,
    unit: str = ROW,
    adjacency: str = "add-remove",
    size: int = 2_000,
) -> TableSchema:
    return sq.read_schema(TOML.format(name=name, budget=budget, unit=unit, adjacency=adjacency, size=size))


def rows(count: int = 2_000, seed: int = 0) -> pa.Table:
    """x depends on the town, y on x and on the year."""
    random = np.random.default_rng(seed)
    town, year = random.integers(0, 4, count), random.integers(2020, 2024, count)
    x = np.clip(2 + 2 * town + random.normal(0, 1, count), 0, 10)
    y = np.clip(8 * x + 3 * (year - 2020) + random.normal(0, 5, count), 0, 100)
    return pa.table(
        {
            "person": pa.array([f"p{i:04d}" for i in random.integers(0, max(count // 2, 1), count)]),
            "town": pa.array([TOWNS[i] for i in town]),
            "year": year,
            "x": x.round(2),
            "y": y.round().astype(int),
            "kind": pa.array([("p", "q", "r")[i] for i in random.integers(0, 3, count)]),
            "wet": random.random(count) < 0.5,
            "one": np.full(count, 5),
            "line": pa.array(["dry"] * count),
        }
    )


def session(folder: Path, frame: pa.Table | None = None, **declared: object) -> sq.Session:
    """A workspace in ``folder`` with the table ``places``."""
    sq.create_workspace(folder / "place")
    opened = sq.open(folder / "place")
    opened.add_frame(schema(**declared), rows() if frame is None else frame)  # type: ignore[arg-type]
    return opened


def spec(**changed: object) -> OfferSpec:
    """An offer of x by town that says something at once."""
    given: dict[str, object] = {
        "table": "places",
        "features": ("x",),
        "keys": (KeyOf("town"),),
        "budget": Budget(rho="10"),
    }
    return OfferSpec(**{**given, **changed})  # type: ignore[arg-type]
