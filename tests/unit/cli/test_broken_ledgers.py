"""A ledger that was changed beside its chain is named by doctor, serve and migrate; an earlier one is led forward."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks.trials.ledger import tamper
from benchmarks.trials.ledger_changes import EARLIER
from siloquent.cli.app import app
from siloquent.cli.workspace.doctor import examine
from siloquent.ledger import adopt_ledger
from siloquent.session import create_workspace


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A workspace with the ledger of an earlier revision."""
    folder = create_workspace(tmp_path / "clinic").folder
    for path in folder.glob("ledger.*"):
        path.unlink()
    with closing(sqlite3.connect(folder / "ledger.sqlite")) as connection:
        connection.executescript(EARLIER.read_text(encoding="utf-8"))
    assert adopt_ledger(folder / "ledger.sqlite", head=folder / "ledger.head").ok
    return folder


def run(folder: Path, *words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["--workspace", str(folder), *words])
    return done.exit_code, done.output


def test_a_changed_total_is_named_by_every_command_that_looks(folder: Path) -> None:
    assert {f.what: f.state for f in examine(folder)}["ledger"] == "good"
    tamper(folder / "ledger.sqlite", "UPDATE account SET spent_amount = 0")
    found = {f.what: f for f in examine(folder)}["ledger"]
    assert (found.state, "visits@1" in found.found) == ("bad", True)
    for words in (("serve",), ("migrate",), ("ledger", "verify")):
        code, said = run(folder, *words)
        assert (code in (1, 7), "visits@1" in said) == (True, True), (words, said)


def test_migrate_gives_an_earlier_ledger_this_revisions_tables(folder: Path) -> None:
    code, said = run(folder, "migrate")
    assert (code, "ledger's tables to this version" in said) == (0, True), said
    assert "Upgraded the ledger" not in run(folder, "migrate")[1]
    assert run(folder, "ledger", "verify")[0] == 0
    with closing(sqlite3.connect(folder / "ledger.sqlite")) as connection, pytest.raises(sqlite3.IntegrityError):
        connection.execute("DELETE FROM account")
