"""A steward with a workbook: declared from its header row, checked, refreshed and asked, typed and in Python."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest

import siloquent
from benchmarks.hostile.workbooks import Book, Sheet
from journeys.clinic import Person
from siloquent.errors import SchemaError
from siloquent.session import create_workspace

NAMES = ["patient_id", "ward", "age", "birthdate"]
ANSWERS = ("--accept", "--column", "ward = icu, surgery", "--person", "patient_id", "--max-rows", "4", "--header")
ROW_TABLE = """format = 1
attribute = [{{ name = "ward", type = "category", values = ["icu"], null = "cell" }}]
[table]
name = "visits"
source = "xlsx:visits.xlsx"
adjacency = "{adjacency}"
unit = {{ kind = "row" }}
[budget]
accountant = "pure"
epsilon = "1"
"""


def rows(count: int, ward: str = "icu") -> list[list[object]]:
    return [[f"p{i}", ward, i % 90, date(1950 + i % 60, 1, 1)] for i in range(count)]


def steward(folder: Path, *sheets: Sheet) -> Person:
    create_workspace(folder)
    (folder / "visits.xlsx").write_bytes(Book(sheets).write())
    return Person(folder)


@pytest.mark.slow
def test_a_workbook_is_declared_checked_asked_and_refreshed(tmp_path: Path) -> None:
    folder = tmp_path.resolve() / "w"
    person = steward(folder, Sheet([NAMES, *rows(400)], "Visits"), Sheet([["x"]], "Notes"))
    refused = person.types("declare", "visits.xlsx", *ANSWERS)
    assert "has 2 sheets; expected one. It holds: 'Visits', 'Notes'" in refused.err
    declared = person.types("declare", "visits.xlsx", *ANSWERS, "--reading", 'sheet = "Visits"', "--json")
    assert declared.document["source"] == "xlsx:visits.xlsx"
    checked = person.types("check", "visits", "--json")
    assert (checked.status, checked.document["tables"][0]["rows"]) == (0, 400)
    query = "SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 200"
    asked = person.types("ask", query, "--yes", "--json")
    assert sum(row[1] for row in asked.document["rows"]) == pytest.approx(400, abs=400)
    new = folder / "new.xlsx"
    new.write_bytes(Book([Sheet([NAMES, *rows(500)], "Visits")]).write())
    assert person.types("refresh", "visits", str(new), "--json").document["rows"] == 500
    new.write_bytes(Book([Sheet([NAMES, *rows(500)], "Others")]).write())
    refused = person.types("refresh", "visits", str(new))
    assert "has no sheet named 'Visits'. It holds: 'Others'" in refused.err


def test_declare_says_no_more_of_two_workbooks_with_the_same_header_row(tmp_path: Path) -> None:
    files = []
    for number, given in enumerate((rows(3), rows(99, "cellar"))):
        folder = tmp_path.resolve() / str(number)
        steward(folder, Sheet([NAMES, *given])).types("declare", "visits.xlsx", *ANSWERS)
        files.append((folder / "schemas" / "visits.toml").read_text(encoding="utf-8"))
    assert files[0] == files[1]


def test_a_workbook_is_declared_in_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path.resolve() / "w"
    steward(folder, Sheet([NAMES, *rows(40)]))
    monkeypatch.chdir(folder)
    schema = siloquent.declare(
        "visits.xlsx", {"ward": ["icu"]}, accept=True, person="patient_id", max_rows=1
    ).to_schema()
    assert (schema.source, schema.domain.names) == ("xlsx:visits.xlsx", tuple(NAMES))
    Path("old.csv").write_bytes("Visits;x\nward;cost;day\nGynäkologie;1,5;1.2.2024\n-;-;-\n".encode("cp1252"))
    reading = {"encoding": "cp1252", "skip": 1, "decimal": ",", "missing": ["-"]}
    columns = {"day": {"date_format": "%d.%m.%Y"}}
    answers = {"ward": ["Gynäkologie"], "cost": "0.00..9.99", "day": "2024-01-01..2024-12-31"}
    draft = siloquent.declare("old.csv", answers, person="none", reading={**reading, "columns": columns})
    (folder / "schemas" / "old.toml").write_text(draft.to_toml(), encoding="utf-8")
    with siloquent.open(folder) as session:
        report = session.check("old")
    assert (report.rows, [one.count for one in report.findings]) == (2, [1, 1, 1])
    with pytest.raises(SchemaError, match="encoding does not belong"):
        siloquent.declare(pa.table({"ward": ["a"]}), reading={"encoding": "cp1252"})
    Path("empty.xlsx").write_bytes(Book([Sheet([])]).write())
    with pytest.raises(SchemaError, match="has no header row: row 1 is empty"):
        siloquent.declare("empty.xlsx")


def test_a_row_that_has_no_value_counts_only_where_the_number_of_rows_is_public(tmp_path: Path) -> None:
    for adjacency, expected in (("add-remove", 2), ("replace-one", 3)):
        folder = tmp_path.resolve() / adjacency
        steward(folder, Sheet([["ward"], ["icu"], [""], ["icu"]]))
        (folder / "schemas" / "visits.toml").write_text(ROW_TABLE.format(adjacency=adjacency), encoding="utf-8")
        with siloquent.open(folder) as session:
            assert session.check("visits").rows == expected
