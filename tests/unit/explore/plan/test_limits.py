"""Bounds on what is planned do not stand between an old answer and the one who holds its key."""

from __future__ import annotations

from contextlib import suppress
from contextvars import ContextVar
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import siloquent as sq
from siloquent.api import Session
from siloquent.errors import RequestError
from siloquent.explore.plan import planner, quantiles
from siloquent.explore.plan.cells import classes, keys, predicates, space
from siloquent.explore.plan.limits import are_lifted, lifted

TABLE = """
format = 1
attribute = [
  { name = "ward", type = "category", values = ["A", "B"], null = "drop" },
  { name = "age", type = "integer", lo = 0, hi = 29, outside = "clamp", null = "drop" },
  { name = "cents", type = "integer", lo = 0, hi = 8999, outside = "clamp", null = "drop" },
]
[table]
name = "people"
adjacency = "add-remove"
unit = { kind = "row" }
size_hint = 600
[budget]
accountant = "pure"
epsilon = "1000"
"""
QUESTIONS = {
    "values": "SELECT COUNT(*) FROM people WHERE age % 7 = 2 ERROR 50",
    "runs": "SELECT COUNT(*) FROM people WHERE age > 7 AND age < 20 ERROR 50",
    "keys": "SELECT ward, COUNT(*) FROM people GROUP BY ward ERROR 50",
    "entries": "BIN people ON COUNT(*) WHERE W = {age < 7, ward = 'A'} ERROR 50",
    "truths": "SELECT ward, COUNT(*) FROM people WHERE age < 9 GROUP BY ward ERROR 50",
    "two steps": "SELECT ward, AVG(age) FROM people WHERE age % 2 = 0 GROUP BY ward ERROR 3",
}


@pytest.fixture
def session(tmp_path: Path) -> Session:
    sq.create_workspace(tmp_path / "w")
    found = sq.open(tmp_path / "w")
    rows = {"ward": ["A", "B"] * 300, "age": np.arange(600) % 30, "cents": np.arange(600) * 15}
    found.add_frame(sq.read_schema(TABLE), pa.table(rows))
    return found


def tighten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw every bound so tight that nothing passes, as in a version that has not planned anything yet."""
    for module, name in (
        (classes, "MAX_VALUES"), (classes, "MAX_RUNS"), (classes, "MAX_REFINED"), (keys, "MAX_VALUES"),
        (keys, "MAX_PREDICATES"), (predicates, "MAX_ENTRIES"), (predicates, "MAX_WEIGHTS"),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, 0)
    monkeypatch.setattr(space, "max_truths", ContextVar("none", default=0))
    planner._workloads._values.clear()


@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
def test_an_answer_is_given_again_under_its_key_whatever_is_refused_now(
    session: Session, question: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = session.ask(question, key="k")
    folder = session.save(first)
    tighten(monkeypatch)
    again = session.ask(question, key="k")
    assert (again.rows, again.receipt, again.replayed) == (first.rows, first.receipt, True)
    for refused in (session.explain, session.ask):
        with pytest.raises(RequestError):
            refused(question)
    assert session.verify(folder).ok
    assert not are_lifted()


def test_a_charge_that_waits_for_its_measurement_is_measured_whatever_is_refused_now(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = QUESTIONS["values"]
    with monkeypatch.context() as failing:
        failing.setattr("siloquent.explore.task.measure_all", lambda *given: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            session.ask(question, key="k")
    spent = session.ledger.get_account("people@1").spent
    assert spent.amount > 0
    tighten(monkeypatch)
    assert session.ask(question, key="k").rows
    assert session.ledger.get_account("people@1").spent == spent


def test_bounds_are_back_after_a_block_that_failed() -> None:
    with suppress(ZeroDivisionError), lifted():
        assert are_lifted()
        _ = 1 / 0
    assert not are_lifted()
    with lifted(False):
        assert not are_lifted()


MANY = "SELECT MEDIAN(cents) FROM people WHERE cents != 1 AND cents != 2 AND cents != 3 ERROR 30"
"""Three conditions over so many values that the quantile is one of steps, where ``few_truths`` draws the bound."""


def few_truths(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """Let questions put so few conditions together over cells, for whoever asks."""
    monkeypatch.setattr(space, "max_truths", ContextVar("few", default=most))
    monkeypatch.setattr(planner, "max_truths", space.max_truths)
    monkeypatch.setattr(quantiles, "max_truths", space.max_truths)
    monkeypatch.setattr(quantiles, "MAX_TRUTHS", most)
    monkeypatch.setattr(quantiles, "MAX_CELLS", 10_000)
    planner._workloads._values.clear()


@pytest.mark.parametrize("question", [MANY, "SELECT ward, MEDIAN(cents) FROM people WHERE cents > 1 AND cents != 4000 "
                         "AND cents != 5000 GROUP BY ward ERROR 30"])  # fmt: skip
@pytest.mark.parametrize(
    ("most_then", "most_now"), [(20_000, 20_000), (10**9, 20_000), (20_000, 10_000), (10**9, 10**9)]
)
def test_a_quantile_of_steps_is_given_again_in_the_same_steps(
    session: Session, question: str, most_then: int, most_now: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    few_truths(monkeypatch, most_then)
    first = session.ask(question, key="k")
    folder = session.save(first)
    assert any("in steps of" in note for note in first.notes) == (most_then == 20_000)
    few_truths(monkeypatch, most_now)
    again = session.ask(question, key="k")
    assert (again.rows, again.notes, again.replayed) == (first.rows, first.notes, True)
    assert session.verify(folder).ok


@pytest.mark.parametrize(("most_then", "most_now"), [(20_000, 20_000), (10**9, 20_000)])
def test_a_charge_for_a_quantile_of_steps_has_its_answer(
    session: Session, most_then: int, most_now: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    few_truths(monkeypatch, most_then)
    with monkeypatch.context() as failing:
        failing.setattr("siloquent.explore.task.measure_all", lambda *given: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            session.ask(MANY, key="k")
    spent = session.ledger.get_account("people@1").spent
    few_truths(monkeypatch, most_now)
    assert session.ask(MANY, key="k").rows
    assert session.ledger.get_account("people@1").spent == spent


def test_strangers_are_told_the_price_of_the_answer_that_they_would_get_or_none(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = session.explain(MANY).to_json()
    lower = space.max_truths.set(20_000)
    try:
        with pytest.raises(RequestError, match="exceed the limit"):
            session.explain(MANY)
        assert session.explain("SELECT MEDIAN(cents) FROM people WHERE cents != 1 ERROR 30").notes == ()
    finally:
        space.max_truths.reset(lower)
    assert session.explain(MANY).to_json() == own
    few_truths(monkeypatch, 20_000)  # where nobody has room, all are told of the same steps
    own = session.explain(MANY).to_json()
    monkeypatch.setattr(quantiles, "MAX_TRUTHS", 20_001)
    assert session.explain(MANY).to_json() == own
