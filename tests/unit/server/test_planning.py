"""A planner prices what was charged before under its key, whatever it refuses to plan anew."""

from __future__ import annotations

from pathlib import Path

import pytest

import siloquent as sq
from journeys.served import clinic_workspace
from siloquent.errors import KeyReused, RequestError
from siloquent.explore import answer_planned
from siloquent.explore.plan import planner
from siloquent.explore.plan.cells import space
from siloquent.explore.plan.steps import plan_query
from siloquent.server.access.tokens import Principal
from siloquent.server.planning.process import Order, _price_order
from siloquent.server.repeats import build_ledger_key
from siloquent.server.session_pool import Sessions
from unit.counting import counting

ANALYST = Principal("t", "ana", "analyst", (), 0)
QUESTION = "SELECT ward, COUNT(*) FROM visits WHERE age > 30 GROUP BY ward ERROR 300"


@pytest.mark.parametrize("is_measured", [True, False])
def test_what_was_charged_under_a_key_is_never_too_large_to_plan(
    tmp_path: Path, is_measured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, key = clinic_workspace(tmp_path / "clinic"), build_ledger_key(ANALYST.name, "monday")
    with sq.open(folder, analyst=ANALYST.name) as session, monkeypatch.context() as failing:
        if not is_measured:
            failing.setattr("siloquent.explore.task.measure_all", lambda *given: 1 / 0)
        try:
            session.ask(QUESTION, key=key)
        except ZeroDivisionError:
            assert not is_measured
    planner._workloads._values.clear()
    sessions, lower = Sessions(folder), space.max_truths.set(0)  # as a version with a tighter bound
    try:
        assert isinstance(_price_order(sessions, Order(ANALYST, QUESTION), folder), RequestError)
        other = _price_order(sessions, Order(ANALYST, QUESTION, build_ledger_key(ANALYST.name, "tuesday")), folder)
        assert isinstance(other, RequestError)
        found = _price_order(sessions, Order(ANALYST, QUESTION, key), folder)
        assert isinstance(found, dict)
        assert found["cells"]
        reused = _price_order(sessions, Order(ANALYST, QUESTION.replace("300", "301"), key), folder)
        assert isinstance(reused, KeyReused)
    finally:
        space.max_truths.reset(lower)
        sessions.close()


def test_a_question_is_planned_once_for_its_price_and_its_answer(tmp_path: Path) -> None:
    folder, key = clinic_workspace(tmp_path / "clinic"), build_ledger_key(ANALYST.name, "monday")
    sessions = Sessions(folder)
    try:
        with counting(plan=plan_query) as calls:
            reply = _price_order(sessions, Order(ANALYST, QUESTION, key, sends_plan=True), folder)
            assert isinstance(reply, tuple)
            document, plan = reply
            answer = answer_planned(sessions.of(ANALYST.analyst), plan, key=key)
        assert calls == {"plan": 1}
        assert document["alpha"] == "300"
        assert answer.rows
    finally:
        sessions.close()
