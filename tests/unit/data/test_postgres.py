"""PostgreSQL tables give the same places as the same rows in a frame; connection texts are kept from others."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from sqlglot import exp

from siloquent.data import PrivateTable, ReadLimits, open_source, open_table
from siloquent.data.engines.base import SOURCE
from siloquent.data.sources.postgres import read_connection_text
from siloquent.errors import DataError, SchemaError, UnknownName
from siloquent.ledger import Permit
from siloquent.schema import Block
from siloquent.schema.workspace import Workspace
from unit.data.clinic import SALT, clinic_schema, full_block, ledger_for, opened, permit_of, visits

USER = '{ kind = "user", column = "patient", max_rows = 2 }'


@pytest.fixture
def workspace(postgres_dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.setenv("CLINIC_DSN", postgres_dsn)
    return Workspace(tmp_path, postgres=(("clinic", "dsn_env", "CLINIC_DSN"),))


@pytest.fixture
def database(postgres_dsn: str) -> Iterator[Any]:
    import psycopg

    with psycopg.connect(postgres_dsn.replace("+psycopg", ""), autocommit=True) as connection:
        yield connection


def fill(database: Any, rows: pa.Table, name: str = "visits") -> None:
    """Write ``rows`` as a table."""
    database.execute(
        f"CREATE TABLE {name} (patient bigint, age numeric, weight float8, ward text, smoker boolean, "
        "day date, note text)"
    )
    with database.cursor() as cursor, cursor.copy(f"COPY {name} FROM STDIN") as copy:
        for row in rows.to_pylist():
            copy.write_row(list(row.values()))


def table_of(workspace: Workspace, inner: str = "visits", unit: str = USER) -> tuple[PrivateTable, Permit]:
    schema = clinic_schema(source=f"postgres:clinic#{inner}", unit=unit)
    ledger = ledger_for(schema)
    return open_table(schema, workspace, ledger, salt=SALT), permit_of(ledger, schema.account)


@pytest.mark.postgres
def test_a_table_gives_the_same_counts_as_a_frame(database: Any, workspace: Workspace) -> None:
    rows = visits(300)
    notes = pa.array(["", "a,b", 'say "x"', "two\nlines", "\\N", None] * 50)
    rows = rows.set_column(6, "note", notes)
    fill(database, rows)
    table, permit = table_of(workspace)
    text_ids = rows.set_column(0, "patient", rows.column("patient").cast(pa.string()))
    frame, other = opened(clinic_schema(unit=USER), text_ids)
    names = [a.name for a in table.schema.domain]
    found = [
        sorted(repr(r) for b in t.read_rows(names, p) for r in b.to_pylist())
        for t, p in ((table, permit), (frame, other))
    ]
    assert len(found[0]) > 100
    assert found[0] == found[1]


@pytest.mark.postgres
def test_values_that_only_postgres_has_are_read_as_null_or_text(database: Any, workspace: Workspace) -> None:
    database.execute(
        "CREATE DOMAIN label AS text; CREATE DOMAIN short_label AS label; "
        "CREATE TABLE visits (patient uuid, age numeric, weight float8, ward short_label, smoker int, "
        "day timestamptz, note text)"
    )
    database.execute(
        "INSERT INTO visits VALUES (NULL, 1e40, 'NaN', 'elsewhere', 1, '2024-03-01 23:30:00-02', 'x'), "
        "(NULL, 'NaN', 'NaN', NULL, 7, 'infinity', NULL), (NULL, '-Infinity', 'NaN', NULL, 0, '0044-03-15 BC', NULL)"
    )
    table, permit = table_of(workspace, unit='{ kind = "row" }')
    rows = [
        list(r.values())
        for b in table.read_rows(["age", "weight", "ward", "smoker", "day"], permit)
        for r in b.to_pylist()
    ]
    assert rows == [
        [120, None, "(other)", True, date(2024, 3, 2)],
        [None, None, None, False, None],
        [0, None, None, False, None],
    ]


REFUSED = [
    ("weight", "money"), ("weight", "interval"), ("weight", "integer[]"), ("age", "time"), ("age", "date"),
    ("ward", "jsonb"), ("ward", "json"), ("ward", "xml"), ("ward", "text[]"), ("note", "bytea"), ("note", "inet"),
    ("note", "int4range"), ("note", "bit(3)"), ("note", "point"), ("day", "integer"), ("day", "interval"),
    ("weight", "price"),
]  # fmt: skip


@pytest.mark.postgres
def test_a_column_whose_type_cannot_be_read_as_declared_is_refused_by_its_type(
    database: Any, workspace: Workspace
) -> None:
    database.execute("CREATE DOMAIN price AS money")
    types = {
        "patient": "text", "age": "numeric", "weight": "float8", "ward": "text", "smoker": "bool", "day": "date",
        "note": "text",
    }  # fmt: skip
    for name, of in REFUSED:
        columns = ", ".join(f"{column} {of if column == name else type_}" for column, type_ in types.items())
        database.execute(f"DROP TABLE IF EXISTS visits; CREATE TABLE visits ({columns})")
        with pytest.raises(SchemaError, match=f"Attribute '{name}'.*its column holds ") as refused:
            table_of(workspace)
        assert ("money" if of == "price" else of.partition("(")[0]) in str(refused.value)
    for of in ("inet", "bytea", "uuid", "jsonb", "int8"):  # an id is only told apart
        columns = ", ".join(f"{column} {of if column == 'patient' else type_}" for column, type_ in types.items())
        database.execute(f"DROP TABLE IF EXISTS visits; CREATE TABLE visits ({columns})")
        table, permit = table_of(workspace)
        assert table.count_by_cell([Block((), ())], permit)[0].tolist() == [0]


@pytest.mark.postgres
def test_views_partitions_and_foreign_tables_are_found(database: Any, workspace: Workspace) -> None:
    fill(database, visits(12))
    database.execute("CREATE MATERIALIZED VIEW kept AS SELECT * FROM visits")
    database.execute("CREATE TABLE parted (LIKE visits) PARTITION BY LIST (smoker)")
    database.execute("CREATE TABLE part_default PARTITION OF parted DEFAULT; INSERT INTO parted SELECT * FROM visits")
    for name in ("kept", "parted"):
        table, permit = table_of(workspace, name, unit='{ kind = "row" }')
        assert table.count_by_cell([Block((), ())], permit)[0].tolist() == [12]
    database.execute("CREATE FOREIGN DATA WRAPPER nothing; CREATE SERVER far FOREIGN DATA WRAPPER nothing")
    try:
        database.execute(
            "CREATE FOREIGN TABLE lent (patient bigint, age numeric, weight float8, ward text, smoker boolean, "
            "day date, note text) SERVER far"
        )
        table, permit = table_of(workspace, "lent", unit='{ kind = "row" }')
        with pytest.raises(DataError):  # its server does not exist, and says so only when it is read
            table.count_by_cell([Block((), ())], permit)
    finally:
        database.execute("DROP FOREIGN DATA WRAPPER nothing CASCADE")
    with pytest.raises(UnknownName, match=r"Did you mean 'kept'"):
        table_of(workspace, "kep")


@pytest.mark.postgres
def test_a_category_of_a_long_text_is_one_that_is_not_listed(database: Any, workspace: Workspace) -> None:
    fill(database, visits(5))
    database.execute("UPDATE visits SET ward = repeat('A', 70000), note = repeat('A', 70000)")
    table, permit = table_of(workspace, unit='{ kind = "row" }')
    found = [list(r.values()) for b in table.read_rows(["ward", "note"], permit) for r in b.to_pylist()]
    assert found == [["(other)", None]] * 5


@pytest.mark.postgres
def test_other_schemas_and_views_are_found_by_name(database: Any, workspace: Workspace) -> None:
    database.execute('CREATE SCHEMA old; CREATE VIEW "two words" AS SELECT 1')
    fill(database, visits(7), "old.visits")
    table, permit = table_of(workspace, "old.visits", unit='{ kind = "row" }')
    assert table.count_by_cell([Block((), ())], permit)[0].tolist() == [7]
    with pytest.raises(UnknownName, match=r"Did you mean 'old\.visits'"):
        table_of(workspace, "old.visit")


@pytest.mark.postgres
def test_rows_are_read_once_and_in_a_transaction_that_cannot_write(database: Any, workspace: Workspace) -> None:
    fill(database, visits(10))
    database.execute(
        "CREATE FUNCTION spy() RETURNS bigint LANGUAGE sql AS 'INSERT INTO visits DEFAULT VALUES RETURNING patient'"
    )
    database.execute("CREATE VIEW writes AS SELECT visits.*, spy() FROM visits")
    table, permit = table_of(workspace, unit='{ kind = "row" }')
    assert table.count_by_cell([Block((), ())], permit)[0].tolist() == [10]
    database.execute("INSERT INTO visits DEFAULT VALUES")
    assert table.count_by_cell([Block((), ())], permit)[0].tolist() == [10]
    assert sum(batch.num_rows for batch in table.read_rows(["note"], permit)) == 10
    spied, other = table_of(workspace, "writes", unit='{ kind = "row" }')
    with pytest.raises(DataError):
        spied.count_by_cell([full_block(spied.schema, "ward")], other)
    assert database.execute("SELECT COUNT(*) FROM visits").fetchone() == (11,)


@pytest.mark.postgres
def test_a_table_that_does_not_fit_into_memory_is_sent_anew_and_counts_the_same(
    database: Any, workspace: Workspace
) -> None:
    fill(database, visits(5_000))
    schema = clinic_schema(source="postgres:clinic#visits", unit=USER)
    counted, notes = [], []
    for kept in (2**31, 2**14):  # the latter holds neither the texts nor the places
        ledger = ledger_for(schema)
        engine = open_source(schema, workspace, limits=ReadLimits(kept_bytes=kept))
        table, permit = PrivateTable(schema, engine, ledger, salt=SALT), permit_of(ledger, schema.account)
        counted.append(
            [table.count_by_cell([full_block(schema, name)], permit)[0].tolist() for name in ("age", "ward")]
        )
        notes.append(
            sorted(str(one) for batch in table.read_rows(["note"], permit) for one in batch.column(0).to_pylist())
        )
        table.close()
    assert counted[0] == counted[1]
    assert notes[0] == notes[1]
    assert sum(counted[0][0]) > 0


@pytest.mark.postgres
def test_a_database_that_holds_any_bytes_loses_no_other_row(
    database: Any, workspace: Workspace, postgres_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import psycopg

    database.execute("CREATE DATABASE bytes ENCODING 'SQL_ASCII' TEMPLATE template0 LOCALE 'C'")
    dsn = postgres_dsn.rpartition("/")[0] + "/bytes"
    try:
        with psycopg.connect(dsn.replace("+psycopg", ""), autocommit=True) as connection:
            connection.execute(
                "CREATE TABLE visits (patient bigint, age int, weight int, ward text, smoker text, day date, note text)"
            )
            connection.execute("SET client_encoding = 'SQL_ASCII'")
            connection.execute(
                "INSERT INTO visits SELECT i, 7, 1, 'a', 't', '2024-01-01', chr(65) FROM generate_series(1, 5) i"
            )
            connection.execute(rb"INSERT INTO visits (patient, age, ward) VALUES (8, 7, E'\xff')")
        monkeypatch.setenv("CLINIC_DSN", dsn)
        table, permit = table_of(workspace)
        age = table.schema.domain["age"].index(7)
        assert table.count_by_cell([full_block(table.schema, "age")], permit)[0][age] == 6
        table.close()
    finally:
        database.execute("DROP DATABASE bytes WITH (FORCE)")


@pytest.mark.postgres
def test_a_server_that_goes_away_is_the_one_fixed_error(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLINIC_DSN", "postgresql://nobody:secret@127.0.0.1:1/nothing")
    with pytest.raises(DataError) as caught:
        table_of(workspace)
    assert "secret" not in repr(caught.value) + str(caught.value.__context__)


@pytest.mark.parametrize(
    ("postgres", "where", "what"),
    [
        ((), "clinic", "No database in siloquent.toml named 'clinic'"),
        ((("clinic", "dsn_env", "NO_SUCH_VARIABLE"),), "clinics", "Did you mean 'clinic'"),
        ((("clinic", "dsn_env", "NO_SUCH_VARIABLE"),), "clinic", "export NO_SUCH_VARIABLE=postgresql://"),
        ((("clinic", "dsn_file", "missing"),), "clinic", "cannot be opened"),
        ((("clinic", "dsn_file", "open"),), "clinic", "chmod 600"),
        ((("clinic", "dsn_file", "link"),), "clinic", "cannot be opened or is a symbolic link"),
    ],
)
def test_a_connection_text_that_is_not_there_or_not_secret_is_refused(
    tmp_path: Path, postgres: tuple[tuple[str, str, str], ...], where: str, what: str
) -> None:
    (tmp_path / "open").write_text("postgresql://x")
    (tmp_path / "open").chmod(0o644)
    (tmp_path / "link").symlink_to(tmp_path / "open")
    with pytest.raises(SchemaError, match=what):
        read_connection_text(Workspace(tmp_path, postgres=postgres), where, table="visits")


def test_a_secret_file_of_ones_own_is_read(tmp_path: Path) -> None:
    path = tmp_path / "dsn"
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY, 0o600)
    os.write(descriptor, b"postgresql+psycopg://ana@db/clinic\n")
    os.close(descriptor)
    workspace = Workspace(tmp_path, postgres=(("clinic", "dsn_file", "dsn"),))
    assert read_connection_text(workspace, "clinic", table="visits") == "postgresql://ana@db/clinic"


def test_a_source_without_a_table_says_how_to_name_one(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="postgres:clinic#TABLE"):
        open_source(clinic_schema(source="postgres:clinic"), Workspace(tmp_path))


def test_rows_of_one_declared_column_count_where_it_is_null(database: Any, workspace: Workspace) -> None:
    database.execute("CREATE TABLE alone AS SELECT CASE WHEN i > 300 THEN 1 END AS age FROM generate_series(1, 1000) i")
    only = '{ name = "age", type = "integer", lo = 0, hi = 9, outside = "drop", null = "cell" },'
    schema = clinic_schema(attributes=only, source="postgres:clinic#alone")
    engine = open_source(schema, workspace)
    query = exp.select(exp.alias_(exp.Count(this=exp.Star()), "n")).from_(exp.to_table(SOURCE))
    assert engine.aggregate(query).to_pylist() == [{"n": 1000}]
