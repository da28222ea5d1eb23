"""What is wrong with a source costs nothing; a failure while rows are read stays charged, and its repeat is free."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import siloquent as sq
from siloquent.errors import AccuracyUnreachable, BudgetExceeded, DataError, LedgerError, SchemaError, SiloquentError
from siloquent.explore import task
from siloquent.explore.estimate import QueryProgress, assemble
from siloquent.explore.plan.planner import plan
from siloquent.explore.plan.steps import PlanStep, QueryPlan
from siloquent.explore.spec import parse
from siloquent.privacy import Cost
from siloquent.session import compute_budget_limit

SCHEMA = """
format = 1
attribute = [{{ name = "ward", type = "category", values = ["A", "B"], null = "drop" }}]
[table]
name = "visits"
source = "csv:visits.csv"
adjacency = "add-remove"
unit = {{ kind = "row" }}
[budget]
accountant = "pure"
epsilon = "1"
epoch = {epoch}
"""
QUESTION = "SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 50"


def workspace(folder: Path, rows: str, *, epoch: int = 1) -> Path:
    sq.create_workspace(folder)
    (folder / "schemas" / "visits.toml").write_text(SCHEMA.format(epoch=epoch))
    (folder / "visits.csv").write_text(rows)
    return folder


def test_a_missing_file_or_column_costs_nothing(tmp_path: Path) -> None:
    folder = workspace(tmp_path / "w", "wrd\nA\n")
    with sq.open(folder) as session:
        with pytest.raises(SchemaError):
            session.ask(QUESTION)
        (folder / "visits.csv").unlink()
        with pytest.raises(SiloquentError) as refused:
            session.ask(QUESTION)
        assert refused.value.spent == "nothing"
        assert session.get_remaining("visits").amount == 10**9


def test_a_replay_needs_neither_source_nor_allowance(tmp_path: Path) -> None:
    folder = workspace(tmp_path / "w", "ward\nA\nB\n")
    with sq.open(folder) as session:
        first = session.ask(QUESTION, key="k")
    (folder / "visits.csv").unlink()
    with sq.open(folder) as session:
        assert session.ask(QUESTION, key="k", max_cost="0.000000001") == first


def test_a_new_epoch_is_not_a_matter_of_editing(tmp_path: Path) -> None:
    folder = workspace(tmp_path / "w", "ward\nA\n")
    with sq.open(folder) as session:
        session.ask(QUESTION)
    declared = folder / "schemas" / "visits.toml"
    declared.write_text(SCHEMA.format(epoch=2))
    with sq.open(folder) as session:
        spent = session.ledger.get_account("visits@1").spent
        with pytest.raises(LedgerError, match="epoch"):
            session.ask(QUESTION)
        assert [one.name for one in session.ledger.list_accounts()] == ["visits@1"]
        assert session.ledger.get_account("visits@1").spent == spent


def test_a_failed_measurement_stays_charged_once_and_is_repeated_for_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = workspace(tmp_path / "w", "ward\nA\nB\n")
    with sq.open(folder) as session:
        table = session.table("visits")
        engine = table._engine
        monkeypatch.setattr(type(engine), "aggregate", lambda *_: (_ for _ in ()).throw(OSError("disk gone at row 17")))
        with pytest.raises(DataError) as failed:
            session.ask(QUESTION, key="k")
        assert "17" not in str(failed.value)
        assert failed.value.__cause__ is None
        assert "charged" in failed.value.spent
        left = session.get_remaining("visits").amount
        assert left < 10**9
        monkeypatch.undo()
        answer = session.ask(QUESTION, key="k")
        assert session.get_remaining("visits").amount == left
        assert [row[0] for row in answer.rows] == ["A", "B"]


def test_a_refusal_by_the_ledger_is_written_and_costs_nothing(tmp_path: Path) -> None:
    folder = workspace(tmp_path / "w", "ward\nA\n")
    with sq.open(folder) as session:
        fix = ""
        while not fix:
            try:
                session.ask(f"{QUESTION} REUSE NONE")
            except BudgetExceeded as refused:
                fix = refused.fix
        assert fix.startswith("SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR ")
        kinds = [entry.kind for entry in session.ledger.iter_entries()]
        assert kinds[-1] == "deny"
        assert session.get_remaining("visits").amount >= 0


def test_a_source_that_changes_under_an_open_session_is_read_anew_and_costs_no_failed_charge(tmp_path: Path) -> None:
    folder = workspace(tmp_path / "w", "ward\n" + "A\n" * 400)
    # An owner who changes rows raises the version, or answers may be drawn from earlier ones.
    question = QUESTION.replace("ERROR 50", "ERROR 90 CONFIDENCE 0.999999999 REUSE NONE")
    with sq.open(folder) as session:
        before = session.ask(question)
        (folder / "visits.csv").write_text("ward\n" + "B\n" * 500)
        after = session.ask(question)
    assert [row[2] <= true <= row[3] for row, true in zip(before.rows, (400, 0), strict=True)] == [True, True]
    assert [row[2] <= true <= row[3] for row, true in zip(after.rows, (0, 500), strict=True)] == [True, True]


def test_a_replay_promises_what_was_promised_then(tmp_path: Path) -> None:
    folder = workspace(tmp_path / "w", "ward\nA\nB\n")
    with sq.open(folder) as session:
        first = session.ask(QUESTION, key="k")
        schema = session.schema("visits")
        chosen = plan(parse(QUESTION), schema, left=Cost(10**12))
        (stored,) = session.ledger.iter_answers("visits@1")
        later = replace(chosen, alpha=chosen.alpha / 2)  # a planner of another day
        course = QueryPlan(parse(QUESTION), schema, PlanStep((later,)), compute_budget_limit(schema.budget))
        assert assemble(QueryProgress(course).add_step(course.first, stored, replayed=True)) == first


def declare_more(folder: Path) -> None:
    """The ward C is declared, too."""
    file = folder / "schemas" / "visits.toml"
    file.write_text(file.read_text().replace('["A", "B"]', '["A", "B", "C"]'))


def test_a_declaration_that_changes_before_the_charge_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = workspace(tmp_path / "w", "ward\nA\nB\n")
    rehearse = task.rehearse

    def meanwhile(*given: Any) -> Any:
        declare_more(folder)
        return rehearse(*given)

    monkeypatch.setattr(task, "rehearse", meanwhile)
    with sq.open(folder) as session:
        planned = session.schema("visits")
        with pytest.raises(SchemaError, match="has changed since") as refused:
            session.ask(QUESTION, key="k")
        assert refused.value.spent == "nothing"
        assert session.schema("visits") != planned
        assert session.get_remaining("visits").amount == 10**9


def test_a_declaration_that_changes_before_the_plan_is_the_one_that_is_answered(tmp_path: Path) -> None:
    folder = workspace(tmp_path / "w", "ward\nA\nB\n")
    with sq.open(folder) as session:
        held = session.ledger.find_charge

        def meanwhile(*given: Any, **named: Any) -> Any:
            declare_more(folder)
            return held(*given, **named)

        session.ledger.find_charge = meanwhile  # type: ignore[method-assign]
        assert [row[0] for row in session.ask(QUESTION, key="k").rows] == ["A", "B", "C"]


@pytest.mark.parametrize(
    "question",
    [
        QUESTION,
        "SELECT ward, COUNT(*) FROM visits WHERE CASE WHEN ward = 'A' THEN 'A' ELSE 'B' END < 'C' GROUP BY 1 ERROR 50",
        "SELECT ward, SUM(CASE WHEN ward = 'A' THEN 2 ELSE 3 END) FROM visits GROUP BY ward ERROR 500",
    ],
)
def test_a_declaration_that_changes_after_the_charge_is_answered_as_it_was_planned(
    tmp_path: Path, question: str
) -> None:
    folder = workspace(tmp_path / "w", "ward\nA\nB\n")
    with sq.open(folder) as session:
        reserve = session.ledger.reserve

        def meanwhile(*given: Any, **named: Any) -> Any:
            permit = reserve(*given, **named)
            text = (folder / "schemas" / "visits.toml").read_text()
            (folder / "schemas" / "visits.toml").write_text(text.replace('["A", "B"]', '["A", "B", "C"]'))
            return permit

        price = session.explain(question).price
        session.ledger.reserve = meanwhile  # type: ignore[method-assign]
        answer = session.ask(question)
        assert [row[0] for row in answer.rows] == ["A", "B"]
        assert answer.cost.amount == Fraction(price)
        assert list(session.schema("visits").domain["ward"].values) == ["A", "B", "C"]


@pytest.mark.parametrize(
    "question",
    [
        "SELECT SUM(CASE WHEN ward = 'A' THEN 2 ELSE 3 END) FROM visits ERROR 0.001",
        "SELECT SUM(n) FROM (SELECT who, COUNT(*) AS n FROM visits GROUP BY who) ERROR 0.001",
    ],
)
def test_an_error_that_is_too_dear_is_refused_as_such(tmp_path: Path, question: str) -> None:
    folder = workspace(tmp_path / "w", "who,ward\n1,A\n2,B\n")
    file = folder / "schemas" / "visits.toml"
    text = file.read_text().replace("attribute = [", 'attribute = [ { name = "who", type = "id" },')
    file.write_text(text.replace('kind = "row"', 'kind = "user", column = "who", max_rows = 9'))
    with sq.open(folder) as session, pytest.raises(AccuracyUnreachable) as refused:
        session.ask(question)
    assert refused.value.spent == "nothing"


def test_a_schema_with_a_replaced_field_is_priced_as_what_it_is(tmp_path: Path) -> None:
    folder = workspace(tmp_path / "w", "ward\nA\nB\n")
    with sq.open(folder) as session:
        adding = session.schema("visits")
        replacing = replace(adding, adjacency="replace-one")
        prices = [
            plan(parse(QUESTION), schema, left=compute_budget_limit(schema.budget)).event
            for schema in (adding, replacing)
        ]
    assert [price.l1 for price in prices] == [1, 2]  # type: ignore[attr-defined]


@pytest.mark.parametrize("accountant", ["pure", "zcdp"])
@pytest.mark.parametrize(
    "question",
    [
        "SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 1e25",
        "BIN visits ON COUNT(*) WHERE W = {ward = 'A', ward = 'A' OR ward = 'B'} ERROR 1e15",
        "SELECT ward FROM visits GROUP BY ward HAVING COUNT(*) > 5 ERROR 1e25",
        "SELECT ward FROM visits GROUP BY ward ORDER BY COUNT(*) DESC LIMIT 1 ERROR 1e25",
    ],
)
def test_an_error_bound_wider_than_any_noise_is_answered(tmp_path: Path, question: str, accountant: str) -> None:
    folder = workspace(tmp_path / "w", "ward\nA\nB\n")
    file = folder / "schemas" / "visits.toml"
    if accountant == "zcdp":
        file.write_text(file.read_text().replace('"pure"', '"zcdp"') + 'delta = "1e-6"\n')
    with sq.open(folder) as session:
        assert session.ask(question).columns[0] in ("ward", "predicate")
