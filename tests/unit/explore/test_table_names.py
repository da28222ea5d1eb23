"""Tables in another case, and joins of private tables: what is offered instead."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import siloquent as sq
from benchmarks.suites.tables import build_workspace
from siloquent.errors import RequestError, UnknownName
from siloquent.explore.examples import read_question

TABLE = """format = 1
attribute = [
  {{ name = "patient", type = "id" }},
  {{ name = "{key}", type = "category", values = ["A", "B"], null = "drop" }},
]
[table]
name = "{name}"
source = "csv:{name}.csv"
adjacency = "add-remove"
size_hint = 1000
unit = {{ kind = "user", column = "patient", max_rows = 2 }}
[budget]
accountant = "pure"
epsilon = "1"
"""


@pytest.fixture
def session(tmp_path: Path) -> Iterator[sq.Session]:
    sq.create_workspace(tmp_path / "w")
    for name, key in (("Stays", "ward"), ("people", "town"), ("loans", "grade"), ("Loans", "kind")):
        (tmp_path / "w" / "schemas" / f"{name}.toml").write_text(TABLE.format(name=name, key=key))
        (tmp_path / "w" / f"{name}.csv").write_text(f"patient,{key}\np1,A\n")
    with sq.open(tmp_path / "w") as opened:
        yield opened


def test_a_table_is_found_whatever_the_case_it_is_written_in(session: sq.Session) -> None:
    typed, declared = (session.explain(f"SELECT COUNT(*) FROM {table} ERROR 50") for table in ("STAYS", "Stays"))
    assert typed.to_json() == declared.to_json()


def test_tables_that_differ_in_case_are_two_tables(session: sq.Session) -> None:
    assert read_question(session, "SELECT COUNT(*) FROM Loans ERROR 50").table == "Loans"
    assert read_question(session, "SELECT COUNT(*) FROM loans ERROR 50").table == "loans"
    with pytest.raises(UnknownName):
        session.explain("SELECT COUNT(*) FROM LOANS ERROR 50")


def test_a_table_that_the_asker_may_not_see_is_not_found_in_another_case(session: sq.Session) -> None:
    text = "SELECT COUNT(*) FROM PEOPLE ERROR 50"
    assert read_question(session, text).table == "people"
    assert read_question(session, text, may_see=lambda name: name != "people").table == "PEOPLE"


@pytest.mark.parametrize(
    ("asked", "offered"),
    [
        (
            "ward, COUNT(*) FROM Stays s JOIN people p ON s.patient = p.patient GROUP BY ward",
            "ward, COUNT(*) FROM Stays",
        ),
        ("town, COUNT(*) FROM Stays s JOIN people p USING (patient) GROUP BY town", "COUNT(*) FROM Stays"),
        (
            "COUNT(*) FROM Stays s, people p WHERE s.patient = p.patient AND ward = 'A'",
            "COUNT(*) FROM Stays WHERE ward",
        ),
    ],
)
def test_a_join_with_a_private_table_offers_the_question_about_the_first(
    session: sq.Session, asked: str, offered: str
) -> None:
    with pytest.raises(RequestError, match="is not a public table") as refused:
        session.explain(f"SELECT {asked} ERROR 50")
    assert refused.value.fix.startswith(f"SELECT {offered}")
    session.explain(refused.value.fix)


def test_a_public_number_that_may_be_zero_offers_the_question_about_the_private_table(tmp_path: Path) -> None:
    build_workspace(tmp_path / "w")
    with sq.open(tmp_path / "w") as session:
        session.explain("SELECT SUM(days * beds) FROM visits JOIN wards USING (ward) BUDGET 1 EPSILON")
        with pytest.raises(RequestError, match="may be 0") as refused:
            session.explain("SELECT SUM(days / (days - beds)) FROM visits JOIN wards USING (ward) BUDGET 1 EPSILON")
        assert refused.value.fix.startswith("SELECT ")
        session.explain(refused.value.fix)
