"""Constraint checks, repairs and imports from the terminal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer

from journeys.documents import faults
from siloquent.cli.synth.constraints import mount
from siloquent.cli.workspace.document_kinds import json_schema
from siloquent.session import create_workspace

SCHEMA = """
format = 1
attribute = [
  { name = "ward", type = "category", values = ["A", "B", "C"], null = "cell" },
  { name = "floor", type = "integer", lo = 0, hi = 9, outside = "clamp", null = "drop" },
  { name = "in day", type = "integer", lo = 0, hi = 99, outside = "clamp", null = "drop" },
  { name = "out day", type = "integer", lo = 0, hi = 99, outside = "clamp", null = "drop" },
]
constraint = [
  { kind = "fd", lhs = ["ward"], rhs = "floor" },
  { kind = "denial", not = 't1."out day" < t1."in day"' },
  { kind = "denial", not = 't1.floor > t2.floor and t1."in day" < t2."in day"', hard = false },
]
[table]
name = "visits"
source = "csv:visits.csv"
adjacency = "add-remove"
unit = { kind = "row" }
[budget]
accountant = "zcdp"
epsilon = "1"
delta = "1e-6"
"""
ROWS = "ward,floor,in day,out day,extra\nA,1,5,9,x\nA,1,6,7,y\nA,2,6,6,z\nB,3,9,4,w\n,4,1,1,v\nB,3,8,8,\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = create_workspace(tmp_path / "w").folder
    (made / "schemas" / "visits.toml").write_text(SCHEMA)
    (made / "rows.csv").write_text(ROWS)
    return made


def run(folder: Path, *words: str) -> int:
    app = typer.Typer()
    app.callback()(lambda: None)
    mount(app)
    command = typer.main.get_command(app)
    name, *rest = words
    try:
        return int(command.main([name, *rest, "--workspace", str(folder)], standalone_mode=False) or 0)
    except SystemExit as ended:
        return int(ended.code or 0)


def test_a_check_counts_pairs_in_both_directions_and_fails_on_broken_hard_ones(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(folder, "check", str(folder / "rows.csv"), "--table", "visits", "--json") == 1
    document = json.loads(capsys.readouterr().out)
    assert list(faults(document, json_schema("synth-check"))) == []
    assert [entry["violations"] for entry in document["constraints"]] == [2, 1, 5]
    assert (document["kept"], document["outside"], document["rows"]) == (False, 0, 6)


def test_a_repair_keeps_every_hard_constraint_and_lists_what_it_changed(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mended = folder / "mended.csv"
    assert run(folder, "repair", str(folder / "rows.csv"), "--table", "visits", "-o", str(mended), "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert list(faults(document, json_schema("synth-repair"))) == []
    assert {"row": 3, "attribute": "floor", "old": "2", "new": "1"} in document["changes"]
    assert {change["row"] for change in document["changes"]} == {3, 4}
    assert run(folder, "check", str(mended), "--table", "visits") == 0
    assert "Every hard constraint is satisfied" in capsys.readouterr().out
    before, after = ROWS.splitlines(), mended.read_text().splitlines()
    assert [line.rpartition(",")[2].strip('"') for line in after] == [line.rpartition(",")[2] for line in before]


def test_a_second_repair_changes_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = folder / "first.csv", folder / "second.csv"
    run(folder, "repair", str(folder / "rows.csv"), "--table", "visits", "-o", str(first))
    capsys.readouterr()
    run(folder, "repair", str(first), "--table", "visits", "-o", str(second), "--json")
    assert json.loads(capsys.readouterr().out)["changes"] == []
    assert first.read_text() == second.read_text()


def test_a_file_needs_a_table_and_no_file_is_overwritten(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(folder, "check", str(folder / "rows.csv")) == 2
    assert "--table NAME" in capsys.readouterr().err
    assert run(folder, "repair", str(folder / "rows.csv"), "--table", "visits", "-o", str(folder / "rows.csv")) == 2
    assert "already exists" in capsys.readouterr().err


def test_imported_constraints_are_an_entry_of_a_table_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "rules.ic").write_text("t1&t2&EQ(t1.a,t2.a)&IQ(t1.b,t2.b)\n")
    assert run(folder, "import-dcs", str(folder / "rules.ic"), "--soft", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert list(faults(document, json_schema("synth-constraints"))) == []
    assert 'kind = "fd", lhs = ["a"], rhs = "b", hard = false' in document["toml"]
