"""Both engines add up the same whole numbers, before noise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sqlglot import exp

from siloquent.data import Engine
from siloquent.data.engines.duckdb import DuckDBEngine
from siloquent.data.engines.spark import SparkEngine
from siloquent.search import KeyOf, plan
from siloquent.search.measure import build_sum_kernel
from unit.data.clinic import on_engine
from unit.search.tables import USER, rows, schema, spec

CASES: dict[str, dict[str, Any]] = {
    "by town": {"features": ("x", "y", "kind", "wet")},
    "by town and year": {"keys": (KeyOf("town", "year"),), "features": ("x",), "second_moments": "per-key"},
    "by several keys": {"keys": (KeyOf("town"), KeyOf("year")), "second_moments": "total"},
    "for unions, cut": {"keys": (), "features": ("x", "y"), "norm_cut": 0.7},
    "of order 4": {"keys": (), "features": ("x", "y", "kind"), "order": 4},
}
FRAME = rows(3_000, seed=5)


def summed(engine: Engine, given: dict[str, Any], *, unit: str | None = None) -> np.ndarray:
    declared = schema(**({"unit": unit} if unit else {}))
    made = plan(spec(**given), declared)
    table, permit = on_engine(declared, engine)
    kernel = build_sum_kernel(made, made.features)
    return table.fold(kernel, np.add, list(made.places), permit, encoded=True)


@pytest.mark.parametrize("given", CASES.values(), ids=CASES)
def test_every_row_counts_once_a_key(given: dict[str, Any]) -> None:
    declared = schema()
    made = plan(spec(**given), declared)
    kernel = build_sum_kernel(made, made.features)
    measured = kernel.unpack_sums(summed(DuckDBEngine(arrow=FRAME), given))
    assert [int(counts.sum()) for counts in measured.counts] == [3_000] * max(1, len(made.keys))


def test_no_user_counts_more_often_than_declared() -> None:
    found = summed(DuckDBEngine(arrow=FRAME), CASES["by town"], unit=USER)[:4].sum()
    users: dict[str, int] = {}
    for person in FRAME["person"].to_pylist():
        users[person] = min(users.get(person, 0) + 1, 3)
    assert found == sum(users.values())


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("given", CASES.values(), ids=CASES)
def test_spark_and_duckdb_give_the_same_sums(given: dict[str, Any], spark_session: Any) -> None:
    spark_session.createDataFrame(FRAME).createOrReplaceGlobalTempView("search_places")
    there = SparkEngine(spark_session, exp.table_("search_places", db="global_temp"))
    assert np.array_equal(summed(DuckDBEngine(arrow=FRAME), given), summed(there, given))
