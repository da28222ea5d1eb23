"""A steward at a terminal declares private rows by answering questions, stops, goes on, and asks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from journeys.clinic import Person
from journeys.test_terminal import at_terminal
from siloquent.schema.build import parse_schema
from siloquent.session import create_workspace

HEADER = "patient_id,age,ward,cost\n"
TYPED = "\nicu, surgery\n0.00..999.99\n\n\n\n4\n\n\n\n"
"""Proposals, ward, cost, empty cells, the decimal mark, the person, rows of one, rows in all, budget, and the end."""


def steward(folder: Path, rows: str = "p1,33,icu,12.50\n") -> Person:
    create_workspace(folder)
    (folder / "visits.csv").write_text(HEADER + rows, encoding="utf-8")
    return Person(folder)


def test_questions_at_a_terminal_lead_to_a_first_answer(tmp_path: Path) -> None:
    person = steward(tmp_path / "w", "".join(f"p{i},{i % 90},icu,{i}.5\n" for i in range(500)))
    status, shown = at_terminal(person.folder, "declare", "visits.csv", answer=TYPED)
    assert status == 0
    for part in (
        "no rows are read",
        "What values are possible in ward?",
        "such as 0..10000.00",
        "Write schemas/visits.toml?",
    ):
        assert part in shown
    assert "of the budget" in shown
    schema = parse_schema((person.folder / "schemas" / "visits.toml").read_text(encoding="utf-8"))
    assert schema.unit.code == "user:patient_id:4"
    assert person.types("check").status == 0
    (query,) = re.findall(r"siloquent ask '(SELECT .*?)'", shown)
    asked = person.types("ask", query, "--yes", "--json")
    assert asked.status == 0
    assert sum(row[1] for row in asked.document["rows"]) == pytest.approx(500, abs=2_000)


def test_two_files_with_the_same_header_give_the_same_session(tmp_path: Path) -> None:
    sessions = []
    for name, rows in (("one", "p1,33,icu,12.50\n"), ("two", "Dr. Smith,200,cellar,-1\n" * 999 + "\xff,,\n")):
        folder = tmp_path / name / "w"
        folder.parent.mkdir()
        steward(folder, rows)
        status, shown = at_terminal(folder, "declare", "visits.csv", answer=TYPED)
        sessions.append((status, shown, (folder / "schemas" / "visits.toml").read_text(encoding="utf-8")))
    assert sessions[0] == sessions[1]


def test_what_is_not_understood_is_asked_again_and_corrected_at_the_end(tmp_path: Path) -> None:
    person = steward(tmp_path / "w")
    typed = (
        "?\nage = 18..x\nage = 18..99\nicu\nicu,\n0..9,999\n0.00..999.99\n\n"
        "\nnone\nlots\n500\n2,0\n2\nward = icu, er\n\n"
    )
    status, shown = at_terminal(person.folder, "declare", "visits.csv", answer=typed)
    assert status == 0
    for part in ("a built-in list", "a list has a comma", "no other separators", "not 'lots'", "Did you mean 2.0?"):
        assert part in shown
    schema = parse_schema((person.folder / "schemas" / "visits.toml").read_text(encoding="utf-8"))
    assert schema.domain["ward"].values == ("icu", "er")
    assert (schema.domain["age"].lo, schema.size_hint, schema.budget.epsilon, schema.unit.code) == (18, 500, 2, "row")


def test_an_interrupted_declaration_goes_on_where_it_was(tmp_path: Path) -> None:
    person = steward(tmp_path / "w")
    status, shown = at_terminal(person.folder, "declare", "visits.csv", answer="\nicu, surgery\n\x04")
    assert status != 0
    assert "Your answers are saved in schemas/visits.answers" in " ".join(shown.split())
    assert not (person.folder / "schemas" / "visits.toml").exists()
    kept = (person.folder / "schemas" / "visits.answers").read_text(encoding="utf-8")
    assert "icu, surgery" in kept
    assert "p1" not in kept
    assert person.types("tables").status == 0
    status, shown = at_terminal(person.folder, "declare", "visits.csv", answer="0.00..999.99\n\n\n\n4\n\n\n\n")
    assert status == 0
    assert "Continuing with the answers" in shown
    assert "What values are possible in ward?" not in shown
    schema = parse_schema((person.folder / "schemas" / "visits.toml").read_text(encoding="utf-8"))
    assert schema.domain["ward"].values == ("icu", "surgery")
    assert not (person.folder / "schemas" / "visits.answers").exists()


def test_a_first_line_of_values_is_not_shown_and_asked_about(tmp_path: Path) -> None:
    person = steward(tmp_path / "w")
    (person.folder / "visits.csv").write_text("4711,33,icu,12.50\n")
    status, shown = at_terminal(person.folder, "declare", "visits.csv", answer="n\n")
    assert status == 8
    assert "Does the first line name the columns?" in shown
    assert "4711" not in shown
