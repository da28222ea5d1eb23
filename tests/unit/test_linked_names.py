"""Linked tables that name their keys alike: each link is joined on the columns of its own tables, or refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import siloquent as sq
from benchmarks.trials.linked_neighbours import TABLES, declare_tree
from siloquent.api import Session
from siloquent.errors import RequestError
from siloquent.explore import read_question
from siloquent.explore.spec import parse, render

ROWS = {
    "visits": "own,above,number\nk,ann,1\nm,bob,1\nann,cy,2\n",
    "courses": "own,above,number\nx,k,3\ny,m,3\ny,m,3\nk,nowhere,4\n",
    "doses": "own,above,number\np,x,1\nq,y,1\nr,z,1\n",
}
EXACT = " BUDGET 200 EPSILON"


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Session]:
    folder = tmp_path / "w"
    sq.create_workspace(folder)
    declare_tree(folder, most=5)
    for name in TABLES:
        (folder / f"{name}.csv").write_text(ROWS[name])
    with sq.open(folder) as session:
        yield session


def ask(session: Session, question: str) -> int:
    """The exact number: the noise is below one half."""
    return round(float(str(session.ask(question + EXACT).rows[0][0])))


@pytest.mark.parametrize(
    ("join", "expected"),
    [
        ("courses JOIN visits ON courses.above = visits.own", 3),
        ("visits v JOIN courses c ON v.own = c.above", 3),
        ("courses, visits WHERE above = own", 3),
        ("doses JOIN courses ON doses.above = courses.own JOIN visits ON courses.above = visits.own", 3),
        ("doses d, courses c, visits v WHERE v.own = c.above AND d.above = c.own AND c.own = d.above", 3),
        ("doses d JOIN courses c ON above = c.own JOIN visits v ON c.above = v.own", 3),
    ],
)
def test_each_link_is_joined_on_its_own_columns(tree: Session, join: str, expected: int) -> None:
    assert ask(tree, f"SELECT COUNT(*) FROM {join}") == expected


@pytest.mark.parametrize(
    "join",
    [
        "courses JOIN visits ON courses.own = visits.above",
        "courses JOIN visits ON courses.above = courses.own",
        "courses c, visits v WHERE v.above = c.own",
        "doses JOIN courses ON doses.above = courses.own JOIN visits ON doses.above = visits.own",
        "doses, courses, visits WHERE above = own",
        "doses d JOIN courses c ON d.above = c.own JOIN visits v ON d.above = c.own",
    ],
)
def test_columns_of_the_same_names_in_other_tables_are_not_the_link(tree: Session, join: str) -> None:
    """Taken for the link, such a question would be answered as another one."""
    with pytest.raises(RequestError, match="as their links say") as refused:
        tree.ask(f"SELECT COUNT(*) FROM {join}{EXACT}")
    assert round(float(str(tree.ask(str(refused.value.fix)).rows[0][0]))) == 3


def test_a_join_is_written_with_its_tables() -> None:
    text = "SELECT COUNT(*) FROM doses d JOIN courses c ON d.above = c.own JOIN visits ON c.above = visits.own ERROR 5"
    query = parse(text, linked=TABLES)
    written = "doses.above = courses.own AND courses.above = visits.own"
    assert written in render(query).replace('"', "")
    again = parse(render(query), linked=TABLES)
    assert [(one.table, two.table) for one, two in again.on] == [("doses", "courses"), ("courses", "visits")]


def test_a_persons_subquery_keeps_the_tables_of_its_join(tree: Session) -> None:
    persons = "SELECT patient, COUNT(*) AS n FROM doses d JOIN courses c ON d.above = c.own GROUP BY patient"
    assert ask(tree, f"SELECT COUNT(*) FROM ({persons}) t") == 2
    wrong = persons.replace("d.above = c.own", "d.own = c.above")
    with pytest.raises(RequestError, match="as their links say"):
        tree.prepare(read_question(tree, f"SELECT COUNT(*) FROM ({wrong}) t{EXACT}"))
