"""Backups: made of a running server, verified as a whole, restored as they were or not at all."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import siloquent as sq
from benchmarks.doors.jobs import small_disk
from benchmarks.trials.ledger import tamper
from journeys.clinic import WARDS
from journeys.documents import faults
from journeys.served import Served, clinic_workspace, serving
from siloquent.cli.app import app
from siloquent.cli.workspace.document_kinds import json_schema
from siloquent.errors import LedgerRolledBack
from siloquent.ledger import Checkpoint
from siloquent.schema.workspace import read_workspace
from siloquent.session import adopt_workspace_ledger, create_workspace, open_workspace_ledger

SILOQUENT = Path(sys.executable).with_name("siloquent")


def run(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, list(words))
    return done.exit_code, done.output


def backed_up(folder: Path, kept: Path, *words: str) -> dict[str, Any]:
    code, said = run("--workspace", str(folder), "--json", "backup", str(kept), *words)
    assert code == 0, said
    document: dict[str, Any] = json.loads(said)
    assert list(faults(document, json_schema("backup"))) == []
    return document


@pytest.mark.parametrize("ledger", ["ledger.sqlite", "other.sqlite", "money.db"])
def test_a_backup_of_a_running_server_holds_its_ledger_and_becomes_a_workspace(tmp_path: Path, ledger: str) -> None:
    folder = clinic_workspace(tmp_path / "clinic", ledger=ledger)
    (folder / "prices.toml").write_text("# prices")
    with serving(folder) as served:
        first = served.ask("ana", WARDS, "k").json()
        document = backed_up(folder, tmp_path / "kept")
        text = served.texts["ana"]
    made = Path(document["folder"])
    assert {
        "checkpoint.json",
        ledger,
        "releases",
        "schemas",
        "server.sqlite",
        "siloquent.toml",
        "prices.toml",
        "contents.json",
    } <= {one.name for one in made.iterdir()}
    assert not (made / "ledger.head").exists()
    assert not any(one.stat().st_mode & 0o077 for one in (made, made / ledger, made / "server.sqlite"))
    code, said = run("restore", str(made), str(tmp_path / "again"))
    assert (code, f"{document['entries']:,} entries" in said) == (0, True), said
    again = tmp_path / "again"
    with pytest.raises(LedgerRolledBack):
        open_workspace_ledger(read_workspace(again)).close()
    checkpoint = Checkpoint.from_json((made / "checkpoint.json").read_text())
    assert adopt_workspace_ledger(read_workspace(again), checkpoint).ok
    with serving(again) as served, served.client("nobody", Authorization=f"Bearer {text}") as client:
        assert client.get("/v1/me").status_code == 401, "tokens of the backup are revoked"
        assert served.ask("ana", WARDS, "k").json() == first, "paid work is there"


def test_a_damaged_backup_becomes_no_workspace_and_restoring_leaves_a_backup_as_it_was(tmp_path: Path) -> None:
    folder = clinic_workspace(tmp_path / "clinic")
    made = Path(backed_up(folder, tmp_path / "kept")["folder"])
    content = {one.name: one.read_bytes() for one in made.iterdir() if one.is_file()}
    assert run("restore", str(made), str(tmp_path / "again"))[0] == 0
    assert {one.name: one.read_bytes() for one in made.iterdir() if one.is_file()} == content
    tamper(made / "ledger.sqlite", "UPDATE entry SET account = 'x' WHERE seq = 1")
    code, said = run("restore", str(made), str(tmp_path / "broken"))
    assert (code != 0, "another backup" in said, (tmp_path / "broken").exists()) == (True, True, False), said


def test_a_backup_leaves_rows_out_unless_they_are_asked_for(tmp_path: Path) -> None:
    folder = clinic_workspace(tmp_path / "clinic")
    (folder / "data").mkdir(exist_ok=True)
    (folder / "data" / "rows.csv").write_text("a")
    bare = backed_up(folder, tmp_path / "kept")
    (folder / "visits.csv").write_text("a")
    bare = backed_up(folder, tmp_path / "kept2")
    assert {"data", "visits.csv"} <= set(bare["left_out"])
    assert not {"data", "visits.csv", "ledger.marks"} & {one.name for one in Path(bare["folder"]).iterdir()}
    whole = backed_up(folder, tmp_path / "others", "--with-rows")
    assert (whole["left_out"], (Path(whole["folder"]) / "data" / "rows.csv").read_text()) == ([], "a")


def test_a_ledger_that_is_not_whole_makes_no_backup(tmp_path: Path) -> None:
    folder = clinic_workspace(tmp_path / "clinic")
    with serving(folder) as served:
        assert served.ask("ana", WARDS, "k").status_code == 200
    tamper(folder / "ledger.sqlite", "UPDATE entry SET account = 'x' WHERE seq = 1")
    code, said = run("--workspace", str(folder), "backup", str(tmp_path / "kept"))
    assert code != 0, said
    assert list((tmp_path / "kept").iterdir()) == []


def test_old_backups_are_deleted_and_nothing_else(tmp_path: Path) -> None:
    folder = clinic_workspace(tmp_path / "clinic")
    first = Path(backed_up(folder, tmp_path / "kept")["folder"])
    for name in ("2026-01-01T000000Z", "2026-01-02T000000Z"):
        shutil.copytree(first, tmp_path / "kept" / name)
    shutil.rmtree(first)
    others = clinic_workspace(tmp_path / "other")
    stranger = Path(backed_up(others, tmp_path / "strangers")["folder"])
    shutil.copytree(stranger, tmp_path / "kept" / "2025-01-01T000000Z")
    (tmp_path / "kept" / "mine").mkdir()
    document = backed_up(folder, tmp_path / "kept", "--keep", "2")
    assert document["deleted"] == ["2026-01-01T000000Z"]
    assert {one.name for one in (tmp_path / "kept").iterdir()} == {
        "2025-01-01T000000Z", "2026-01-02T000000Z", "mine", Path(document["folder"]).name
    }  # fmt: skip


def test_what_is_no_place_for_a_backup_is_refused(tmp_path: Path) -> None:
    folder = clinic_workspace(tmp_path / "clinic")
    for place in (folder, folder / "inside"):
        assert run("--workspace", str(folder), "backup", str(place))[0] == 2
    (tmp_path / "empty").mkdir()
    assert run("restore", str(tmp_path / "empty"), str(tmp_path / "new"))[0] != 0
    made = backed_up(folder, tmp_path / "kept")["folder"]
    code, said = run("restore", str(tmp_path / "kept"), str(tmp_path / "new"))
    assert (code != 0, made in said.replace("\n", "")) == (True, True), said
    assert run("restore", made, str(folder))[0] != 0


def test_a_restored_copy_draws_from_its_own_answers_only(tmp_path: Path) -> None:
    """In one process: what was asked after the backup is not in the copy, though its ledger has the same id."""
    folder, ask = clinic_workspace(tmp_path / "clinic"), "SELECT COUNT(*) FROM visits WHERE ward = 'A' ERROR {}"
    with sq.open(folder) as live:
        live.ask(ask.format(300))
        made = backed_up(folder, tmp_path / "kept")["folder"]
        later = [live.ask(ask.format(error)) for error in (60, 40)]
        assert live.ask(ask.format(40)).accuracy.sources == (later[-1].receipt.seq,)
    assert run("restore", made, str(tmp_path / "again"))[0] == 0
    assert adopt_workspace_ledger(read_workspace(tmp_path / "again")).ok
    shutil.copytree(folder / "data", tmp_path / "again" / "data", dirs_exist_ok=True)
    shutil.copy(read_workspace(folder).mark_key, read_workspace(tmp_path / "again").mark_key)
    with sq.open(tmp_path / "again") as restored:
        answer = restored.ask(ask.format(40))
        assert (answer.cost.amount > 0, answer.accuracy.sources) == (True, ())
        assert restored.ledger.verify().ok


def test_the_age_of_the_newest_backup_is_told(tmp_path: Path) -> None:
    folder = clinic_workspace(tmp_path / "clinic")
    with serving(folder) as served, served.client("watcher") as watcher:
        assert "siloquent_backup_age_seconds -1" in watcher.get("/metrics").text.splitlines()
        assert ".last-backup" not in backed_up(folder, tmp_path / "kept")["left_out"]
        (line,) = [one for one in watcher.get("/metrics").text.splitlines() if one.startswith("siloquent_backup_age")]
        assert float(line.split()[1]) >= 0


def ask_without_end(served: Served, name: str, stop: threading.Event) -> None:
    number = 0
    while not stop.is_set():
        number += 1
        question = f"SELECT COUNT(*) FROM visits ERROR {300 + number} REUSE NONE"
        assert served.ask("ana", question, f"{name}-{number}").status_code == 200


def delete_without_end(served: Served, stop: threading.Event) -> None:
    with served.client("owner") as owner:
        while not stop.is_set():
            found = owner.get("/v1/releases", params={"limit": 20}).json()["releases"]
            for one in found[10:]:
                owner.delete(f"/v1/releases/{one['id']}")


def test_all_that_a_backup_under_load_holds_is_paid_in_its_ledger(tmp_path: Path) -> None:
    """Answers that the store or a release holds would be free in a workspace whose ledger knows nothing of them."""
    folder, stop = clinic_workspace(tmp_path / "clinic"), threading.Event()
    with serving(folder) as served:
        work = [threading.Thread(target=ask_without_end, args=(served, f"k{number}", stop)) for number in range(3)]
        work.append(threading.Thread(target=delete_without_end, args=(served, stop)))
        for one in work:
            one.start()
        try:
            made = [Path(backed_up(folder, tmp_path / f"kept{number}")["folder"]) for number in range(6)]
        finally:
            stop.set()
            for one in work:
                one.join()
    grown: list[int] = []
    for backup in made:
        with closing(sqlite3.connect(backup / "ledger.sqlite")) as ledger:
            newest = ledger.execute("SELECT max(seq) FROM entry").fetchone()[0]
        grown.append(newest)
        with closing(sqlite3.connect(backup / "server.sqlite")) as store:
            replies = [json.loads(text)["receipt"]["seq"] for (text,) in store.execute("SELECT document FROM reply")]
            known = {name for (name,) in store.execute("SELECT id FROM release")}
        released = {one.parent.name: json.loads(one.read_text()) for one in backup.glob("releases/*/manifest.json")}
        assert [seq for seq in replies if seq > newest] == []
        assert [name for name, one in released.items() if one["receipt"]["seq"] > newest] == []
        assert known - set(released) == set(), "whatever the store names is there"
    assert grown[-1] > grown[0], "there was work while the backups were made"


def damage(made: Path, chance: random.Random) -> str:
    """Damage a backup as a bad disk, a copy that was cut off or a hand would; return the name of the file."""
    files = sorted(
        one for one in made.rglob("*") if one.is_file() and one.name not in ("contents.json", "checkpoint.json")
    )
    file = chance.choice(files)
    how = chance.choice(("flip", "cut", "empty", "delete", "link", "more"))
    content = bytearray(file.read_bytes())
    if how == "more":
        file = file.with_name(f"{file.stem}-2{file.suffix}")
        file.write_bytes(content)
    elif how == "delete":
        file.unlink()
    elif how == "link":
        elsewhere = made.parent / f"{made.name}-{file.name}"
        shutil.move(file, elsewhere)
        file.symlink_to(elsewhere)
    else:
        if how == "flip" and content:
            content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        else:
            content = content[: len(content) // 2] if how == "cut" and len(content) > 1 else bytearray(b"\0")
        file.write_bytes(content)
    return how, file.name


@pytest.mark.parametrize("seed", range(40))
def test_a_backup_with_any_damaged_file_becomes_no_workspace(seed: int, tmp_path: Path, kept: Path) -> None:
    chance, made = random.Random(seed), tmp_path / "made"
    shutil.copytree(kept, made)
    how, name = damage(made, chance)
    code, said = run("restore", str(made), str(tmp_path / "again"))
    if (code, how) == (0, "link"):  # the content is the same, and no link is left
        assert not any(one.is_symlink() for one in (tmp_path / "again").rglob("*"))
        return
    assert code == 2, said
    assert "not whole" in said or name == "siloquent.toml", said
    assert "use another backup" in said or name == "siloquent.toml", said
    assert [one.name for one in tmp_path.iterdir() if not one.name.startswith("made")] == []


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A backup with releases, a store and declarations."""
    place = tmp_path_factory.mktemp("whole")
    folder = clinic_workspace(place / "clinic")
    with serving(folder) as served:
        for number in range(3):
            served.ask("ana", f"SELECT COUNT(*) FROM visits ERROR {400 + number} REUSE NONE", f"k{number}")
    return Path(backed_up(folder, place / "kept")["folder"])


def test_a_backup_of_an_earlier_version_is_restored_and_says_what_was_not_verified(tmp_path: Path, kept: Path) -> None:
    made = tmp_path / "made"
    shutil.copytree(kept, made)
    (made / "contents.json").unlink()
    code, said = run("restore", str(made), str(tmp_path / "again"))
    assert (code, "only its ledger was verified" in said) == (0, True), said
    (made / "contents.json").write_text('{"files": [1]}')
    code, said = run("restore", str(made), str(tmp_path / "other"))
    assert (code, "contents.json cannot be read" in said) == (2, True), said


@pytest.mark.skipif(os.getuid() != 0, reason="mounting a small disk needs root")
def test_a_full_disk_keeps_no_half_of_a_backup_or_of_a_workspace(tmp_path: Path, kept: Path) -> None:
    folder = tmp_path / "again"
    assert run("restore", str(kept), str(folder))[0] == 0
    assert adopt_workspace_ledger(read_workspace(folder)).ok
    whole = sum(one.stat().st_size for one in kept.rglob("*") if one.is_file())
    with small_disk(tmp_path) as place:
        assert place is not None
        for free in (0, 2**14, whole // 4, whole // 2, whole - 2**15):
            filler = place / "filler"
            room = shutil.disk_usage(place).free
            with filler.open("wb") as file:
                file.truncate(0)
                for _ in range((room - free) // 2**12):
                    file.write(bytes(2**12))
            for words in (
                ("--workspace", str(folder), "backup", str(place / "kept")),
                ("restore", str(kept), str(place / "new")),
            ):
                code, said = run(*words)
                assert (code, "full" in said or "No space" in said) in ((2, True), (7, True)), said
                left = [one for one in place.rglob("*") if one not in (filler, place / "kept")]
                assert left == [], said
            filler.unlink()


@pytest.mark.parametrize("content", [b"no database" * 1_000, b"SQLite format 3\0" + bytes(5_000), b""])
def test_a_store_that_is_no_database_ends_in_a_plain_refusal(content: bytes, tmp_path: Path) -> None:
    folder = clinic_workspace(tmp_path / "clinic")
    (folder / "server.sqlite").write_bytes(content)
    code, said = run("--workspace", str(folder), "backup", str(tmp_path / "kept"))
    if content:
        assert (code, "server.sqlite is damaged" in said) == (2, True), said
        assert list((tmp_path / "kept").iterdir()) == []
        return
    assert code == 0, said  # no server has begun to use it
    (made,) = (tmp_path / "kept").iterdir()
    assert run("restore", str(made), str(tmp_path / "again"))[0] == 0


def test_links_to_declarations_are_followed_and_others_are_told(tmp_path: Path) -> None:
    folder, elsewhere = clinic_workspace(tmp_path / "clinic"), tmp_path / "settings"
    elsewhere.mkdir()
    for name in ("siloquent.toml", "schemas/visits.toml"):
        shutil.move(folder / name, elsewhere)
        (folder / name).symlink_to(elsewhere / Path(name).name)
    (folder / "domains").mkdir(exist_ok=True)
    (folder / "domains" / "rows.csv").symlink_to(folder / "data")
    os.mkfifo(folder / "domains" / "pipe")
    document = backed_up(folder, tmp_path / "kept")
    assert {"domains/rows.csv", "domains/pipe"} <= set(document["left_out"])
    made = Path(document["folder"])
    for name in ("siloquent.toml", "schemas/visits.toml"):
        assert not (made / name).is_symlink()
        assert (made / name).read_bytes() == (folder / name).read_bytes()
    assert run("restore", str(made), str(tmp_path / "again"))[0] == 0


def test_what_a_killed_backup_left_is_removed_by_a_later_one(tmp_path: Path) -> None:
    folder, place = clinic_workspace(tmp_path / "clinic"), tmp_path / "kept"
    for name, age in ((".building-1-1", 2 * 86_400), (".building-2-2", 60)):
        (place / name).mkdir(parents=True)
        (place / name / "ledger.sqlite").write_bytes(b"half")
        for one in (place / name / "ledger.sqlite", place / name):
            os.utime(one, (one.stat().st_mtime - age,) * 2)
    backed_up(folder, place)
    assert [one.name for one in place.glob(".building-*")] == [".building-2-2"]


def test_two_restores_into_one_folder_do_not_mix(tmp_path: Path, kept: Path) -> None:
    found: list[tuple[int, str]] = []
    command = [SILOQUENT, "restore", kept, tmp_path / "again"]

    def restore() -> None:
        done = subprocess.run(command, capture_output=True, text=True)
        found.append((done.returncode, done.stderr))

    threads = [threading.Thread(target=restore) for _ in range(3)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert sorted(code for code, _ in found) == [0, 2, 2], found
    assert adopt_workspace_ledger(read_workspace(tmp_path / "again")).ok
    assert [one.name for one in tmp_path.iterdir()] == ["again"]


def test_a_ledger_in_postgresql_is_dumped_and_a_dump_that_cannot_be_made_is_no_backup(
    tmp_path: Path, postgres_dsn: str
) -> None:
    folder = tmp_path / "clinic"
    create_workspace(folder, ledger=postgres_dsn)
    document = backed_up(folder, tmp_path / "kept")
    dump = Path(document["folder"]) / "ledger.dump"
    listed = subprocess.run(["pg_restore", "--list", dump], capture_output=True, text=True)
    assert "TABLE DATA" in listed.stdout
    code, said = run("restore", document["folder"], str(tmp_path / "again"))
    assert (code, "pg_restore" in said) == (2, True), said
