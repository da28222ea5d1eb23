"""Bounds on what is planned do not stand between an old answer and the one who holds its key."""

from __future__ import annotations

from contextlib import suppress
from contextvars import ContextVar
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import siloquent as sq
from siloquent.door import Session
from siloquent.errors import RequestError
from siloquent.explore.plan import classes, keys, planner, predicates, space
from siloquent.explore.plan.limits import are_lifted, lifted

TABLE = """
format = 1
attribute = [
  { name = "ward", type = "category", values = ["A", "B"], null = "drop" },
  { name = "age", type = "integer", lo = 0, hi = 29, outside = "clamp", null = "drop" },
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
    rows = {"ward": ["A", "B"] * 300, "age": np.arange(600) % 30}
    found.add_frame(sq.read_schema(TABLE), pa.table(rows))
    return found


def tighten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw every bound so tight that nothing passes, as in a version that has not planned anything yet."""
    for module, name in (
        (classes, "MAX_VALUES"), (classes, "MAX_RUNS"), (classes, "MAX_REFINED"), (keys, "MAX_VALUES"),
        (keys, "MOST_PREDICATES"), (predicates, "MOST_ENTRIES"), (predicates, "MOST_WEIGHTS"),
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
        failing.setattr("siloquent.explore.task.measure", lambda *given: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            session.ask(question, key="k")
    spent = session.ledger.account("people@1").spent
    assert spent.amount > 0
    tighten(monkeypatch)
    assert session.ask(question, key="k").rows
    assert session.ledger.account("people@1").spent == spent


def test_bounds_are_back_after_a_block_that_failed() -> None:
    with suppress(ZeroDivisionError), lifted():
        assert are_lifted()
        _ = 1 / 0
    assert not are_lifted()
    with lifted(False):
        assert not are_lifted()
