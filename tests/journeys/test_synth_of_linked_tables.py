"""Synthetic tables of tables that refer to public ones and that share a unit: made, kept and verified once charged."""

from __future__ import annotations

from pathlib import Path

import pytest

import siloquent as sq
from benchmarks.suites.tables import build_workspace
from siloquent.cli.app import run
from siloquent.releases import verify_release
from siloquent.synth import task
from siloquent.synth.spec import schema_document


def write_workspace(folder: Path) -> Path:
    build_workspace(folder)
    for file in (folder / "units").iterdir():
        text = file.read_text().replace('accountant = "pure"', 'accountant = "zcdp"')
        file.write_text(text.replace('epsilon = "1000000"', 'epsilon = "1000"\ndelta = "1e-6"'))
    return folder


def make(folder: Path, table: str, *more: str) -> int:
    words = ["--workspace", str(folder), "synth", "run", table, "--epsilon", "60", "--quality", "fast", "--rows", "50"]
    return run([*words, "--yes", *more])


@pytest.mark.slow
@pytest.mark.parametrize("table", ["parcels", "purchases"])
def test_what_is_charged_is_kept_and_verifies(tmp_path: Path, table: str) -> None:
    folder = write_workspace(tmp_path / "w")
    assert make(folder, table, "--key", "k") == 0
    with sq.open(folder) as session:
        spent = session.get_remaining(table)
        (release,) = (folder / "releases").iterdir()
        assert verify_release(release, session.ledger).ok
    assert make(folder, table, "--key", "k") == 0
    with sq.open(folder) as session:
        assert session.get_remaining(table) == spent
        assert session.ledger.verify().ok


def test_a_declaration_that_no_model_file_holds_is_found_before_the_charge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: a class of the declaration that the file format does not know."""
    folder = write_workspace(tmp_path / "w")
    names = {kind: name for kind, name in schema_document._NAMES.items() if name != "ForeignKey"}
    monkeypatch.setattr(schema_document, "_NAMES", names)
    assert task.dump_value is schema_document.dump_value
    assert make(folder, "parcels") != 0
    with sq.open(folder) as session:
        assert not any(entry.kind == "reserve" for entry in session.ledger.iter_entries(after=0))
