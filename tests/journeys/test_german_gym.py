"""A German spreadsheet's export goes from its header line to a first answer in twelve answers and one check."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import pytest

from journeys.clinic import Person
from siloquent.schema.build import parse_schema
from siloquent.session import create_workspace

HEADER = "Mitgliedsnummer;Alter;Beitrag;Gewicht;Eintritt;Sauna;Größe;Studio"
STUDIOS = ("Köln", "Münster", "Bonn")
ENCODING = ("--reading", 'encoding = "cp1252"')
ANSWERS = (
    *ENCODING,
    *("--reading", 'decimal = ","'),
    *("--reading", 'date_format = "%d.%m.%Y"'),
    "--accept",
    *("--column", "Alter = 14..99"),
    *("--column", "Beitrag = 0.00..199.99"),
    *("--column", "Gewicht = 30.0..250.0"),
    *("--column", "Eintritt = 2000-01-01..2029-12-31"),
    *("--column", "Sauna = ja/nein"),
    *("--column", "Größe = 100..230"),
    *("--column", "Studio = Köln, Münster, Bonn"),
    *("--max-rows", "1"),
)
TYPED = sum(word.startswith("--") for word in ANSWERS)


def rows() -> list[str]:
    found = []
    for i in range(900):
        joined = date(2015, 1, 1) + timedelta(days=3 * i)
        weight = "" if i % 50 == 0 else f"{50 + i % 60},{i % 10}"
        cells = (f"M{i:05}", 16 + i % 70, f"{19 + i % 50},90", weight, f"{joined:%d.%m.%Y}", "ja" if i % 3 else "nein")
        found.append(";".join(map(str, (*cells, 150 + i % 50, STUDIOS[i % 3]))))
    return found


def test_a_german_export_is_answered_after_twelve_answers_and_one_check(tmp_path: Path) -> None:
    folder = tmp_path.resolve() / "w"
    create_workspace(folder)
    (folder / "gym.csv").write_bytes("\r\n".join([HEADER, *rows()]).encode("cp1252"))
    person = Person(folder)
    first = person.types("declare", "gym.csv")
    assert first.status == 2
    assert "Fix: siloquent declare gym.csv --reading 'encoding = \"cp1252\"'" in first.err
    assert TYPED <= 12
    declared = person.types("declare", "gym.csv", *ANSWERS, "--json")
    assert declared.status == 0, declared.err
    schema = parse_schema(declared.document["toml"])
    assert schema.unit.code == "user:Mitgliedsnummer:1"
    assert schema.domain["Sauna"].kind == "boolean"
    checked = person.types("check", "gym", "--json")
    report = checked.document["tables"][0]
    assert (checked.status, report["rows"], report["complete"]) == (0, 900, 882)
    assert [(one["kind"], one["count"]) for one in report["findings"]] == [("null", 18)]
    assert report["questions"][0]["query"].startswith("SELECT Sauna, COUNT(*) FROM gym")
    asked = person.types("ask", declared.document["first_query"]["query"], "--yes", "--json")
    assert asked.status == 0, asked.err
    counts = {row[0]: row[1] for row in asked.document["rows"]}
    assert counts[True] == pytest.approx(600, abs=600)


def test_check_says_in_words_what_can_be_asked(tmp_path: Path) -> None:
    folder = tmp_path.resolve() / "w"
    create_workspace(folder)
    (folder / "gym.csv").write_bytes("\n".join([HEADER, *rows()]).encode("cp1252"))
    person = Person(folder)
    assert person.types("declare", "gym.csv", *ANSWERS, "--rows", "900").status == 0
    said = person.types("check", "gym")
    told = said.out + said.err
    assert "900 rows, of which 900 count; 882 rows have a value in every column." in told
    assert "Analysts could ask, for example:" in told
    asked = [line.strip().rpartition("  (") for line in told.splitlines() if line.startswith("  SELECT")]
    assert len(asked) == 3
    for _, _, share in asked:
        assert share.endswith("% of what is left)")
        assert float(share.split()[0]) <= 25
    explained = person.types("explain", asked[0][0])
    assert explained.status == 0
    assert "of one Mitgliedsnummer, at most 1 row counts; rows beyond that are left out" in explained.out


@pytest.mark.parametrize(
    ("header", "person"),
    [("member_no,ward", "member_no"), ("ward;patient_nr", "patient_nr"), ("Kundennummer;ward", "Kundennummer")],
)
def test_a_number_of_a_person_is_proposed_as_an_id(header: str, person: str, tmp_path: Path) -> None:
    folder = tmp_path.resolve() / "w"
    create_workspace(folder)
    (folder / "t.csv").write_text(header + "\n", encoding="utf-8")
    words = ("declare", "t.csv", "--accept", "--column", "ward = a, b", "--max-rows", "2", "--json")
    declared = Person(folder).types(*words)
    assert parse_schema(declared.document["toml"]).unit.code == f"user:{person}:2"
