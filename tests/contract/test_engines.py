"""DuckDB and Spark keep the engine contract, and agree on which rows of a user count."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from sqlglot import exp

from contract.engine_contract import USERS, EngineContract
from siloquent.data.engines.base import Engine
from siloquent.data.engines.duckdb import DuckDBEngine
from siloquent.data.engines.spark import SparkEngine
from siloquent.data.sources.frames import attach_arrow
from unit.data.clinic import clinic_schema, on_engine, visits


def duckdb_engine(rows: pa.Table) -> DuckDBEngine:
    return DuckDBEngine(lambda connection: attach_arrow(connection, rows))


def spark_engine(session: Any, rows: pa.Table) -> SparkEngine:
    session.createDataFrame(rows).createOrReplaceGlobalTempView("visits")
    return SparkEngine(session, exp.table_("visits", db="global_temp"))


class TestDuckDB(EngineContract):
    def make(self, rows: pa.Table) -> Engine:
        return duckdb_engine(rows)


@pytest.mark.spark
class TestSpark(EngineContract):
    @pytest.fixture(autouse=True)
    def _session(self, spark_session: Any) -> None:
        self.session = spark_session

    def make(self, rows: pa.Table) -> Engine:
        return spark_engine(self.session, rows)


@pytest.mark.spark
def test_both_engines_count_the_same_rows_of_every_user(spark_session: Any) -> None:
    schema, rows = clinic_schema(unit=USERS), visits(2_000, seed=3)
    columns = ["patient", "age", "weight", "ward", "smoker", "day"]
    seen = []
    for engine in (duckdb_engine(rows), spark_engine(spark_session, rows)):
        table, permit = on_engine(schema, engine)
        seen.append(sorted(repr(r) for b in table.rows(columns, permit) for r in b.to_pylist()))
    assert len(seen[0]) > 500
    assert seen[0] == seen[1]
