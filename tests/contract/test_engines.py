"""DuckDB and Spark keep the engine contract, and agree on which rows of a user count."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from sqlglot import exp

from contract.engine_contract import USERS, EngineContract
from siloquent.data import Engine, open_source
from siloquent.data.engines.duckdb import DuckDBEngine
from siloquent.data.engines.spark import SparkEngine
from siloquent.data.units.unit_table import UnitTable
from siloquent.errors import SchemaError, UnknownName
from siloquent.explore.plan.relations.unit_rows import extend_schema
from siloquent.explore.spec import parse
from siloquent.explore.spec.rewriting.name_resolution import resolve_names
from unit.data.clinic import clinic_schema, full_block, on_engine, visits


def duckdb_engine(rows: pa.Table) -> DuckDBEngine:
    return DuckDBEngine(arrow=rows)


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


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("shared", [False, True])
def test_both_engines_count_the_same_rows_of_every_user(spark_session: Any, shared: bool) -> None:
    schema, rows = clinic_schema(unit=USERS), visits(2_000, seed=3)
    if shared:  # with other tables, which rank only the rows of those who have too many
        schema = replace(schema, unit=replace(schema.unit, kind="shared", of="patient"))
    columns = ["patient", "age", "weight", "ward", "smoker", "day"]
    seen = []
    for engine in (duckdb_engine(rows), spark_engine(spark_session, rows)):
        table, permit = on_engine(schema, engine)
        seen.append(sorted(repr(r) for b in table.read_rows(columns, permit) for r in b.to_pylist()))
    assert len(seen[0]) > 500
    assert seen[0] == seen[1]


@pytest.mark.slow
@pytest.mark.spark
def test_both_engines_compute_the_same_rows_of_persons(spark_session: Any) -> None:
    rows = visits(2_000, seed=5)
    declared = clinic_schema(unit=USERS)
    query = parse(
        "SELECT n, k, COUNT(*) FROM (SELECT patient, COUNT(*) AS n, COUNT(DISTINCT ward) AS k, SUM(weight) AS w, "
        "MAX(age) AS a, MIN(day) AS d FROM visits WHERE NOT smoker OR age > 30 GROUP BY patient) "
        "WHERE a > 40 AND w > 50 GROUP BY n, k ERROR 9"
    )
    schema = extend_schema(resolve_names(query, declared), declared)
    seen = []
    for engine in (duckdb_engine(rows), spark_engine(spark_session, rows)):
        table, permit = on_engine(declared, engine)
        persons = UnitTable(schema, table)
        blocks = [full_block(schema, "n", "k"), full_block(schema, "a"), full_block(schema, "d")]
        sums = persons.sum_by_cell([full_block(schema, "k")], "w", permit)[0].index_sums
        seen.append([*(one.tolist() for one in persons.count_by_cell(blocks, permit)), sums.tolist()])
    assert sum(seen[0][0]) > 200
    assert seen[0] == seen[1]


@pytest.mark.slow
@pytest.mark.spark
def test_a_table_of_the_catalogue_is_a_source(spark_session: Any) -> None:
    spark_session.createDataFrame(visits(50)).createOrReplaceTempView("visits_of_the_catalogue")
    spark_session.sql("CREATE TABLE catalogue_visits USING parquet AS SELECT * FROM visits_of_the_catalogue")
    schema = clinic_schema(source="spark:default.catalogue_visits")
    table, permit = on_engine(schema, open_source(schema, None))
    assert table.count_by_cell([full_block(schema)], permit)[0].tolist() == [50]
    with pytest.raises(UnknownName, match="Did you mean 'catalogue_visits'"):
        open_source(clinic_schema(source="spark:catalogue_visit"), None)
    for wrong in ("", "a.b.c.d", "a..b"):
        with pytest.raises(SchemaError, match="does not name a table"):
            open_source(clinic_schema(source=f"spark:{wrong}"), None)
    spark_session.sql("DROP TABLE catalogue_visits")


@pytest.mark.spark
def test_neither_settings_nor_views_of_the_session_are_touched(spark_session: Any) -> None:
    before = spark_session.conf.get("spark.sql.session.timeZone")
    spark_session.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    table, permit = on_engine(clinic_schema(), spark_engine(spark_session, visits(30)))
    table.count_by_cell([full_block(table.schema, "day")], permit)
    assert spark_session.conf.get("spark.sql.session.timeZone") == "Europe/Berlin"
    assert not spark_session.catalog.tableExists("source")
    assert not spark_session.catalog.tableExists("kept")
    spark_session.conf.set("spark.sql.session.timeZone", before)


@pytest.mark.spark
def test_spark_tells_users_apart_by_bytes(spark_session: Any) -> None:
    rows = "SELECT col1 COLLATE UTF8_LCASE AS pid FROM VALUES ('Ann'), ('bob'), ('ann')"
    spark_session.sql(f"CREATE OR REPLACE GLOBAL TEMPORARY VIEW folded AS {rows}")
    engine = SparkEngine(spark_session, exp.to_table("global_temp.folded"))
    counted = exp.select("pid", exp.alias_(exp.Count(this=exp.Star()), "n")).from_("source").group_by("pid")
    assert sorted(row["pid"] for row in engine.aggregate(counted).to_pylist()) == ["Ann", "ann", "bob"]
