"""The same walk where rows or ledger are on a server: check, explain, ask, repeat, a refusal, a verified ledger."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from journeys.clinic import TOML, WARDS, Done, Person, rows
from scripts.postgres import fresh_database
from siloquent.cli.app import run

TRUTH = {"A": 1200, "B": 900, "=1+1": 600, "icu": 300}


def walk(types: Callable[..., Done]) -> None:
    """From a declared table to a verified ledger; nothing is printed that a password could be in."""
    assert types("check").status == 0
    priced = types("--analyst", "ana", "explain", WARDS, "--json").document

    asked = types("--analyst", "ana", "ask", WARDS, "--key", "wards", "--yes", "--json").document
    assert asked["cost"]["rho"] == priced["cost"]["rho"]
    # 200 rows with probability 0.99 each time; at 2,000 the test itself fails once in e^-100 runs.
    assert all(abs(count - TRUTH[ward]) < 2_000 for ward, count, _, _ in asked["rows"])
    again = types("--analyst", "ana", "ask", WARDS, "--key", "wards", "--yes", "--json").document
    assert again == {**asked, "replayed": True}

    # What Ana was told would serve Bo too, for nothing.
    refused = types("--analyst", "bo", "ask", f"{WARDS} REUSE NONE", "--yes", "--json")
    assert (refused.status, refused.document["code"], refused.document["spent"]) == (3, "budget_exceeded", "nothing")
    shown = types("ledger", "show", "--json").document
    assert {"visits@1", "visits@1/ana"} <= {account["name"] for account in shown["accounts"]}
    verified = types("ledger", "verify", "--json")
    assert (verified.status, verified.document["ok"]) == (0, True)


@pytest.mark.slow
@pytest.mark.postgres
def test_a_person_asks_a_postgres_table_through_a_postgres_ledger(tmp_path: Path, postgres_dsn: str) -> None:
    import psycopg

    source, ledger = fresh_database(postgres_dsn), fresh_database(postgres_dsn)
    with psycopg.connect(source.replace("+psycopg", "")) as connection:
        connection.execute("CREATE TABLE visits (patient text, age int, ward text, cost numeric, note text)")
        with connection.cursor() as cursor, cursor.copy("COPY visits FROM STDIN") as copy:
            for row in rows().to_pylist():
                copy.write_row(list(row.values()))
    made = Person(tmp_path).types("init", "clinic", "--ledger", ledger)
    assert made.status == 0, made.err
    folder = tmp_path / "clinic"
    with (folder / "siloquent.toml").open("a") as file:
        file.write('\n[postgres]\nhospital = { dsn_env = "HOSPITAL_DSN" }\n')
    (folder / "schemas" / "visits.toml").write_text(TOML.replace("SOURCE", "postgres:hospital#visits"))
    person = Person(folder)

    unset = person.types("check", "visits", "--json", environment={"HOSPITAL_DSN": ""})
    assert (unset.status, unset.document["fix"]) == (2, "export HOSPITAL_DSN=postgresql://USER@HOST/DATABASE")
    wrong = person.types("check", "visits", environment={"HOSPITAL_DSN": "postgresql://ana:canary@127.0.0.1:1/x"})
    assert wrong.status == 5
    assert "canary" not in wrong.out + wrong.err

    walk(lambda *words: person.types(*words, environment={"HOSPITAL_DSN": source}))

    with psycopg.connect(ledger.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute("UPDATE account SET spent_amount = 0 WHERE name = 'visits@1'")
    assert person.types("ledger", "verify").status == 1


@pytest.mark.spark
@pytest.mark.slow
def test_a_person_asks_a_spark_table(
    tmp_path: Path, spark_session: Any, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from siloquent.session import create_workspace

    workspace = create_workspace(tmp_path / "clinic")
    (workspace.schemas / "visits.toml").write_text(TOML.replace("SOURCE", "spark:journey_visits"))
    monkeypatch.chdir(workspace.folder)
    spark_session.createDataFrame(rows()).write.mode("overwrite").saveAsTable("journey_visits")
    spark_session.createDataFrame(rows()).createOrReplaceTempView("journey_view")

    def types(*words: str) -> Done:
        capfd.readouterr()
        status = run(words)
        said = capfd.readouterr()
        return Done(status, said.out, said.err)

    try:
        walk(types)
        for name in ("journey_visit", "journey_view"):  # a temporary view is one session's own
            (workspace.schemas / "visits.toml").write_text(TOML.replace("SOURCE", f"spark:{name}"))
            refused = types("check", "visits", "--json")
            assert (refused.status, refused.document["code"]) == (2, "unknown_name")
    finally:
        spark_session.sql("DROP TABLE journey_visits")
        spark_session.catalog.dropTempView("journey_view")
