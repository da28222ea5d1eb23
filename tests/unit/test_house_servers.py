"""The servers that tests start are real, and a missing one is said out loud."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from scripts import postgres

ROOT = Path(__file__).resolve().parents[2]


def data_folder(address: str) -> Path:
    import sqlalchemy as sa

    engine = sa.create_engine(address)
    with engine.connect() as connection:
        folder = Path(connection.execute(sa.text("SHOW data_directory")).scalar_one())
    engine.dispose()
    return folder


@pytest.mark.postgres
def test_the_throw_away_server_is_new_enough_and_answers_on_loopback(postgres_dsn: str) -> None:
    import sqlalchemy as sa

    engine = sa.create_engine(postgres_dsn)
    with engine.connect() as connection:
        version = connection.execute(sa.text("SHOW server_version_num")).scalar_one()
        listens = connection.execute(sa.text("SHOW listen_addresses")).scalar_one()
    engine.dispose()
    assert int(version) >= postgres.OLDEST * 10_000
    assert listens == "127.0.0.1"


@pytest.mark.postgres
def test_two_servers_stand_side_by_side_and_leave_nothing_behind(postgres_dsn: str) -> None:
    with postgres.throwaway_postgres() as other:
        ours, theirs = data_folder(postgres_dsn), data_folder(other)
        assert ours.exists()
        assert theirs.exists()
        assert ours != theirs
    assert ours.exists()
    assert not theirs.parent.exists()


@pytest.mark.postgres
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the kernel tells nobody that a parent died")
def test_a_server_ends_with_whoever_started_it_even_if_that_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-m", "scripts.postgres"], cwd=ROOT, stdout=subprocess.PIPE) as starter:
        assert starter.stdout is not None
        folder = data_folder(starter.stdout.readline().decode().strip())
        assert (folder / "postmaster.pid").exists()
        starter.kill()
    for _ in range(1_200):
        if not (folder / "postmaster.pid").exists():
            break
        time.sleep(0.05)
    else:
        os.kill(int((folder / "postmaster.pid").read_text("utf-8").split()[0]), signal.SIGQUIT)
        pytest.fail("the server runs on for a minute")
    shutil.rmtree(folder.parent, ignore_errors=True)


def test_missing_server_programs_are_an_error_that_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "OLDEST", 10_000)
    with pytest.raises(postgres.PostgresUnavailable, match="apt-get install postgresql"), postgres.throwaway_postgres():
        pass


@pytest.mark.spark
@pytest.mark.slow
def test_spark_runs_sql_in_one_time_zone_without_a_page(spark_session: Any) -> None:
    assert spark_session.sql("SELECT SUM(id) AS total FROM RANGE(5)").collect()[0]["total"] == 10
    assert spark_session.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark_session.sparkContext.uiWebUrl is None
