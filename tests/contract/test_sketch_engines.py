"""Both engines count the same cells: equal integers, before noise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sqlglot import exp

from siloquent.data import Engine
from siloquent.data.engines.duckdb import DuckDBEngine
from siloquent.data.engines.spark import SparkEngine
from siloquent.maths.lsh import Angular, Hamming, Jaccard, Laplacian, Power, PStable
from siloquent.sketch import plan
from siloquent.sketch.measure import count_counters
from siloquent.sketch.measure.moments import MomentBatch
from unit.data.clinic import on_engine
from unit.sketch.tables import PURE, USER, rows, schema, spec

CASES: dict[str, dict[str, Any]] = {
    "p-stable with classes": {"label": "kind"},
    "laplacian": {"kernel": Laplacian(0.2)},
    "angular": {"kernel": Angular(6)},
    "power": {"kernel": Power(PStable(2, 0.4), 2)},
    "hamming": {"features": ("kind", "wet", "item"), "kernel": Hamming(2), "scale": "raw"},
    "words": {"features": ("line",), "kernel": Jaccard(), "scale": "raw"},
    "flags": {"features": ("wet", "kind"), "kernel": Jaccard(), "scale": "raw"},
}
FRAME = rows(3_000, seed=5)


def counted(engine: Engine, given: dict[str, Any], *, unit: str | None = None) -> np.ndarray:
    declared = schema(budget=PURE, **({"unit": unit} if unit else {}))
    made = plan(spec(**{"rows": 32, **given}), declared, seed=3)
    table, permit = on_engine(declared, engine)
    return count_counters(made, table, permit)


@pytest.mark.parametrize("given", CASES.values(), ids=CASES)
def test_every_record_counts_once_in_every_row(given: dict[str, Any]) -> None:
    counters = counted(DuckDBEngine(arrow=FRAME), given)
    assert (counters.sum(axis=(0, 2)) == counters[:, 0].sum()).all()
    assert counters[:, 0].sum() == 3_000


def test_a_group_counts_every_user_once() -> None:
    given = {"features": ("item",), "kernel": Jaccard(), "scale": "raw", "group": "person"}
    counters = counted(DuckDBEngine(arrow=FRAME), given, unit=USER)
    assert (counters.sum(axis=(0, 2)) == len(set(FRAME["person"].to_pylist()))).all()


@pytest.mark.spark
@pytest.mark.parametrize("given", CASES.values(), ids=CASES)
def test_spark_and_duckdb_count_the_same_cells(given: dict[str, Any], spark_session: Any) -> None:
    assert np.array_equal(counted(DuckDBEngine(arrow=FRAME), given), counted(on_spark(spark_session), given))


@pytest.mark.spark
def test_spark_and_duckdb_count_the_same_users_and_moments(spark_session: Any) -> None:
    given = {"features": ("item",), "kernel": Jaccard(), "scale": "raw", "group": "person"}
    here, there = (counted(e, given, unit=USER) for e in (DuckDBEngine(arrow=FRAME), on_spark(spark_session)))
    assert np.array_equal(here, there)
    found = []
    for engine in (DuckDBEngine(arrow=FRAME), on_spark(spark_session)):
        table, permit = on_engine(schema(budget=PURE), engine)
        kernel = MomentBatch(("x", "y"), (1_001, 101), 1.5, 127)
        found.append(table.fold(kernel, np.add, ["x", "y"], permit, encoded=True))
    assert np.array_equal(*found)


def on_spark(session: Any) -> SparkEngine:
    session.createDataFrame(FRAME).createOrReplaceGlobalTempView("sketch_points")
    return SparkEngine(session, exp.table_("sketch_points", db="global_temp"))
