"""A query is planned once, and its run charges what was explained or less."""

from __future__ import annotations

from collections.abc import Iterator
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import siloquent as sq
from siloquent.cli.app import run
from siloquent.errors import BudgetExceeded, KeyReused, RequestError, SchemaError
from siloquent.explore import task
from siloquent.explore.plan.reuse.plans import apply_reuse
from siloquent.explore.plan.steps import plan_query
from siloquent.explore.spec.stored_measurement import OTHER_ROWS
from siloquent.explore.task import PortablePlan, PreparedQuery, answer_planned
from siloquent.privacy import parse_exact
from unit.counting import counting

SCHEMA = """
format = 1
attribute = [
  { name = "ward", type = "category", values = ["A", "B"], null = "drop" },
  { name = "cost", type = "integer", lo = 0, hi = 100, outside = "clamp", null = "drop" },
]
[table]
name = "visits"
source = "csv:visits.csv"
adjacency = "add-remove"
size_hint = 1000
unit = { kind = "row" }
[budget]
accountant = "zcdp"
rho = "1"
delta = "1e-6"
"""
WARDS = "SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 40"
FRESH = f"{WARDS} REUSE NONE"
TWO_STEPS = "SELECT ward, AVG(cost) FROM visits GROUP BY ward ERROR 30"


def write_rows(folder: Path, count: int = 600) -> None:
    (folder / "visits.csv").write_text("ward,cost\n" + "A,10\n" * (count - 200) + "B,20\n" * 200)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "w"
    sq.create_workspace(place)
    (place / "schemas" / "visits.toml").write_text(SCHEMA)
    write_rows(place)
    return place


@pytest.fixture
def session(folder: Path) -> Iterator[sq.Session]:
    with sq.open(folder) as opened:
        yield opened


def spent(session: sq.Session) -> int:
    return session.get_account("visits").spent.amount


@pytest.mark.parametrize("question", [FRESH, WARDS, TWO_STEPS])
@pytest.mark.parametrize("words", [("--yes",), ("--max-cost", "1"), ("--yes", "--key", "k")])
def test_an_ask_at_the_command_line_is_planned_once(
    folder: Path, question: str, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):  # also a repeat, of the question or of the key
        with counting(plan=plan_query) as calls:
            assert run(["--workspace", str(folder), "ask", question, *words]) == 0
        assert calls == {"plan": 1}


def test_an_ask_in_python_and_a_prepared_one_are_planned_once(session: sq.Session) -> None:
    with counting(plan=plan_query, reuse=apply_reuse) as calls:
        session.ask(WARDS)
    assert calls == {"plan": 1, "reuse": 1}
    with counting(plan=plan_query, reuse=apply_reuse) as calls:
        prepared = session.prepare(FRESH)
        told = prepared.explanation
        answer = prepared.run(key="k")
    assert calls == {"plan": 1, "reuse": 1}
    assert (told.promise, told.price) == (answer.promise, session.explain(FRESH).price)
    assert session.ask(FRESH, key="k") == answer


def test_a_question_of_one_part_is_explained_like_one_of_several(session: sq.Session) -> None:
    single, double = session.explain(FRESH), session.explain(TWO_STEPS)
    assert [len(step) for step in single.steps] == [1]
    assert [len(step) for step in double.steps] == [1, 1]
    for told in (single, double):
        assert told.price == sum(part.price for part in told.parts)
        assert told.plan is told.parts[0].plan
    (part,) = single.parts
    assert (single.chosen, single.label, single.candidates) == (part.chosen, part.label, part.candidates)
    documents = [told.to_json() for told in (single, double)]
    assert [one["schema"] for one in documents] == ["siloquent/explanation/2", "siloquent/composite-explanation/2"]
    assert {**part.to_dict(), **documents[0]} == {**documents[0], "part": "count"}
    assert [one["part"] for step in documents[1]["steps"] for one in step] == ["moment_cost"] * 2


def test_a_key_that_was_answered_gives_its_answer_and_another_questions_is_refused(session: sq.Session) -> None:
    first = session.ask(FRESH, key="k")
    paid = spent(session)
    assert session.prepare(FRESH, key="k").run() == first
    assert session.prepare(FRESH).run(key="k") == first
    assert spent(session) == paid
    with pytest.raises(KeyReused):
        session.prepare(FRESH.replace("40", "41"), key="k")
    other = session.prepare(FRESH, key="k").run(key="another")
    assert not other.replayed
    assert spent(session) == 2 * paid


def test_what_is_spent_meanwhile_is_not_there_any_more(session: sq.Session, folder: Path) -> None:
    prepared = session.prepare(FRESH)
    assert prepared.explanation.left_after is not None
    with sq.open(folder) as other:
        while other.explain(FRESH).left_after is not None:
            other.ask(FRESH)
    before = spent(session)
    with pytest.raises(BudgetExceeded) as refused:
        prepared.run()
    assert "ERROR" in refused.value.fix
    assert (refused.value.spent, spent(session)) == ("nothing", before)


def test_an_answer_that_is_settled_meanwhile_makes_the_run_cheaper(session: sq.Session, folder: Path) -> None:
    prepared = session.prepare(WARDS)
    assert prepared.explanation.price > 0
    with sq.open(folder) as other:
        first = other.ask(WARDS)
    before = spent(session)
    answer = prepared.run()
    assert (answer.rows, spent(session)) == (first.rows, before)


def test_the_same_key_charged_meanwhile_gives_that_answer(session: sq.Session, folder: Path) -> None:
    prepared = session.prepare(FRESH)
    with sq.open(folder) as other:
        first = other.ask(FRESH, key="k")
    before = spent(session)
    assert prepared.run(key="k") == first
    assert spent(session) == before


def test_a_price_that_rose_since_it_was_explained_is_refused_and_nothing_is_spent(
    session: sq.Session, folder: Path
) -> None:
    session.ask(WARDS)
    prepared = session.prepare(WARDS)
    assert prepared.explanation.price == 0
    write_rows(folder, 900)  # the earlier answer is about other rows now
    before = spent(session)
    with pytest.raises(RequestError, match="when it was planned") as refused:
        prepared.run(key="k")
    assert (refused.value.spent, spent(session)) == ("nothing", before)
    again = session.prepare(WARDS)
    assert again.explanation.price > 0
    assert OTHER_ROWS in again.explanation.notes
    again.run(key="k")
    assert spent(session) - before == again.course.cost.amount


def test_an_ask_whose_price_nobody_was_told_is_not_refused_for_it(
    session: sq.Session, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.ask(WARDS)
    real, calls = task.load_reusable_answers, []

    def meanwhile(*given: Any) -> Any:
        calls.append(given)
        if len(calls) == 2:
            write_rows(folder, 900)  # between the plan and the charge
        return real(*given)

    monkeypatch.setattr(task, "load_reusable_answers", meanwhile)
    before = spent(session)
    answer = session.ask(WARDS)
    assert len(calls) == 2
    assert answer.cost.amount > 0
    assert spent(session) > before


def test_a_table_declared_anew_is_not_asked_under_the_old_price(session: sq.Session, folder: Path) -> None:
    prepared = session.prepare(FRESH)
    file = folder / "schemas" / "visits.toml"
    file.write_text(SCHEMA.replace('["A", "B"]', '["A", "B", "C"]'))
    with pytest.raises(SchemaError, match="has changed since this was planned") as refused:
        prepared.run(key="k")
    assert (refused.value.spent, spent(session)) == ("nothing", 0)
    assert len(session.ask(FRESH, key="k").rows) == 3


def test_a_limit_on_the_price_holds_for_a_prepared_query(session: sq.Session) -> None:
    prepared = session.prepare(TWO_STEPS)
    price = prepared.explanation.price
    with pytest.raises(RequestError, match="more than"):
        prepared.run(max_cost=str(float(price) / 2))
    assert spent(session) == 0
    prepared.run(max_cost="1")
    assert 0 < spent(session) <= prepared.course.cost.amount == price * 10**12 <= parse_exact("1") * 10**12


def test_a_frame_replaced_meanwhile_is_not_asked(tmp_path: Path) -> None:
    sq.create_workspace(tmp_path / "f")
    declared = sq.read_schema(SCHEMA.replace('source = "csv:visits.csv"\n', ""))
    with sq.open(tmp_path / "f") as opened:
        opened.add_frame(declared, pa.table({"ward": ["A"] * 10, "cost": [1] * 10}))
        prepared = opened.prepare(FRESH)
        anew = sq.read_schema(SCHEMA.replace('source = "csv:visits.csv"\n', "").replace('"B"', '"C"'))
        opened.add_frame(anew, pa.table({"ward": ["A"] * 10, "cost": [1] * 10}))
        with pytest.raises(SchemaError, match="has changed"):
            prepared.run()


def send(prepared: PreparedQuery) -> PortablePlan:
    """What another process receives."""
    near, far = Pipe()
    near.send(prepared.portable)
    received = far.recv()
    assert isinstance(received, PortablePlan)
    return received


@pytest.mark.parametrize(
    "question",
    [
        FRESH,
        TWO_STEPS,
        "SELECT MEDIAN(cost) FROM visits ERROR 150 REUSE NONE",
        "SELECT ward, COUNT(*) FROM visits GROUP BY ward ORDER BY COUNT(*) DESC LIMIT 1 ERROR 90 REUSE NONE",
        "SELECT ward FROM visits GROUP BY ward HAVING COUNT(*) > 100 ERROR 90 REUSE NONE",
        "SELECT ward, COUNT(*), SUM(cost) FROM visits GROUP BY ward BUDGET 0.1 RHO REUSE NONE",
        "BIN visits ON COUNT(*) WHERE W = HISTOGRAM(cost, 0, 100, 10) ERROR 90 REUSE NONE",
    ],
)
def test_a_plan_of_another_process_is_answered_as_it_is(session: sq.Session, question: str) -> None:
    prepared = session.prepare(question, key="k")
    sent, before = send(prepared), spent(session)
    with counting(plan=plan_query) as calls:
        answer = answer_planned(session, sent, key="k")
    assert calls == {"plan": 0}
    assert 0 < spent(session) - before <= prepared.course.cost.amount
    assert session.ask(question, key="k") == answer
    assert spent(session) - before <= prepared.course.cost.amount


def test_a_sent_plan_that_no_longer_fits_is_made_again(session: sq.Session, folder: Path) -> None:
    sent = send(session.prepare(FRESH, key="k"))
    file = folder / "schemas" / "visits.toml"
    file.write_text(SCHEMA.replace('["A", "B"]', '["A", "B", "C"]'))
    with counting(plan=plan_query) as calls:
        first = answer_planned(session, sent, key="k")
    assert (len(first.rows), calls) == (3, {"plan": 1})
    before = spent(session)
    sent = send(session.prepare(FRESH))  # planned without the key, under which it was charged
    assert answer_planned(session, sent, key="k") == first
    assert spent(session) == before
    with pytest.raises(RequestError, match="more than"):
        answer_planned(session, sent, key="l", max_cost="0.0000001")
    assert spent(session) == before
