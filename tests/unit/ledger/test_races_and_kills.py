"""Many processes, and processes that die: exactly what fits is granted, and every charge counts once."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import sqlalchemy as sa

from benchmarks.trials.ledger import KILLED_AT, TABLE, Place, killed_after, killed_at_point, race, tamper
from scripts.postgres import fresh_database

KINDS = ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest) -> str:
    """Where the ledger is: empty for a file, or a new PostgreSQL database."""
    return fresh_database(request.getfixturevalue("postgres_dsn")) if request.param == "postgres" else ""


@pytest.mark.slow
@pytest.mark.parametrize("processes", [2, 8, 16])
def test_racing_processes_are_granted_exactly_what_fits(tmp_path: Path, url: str, processes: int) -> None:
    charges = 320 // processes
    result = race(Place.made(tmp_path, limit=200, url=url), processes=processes, charges=charges)
    assert (result.granted, result.refused, result.spent, result.problem) == (200, 120, 200, "")
    assert result.overshoot(200) == 0


@pytest.mark.parametrize("point", KILLED_AT)
def test_a_killed_question_is_charged_once_and_its_retry_tells_nothing_new(
    tmp_path: Path, url: str, point: str
) -> None:
    place = Place.made(tmp_path, limit=1_000, url=url)
    for attempt in range(5):
        assert killed_at_point(place, f"key {attempt}", point) == []


def test_a_question_killed_at_any_moment_is_charged_once(tmp_path: Path, url: str) -> None:
    place, rng = Place.made(tmp_path, limit=1_000, url=url), random.Random(7)
    for attempt in range(12):
        assert killed_after(place, f"key {attempt}", rng.uniform(0, 0.03)) == []


def test_the_kill_loop_notices_a_charge_that_was_forgotten(tmp_path: Path, url: str) -> None:
    place = Place.made(tmp_path, limit=1_000, url=url)
    assert killed_at_point(place, "key", "after-reserve-commit") == []
    forget = f"UPDATE account SET spent_amount = 0 WHERE name = '{TABLE}'"
    if url:
        engine = sa.create_engine(url)
        with engine.begin() as connection:
            connection.exec_driver_sql(forget)
        engine.dispose()
    else:
        tamper(place.database, forget)
    assert any("totals" in problem for problem in killed_at_point(place, "next", "measuring"))
