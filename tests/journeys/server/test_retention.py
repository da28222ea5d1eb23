"""What a server forgets in its time, what an owner deletes, and which sources an owner may name over HTTP."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from journeys.clinic import TOML, WARDS, write_source
from journeys.served import Served, clinic_workspace, serving
from siloquent.errors import SchemaError
from siloquent.server.keeper import DAY, sweep
from siloquent.server.settings import read_settings

CSV = b"age,ward\n1,A\n"


def upload(served: Served) -> dict[str, Any]:
    with served.client("owner") as owner:
        found: dict[str, Any] = owner.post("/v1/uploads", content=CSV).json()
    return found


def grown_older(served: Served, days: int) -> None:
    """Everything that the store knows is ``days`` older."""
    with served.app.state.house.store.open_transaction() as db:
        for table, columns in {
            "reply": ("created",), "release": ("created",), "upload": ("created",), "denial": ("at", "last"),
            "job": ("created", "changed"),
        }.items():  # fmt: skip
            for column in columns:
                db.execute(f"UPDATE {table} SET {column} = {column} - ?", (days * DAY,))


def left_of(served: Served) -> dict[str, int]:
    store = served.app.state.house.store
    counts = {
        table: (store.fetch_one(f"SELECT count(*) AS n FROM {table}") or {})["n"]
        for table in ("reply", "upload", "denial", "job")
    }
    return {**counts, "values": len(list((served.folder / "releases").glob("*/answer.*")))}


@pytest.mark.parametrize("name", ["replies", "jobs", "uploads", "releases", "denials", ""])
def test_each_kind_is_forgotten_after_its_days_and_no_other(tmp_path: Path, name: str) -> None:
    with serving(clinic_workspace(tmp_path / "w")) as served:
        first = served.ask("ana", WARDS, "k").json()
        made = upload(served)
        with served.client("ana") as ana:
            assert ana.get("/v1/denials").status_code == 403
        house = served.app.state.house
        house.watch.denials.flush()
        house.store.write(
            "INSERT INTO job (id, name, token, task, spec, key, state, created, changed) "
            "VALUES ('j-1', 'ana', '', 'sketch', '{\"table\": \"visits\"}', 'k', 'failed', ?, ?)",
            *(int(time.time()),) * 2,
        )
        before, settings = (
            left_of(served),
            read_settings(served.folder, environment={}, flags={f"keep_{name}_days": 30} if name else {}),
        )
        assert before == {"reply": 1, "upload": 1, "denial": 1, "job": 1, "values": before["values"]}
        grown_older(served, 29)
        sweep(served.folder, house.store, settings)
        assert left_of(served) == before
        grown_older(served, 2)
        sweep(served.folder, house.store, settings)
        gone = {"replies": "reply", "jobs": "job", "uploads": "upload", "releases": "values", "denials": "denial"}
        assert left_of(served) == {**before, **({gone[name]: 0} if name else {})}
        assert (served.folder / made["source"].partition(":")[2]).exists() == (name != "uploads")
        again = served.ask("ana", WARDS, "k")
        assert (again.status_code, again.json()["rows"], again.json()["receipt"]) == (
            200, first["rows"], first["receipt"],
        ), "the ledger forgets nothing"  # fmt: skip


def test_a_release_that_is_deleted_keeps_its_manifest_and_shows_no_value(tmp_path: Path) -> None:
    with serving(clinic_workspace(tmp_path / "w")) as served, served.client("owner") as owner:
        release = served.ask("ana", WARDS, "k").json()["id"]
        with served.client("ana") as ana:
            assert ana.delete(f"/v1/releases/{release}").status_code == 403
            files = [one["name"] for one in ana.get(f"/v1/releases/{release}").json()["files"]]
            assert [ana.get(f"/v1/releases/{release}/files/{file}").status_code for file in files] == [200] * len(files)
            found = owner.delete(f"/v1/releases/{release}")
            assert (found.status_code, found.json()["deleted"]) == (200, True)
            assert [ana.get(f"/v1/releases/{release}/files/{file}").status_code for file in files] == [404] * len(files)
            assert ana.get(f"/v1/releases/{release}").json()["deleted"] is True
        assert [one.name for one in (served.folder / "releases" / release).iterdir()] == ["manifest.json"]
        assert owner.get("/v1/spending").json()["lines"][0]["task"] == "explore"
        assert owner.delete(f"/v1/releases/{release}").status_code == 200
        assert owner.delete("/v1/releases/r-404").status_code == 404


def test_an_upload_that_a_table_names_stays(served: Served) -> None:
    free, named = upload(served), upload(served)
    toml = TOML.replace("SOURCE", named["source"]).replace('"visits"', '"named"')
    with served.client("owner") as owner:
        assert owner.put("/v1/tables/named", json={"toml": toml}).status_code == 200
        assert {free["id"], named["id"]} <= {one["id"] for one in owner.get("/v1/uploads").json()["uploads"]}
        assert owner.delete(f"/v1/uploads/{named['id']}").status_code == 409
        assert owner.delete(f"/v1/uploads/{free['id']}").status_code == 204
        assert owner.delete(f"/v1/uploads/{free['id']}").status_code == 404
        assert owner.delete("/v1/uploads/..%2fschemas").status_code == 404
    assert not (served.folder / free["source"].partition(":")[2]).exists()
    assert (served.folder / named["source"].partition(":")[2]).exists()


def test_an_owner_makes_the_server_forget_a_job_once_it_has_ended(served: Served) -> None:
    store = served.app.state.house.store
    store.write(
        "INSERT INTO job (id, name, token, task, spec, key, state, created, changed, held_until) "
        "VALUES ('j-f', 'ana', '', 'sketch', '{\"table\": \"visits\"}', 'kf', 'running', 1, 1, 99999999999)"
    )
    with served.client("ana") as ana, served.client("owner") as owner:
        assert ana.delete("/v1/jobs/j-f", params={"forget": "true"}).status_code == 403
        assert owner.delete("/v1/jobs/j-f", params={"forget": "true"}).status_code == 409
        assert owner.delete("/v1/jobs/j-f").json()["state"] == "cancelled"
        assert owner.delete("/v1/jobs/j-f", params={"forget": "true"}).status_code == 200
        assert ana.get("/v1/jobs/j-f").status_code == 404


def test_half_made_releases_of_killed_processes_are_removed_at_the_start(tmp_path: Path) -> None:
    folder = clinic_workspace(tmp_path / "w")
    old, fresh = (folder / "releases" / f".building-{name}" for name in ("old", "fresh"))
    for half in (old, fresh):
        half.mkdir(parents=True)
        (half / "answer.parquet").write_bytes(b"x")
    for place in (old / "answer.parquet", old):
        os.utime(place, (time.time() - 2 * DAY,) * 2)
    with serving(folder):
        for _ in range(400):
            if not old.exists():
                break
            time.sleep(0.05)
        assert (old.exists(), fresh.exists()) == (False, True)


def test_half_sent_uploads_of_killed_servers_are_removed(served: Served) -> None:
    made = upload(served)
    folder = served.folder / "uploads"
    old, fresh, whole = folder / ".u-old", folder / ".u-fresh", folder / f"{made['id']}.csv"
    for half in (old, fresh):
        half.write_bytes(b"x")
    for file in (old, whole):
        os.utime(file, (time.time() - 2 * DAY,) * 2)
    house = served.app.state.house
    sweep(served.folder, house.store, house.settings)
    assert [one.exists() for one in (old, fresh, whole)] == [False, True, True]


OUTSIDE = (
    "csv:/etc/passwd", "csv:server.sqlite", "csv:siloquent.toml", "csv:data", "csv:data/../siloquent.toml",
    "csv:./data/x.csv", "csv:uploads/../../x", "csv:data//x.csv", "parquet:ledger.sqlite", "duckdb:/srv/x.duckdb#t",
    "duckdb:ledger.sqlite#entry",
    "csv-records:/proc/self/environ", "spark:main.health.visits", "spark:", "csv:database/x.csv", "csv:uploads",
)  # fmt: skip


@pytest.mark.parametrize("source", OUTSIDE)
def test_over_http_a_source_is_in_a_declared_place(served: Served, source: str) -> None:
    toml = TOML.replace("SOURCE", source).replace('"visits"', '"other"')
    with served.client("owner") as owner:
        found = owner.put("/v1/tables/other", json={"toml": toml})
        assert (found.status_code, found.json()["code"]) == (422, "source_not_allowed"), found.text
    assert not (served.folder / "schemas" / "other.toml").exists()


def test_a_source_that_the_machines_own_file_names_may_stay_and_places_may_be_added(tmp_path: Path) -> None:
    folder = clinic_workspace(tmp_path / "w")
    text = (folder / "schemas" / "visits.toml").read_text()
    (folder / "elsewhere").mkdir()
    os.rename(folder / "data" / "visits.parquet", folder / "elsewhere" / "visits.parquet")
    moved = text.replace("parquet:data/", "parquet:elsewhere/")
    with serving(folder) as served, served.client("owner") as owner:
        assert owner.put("/v1/tables/visits", json={"toml": moved}).json()["code"] == "source_not_allowed"
        (folder / "schemas" / "visits.toml").write_text(moved)
        assert owner.put("/v1/tables/visits", json={"toml": moved.replace("3000", "3001")}).status_code == 200
        new = moved.replace('"visits"', '"more"').replace("visits.parquet", "other.parquet")
        assert owner.put("/v1/tables/more", json={"toml": new}).status_code == 422
    (folder / "siloquent.toml").write_text(
        (folder / "siloquent.toml").read_text() + '\n[server]\nsources = ["elsewhere/"]\n'
    )
    places = read_settings(folder, environment={}).sources
    assert places == ("elsewhere/",)
    with serving(folder, sources=places) as served, served.client("owner") as owner:
        os.link(folder / "elsewhere" / "visits.parquet", folder / "elsewhere" / "other.parquet")
        assert owner.put("/v1/tables/more", json={"toml": new}).status_code == 200
        write_source(folder, "csv")
        csv = new.replace("parquet:elsewhere/other.parquet", "csv:data/visits.csv").replace('"more"', '"third"')
        assert owner.put("/v1/tables/third", json={"toml": csv}).status_code == 422


@pytest.mark.parametrize("sources", [["/etc/"], [".."], ["data"], ["../x/"], [""], "data/", [1], ["a/../b/"]])
def test_places_that_are_no_folders_of_the_workspace_are_refused_at_the_start(tmp_path: Path, sources: Any) -> None:
    folder = clinic_workspace(tmp_path / "w")
    kept = (folder / "siloquent.toml").read_text()
    (folder / "siloquent.toml").write_text(f"{kept}\n[server]\nsources = {sources!r}\n")
    if sources == "data/":
        assert read_settings(folder, environment={}).sources == ("data/",)
        return
    with pytest.raises(SchemaError, match="sources"):
        read_settings(folder, environment={})
