"""All engines and sources count the same units by key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from sqlglot import exp

from siloquent.data import Engine, open_table
from siloquent.data.engines.duckdb import DuckDBEngine
from siloquent.data.engines.spark import SparkEngine
from siloquent.schema.workspace import Workspace
from unit.data.clinic import SALT, clinic_schema, ledger_for, on_engine, permit_of
from unit.data.test_distinct_keys import COLUMNS, HOSTILE, ROW, USER, Pair, collect, count_plainly

ROWS: list[Pair] = [(f"p{i % 17}", HOSTILE[(i * i + i // 5) % len(HOSTILE)]) for i in range(600)]
ROWS += [(None, "flu"), ("p1", None), ("P1", "flu"), ("p1 ", "flu")]
FRAME = pa.table({"patient": [p for p, _ in ROWS], "note": pa.array([n for _, n in ROWS], pa.string())})
UNITS = pytest.mark.parametrize("unit", [USER, ROW])


def counted(engine: Engine, unit: str) -> dict[str, int]:
    table, permit = on_engine(clinic_schema(unit=unit, attributes=COLUMNS), engine)
    return collect(table.count_units_by_key("note", permit, keys_each=3))


@UNITS
def test_duckdb_counts_as_plain_python(unit: str) -> None:
    assert counted(DuckDBEngine(arrow=FRAME), unit) == count_plainly(ROWS, unit, 3)


@pytest.mark.spark
@UNITS
def test_spark_counts_as_plain_python(unit: str, spark_session: Any) -> None:
    spark_session.createDataFrame(FRAME).createOrReplaceGlobalTempView("discover_visits")
    engine = SparkEngine(spark_session, exp.table_("discover_visits", db="global_temp"))
    assert counted(engine, unit) == count_plainly(ROWS, unit, 3)


@pytest.mark.spark
def test_spark_gives_its_keys_partition_by_partition(spark_session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = spark_session.range(0, 8_000, numPartitions=8).selectExpr("CAST(id AS STRING) AS note", "'p' AS patient")
    keys.createOrReplaceGlobalTempView("many_keys")
    engine = SparkEngine(spark_session, exp.table_("many_keys", db="global_temp"))
    query = exp.select(exp.column("note", quoted=True)).from_(exp.table_("source"))

    def fail(*_: object) -> None:
        raise AssertionError("all rows at once")

    monkeypatch.setattr(type(keys), "toArrow", fail)
    sizes = [batch.num_rows for batch in engine.read_batches(query)]
    assert sum(sizes) == 8_000
    assert max(sizes) <= 1_000


@pytest.fixture
def clinic(postgres_dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    import psycopg

    monkeypatch.setenv("CLINIC_DSN", postgres_dsn)
    with psycopg.connect(postgres_dsn.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute("CREATE TABLE visits (patient text, note text)")
        with connection.cursor() as cursor, cursor.copy("COPY visits FROM STDIN") as copy:
            for row in ROWS:
                copy.write_row(row)
    return Workspace(tmp_path, postgres=(("clinic", "dsn_env", "CLINIC_DSN"),))


@pytest.mark.postgres
@UNITS
def test_postgresql_counts_as_plain_python(unit: str, clinic: Workspace) -> None:
    schema = clinic_schema(unit=unit, attributes=COLUMNS, source="postgres:clinic#visits")
    ledger = ledger_for(schema)
    table = open_table(schema, clinic, ledger, salt=SALT)
    found = collect(table.count_units_by_key("note", permit_of(ledger, schema.account), keys_each=3))
    assert found == count_plainly(ROWS, unit, 3)
