"""A workspace of an older version: its server does not start, and one command leads it forward, copying before."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from journeys.clinic import Person
from journeys.documents import faults
from journeys.served import clinic_workspace, serving
from siloquent.cli.kinds import json_schema
from siloquent.errors import LedgerError
from siloquent.server.store import VERSION

BACK_TO_THE_FIRST = (
    "DROP TABLE act",
    "DROP TABLE made",
    "ALTER TABLE job DROP COLUMN account",
    "ALTER TABLE job DROP COLUMN cost",
    "ALTER TABLE job DROP COLUMN cancelled_by",
    "ALTER TABLE release DROP COLUMN deleted",
    "ALTER TABLE release DROP COLUMN created",
    "ALTER TABLE reply DROP COLUMN created",
    "DROP TABLE server",
    "DROP INDEX job_by_state",
    "DROP INDEX job_by_name",
    "ALTER TABLE job DROP COLUMN holder",
    "ALTER TABLE job DROP COLUMN held_until",
    "ALTER TABLE job DROP COLUMN tries",
    "DROP TABLE denial",
    "PRAGMA user_version = 1",
)


@pytest.mark.slow
def test_an_older_servers_workspace_is_led_forward_by_one_command(tmp_path: Path) -> None:
    folder = clinic_workspace(tmp_path / "clinic")
    with serving(folder) as served:
        ana = served.texts["ana"]
    with closing(sqlite3.connect(folder / "server.sqlite")) as db:
        for statement in BACK_TO_THE_FIRST:
            db.execute(statement)
    with pytest.raises(LedgerError, match="older"), serving(folder):
        pass
    person = Person(tmp_path)
    said = person.types("--workspace", "clinic", "--json", "migrate")
    document = json.loads(said.out)
    assert list(faults(document, json_schema("migration"))) == []
    assert document["parts"][-1] == {
        "part": "server.sqlite", "found": 1, "now": VERSION, "copy": "server.sqlite.format-1"
    }  # fmt: skip
    assert "server.sqlite" in person.types("--workspace", "clinic", "migrate").out
    with serving(folder) as served, served.client("nobody", Authorization=f"Bearer {ana}") as client:
        assert client.get("/v1/me").json()["name"] == "ana"
