"""The files of deploy/: units that systemd takes, a backup that holds what a workspace needs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from journeys.clinic import WARDS
from journeys.served import clinic_workspace, serving
from siloquent.ledger import Checkpoint
from siloquent.schema.workspace import read_workspace
from siloquent.server.store import Store
from siloquent.session import open_workspace_ledger

DEPLOY = Path(__file__).parents[3] / "deploy"
SILOQUENT = Path(sys.executable).with_name("siloquent")


@pytest.mark.skipif(shutil.which("sqlite3") is None, reason="no sqlite3 here; on Debian: apt-get install sqlite3")
def test_a_backup_of_a_running_server_holds_its_ledger_up_to_the_checkpoint(tmp_path: Path) -> None:
    folder = clinic_workspace(tmp_path / "clinic")
    with serving(folder) as served:
        assert served.ask("ana", WARDS, "k").status_code == 200
        environment = {**os.environ, "SILOQUENT": str(SILOQUENT)}
        words = ["sh", str(DEPLOY / "backup.sh"), str(folder), str(tmp_path / "kept")]
        subprocess.run(words, env=environment, check=True, capture_output=True)
    (made,) = (tmp_path / "kept").iterdir()
    assert {"checkpoint.json", "ledger.sqlite", "releases", "schemas", "server.sqlite", "siloquent.toml"} == {
        one.name for one in made.iterdir()
    }
    assert not any(one.stat().st_mode & 0o077 for one in (made, *made.glob("*.sqlite")))
    checkpoint = Checkpoint.from_json((made / "checkpoint.json").read_text())
    shutil.copy(made / "ledger.sqlite", folder / "ledger.sqlite")  # nothing was asked since
    ledger = open_workspace_ledger(read_workspace(folder))
    assert ledger.verify(checkpoint).ok
    assert ledger.head().seq >= checkpoint.seq
    ledger.close()
    Store(made / "server.sqlite").close()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
@pytest.mark.parametrize("unit", sorted(one.name for one in DEPLOY.glob("siloquent*.*")))
def test_systemd_takes_each_unit(tmp_path: Path, unit: str) -> None:
    for one in DEPLOY.glob("siloquent*.*"):  # a timer is checked with what it starts
        text = one.read_text().replace("/opt/siloquent/bin/siloquent", str(SILOQUENT))
        (tmp_path / one.name).write_text(text.replace("/opt/siloquent/deploy/backup.sh", str(DEPLOY / "backup.sh")))
    said = subprocess.run(["systemd-analyze", "verify", str(tmp_path / unit)], capture_output=True, text=True)
    assert (said.returncode, unit in said.stderr) == (0, False), said.stderr
