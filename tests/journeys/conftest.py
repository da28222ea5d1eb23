"""Workspaces for journeys."""

from __future__ import annotations

from pathlib import Path

import pytest

from journeys.clinic import TOML, Done, Person, Types, write_source
from siloquent.cli.app import run
from siloquent.session import create_workspace


@pytest.fixture(autouse=True)
def _own_state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each journey's devices have a memory of their own, not that of the account that runs the tests."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))


@pytest.fixture
def owner(tmp_path: Path) -> Person:
    """A person in a workspace with the table visits, from Parquet, nothing asked yet."""
    folder = tmp_path / "clinic"
    workspace = create_workspace(folder)
    source = write_source(folder, "parquet")
    (workspace.schemas / "visits.toml").write_text(TOML.replace("SOURCE", source))
    return Person(folder)


@pytest.fixture
def types(owner: Person, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Types:
    """``siloquent WORDS`` in the owner's folder, but in this process: the same words and bytes, ten times as fast."""
    monkeypatch.chdir(owner.folder)
    monkeypatch.setenv("COLUMNS", "120")

    def typed(*words: str) -> Done:
        capfd.readouterr()
        status = run(words)
        said = capfd.readouterr()
        return Done(status, said.out, said.err)

    return typed
