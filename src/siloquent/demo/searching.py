"""The demo of a search: offers of two clinics explain the lung function of a third clinic's patients."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa

Floats = NDArray[np.float64]

POSTCODES = tuple(f"{i:02d}" for i in range(1, 49))
LUNGS, AIR, INCOME = 9_600, 4_800, 4_800
DECOYS = {"trees": 2_400, "shops": 800}
"""Tables that are unrelated to ``lungs``, and their numbers of rows."""
WRITTEN = ("lungs-plan.json", "lungs-augmented.parquet")
"""The files that the demo's commands write besides the releases."""
REQUEST = """\
# Which offers, alone or together, explain the lungs' score best?
table = "lungs"
target = "score"
features = ["age", "smoker"]
keys = ["postcode"]
max_augmentations = 3
"""
_TABLE = """\
format = 1

attribute = [
  {{ name = "postcode", type = "category", null = "drop", values = [{postcodes}] }},
{attributes}
]

[table]
name = "{name}"
source = "parquet:data/{name}.parquet"
adjacency = "add-remove"
size_hint = {rows}
unit = {{ kind = "row" }}                                          # one row a person or a measurement

[budget]
accountant = "zcdp"
epsilon = "2"
delta = "1e-6"
"""
_NUMBER = '  {{ name = "{name}", type = "real", lo = {lo}, hi = {hi}, grid = 0.1, outside = "clamp", null = "drop" }},'
_LUNGS = """\
  { name = "age", type = "integer", lo = 18, hi = 89, outside = "clamp", null = "drop" },
  { name = "smoker", type = "boolean", null = "drop" },
  { name = "score", type = "real", lo = 0, hi = 120, grid = 0.1, outside = "clamp", null = "drop" },"""


def make_searched(rng: np.random.Generator) -> dict[str, pa.Table]:
    """Return the tables of the search: ``lungs`` depend on pm25 and income of the postcode, and on no decoy."""
    import pyarrow as pa

    places = len(POSTCODES)
    pm25, income = rng.uniform(5, 28, places), rng.uniform(20, 85, places)
    home, age = rng.integers(0, places, LUNGS), rng.integers(18, 90, LUNGS)
    smoker = rng.random(LUNGS) < 0.3
    score = 95 - 1.2 * (pm25[home] - 12) + 0.3 * (income[home] - 45) - 8 * smoker - 0.2 * age + rng.normal(0, 8, LUNGS)
    made = {
        "lungs": pa.table(
            {"postcode": _named(home), "age": age, "smoker": smoker, "score": _within(score, 0, 120)},
        ),
        "air": _measured(rng, pm25, AIR, spread=2.0, name="pm25", ends=(3, 30)),
        "income": _measured(rng, income, INCOME, spread=6.0, name="income", ends=(15, 90)),
    }
    for name, rows in DECOYS.items():
        made[name] = _measured(rng, rng.uniform(10, 90, places), rows, spread=8.0, name="number", ends=(0, 100))
    return made


def _measured(
    rng: np.random.Generator, means: Floats, rows: int, *, spread: float, name: str, ends: tuple[float, float]
) -> pa.Table:
    import pyarrow as pa

    place = rng.integers(0, len(means), rows)
    return pa.table({"postcode": _named(place), name: _within(rng.normal(means[place], spread), *ends)})


def _named(places: NDArray[np.int64]) -> list[str]:
    return [POSTCODES[place] for place in places]


def _within(values: Floats, lo: float, hi: float) -> Floats:
    return np.asarray(np.clip(values, lo, hi).round(1))


def add_searched(workspace: Path, *, seed: int) -> None:
    """Write the tables, their declarations and the request into a workspace's folder."""
    import pyarrow.parquet

    for name, table in make_searched(np.random.default_rng(seed)).items():
        pyarrow.parquet.write_table(table, workspace / "data" / f"{name}.parquet")
        text = searched_toml(name, table.num_rows)
        (workspace / "schemas" / f"{name}.toml").write_text(text, encoding="utf-8")
    (workspace / "data" / "lungs-request.toml").write_text(REQUEST, encoding="utf-8")


def searched_toml(name: str, rows: int) -> str:
    """Return the declaration of one of the tables."""
    numbers = {"air": ("pm25", 3, 30), "income": ("income", 15, 90)}
    column, lo, hi = numbers.get(name, ("number", 0, 100))
    attributes = _LUNGS if name == "lungs" else _NUMBER.format(name=column, lo=lo, hi=hi)
    postcodes = ", ".join(f'"{code}"' for code in POSTCODES)
    return _TABLE.format(name=name, rows=rows, attributes=attributes, postcodes=postcodes)


def _offer(table: str, feature: str, owner: str) -> tuple[str, ...]:
    by = ("--by", "postcode", "--epsilon", "1", "--owner", owner)
    return ("search", "offer", table, "--features", feature, *by, "--catalogue", "offers", "--key", table, "--yes")


SEARCH_STEPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "Two other clinics offer tables about postcodes, without showing them: noisy sums, paid for once.\n"
        "The price of the first, and how accurate a postcode's mean will be, before any row is read.",
        ("search", "offer", "air", "--features", "pm25", "--by", "postcode", "--epsilon", "1", "--explain"),
    ),
    (
        "River offers its air. The release goes into a folder that holds nothing but releases.",
        _offer("air", "pm25", "river"),
    ),
    ("Hill offers incomes.", _offer("income", "income", "hill")),
    ("Hill's trees tell nothing about lungs, but nobody knows that yet.", _offer("trees", "number", "hill")),
    ("Nor do river's shops.", _offer("shops", "number", "river")),
    (
        "What is on offer, and what of it can be joined to the lungs? Only declarations are compared.",
        ("search", "catalogue", "list", "offers", "--for", "lungs"),
    ),
    (
        "Which of them explains the lungs' score? The office asks on its own rows:\n"
        "free, and nobody learns the question.",
        ("search", "find", "data/lungs-request.toml", "--catalogue", "offers", "-o", "lungs-plan.json"),
    ),
    (
        "The chosen features, each with its error, join the office's own rows.",
        ("search", "augment", "lungs-plan.json", "-o", "lungs-augmented.parquet"),
    ),
)
