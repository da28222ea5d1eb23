"""Small clinics for sharing, and sessions over them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import siloquent as sq
from siloquent.schema import TableSchema
from siloquent.share import Budget, ShareSpec
from siloquent.share.spec import build_agreement
from siloquent.share.spec.encoding import Encoding, build_encoding

TOML = """
format = 1
attribute = [
  {{ name = "person", type = "id" }},
  {{ name = "age", type = "integer", lo = 0, hi = 99, outside = "clamp", null = "cell", bins = {{ width = 20 }} }},
  {{ name = "dose", type = "real", lo = 0, hi = 3, grid = 0.5, outside = "{outside}", null = "drop" }},
  {{ name = "ward", type = "category", values = ["A", "B", "C"], other = "cell", null = "drop" }},
  {{ name = "smoker", type = "boolean", null = "drop" }},
  {{ name = "sick", type = "boolean", null = "drop" }},
  {{ name = "kind", type = "category", values = ["x", "y", "z"], null = "drop" }},
  {{ name = "cost", type = "integer", lo = 0, hi = 1000, outside = "clamp", null = "drop" }},
  {{ name = "note", type = "text", max_bytes = 100 }},
]
[table]
name = "patients"
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
FEATURES = ("age", "dose", "ward", "smoker")


def schema(
    *,
    budget: str = PURE,
    unit: str = ROW,
    adjacency: str = "add-remove",
    size: int | None = 2_000,
    outside: str = "drop",
) -> TableSchema:
    hint = f"size_hint = {size}" if size else ""
    return sq.read_schema(TOML.format(budget=budget, unit=unit, adjacency=adjacency, size=hint, outside=outside))


def rows(count: int = 2_000, seed: int = 0, *, shuffled: bool = False) -> pa.Table:
    """People whose sickness goes with age, dose and ward; ``shuffled``: with nothing."""
    random = np.random.default_rng(seed)
    age, dose = random.integers(0, 100, count), random.integers(0, 7, count) / 2
    ward, smoker = random.integers(0, 3, count), random.random(count) < 0.3
    score = (age - 50) / 15 + (dose - 1.5) + 1.2 * (ward == 1) + 0.8 * smoker - 0.6
    sick = random.random(count) < 1 / (1 + np.exp(-1.5 * score))
    kind = np.where(score < -1, 0, np.where(score < 1, 1, 2))
    cost = np.clip(500 + 120 * score + random.normal(0, 60, count), 0, 1000).astype(int)
    if shuffled:
        sick, kind, cost = (random.permutation(values) for values in (sick, kind, cost))
    return pa.table(
        {
            "person": pa.array([f"p{i:04d}" for i in random.integers(0, max(count // 2, 1), count)]),
            "age": age,
            "dose": dose,
            "ward": np.array(["A", "B", "C"], dtype=object)[ward],
            "smoker": smoker,
            "sick": sick,
            "kind": np.array(["x", "y", "z"], dtype=object)[kind],
            "cost": cost,
            "note": pa.array(["-"] * count),
        }
    )


def session(folder: Path, frame: pa.Table | None = None, **declared: object) -> sq.Session:
    """A workspace in ``folder`` with the table ``patients``."""
    sq.create_workspace(folder)
    opened = sq.open(folder)
    opened.add_frame(schema(**declared), rows() if frame is None else frame)  # type: ignore[arg-type]
    return opened


def spec(**changed: object) -> ShareSpec:
    """A release that says something at once."""
    given: dict[str, object] = {
        "table": "patients",
        "label": "sick",
        "features": FEATURES,
        "budget": Budget(epsilon="2"),
    }
    return ShareSpec(**{**given, **changed})  # type: ignore[arg-type]


def encoded(**changed: object) -> Encoding:
    return build_encoding(build_agreement(spec(**changed), schema()))


def random_places(encoding: Encoding, count: int, seed: int = 0) -> NDArray[np.int64]:
    """Rows of places anywhere in the domain, OUTSIDE too, the label last."""
    random = np.random.default_rng(seed)
    sizes = [*(attribute.size for attribute in encoding.features), encoding.label.size]
    return np.stack([random.integers(-1, size, count) for size in sizes], axis=1)
