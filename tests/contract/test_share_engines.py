"""Both engines count the same cells: equal integers, before noise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sqlglot import exp

from siloquent.data import Engine
from siloquent.data.engines.duckdb import DuckDBEngine
from siloquent.data.engines.spark import SparkEngine
from siloquent.share import plan
from siloquent.share.measure.counting import CountRows, count_exactly
from siloquent.share.measure.local_rows import read_own_indices
from unit.data.clinic import on_engine
from unit.share.tables import USER, rows, schema, spec

CASES = [
    (m, label)
    for m in ("marginals", "gram", "moments")
    for label in ("sick", "kind", "cost")
    if m != "moments" or label != "kind"
]
FRAME = rows(3_000, seed=5)


def counted(engine: Engine, method: str, label: str, unit: str | None = None) -> np.ndarray:
    declared = schema(**({"unit": unit} if unit else {}))
    found = plan(spec(method=method, label=label), declared)
    table, permit = on_engine(declared, engine)
    assert found.layout is not None
    return table.fold(CountRows(found.layout), np.add, list(found.encoding.names), permit, encoded=True)


@pytest.mark.parametrize(("method", "label"), CASES)
def test_rows_in_the_engine_and_places_by_hand_count_the_same(method: str, label: str) -> None:
    declared = schema()
    found = plan(spec(method=method, label=label), declared)
    assert found.layout is not None
    names = found.encoding.names
    columns = [[declared.domain[name].index(value) for value in FRAME[name].to_pylist()] for name in names]
    by_hand = count_exactly(found.layout, np.array(columns, dtype=np.int64).T)
    assert np.array_equal(counted(DuckDBEngine(arrow=FRAME), method, label), by_hand)


def test_own_rows_are_those_that_count() -> None:
    for unit, most in ((None, 3_000), (USER, 3)):
        declared = schema(**({"unit": unit} if unit else {}))
        table, _ = on_engine(declared, DuckDBEngine(arrow=FRAME))
        encoding = plan(spec(), declared).encoding
        places = read_own_indices(table, encoding)
        exact = counted(DuckDBEngine(arrow=FRAME), "marginals", "sick", unit)
        assert exact.sum() == 4 * len(places)
        assert len(places) <= most * 1_500


@pytest.mark.spark
@pytest.mark.parametrize(("method", "label"), CASES)
def test_spark_and_duckdb_count_the_same(method: str, label: str, spark_session: Any) -> None:
    here, there = (counted(e, method, label, USER) for e in (DuckDBEngine(arrow=FRAME), on_spark(spark_session)))
    assert np.array_equal(here, there)


def on_spark(session: Any) -> SparkEngine:
    session.createDataFrame(FRAME).createOrReplaceGlobalTempView("share_patients")
    return SparkEngine(session, exp.table_("share_patients", db="global_temp"))
