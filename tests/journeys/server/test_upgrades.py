"""A workspace of an older version: its server does not start, and one command leads it forward, copying before."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from journeys.clinic import WARDS, Person
from journeys.documents import faults
from journeys.served import clinic_workspace, serving
from siloquent.cli.workspace.document_kinds import json_schema
from siloquent.errors import LedgerError
from siloquent.server.store import VERSION, migrate

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
BACK_TO_THE_EARLIEST = (*BACK_TO_THE_FIRST, "ALTER TABLE job DROP COLUMN token")
"""Its files have the same number, though a column is missing, and keep an answer's request without tables."""


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


def test_answers_and_jobs_of_the_earliest_servers_are_given_again_and_new_ones_made(tmp_path: Path) -> None:
    folder = clinic_workspace(tmp_path / "clinic")
    spec = {"table": "visits", "budget": {"epsilon": "0.00001"}}
    with serving(folder) as served:
        ana = served.texts["ana"]
        answer = served.ask("ana", WARDS, "k")
        served.app.state.house.store.write(
            "INSERT INTO job (id, name, token, task, spec, key, state, result, created, changed) "
            "VALUES ('j-1', 'ana', '', 'synth', ?, 'j', 'done', '{\"release\": \"r-1\"}', 1, 1)",
            json.dumps(spec),
        )
        with served.client("ana") as client:
            ended = client.get("/v1/jobs/j-1").json()
    with closing(sqlite3.connect(folder / "server.sqlite")) as db:
        for statement in BACK_TO_THE_EARLIEST:
            db.execute(statement)
        body = hashlib.sha256(json.dumps([WARDS, None]).encode()).digest()
        db.execute("UPDATE reply SET body = ?", (body,))
        db.commit()
    migrate(folder / "server.sqlite")
    with serving(folder) as served:
        tokens = served.app.state.house.tokens
        narrow = {name: tokens.create("ana", "analyst", tables=(name,)) for name in ("visits", "vitals")}
        with served.client("nobody", Authorization=f"Bearer {ana}", **{"Idempotency-Key": "k"}) as client:
            again = client.post("/v1/answers", json={"sql": WARDS})
            assert (again.content, again.headers["idempotency-replayed"]) == (answer.content, "true")
            other = client.post("/v1/answers", json={"sql": f"{WARDS} "})
            assert (other.status_code, other.json()["code"]) == (409, "key_reused")
            assert client.get("/v1/jobs/j-1").json() == ended
            made = client.post("/v1/jobs", json={"task": "synth", "spec": spec})
            assert (made.status_code, made.json()["id"] == "j-1") == (202, False)
        for name, status in (("visits", 200), ("vitals", 409)):
            headers = {"Authorization": f"Bearer {narrow[name]}", "Idempotency-Key": "k"}
            with served.client("nobody", **headers) as client:
                assert client.post("/v1/answers", json={"sql": WARDS}).status_code == status
