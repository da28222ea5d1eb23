"""A question without an accuracy gets the declared one, says so, and costs at most the declared share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import siloquent as sq
from siloquent.errors import RequestError, SchemaError, SyntaxProblem
from siloquent.explore.spec import parse, parse_unstated, render
from siloquent.explore.spec.promises import Accuracy
from siloquent.explore.task import answer_planned

TABLE = """
format = 1
attribute = [
  { name = "patient", type = "id" },
  { name = "ward", type = "category", values = ["A", "B", "C"], null = "drop" },
  { name = "cost", type = "real", lo = 0, hi = 500, grid = 0.5, outside = "clamp", null = "drop" },
  { name = "days", type = "integer", lo = 0, hi = 20, outside = "clamp", null = "drop" },
]
[table]
name = "visits"
source = "csv:visits.csv"
adjacency = "add-remove"
size_hint = 1000
unit = { kind = "user", column = "patient", max_rows = 2 }
[budget]
accountant = "pure"
epsilon = "100"
"""
DEFAULTS = '[defaults]\nerror = "2 PERCENT"\nconfidence = "0.9"\nmax_share = "0.1"\n'
COUNT = "SELECT ward, COUNT(*) FROM visits GROUP BY ward"
STATED = f"{COUNT} ERROR 2 PERCENT CONFIDENCE 0.9"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "w"
    sq.create_workspace(place)
    rows = [f"p{k},{'ABC'[k % 3]},{k % 500},{k % 20}" for k in range(900)]
    (place / "visits.csv").write_text("patient,ward,cost,days\n" + "\n".join(rows))
    (place / "schemas" / "visits.toml").write_text(TABLE + DEFAULTS)
    return place


@pytest.fixture
def session(folder: Path) -> Iterator[sq.Session]:
    with sq.open(folder) as found:
        yield found


def test_the_default_stands_in_and_is_said_everywhere(session: sq.Session) -> None:
    answer, plan = session.ask(COUNT, key="k"), session.explain(COUNT)
    assert answer.request == f"{STATED} BY DEFAULT UP TO 10 PERCENT"
    told = "accuracy by default: ERROR 2 PERCENT CONFIDENCE 0.9, for at most 10 % of what is left"
    assert any(note.startswith(told) for note in answer.notes)
    assert any(note.startswith(told) for note in plan.notes)
    assert any(note.startswith(told) for note in answer.to_json()["notes"])
    assert session.verify(session.save(answer)).ok


def test_the_same_text_is_the_same_stored_answer_and_so_is_the_stated_one(session: sq.Session) -> None:
    first = session.ask(COUNT)
    for again in (COUNT, STATED, COUNT.lower()):
        repeated = session.ask(again)
        assert (repeated.rows, repeated.cost.amount) == (first.rows, 0)


def test_a_key_belongs_to_the_text_and_to_the_stated_one(session: sq.Session) -> None:
    first = session.ask(f"{COUNT} REUSE NONE", key="k")
    assert session.ask(f"{COUNT} REUSE NONE", key="k").receipt == first.receipt
    assert session.ask(f"{STATED} REUSE NONE", key="k").receipt == first.receipt


def test_the_connection_comes_before_the_table_and_the_table_before_the_workspace(folder: Path) -> None:
    with (folder / "siloquent.toml").open("a") as file:
        file.write('\n[defaults]\nerror = "8 PERCENT"\n')
    own = sq.AccuracyDefaults("1 PERCENT", max_share="0.5")
    with sq.open(folder, defaults=own) as session:
        assert "ERROR 1 PERCENT CONFIDENCE 0.95 BY DEFAULT UP TO 50 PERCENT" in session.ask(COUNT).request
    with sq.open(folder) as session:
        assert "ERROR 2 PERCENT" in session.ask(COUNT).request
    (folder / "schemas" / "visits.toml").write_text(TABLE)
    with sq.open(folder) as session:
        assert "ERROR 8 PERCENT CONFIDENCE 0.95 BY DEFAULT UP TO 5 PERCENT" in session.ask(COUNT).request


def test_a_stated_confidence_or_budget_is_kept(session: sq.Session) -> None:
    assert "ERROR 2 PERCENT CONFIDENCE 0.99" in session.ask(f"{COUNT} CONFIDENCE 0.99").request
    spent = session.ask(f"{COUNT} BUDGET 0.5 EPSILON")
    assert "DEFAULT" not in spent.request
    assert spent.notes == session.ask(f"{COUNT} BUDGET 0.5 EPSILON").notes


def test_a_question_in_python_takes_the_default_too(session: sq.Session) -> None:
    assert session.ask(sq.count("visits").by("ward")).request == session.ask(COUNT).request


def test_too_dear_a_default_is_refused_for_nothing_with_a_question_that_is_answered(folder: Path) -> None:
    with sq.open(folder, defaults=sq.AccuracyDefaults("0.01 PERCENT", max_share="0.001")) as session:
        before = session.get_remaining("visits")
        with pytest.raises(RequestError, match=r"more than 0\.1 percent of the remaining epsilon 100") as refused:
            session.ask(COUNT)
        assert session.get_remaining("visits") == before
        assert any("the most that a default may cost" in note for note in session.explain(COUNT).notes)
        fixed = session.ask(refused.value.fix)
        assert float(fixed.cost.amount) <= 0.1
        planned = session.prepare(COUNT).portable
        with pytest.raises(RequestError, match="the most that a default may cost"):
            answer_planned(session, planned)


def test_nothing_is_spent_without_a_clause_or_a_default(folder: Path) -> None:
    (folder / "schemas" / "visits.toml").write_text(TABLE)
    with sq.open(folder) as session:
        with pytest.raises(SyntaxProblem, match="neither an error bound nor a budget") as refused:
            session.ask(COUNT)
        session.explain(refused.value.fix)
        with pytest.raises(SyntaxProblem, match="neither an error bound nor a budget") as built:
            session.ask(sq.count("visits").by("ward"))
        assert "GROUP BY ward" in built.value.fix
        session.explain(built.value.fix)
        with pytest.raises(SyntaxProblem):
            parse(COUNT)


def test_rows_of_a_size_that_is_not_declared_have_no_share(folder: Path) -> None:
    (folder / "schemas" / "visits.toml").write_text(TABLE.replace("size_hint = 1000\n", "") + DEFAULTS)
    with sq.open(folder) as session, pytest.raises(RequestError, match="declares no size_hint"):
        session.ask(COUNT)


@pytest.mark.parametrize(
    "entry",
    ['error = "2"', 'error = "2 ROWS"', 'error = "0 PERCENT"', 'error = "101 PERCENT"', 'error = "nan PERCENT"',
     'error = "2 PERCENT"\nconfidence = "1"', 'error = "2 PERCENT"\nmax_share = "0"',
     'error = "2 PERCENT"\nmax_share = "1.5"', 'error = "2 PERCENT"\nmax_share = "a"', 'confidence = "0.9"',
     'error = "2 PERCENT"\nlimit = "1"', 'error = "1e-9999999999 PERCENT"'],
)  # fmt: skip
@pytest.mark.parametrize("name", ["siloquent.toml", "schemas/visits.toml"])
def test_defaults_that_promise_nothing_are_refused_where_they_are_declared(folder: Path, name: str, entry: str) -> None:
    text = TABLE if name.startswith("schemas") else (folder / name).read_text()
    (folder / name).write_text(f"{text}\n[defaults]\n{entry}\n")
    with pytest.raises(SchemaError), sq.open(folder) as session:
        session.schema("visits")


ITEMS = (
    "COUNT(*)",
    "SUM(cost)",
    "AVG(days)",
    "MEDIAN(cost)",
    "COUNT(DISTINCT patient)",
    "COUNT(DISTINCT ward)",
    "VAR(days)",
    "STDDEV(cost)",
    "SUM(cost * days)",
    "SUM(days - 30)",
    "COUNT(*) FILTER (WHERE days > 3)",
)


@given(
    items=st.lists(st.sampled_from(ITEMS), min_size=1, max_size=4, unique=True),
    percent=st.decimals("0.001", "100", places=3),
    group=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_every_aggregate_has_a_default_that_is_a_question_of_its_own(
    tmp_path_factory: pytest.TempPathFactory, items: list[str], percent: object, group: bool
) -> None:
    folder = tmp_path_factory.mktemp("w") / "w"
    sq.create_workspace(folder)
    (folder / "schemas" / "visits.toml").write_text(TABLE)
    (folder / "visits.csv").write_text("patient,ward,cost,days\np,A,1,1\n")
    keys, end = ("ward, ", " GROUP BY ward") if group else ("", "")
    with sq.open(folder, defaults=sq.AccuracyDefaults(f"{percent} PERCENT", max_share="1")) as session:
        stated = _state(session, f"SELECT {keys}{', '.join(items)} FROM visits{end}")
    assert isinstance(stated.promise, Accuracy)
    assert len(stated.promise.bounds) == len(stated.bounded)
    assert parse(render(stated)) == stated


def _state(session: sq.Session, text: str) -> sq.Query:
    from siloquent.explore import state_accuracy

    asked = parse_unstated(text)
    assert render(parse_unstated(render(asked))) == render(asked)
    return state_accuracy(session, asked)
