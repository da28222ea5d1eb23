"""Earlier answers pay for later ones: free, topped up, by whom, and never across versions or epochs."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import siloquent as sq
from journeys.documents import faults
from siloquent.api import Session
from siloquent.cli.app import run
from siloquent.cli.workspace.document_kinds import json_schema
from siloquent.explore import list_history

SCHEMA = """
format = 1
attribute = [
  {{ name = "age", type = "integer", lo = 0, hi = 99, outside = "clamp", null = "drop", bins = {{ width = 10 }} }},
  {{ name = "ward", type = "category", values = ["A", "B", "C"], other = "cell", null = "cell" }},
]
[table]
name = "visits"
source = "parquet:visits.parquet"
adjacency = "add-remove"
version = {version}
unit = {{ kind = "row" }}
[budget]
accountant = "zcdp"
epsilon = "{epsilon}"
delta = "1e-6"
epoch = {epoch}
analysts = {{ ana = "0.5", bo = "0.5" }}
{more}
"""
BY_AGE = "SELECT age, COUNT(*) FROM visits GROUP BY age ERROR 100"
YOUNG = "SELECT COUNT(*) FROM visits WHERE age < 40 ERROR 250"
WIDE = YOUNG.replace("250", "300")
OLD = "SELECT COUNT(*) FROM visits WHERE age >= 30 ERROR 90"
Clinic = Callable[..., Session]


@pytest.fixture
def clinic(tmp_path: Path) -> Clinic:
    """A session of the clinic as it is declared now."""
    folder = tmp_path / "clinic"
    sq.create_workspace(folder)
    random = np.random.default_rng(3)
    rows = pa.table({"age": random.integers(0, 100, 4_000), "ward": random.choice(["A", "B", "C"], 4_000)})
    pq.write_table(rows, folder / "visits.parquet")

    def opened(
        analyst: str | None = "ana",
        *,
        version: int = 1,
        epoch: int = 1,
        more: str = "",
        epsilon: str = "4",
        reuse: str = "any",
    ) -> Session:
        allowed = f'reuse = "{reuse}"' if reuse else ""
        text = SCHEMA.format(version=version, epoch=epoch, more=f"{more}\n{allowed}", epsilon=epsilon)
        (folder / "schemas" / "visits.toml").write_text(text)
        return sq.open(folder, analyst=analyst)

    return opened


def test_what_follows_from_earlier_answers_is_free_and_says_what_it_draws_from(clinic: Clinic) -> None:
    session = clinic()
    first = session.ask(BY_AGE)
    assert (first.accuracy.label, first.accuracy.sources) == ("fresh", ())
    explained = session.explain(YOUNG).to_json()
    assert (explained["free"], explained["label"], explained["sources"]) == (True, "independent", [first.receipt.seq])
    left = session.get_remaining("visits")
    answer = session.ask(YOUNG)
    assert session.get_remaining("visits") == left
    assert answer.cost.amount == 0
    assert (answer.accuracy.label, answer.accuracy.sources) == ("independent", (first.receipt.seq,))
    together = sum(value for _, value, _, _ in first.rows[:4])
    assert answer.rows[0][0] == pytest.approx(together, abs=0.01)
    kinds = [entry.kind for entry in session.ledger.iter_entries(after=first.receipt.seq)]
    assert kinds == ["reserve", "settle"]
    assert session.ledger.verify().ok


def test_a_question_that_earlier_answers_half_answer_costs_less_than_it_would(clinic: Clinic) -> None:
    session = clinic()
    alone = session.ask(f"{OLD} REUSE NONE")
    session.ask(BY_AGE)
    explained = session.explain(OLD.replace("90", "60"))
    fresh = session.explain(f"{OLD.replace('90', '60')} REUSE NONE")
    assert 0 < explained.price < fresh.price
    answer = session.ask(OLD.replace("90", "60"))
    assert 0 <= answer.cost.amount - explained.price < Fraction(1, 10**12)
    assert alone.receipt.seq in answer.accuracy.sources
    again = session.ask(OLD.replace("90", "61"))
    assert again.cost.amount == 0
    assert answer.receipt.seq in again.accuracy.sources


def test_a_replay_of_what_was_drawn_is_the_same_to_the_byte_whatever_came_later(clinic: Clinic) -> None:
    session = clinic()
    session.ask(BY_AGE)
    drawn = session.ask(OLD, key="old")
    free = session.ask(YOUNG, key="young")
    session.ask(BY_AGE.replace("100", "50"))
    later = clinic()
    for key, question, before in (("old", OLD, drawn), ("young", YOUNG, free)):
        after = later.ask(question, key=key)
        assert after == before
        assert after.replayed
        assert {**after.to_json(), "replayed": False} == before.to_json()


def test_the_same_question_again_is_the_same_answer_for_nothing(clinic: Clinic) -> None:
    session = clinic()
    for question in (
        BY_AGE,
        "SELECT age FROM visits GROUP BY age HAVING COUNT(*) > 300 ERROR 90",
        "SELECT MEDIAN(age) FROM visits ERROR 300",
        "SELECT ward, AVG(age) FROM visits GROUP BY ward ERROR 9 FOR AT LEAST 900 ROWS",
    ):
        first, second = session.ask(question), session.ask(question)
        assert second.cost.amount == 0
        assert second.rows == first.rows
        assert second.accuracy.sources == (first.receipt.seq,)
        assert session.ask(f"{question} REUSE NONE").cost.amount > 0


def test_everybodys_answers_serve_all_unless_analysts_keep_to_their_own(clinic: Clinic) -> None:
    first = clinic("ana").ask(BY_AGE)
    bo = clinic("bo")
    assert bo.ask(YOUNG).cost.amount == 0
    assert next(one.request for one in list_history(bo, "visits")).startswith("SELECT age")
    own = clinic("bo", more='sharing = "own"')
    assert own.explain(YOUNG.replace("250", "240")).price > 0
    assert [one.account for one in list_history(own, "visits")] == ["visits@1/bo"]
    ana = clinic("ana", more='sharing = "own"')
    mine = ana.ask(YOUNG.replace("250", "240"))
    assert (mine.cost.amount, mine.accuracy.sources) == (0, (first.receipt.seq,))
    owner = clinic(None, more='sharing = "own"')
    assert {one.account for one in list_history(owner, "visits")} == {"visits@1/ana", "visits@1/bo"}


def test_nothing_is_drawn_across_versions_and_the_price_says_why(clinic: Clinic) -> None:
    clinic().ask(BY_AGE)
    later = clinic(version=2)
    explained = later.explain(YOUNG)
    assert explained.price > 0
    assert explained.to_json()["notes"] == [
        "the rows are declared as version 2: answers about other versions are not drawn from"
    ]
    assert later.ask(YOUNG).accuracy.label == "fresh"
    assert later.explain(YOUNG).to_json()["notes"] == []
    assert clinic(version=1).explain(YOUNG.replace("250", "240")).price == 0


def test_nothing_is_drawn_across_epochs(clinic: Clinic) -> None:
    session = clinic()
    session.ask(BY_AGE)
    session.ledger.open_epoch("visits@1", "visits@2", statement="these are new people")
    later = clinic(epoch=2)
    answer = later.ask(YOUNG)
    assert answer.cost.amount > 0
    assert answer.accuracy.label == "fresh"
    assert len(list_history(later, "visits")) == 1


def test_a_simultaneous_answer_holds_whatever_is_asked_and_says_so(clinic: Clinic) -> None:
    session = clinic()
    first = session.ask(BY_AGE.replace("100", "40"))
    answer = session.ask(f"{YOUNG} REUSE SIMULTANEOUS")
    assert (answer.cost.amount, answer.accuracy.label) == (0, "simultaneous")
    assert answer.accuracy.sources == (first.receipt.seq,)
    close = session.ask(f"{OLD.replace('90', '70')} REUSE SIMULTANEOUS")
    assert close.accuracy.label == "fresh"


def test_a_table_that_says_nothing_gives_fresh_or_simultaneous_answers(clinic: Clinic) -> None:
    session = clinic(reuse="")
    first = session.ask(BY_AGE)
    wide, close = session.ask(WIDE), session.ask(f"{WIDE} CONFIDENCE 0.99999999")
    assert (wide.cost.amount, wide.accuracy.label) == (0, "simultaneous")
    assert wide.accuracy.sources == (first.receipt.seq,)
    assert close.accuracy.label == "fresh"
    assert close.cost.amount > 0
    again = session.ask(BY_AGE)
    assert (again.cost.amount, again.accuracy.label, again.accuracy.sources) == (0, "repeated", (first.receipt.seq,))
    assert again.rows == first.rows
    assert session.ask(WIDE).accuracy.label == "simultaneous"
    assert session.ask(f"{BY_AGE} REUSE NONE").rows != first.rows
    allowed = session.ask(f"{OLD.replace('90', '150')} REUSE ANY")
    assert allowed.accuracy.label == "independent"
    fresh = session.ask(OLD.replace("90", "150"))
    assert fresh.accuracy.label != "independent"
    for answer in (wide, again, allowed):
        verdict = session.verify(session.save(answer))
        assert (verdict.problems, verdict.compared) == ((), True)


def test_independent_answers_are_not_given_again_where_they_are_not_allowed(clinic: Clinic) -> None:
    session = clinic(reuse="")
    session.ask(BY_AGE)
    question = OLD.replace("90", "150")
    assert session.ask(f"{question} REUSE ANY").accuracy.label == "independent"
    assert session.ask(question).accuracy.label in ("fresh", "simultaneous")


ASKED = (
    "SELECT age, COUNT(*) FROM visits GROUP BY age",
    "SELECT ward, COUNT(*) FROM visits GROUP BY ward",
    "SELECT COUNT(*) FROM visits WHERE age < 40",
    "SELECT ward, COUNT(*) FROM visits WHERE age >= 30 GROUP BY ward",
    "SELECT age FROM visits GROUP BY age HAVING COUNT(*) > 300",
    "SELECT ward FROM visits GROUP BY ward ORDER BY COUNT(*) DESC LIMIT 1",
    "SELECT MEDIAN(age) FROM visits",
)
CLAUSES = ("", "", " REUSE SIMULTANEOUS", " REUSE NONE", " REUSE ANY")


@pytest.mark.parametrize("reuse", ["", "none", "any"])
def test_independent_answers_are_given_where_owner_or_question_allows_them_alone(clinic: Clinic, reuse: str) -> None:
    session, chance, seen = clinic(reuse=reuse, epsilon="40"), Random(reuse), set()
    for _ in range(24):
        text, error, clause = chance.choice(ASKED), chance.choice((90, 200, 600)), chance.choice(CLAUSES)
        answer = session.ask(f"{text} ERROR {error}{clause}")
        label = answer.accuracy.label
        seen.add(label)
        assert label != "independent" or clause == " REUSE ANY" or (reuse == "any" and not clause)
        assert label == "fresh" or not (clause == " REUSE NONE" or (reuse == "none" and not clause))
        assert label != "repeated" or (not reuse and not clause)
    assert {"fresh", "independent", "simultaneous"} <= seen


def test_a_key_of_the_earlier_default_is_still_found(clinic: Clinic) -> None:
    """Ledgers of earlier versions hold every question without REUSE as one that says REUSE ANY."""
    session = clinic(reuse="")
    session.ask(BY_AGE)
    before = session.ask(f"{OLD} REUSE ANY", key="old")
    after = session.ask(OLD, key="old")
    assert (after.rows, after.receipt, after.replayed) == (before.rows, before.receipt, True)
    assert after.accuracy.label == "independent"


@pytest.mark.parametrize("question", [YOUNG, OLD.replace("90", "60")], ids=["free", "topped up"])
def test_what_an_earlier_version_charged_for_is_still_answered(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch, question: str
) -> None:
    session = clinic(reuse="")
    session.ask(BY_AGE)
    with monkeypatch.context() as earlier:
        earlier.setattr("siloquent.explore.plan.reuse.plans.resolve_wish", lambda query, schema: "any")
        earlier.setattr("siloquent.explore.task.encode_payload", _dies)
        with pytest.raises(ZeroDivisionError):
            session.ask(question, key="k")
    session.ask(BY_AGE.replace("100", "120"))
    left = session.get_remaining("visits")
    answer = session.ask(question, key="k")
    assert answer.accuracy.label == "independent"
    assert session.get_remaining("visits") == left
    assert session.ask(question, key="k").rows == answer.rows


def test_what_was_charged_for_is_answered_alike_whatever_came_meanwhile(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = clinic(reuse="")
    first = session.ask(BY_AGE)
    with monkeypatch.context() as dying:
        dying.setattr("siloquent.explore.task.encode_payload", _dies)
        with pytest.raises(ZeroDivisionError):
            session.ask(WIDE, key="k")
    for error in (70, 60, 50):
        session.ask(BY_AGE.replace("100", str(error)))
    answer = session.ask(WIDE, key="k")
    assert (answer.cost.amount, answer.accuracy.label) == (0, "simultaneous")
    assert answer.accuracy.sources == (first.receipt.seq,)


def _dies(*_: object, **__: object) -> bytes:
    raise ZeroDivisionError


def test_history_shows_each_question_with_its_price(clinic: Clinic) -> None:
    session = clinic()
    paid, free = session.ask(BY_AGE), session.ask(YOUNG)
    one, two = list_history(session, "visits")
    assert (one.seq, one.paid, one.label) == (paid.receipt.seq, paid.cost.amount, "fresh")
    assert (two.seq, two.paid, two.sources) == (free.receipt.seq, 0, (paid.receipt.seq,))
    assert sq.explore.parse(two.request) == sq.explore.parse(YOUNG)


def test_the_command_line_shows_what_was_asked_and_what_it_cost(
    clinic: Clinic, capsys: pytest.CaptureFixture[str]
) -> None:
    with clinic() as session:
        paid, free = session.ask(BY_AGE), session.ask(YOUNG)
        words = ["--workspace", str(session.workspace.folder), "--analyst", "ana", "history", "visits"]
    assert run([*words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert list(faults(document, json_schema("history"))) == []
    assert [one["seq"] for one in document["questions"]] == [paid.receipt.seq, free.receipt.seq]
    assert run([*words, "--last", "1"]) == 0
    shown = capsys.readouterr().out
    assert "free" in shown
    assert "independent" in shown
    assert "GROUP BY" not in shown


def test_a_budget_buys_a_smaller_error_with_what_is_known(clinic: Clinic) -> None:
    spending = "SELECT COUNT(*) FROM visits WHERE age < 40 BUDGET 0.0005 RHO REUSE {}"
    session = clinic()
    alone = session.explain(spending.format("NONE")).plan.alpha
    before = session.ask("SELECT age, COUNT(*) FROM visits GROUP BY age ERROR 60", key="first")
    explained = session.explain(spending.format("ANY"))
    answer = session.ask(spending.format("ANY"), key="second")
    assert explained.plan.alpha == answer.accuracy.alpha < alone
    assert Fraction(0) < answer.cost.amount <= Fraction(5, 10_000)
    assert answer.accuracy.label == "independent"
    assert answer.accuracy.sources == (before.receipt.seq,)
    assert f"more than {int(answer.accuracy.alpha)} rows off" in answer.promise
    again = session.ask(spending.format("ANY"), key="second")
    assert (again.rows, again.promise, again.replayed) == (answer.rows, answer.promise, True)
    assert session.verify(session.save(answer)).ok


def test_a_refusal_for_want_of_budget_offers_what_earlier_answers_make_affordable(clinic: Clinic) -> None:
    session = clinic("bo", epsilon="0.2")
    left = session.explain("SELECT COUNT(*) FROM visits ERROR 3000").left_before
    session.ask(f"SELECT age, COUNT(*) FROM visits GROUP BY age BUDGET {float(left) * 0.8:.7f} RHO")
    young = "SELECT COUNT(*) FROM visits WHERE age < 40 ERROR {} REUSE {}"
    errors = []
    for reuse in ("NONE", "ANY"):
        with pytest.raises(sq.errors.BudgetExceeded, match=r"ERROR \d+") as refused:
            session.ask(young.format(90, reuse))
        errors.append(int(refused.value.fix.partition(" ERROR ")[2].split()[0]))
    fresh, drawn = errors
    assert drawn < fresh
    assert session.explain(young.format(drawn, "ANY")).left_after is not None
    assert session.explain(young.format(drawn, "NONE")).left_after is None
