"""The files of deploy/: units that systemd takes, a backup that holds what a workspace needs."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import siloquent as sq
from benchmarks.trials.ledger import tamper
from journeys.clinic import WARDS
from journeys.documents import faults
from journeys.served import clinic_workspace, serving
from siloquent.cli.app import app
from siloquent.cli.workspace.document_kinds import json_schema
from siloquent.errors import LedgerRolledBack, SchemaError
from siloquent.ledger import Checkpoint
from siloquent.schema.workspace import read_workspace
from siloquent.server.settings import Settings
from siloquent.session import adopt_workspace_ledger, open_workspace_ledger

DEPLOY = Path(__file__).parents[3] / "deploy"
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
    assert {"checkpoint.json", ledger, "releases", "schemas", "server.sqlite", "siloquent.toml", "prices.toml"} <= {
        one.name for one in made.iterdir()
    }
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


def test_a_server_whose_port_is_taken_says_so_and_does_not_start(tmp_path: Path) -> None:
    folder = clinic_workspace(tmp_path / "clinic")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, said = run("--workspace", str(folder), "serve", "--port", str(port))
    assert (code, f"cannot listen on 127.0.0.1, port {port}" in said, "--port" in said) == (2, True, True), said
    code, said = run("--workspace", str(folder), "serve", "--host", "::1", "--port", str(port), "--show")
    assert code == 0, said


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


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
@pytest.mark.parametrize("unit", sorted(one.name for one in DEPLOY.glob("siloquent*.*")))
def test_systemd_takes_each_unit(tmp_path: Path, unit: str) -> None:
    for one in DEPLOY.glob("siloquent*.*"):  # a timer is checked with what it starts
        (tmp_path / one.name).write_text(one.read_text().replace("/opt/siloquent/bin/siloquent", str(SILOQUENT)))
    said = subprocess.run(["systemd-analyze", "verify", str(tmp_path / unit)], capture_output=True, text=True)
    assert (said.returncode, unit in said.stderr) == (0, False), said.stderr


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
@pytest.mark.parametrize("unit", ["siloquent.service", "siloquent-backup.service"])
def test_units_are_confined(unit: str) -> None:
    words = ["systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold=20", str(DEPLOY / unit)]
    said = subprocess.run(words, capture_output=True, text=True)
    assert said.returncode == 0, said.stdout[-300:] + said.stderr[-300:]


def test_an_image_is_built_of_the_package_alone_and_says_how_it_is() -> None:
    container = (DEPLOY / "Containerfile").read_text()
    assert "HEALTHCHECK" in container
    ignored = (DEPLOY.parent / ".containerignore").read_text().splitlines()
    assert ignored[1] == "*"
    networks = container.partition("SILOQUENT_TRUSTED_PROXY=")[2].split()[0]
    inside = Settings(host="0.0.0.0", trusted_proxy=networks)
    assert all(inside.hears(one) for one in ("10.88.0.1", "172.17.0.1", "127.0.0.1", "::ffff:10.1.2.3"))
    assert not any(inside.hears(one) for one in ("203.0.113.9", "::ffff:203.0.113.9", "2001:db8::1", "no address"))
    for wrong in ("10.0.0.0/33", "proxy.example.org", "10.0.0.1/8"):
        with pytest.raises(SchemaError, match="trusted_proxy"):
            Settings(host="0.0.0.0", trusted_proxy=wrong)


@pytest.mark.slow
def test_behind_a_proxy_plain_http_is_taken_from_it_and_this_machine_alone(tmp_path: Path) -> None:
    """Another machine's connection is closed before a byte is read: 127.0.0.2 stands for the proxy and for others."""
    folder = clinic_workspace(tmp_path / "w")
    for proxy, heard in (("127.0.0.2", True), ("127.0.0.3,10.0.0.0/8", False)):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        words = ["--workspace", str(folder), "serve", "--host", "0.0.0.0", "--port", str(port)]
        environment = {**os.environ, "SILOQUENT_TRUSTED_PROXY": proxy}
        with subprocess.Popen(
            [sys.executable, "-m", "siloquent", *words], env=environment, stderr=subprocess.DEVNULL
        ) as server:
            try:
                while answers(port, "127.0.0.1") is None:
                    time.sleep(0.05)
                assert (answers(port, "127.0.0.2") == 200) is heard
            finally:
                server.terminate()


def answers(port: int, source: str) -> int | None:
    """The status of /healthz for a client at ``source``; None if it is not heard."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10, source_address=(source, 0))
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def test_the_age_of_the_newest_backup_is_told(tmp_path: Path) -> None:
    folder = clinic_workspace(tmp_path / "clinic")
    with serving(folder) as served, served.client("watcher") as watcher:
        assert "siloquent_backup_age_seconds -1" in watcher.get("/metrics").text.splitlines()
        assert ".last-backup" not in backed_up(folder, tmp_path / "kept")["left_out"]
        (line,) = [one for one in watcher.get("/metrics").text.splitlines() if one.startswith("siloquent_backup_age")]
        assert float(line.split()[1]) >= 0
