"""DuckDB files: one table of them, for reading, with the door shut behind it."""

from __future__ import annotations

import os
from pathlib import Path

import duckdb
import pytest
from sqlglot import parse_one

from siloquent.data import open_source
from siloquent.data.engines.duckdb import DuckDBEngine
from siloquent.errors import DataError, SchemaError, UnknownName
from siloquent.schema.build import parse_schema
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
    assert int(table.count_by_cell([full_block(schema)], permit)[0].sum()) == count


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
    with pytest.raises(SchemaError, match="is a view"):
        opened(clinic_schema(source=f"duckdb:{database}#leak"))


def test_a_view_is_no_source_even_over_the_files_own_rows(database: Path) -> None:
    with duckdb.connect(str(database)) as connection:
        connection.execute("CREATE VIEW same AS SELECT * FROM visits; CREATE TEMP VIEW gone AS SELECT 1")
    with pytest.raises(SchemaError, match="is a view") as refused:
        open_source(clinic_schema(source=f"duckdb:{database}#same"), None)
    assert refused.value.code == "schema_invalid"


def test_a_computed_column_is_no_source(database: Path) -> None:
    with duckdb.connect(str(database)) as connection:
        connection.execute("CREATE TABLE made (age INTEGER, ward VARCHAR AS (repeat('A', age)))")
    with pytest.raises(SchemaError, match="has a computed column"):
        open_source(clinic_schema(source=f"duckdb:{database}#made"), None)


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


def test_a_view_that_names_another_file_does_not_even_open_it(database: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.csv"
    other.write_text("ward\nA\n")
    with duckdb.connect(str(database)) as connection:
        connection.execute(f"CREATE VIEW away AS SELECT * FROM read_csv('{other}')")
    os.utime(other, (1, 1))
    before = other.stat().st_atime_ns
    with pytest.raises((DataError, SchemaError, UnknownName)):
        opened(clinic_schema(source=f"duckdb:{database}#away"))
    assert other.stat().st_atime_ns == before


@pytest.mark.parametrize("collation", ["", "COLLATE NOCASE", "COLLATE NOACCENT"])
def test_users_are_told_apart_by_their_bytes_whatever_the_collation_of_the_file(tmp_path: Path, collation: str) -> None:
    rows = [(user, "A") for user in ("a", "A", "ä", "Ä") for _ in range(3)]
    with duckdb.connect(str(tmp_path / "c.duckdb")) as connection:
        connection.execute(f"CREATE TABLE visits (patient VARCHAR {collation}, ward VARCHAR {collation})")
        connection.executemany("INSERT INTO visits VALUES (?, ?)", rows)
    unit = '{ kind = "user", column = "patient", max_rows = 2 }'
    schema = parse_schema(COLLATED.format(source=f"duckdb:{tmp_path}/c.duckdb#visits", unit=unit))
    table, permit = opened(schema)
    assert table.count_by_cell([full_block(schema, "ward")], permit)[0][:2].tolist() == [8, 0]


COLLATED = """
format = 1
attribute = [
  {{ name = "patient", type = "id" }},
  {{ name = "ward", type = "category", values = ["A", "a"], null = "drop" }},
]
[table]
name = "visits"
source = "{source}"
adjacency = "add-remove"
unit = {unit}
[budget]
accountant = "pure"
epsilon = "1"
"""
