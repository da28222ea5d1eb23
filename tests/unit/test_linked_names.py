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


UNIT = """format = 1
[unit]
name = "owner"
adjacency = "add-remove"
[budget]
accountant = "pure"
epsilon = "100000"
"""
OWNED = """format = 1
attribute = [{columns}]
[table]
name = "{name}"
source = "csv:{name}.csv"
unit = {{ of = "owner", {way}, max_rows = 9 }}
"""
NUMBER = '{{ name = "{}", type = "integer", lo = 0, hi = 4, outside = "clamp", null = "drop" }}'
WORDS = [
    "key0",
    "KEY0",
    "key_0",
    "keys",
    "owner",
    "own",
    "u",
    "added_owner",
    "source",
    "placed",
    "nothing",
    "group",
    "1",
]
"""Names that stand for something where rows are joined with their owners, or could."""


def write_owned(folder: Path, inner: str, outer: str) -> None:
    """Write two linked tables with a number each; their names are those of the product's own relations."""
    sq.create_workspace(folder)
    (folder / "units").mkdir()
    (folder / "units" / "owner.toml").write_text(UNIT)
    ids = {"source": ["person", "mine"], "owners": ["of"]}
    ways = {"source": 'column = "person"', "owners": 'via = "source", on = { of = "mine" }'}
    for name, number in (("source", inner), ("owners", outer)):
        columns = [*(f'{{ name = "{one}", type = "id" }}' for one in ids[name]), NUMBER.format(number)]
        text = OWNED.format(name=name, way=ways[name], columns=", ".join(columns))
        (folder / "schemas" / f"{name}.toml").write_text(text)
    (folder / "source.csv").write_text(f"person,mine,{inner}\nann,1,1\nbob,2,3\nbob,3,3\n,4,1\n")
    (folder / "owners.csv").write_text(f"of,{outer}\n1,1\n2,4\n3,4\n4,2\n5,2\n")


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("is_inner", [False, True])
def test_columns_may_have_any_name(tmp_path: Path, word: str, *, is_inner: bool) -> None:
    inner, outer = (word, "cost") if is_inner else ("cost", word)
    write_owned(tmp_path / "w", inner, outer)
    joined = "owners JOIN source ON of = mine"

    def ask(session: Session, question: str) -> int:
        return round(float(str(session.ask(question + " BUDGET 5000 EPSILON").rows[0][0])))

    with sq.open(tmp_path / "w") as session:
        if is_inner and word == "owner":  # which is also who a row of the other table belongs to
            with pytest.raises(RequestError, match="is not clear"):
                ask(session, f"SELECT SUM(owner) FROM {joined}")
            return
        assert ask(session, f'SELECT SUM("{outer}") FROM owners') == 9
        assert ask(session, f'SELECT SUM("{outer}") FROM {joined} WHERE "{inner}" > 1') == 8
        assert ask(session, f'SELECT SUM("{inner}") FROM {joined}') == 7
        some = f'EXISTS (SELECT 1 FROM owners o WHERE o.of = mine AND o."{outer}" = 4)'
        assert ask(session, f"SELECT COUNT(*) FROM source WHERE {some}") == 2
        each = f'(SELECT person, SUM("{outer}") AS n FROM {joined} GROUP BY person) t'
        assert ask(session, f"SELECT COUNT(*) FROM {each} WHERE n > 1") == 1
