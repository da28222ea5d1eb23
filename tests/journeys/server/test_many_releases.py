"""Thousands of releases: lists come page by page, and nobody else waits for them."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from journeys.served import Served, clinic_workspace, serving
from siloquent.releases import folder as releases_folder
from siloquent.releases import get_release_folder, read_manifest
from siloquent.server.access.tokens import Principal
from siloquent.server.release_index import ReleaseIndex

COUNT = 1_500
WARDS = "SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 250"


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = clinic_workspace(tmp_path_factory.mktemp("crowded") / "w")
    with serving(folder) as served:
        first = served.ask("ana", WARDS, "first").json()["id"]
        model = folder / "releases" / first
        text = (model / "manifest.json").read_text(encoding="utf-8")
        number = int(first[2:])
        names = [f"r-{number + 1 + i}" for i in range(COUNT)]
        for name in names:
            (folder / "releases" / name).mkdir()
            (folder / "releases" / name / "manifest.json").write_text(
                json.dumps({**json.loads(text), "id": name}), encoding="utf-8"
            )
        with served.app.state.house.store.open_transaction() as db:
            db.executemany("INSERT INTO release (id, name) VALUES (?, 'ana')", [(name,) for name in names])
        yield served
    shutil.rmtree(folder)


def page_after(client: httpx.Client, found: list[str]) -> list[str]:
    wanted = {"limit": 200, **({"after": found[-1]} if found else {})}
    return [one["id"] for one in client.get("/v1/releases", params=wanted).json()["releases"]]


def test_pages_hold_every_release_once_newest_first(crowded: Served) -> None:
    with crowded.client("ana") as client:
        found: list[str] = []
        while page := page_after(client, found):
            found += page
        assert client.get("/v1/releases", params={"limit": 0}).status_code == 422
    numbers = [int(name[2:]) for name in found]
    assert len(found) == COUNT + 1
    assert numbers == sorted(numbers, reverse=True)


def test_whoever_may_see_none_makes_nobody_read_them(crowded: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Path] = []

    def counted(folder: Path) -> object:
        read.append(folder)
        return read_manifest(folder)

    monkeypatch.setattr("siloquent.server.release_index.read_manifest", counted)
    monkeypatch.setattr(crowded.app.state.house.releases, "_kept", OrderedDict())  # as after a start
    with crowded.client("bo") as client:
        assert client.get("/v1/releases").json()["releases"] == []
    assert read == []
    with crowded.client("ana") as client:
        for _ in range(3):
            assert len(client.get("/v1/releases", params={"limit": 7}).json()["releases"]) == 7
    assert len(read) == 7


def test_one_release_is_found_without_listing_all(crowded: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = crowded.folder / "releases"
    name = releases_folder.list_releases(folder)[-1]
    monkeypatch.setattr(releases_folder, "list_releases", lambda folder: pytest.fail("all releases were listed"))
    assert get_release_folder(folder, name) == folder / name


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../releases/r-1", "r-1/../r-1", "/etc", "a\0b", "x" * 3_000, "r-999999"]
)
def test_what_is_no_release_is_unknown(crowded: Served, name: str) -> None:
    from siloquent.errors import UnknownName

    with pytest.raises(UnknownName):
        get_release_folder(crowded.folder / "releases", name)


PERSONS = [
    Principal("1", "ana", "analyst", (), 0),
    Principal("2", "bo", "analyst", (), 0),
    Principal("3", "bo", "analyst", ("labs",), 0),
    Principal("4", "steward", "owner", (), 0),
]


@pytest.mark.parametrize("seed", range(4))
def test_what_is_kept_of_manifests_shows_every_change_at_once(crowded: Served, tmp_path: Path, seed: int) -> None:
    """Releases come, go, are written anew, shared and deleted: a list is always that of a server just started."""
    chance, store = random.Random(seed), crowded.app.state.house.store
    model = json.loads(next((crowded.folder / "releases").glob("*/manifest.json")).read_text(encoding="utf-8"))
    kept, names = ReleaseIndex(tmp_path, store), [f"k-{seed}-{number}" for number in range(8)]

    def write(name: str) -> None:
        (tmp_path / "releases" / name).mkdir(parents=True, exist_ok=True)
        changes = {"id": name, "table": chance.choice(["visits", "labs"]), "task": chance.choice(["explore", "sketch"])}
        file = tmp_path / "releases" / name / "manifest.json"
        file.write_text(json.dumps({**model, **changes}), encoding="utf-8")
        # Long ago: only a folder that has not just changed has a listing that is kept.
        os.utime(file, ns=(chance.getrandbits(40), chance.getrandbits(40)))

    for step in range(60):
        name = chance.choice(names)
        act = chance.randrange(5)
        if act <= 1:
            write(name)
        elif act == 2:
            shutil.rmtree(tmp_path / "releases" / name, ignore_errors=True)
        else:
            values = (name, chance.choice(["ana", "bo"]), chance.randrange(2), chance.randrange(2))
            store.write("INSERT OR REPLACE INTO release (id, name, shared, deleted) VALUES (?, ?, ?, ?)", *values)
        if chance.randrange(2) and (tmp_path / "releases").exists():
            os.utime(tmp_path / "releases", (step, step))
        for person in PERSONS:
            for wanted in ({}, {"table": "visits"}, {"task": "sketch"}):
                fresh = ReleaseIndex(tmp_path, store)
                listed = kept.list_visible(person, limit=3, **wanted)
                assert [one.load() for one in listed] == [
                    one.load() for one in fresh.list_visible(person, limit=3, **wanted)
                ]
