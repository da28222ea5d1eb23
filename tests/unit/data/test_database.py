"""DuckDB files: one table of them, for reading, with the door shut behind it."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from sqlglot import parse_one

from siloquent.data import open_source
from siloquent.data.engines.duckdb import DuckDBEngine
from siloquent.errors import DataError, SchemaError, UnknownName
from unit.data.clinic import clinic_schema, full_block, opened, visits


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "clinic.duckdb"
    rows = visits(100)
    with duckdb.connect(str(path)) as connection:
        connection.register("rows", rows)
        connection.execute("CREATE TABLE visits AS SELECT * FROM rows")
        connection.execute("CREATE SCHEMA old; CREATE TABLE old.visits AS SELECT * FROM rows LIMIT 40")
        connection.execute("CREATE VIEW leak AS SELECT * FROM read_text('/etc/hostname')")
    return path


@pytest.mark.parametrize(("inner", "count"), [("visits", 100), ("old.visits", 40)])
def test_the_named_table_is_read(database: Path, inner: str, count: int) -> None:
    schema = clinic_schema(source=f"duckdb:{database}#{inner}")
    table, permit = opened(schema)
    assert int(table.counts([full_block(schema)], permit)[0].sum()) == count


def test_a_missing_table_is_named_with_those_that_there_are(database: Path) -> None:
    with pytest.raises(UnknownName, match=r"named 'visit'\. Did you mean 'visits'"):
        open_source(clinic_schema(source=f"duckdb:{database}#visit"), None)


def test_a_source_without_a_table_says_how_to_name_one(database: Path) -> None:
    with pytest.raises(SchemaError, match="duckdb:FILE#TABLE"):
        open_source(clinic_schema(source=f"duckdb:{database}"), None)


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.duckdb").write_bytes(b"x" * 100)
    with pytest.raises(SchemaError, match="not a DuckDB file"):
        open_source(clinic_schema(source=f"duckdb:{tmp_path}/x.duckdb#visits"), None)


def test_a_view_in_the_file_cannot_reach_other_files(database: Path) -> None:
    with pytest.raises((DataError, UnknownName)):
        opened(clinic_schema(source=f"duckdb:{database}#leak"))


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM read_text('/etc/hostname')",
        "SELECT * FROM read_csv('/etc/hostname')",
        "SELECT * FROM '/etc/hostname'",
        "SELECT * FROM glob('/*')",
        "SELECT getenv('HOME')",
        "SELECT * FROM secret_rows",
    ],
)
def test_the_engine_reaches_nothing_but_its_source(query: str) -> None:
    secret_rows = visits(3)  # a Python variable of that name must not become a table
    engine = DuckDBEngine(arrow=secret_rows)
    with pytest.raises(DataError):
        engine.aggregate(parse_one(query, read="duckdb"))


@pytest.mark.parametrize(
    "statement",
    [
        "SET enable_external_access = true",
        "SET lock_configuration = false",
        "SET allowed_paths = ['/etc/hostname']",
        "SET temp_directory = '/tmp'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "ATTACH '/tmp/other.duckdb'",
        "COPY source TO '/tmp/rows.csv'",
        "EXPORT DATABASE '/tmp/all'",
    ],
)
def test_the_door_stays_shut(statement: str) -> None:
    engine = DuckDBEngine(arrow=visits(3))
    with pytest.raises(duckdb.Error):
        engine._connection.execute(statement)
