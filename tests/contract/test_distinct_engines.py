"""All engines and sources count the same units by group, and draw the same groups of a unit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sqlglot import exp

from siloquent.data import PrivateTable, open_table
from siloquent.data.engines.duckdb import DuckDBEngine
from siloquent.data.engines.spark import SparkEngine
from siloquent.data.sql import place_maps
from siloquent.ledger import Permit
from siloquent.schema import Block
from siloquent.schema.workspace import Workspace
from unit.data.clinic import SALT, clinic_schema, ledger_for, on_engine, permit_of
from unit.data.test_distinct_units import COLUMNS, USER, Row, block_of, count_plainly, frame

ROWS: list[Row] = [(f"p{i % 17}", [*"ABC", "Z", None][i * i % 5], (i * 7) % 13 - 1) for i in range(300)]
ROWS += [(None, "A", 1), ("P1", "A", 1), ("p1 ", "A", 1), ("", "B", 2)]
GROUPS = np.array([*range(5), -1] * 7)[:40]
BRANCHES = pytest.mark.parametrize("branches", [256, 2])


def block() -> Block:
    return block_of(np.append(np.arange(10), -1))


def counted(table: PrivateTable, permit: Permit) -> list[int]:
    return table.count_units_by_group(block(), GROUPS, 5, permit, groups_each=2).tolist()  # type: ignore[no-any-return]


EXPECTED = count_plainly(ROWS, block(), GROUPS, 2)


@BRANCHES
def test_duckdb_counts_as_plain_python(branches: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place_maps, "MAX_BRANCHES", branches)
    schema = clinic_schema(unit=USER, attributes=COLUMNS)
    assert counted(*on_engine(schema, DuckDBEngine(arrow=frame(ROWS)))) == EXPECTED


@pytest.mark.spark
@BRANCHES
def test_spark_counts_as_plain_python(branches: int, spark_session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place_maps, "MAX_BRANCHES", branches)
    spark_session.createDataFrame(frame(ROWS)).createOrReplaceGlobalTempView("distinct_visits")
    engine = SparkEngine(spark_session, exp.table_("distinct_visits", db="global_temp"))
    assert counted(*on_engine(clinic_schema(unit=USER, attributes=COLUMNS), engine)) == EXPECTED


@pytest.mark.postgres
def test_postgresql_counts_as_plain_python(postgres_dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import psycopg

    monkeypatch.setenv("CLINIC_DSN", postgres_dsn)
    with psycopg.connect(postgres_dsn.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute("CREATE TABLE visits (patient text, ward text, age bigint)")
        with connection.cursor() as cursor, cursor.copy("COPY visits FROM STDIN") as copy:
            for row in ROWS:
                copy.write_row(row)
    schema = clinic_schema(unit=USER, attributes=COLUMNS, source="postgres:clinic#visits")
    ledger = ledger_for(schema)
    clinic = Workspace(tmp_path, postgres=(("clinic", "dsn_env", "CLINIC_DSN"),))
    assert counted(open_table(schema, clinic, ledger, salt=SALT), permit_of(ledger, schema.account)) == EXPECTED


def test_the_source_of_the_rows_does_not_matter(tmp_path: Path) -> None:
    import duckdb
    import pyarrow.parquet as pq

    pq.write_table(frame(ROWS), tmp_path / "visits.parquet")
    with duckdb.connect(str(tmp_path / "visits.duckdb")) as made:
        made.register("given", pa.table(frame(ROWS)))
        made.execute("CREATE TABLE visits AS SELECT * FROM given")
    for source in ("parquet:visits.parquet", "duckdb:visits.duckdb#visits"):
        schema = clinic_schema(unit=USER, attributes=COLUMNS, source=source)
        ledger = ledger_for(schema)
        table = open_table(schema, Workspace(tmp_path), ledger, salt=SALT)
        assert counted(table, permit_of(ledger, schema.account)) == EXPECTED
