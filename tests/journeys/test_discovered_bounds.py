"""Bounds that a discovery proposed are told with their receipt in the report, as long as they are those declared."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

import siloquent as sq
from siloquent.discover.release import ProposedBounds
from siloquent.documents.reports.protection import build_report_document, describe_origin

TOML = """format = 1
attribute = [
  { name = "size", type = "integer", lo = 0, hi = 1000000, outside = "clamp", null = "drop", bins = { width = 1000 } },
  { name = "cost", type = "real", lo = -5000, hi = 5000, grid = 0.5, outside = "clamp", null = "drop" },
  { name = "day", type = "date", lo = 1900-01-01, hi = 2100-12-31, outside = "drop", null = "drop" },
]
[table]
name = "t"
source = "csv:t.csv"
adjacency = "add-remove"
unit = { kind = "row" }
[budget]
accountant = "zcdp"
epsilon = "10"
delta = "1e-6"
"""
DECLARED = {"size": "lo = 0, hi = 1000000", "cost": "lo = -5000, hi = 5000", "day": "lo = 1900-01-01, hi = 2100-12-31"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    workspace = sq.create_workspace(tmp_path / "w")
    days = [date(2024, 1, 1) + timedelta(days=i % 300) for i in range(5_000)]
    lines = [f"{100 + i % 900},{i % 40 - 20},{day}" for i, day in enumerate(days)]
    (workspace.folder / "t.csv").write_text("\n".join(["size,cost,day", *lines, ""]))
    (workspace.schemas / "t.toml").write_text(TOML)
    return workspace.folder


def find_origins(folder: Path) -> dict[str, Any]:
    with sq.open(folder) as session:
        (table,) = build_report_document(session, ["t"])["tables"]
    return {one["name"]: one["origin"] for one in table["columns"]}


@pytest.mark.parametrize("column", DECLARED)
def test_bounds_that_were_found_have_their_receipt(folder: Path, column: str) -> None:
    assert {one["kind"] for one in find_origins(folder).values()} == {"declared"}
    with sq.open(folder) as session:
        found = session.discover("t", column, epsilon=2)
    assert isinstance(found, ProposedBounds)
    assert found.lo is not None
    assert find_origins(folder)[column]["kind"] == "declared", "a proposal alone changes nothing"
    file = folder / "schemas" / "t.toml"
    proposed = f"lo = {found.lo}, hi = {found.hi}"
    file.write_text(TOML.replace(DECLARED[column], proposed).replace(", bins = { width = 1000 }", ""))
    origins = find_origins(folder)
    assert {name: one["kind"] for name, one in origins.items()} == {
        name: "bounds" if name == column else "declared" for name in DECLARED
    }
    assert (origins[column]["entry"], origins[column]["hash"]) == (found.provenance.seq, found.provenance.hash)
    assert describe_origin(origins[column]).startswith(f"a discovery: its bounds, entry {found.provenance.seq}, ")
    file.write_text(file.read_text().replace(f"lo = {found.lo}", DECLARED[column].partition(",")[0]))
    assert find_origins(folder)[column]["kind"] == "declared", "the owner chose another bound"
