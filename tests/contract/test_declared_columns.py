"""Columns of databases are read from their catalogues: names and types, whatever the rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from siloquent.cli.app import run
from siloquent.declaring import read_source
from siloquent.errors import DataError, UnknownName
from siloquent.schema.build import parse_schema
from siloquent.schema.declaring import ColumnHeader
from siloquent.schema.workspace import read_workspace
from siloquent.session import create_workspace

COLUMNS = (
    "id int8, age int2, cost numeric(9,2), ratio float8, ward text, tag varchar(9), ok boolean, "
    "day date, at timestamptz, raw jsonb"
)


@pytest.mark.postgres
def test_a_catalogue_tells_names_and_types(
    tmp_path: Path, postgres_dsn: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    import psycopg

    create_workspace(tmp_path)
    with (tmp_path / "siloquent.toml").open("a") as file:
        file.write('\n[postgres.clinic]\ndsn_env = "CLINIC_DSN"\n')
    monkeypatch.setenv("CLINIC_DSN", postgres_dsn)
    monkeypatch.chdir(tmp_path)
    with psycopg.connect(postgres_dsn.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute(f"CREATE TABLE visits ({COLUMNS})".encode())
        connection.execute(b'CREATE MATERIALIZED VIEW "some view" AS SELECT age, day FROM visits')
    workspace = read_workspace(tmp_path)
    kinds = [column.kind for column in read_source("postgres:clinic#visits", workspace).columns]
    assert kinds == ["integer", "integer", "decimal", "real", "text", "text", "boolean", "date", "datetime", "other"]
    viewed = read_source("postgres:clinic#some view", workspace)
    assert viewed.columns == (ColumnHeader("age", "integer", "smallint"), ColumnHeader("day", "date", "date"))
    with pytest.raises(UnknownName, match="Did you mean 'visits'"):
        read_source("postgres:clinic#visit", workspace)
    said = "cost, ratio = 0..500; ward, tag = A, B"
    assert run(["declare", "postgres:clinic#visits", "--accept", "--column", said, "--person", "none", "--json"]) == 0
    told: dict[str, Any] = json.loads(capfd.readouterr().out)
    schema = parse_schema(told["toml"])
    assert (schema.name, schema.source) == ("visits", "postgres:clinic#visits")
    assert told["left_out"] == ["raw"]
    assert run(["check", "visits"]) == 0
    monkeypatch.setenv("CLINIC_DSN", "postgresql://nobody@127.0.0.1:1/none")
    with pytest.raises(DataError):
        read_source("postgres:clinic#visits", workspace)


@pytest.mark.spark
def test_spark_tells_names_and_types(spark_session: Any) -> None:
    import pandas as pd

    spark_session.createDataFrame(pd.DataFrame({"age": [1], "ward": ["A"], "cost": [1.5]})).write.mode(
        "overwrite"
    ).saveAsTable("declared_columns")
    try:
        columns = read_source("spark:declared_columns", None).columns
    finally:
        spark_session.sql("DROP TABLE declared_columns")
    assert [(column.name, column.kind) for column in columns] == [
        ("age", "integer"),
        ("ward", "text"),
        ("cost", "real"),
    ]
