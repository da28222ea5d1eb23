"""A person with a frame and a schema: ask in every form, see the price, ask again for free, be refused in words.

Answers are asked with a confidence of 1 - 10^-9, so that an interval that misses the truth is a fault, not bad luck.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import siloquent as sq
from siloquent.api import Session
from siloquent.errors import (
    AccuracyUnreachable,
    BudgetExceeded,
    KeyReused,
    LedgerError,
    NotAllowed,
    RequestError,
    SchemaError,
    SiloquentError,
    UnknownName,
)
from siloquent.explore import Answer
from siloquent.releases import verify_release

SURE = "CONFIDENCE 0.999999999"
SCHEMA = """
format = 1
attribute = [
  {{ name = "patient", type = "id" }},
  {{ name = "age", type = "integer", lo = 0, hi = 99, outside = "clamp", null = "drop", bins = {{ width = 20 }} }},
  {{ name = "ward", type = "category", values = ["A", "B", "C"], null = "drop" }},
  {{ name = "cost", type = "real", lo = -100, hi = 1000, grid = 0.5, outside = "clamp", null = "drop" }},
]
[table]
name = "visits"
adjacency = "{adjacency}"
size_hint = 3000
unit = {unit}
[budget]
accountant = "{accountant}"
{budget}
{shares}
"""
ROW, USER = '{ kind = "row" }', '{ kind = "user", column = "patient", max_rows = 3 }'
PLENTY = {"pure": 'epsilon = "1000"', "zcdp": 'rho = "1000"\ndelta = "1e-6"'}


def frame(rows: int = 3000) -> pa.Table:
    random = np.random.default_rng(7)
    return pa.table(
        {
            "patient": np.arange(rows) // 2,
            "age": random.integers(0, 100, rows),
            "ward": random.choice(["A", "B", "C"], rows, p=[0.6, 0.3, 0.1]),
            "cost": random.integers(-200, 2000, rows) / 2,
        }
    )


def declared(accountant: str = "pure", *, unit: str = ROW, adjacency: str = "add-remove", **more: str) -> str:
    settings = {"budget": PLENTY[accountant], "shares": "", **more}
    return SCHEMA.format(accountant=accountant, unit=unit, adjacency=adjacency, **settings)


def opened(folder: Path, text: str, *, analyst: str | None = None) -> Session:
    if not (folder / "siloquent.toml").exists():
        sq.create_workspace(folder)
    session = sq.open(folder, analyst=analyst)
    session.add_frame(sq.read_schema(text), frame())
    return session


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with opened(tmp_path / "clinic", declared()) as made:
        yield made


def truth(answer: Answer, exact: list[float]) -> None:
    """Every interval holds its true value, and no value is finer or coarser than promised."""
    assert len(answer.rows) == len(exact)
    for row, value in zip(answer.rows, exact, strict=True):
        noisy, low, high = row[-3:]
        assert low <= value <= high, (row, value)
        assert low <= noisy <= high


@pytest.mark.parametrize("spent", ["20", "28", "60", "350", "700", "750", "990"])
def test_an_answer_with_hardly_any_noise_leaves_later_questions_as_they_are(session: Session, spent: str) -> None:
    """Its deviation, or the square of it, is 0 in double precision."""
    for question in ("SELECT COUNT(*) FROM visits", "SELECT ward, COUNT(*) FROM visits GROUP BY ward"):
        session.ask(f"{question} BUDGET {spent if 'ward' not in question else 5} EPSILON")
    for reuse in ("ANY", "SIMULTANEOUS", "NONE"):
        later = session.ask(f"SELECT ward, COUNT(*), AVG(cost) FROM visits GROUP BY ward ERROR 90, 900 REUSE {reuse}")
        truth_of = frame().to_pandas().groupby("ward").size()
        for row in later.rows:
            assert row[2] <= truth_of[row[0]] <= row[3]


SETTINGS = [
    ("pure", ROW, "add-remove"),
    ("pure", ROW, "replace-one"),
    ("pure", USER, "add-remove"),
    ("zcdp", ROW, "add-remove"),
    ("zcdp", USER, "add-remove"),
]


@pytest.mark.parametrize(("accountant", "unit", "adjacency"), SETTINGS)
def test_every_kind_of_question_is_answered_within_its_bound(
    tmp_path: Path, accountant: str, unit: str, adjacency: str
) -> None:
    rows = frame().to_pandas()
    with opened(tmp_path / "w", declared(accountant, unit=unit, adjacency=adjacency)) as session:
        by_ward = [float((rows.ward == ward).sum()) for ward in "ABC"]
        truth(session.ask(f"SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 90 {SURE}"), by_ward)
        old = rows[rows.age > 50]
        sums = [float(old[old.ward == ward].cost.sum()) for ward in "ABC"]
        truth(session.ask(f"SELECT ward, SUM(cost) FROM visits WHERE age > 50 GROUP BY ward ERROR 90000 {SURE}"), sums)
        prefix = session.ask(f"BIN visits ON COUNT(*) WHERE W = PREFIX(age, 0, 100, 4) ERROR 300 {SURE}")
        truth(prefix, [float((rows.age < 4 * i + 4).sum()) for i in range(25)])
        separate = session.ask(f"BIN visits ON COUNT(*) WHERE W = {{age > 50, ward = 'A', cost < 0}} ERROR 200 {SURE}")
        truth(separate, [float((rows.age > 50).sum()), by_ward[0], float((rows.cost < 0).sum())])
        truth(session.ask(f"SELECT COUNT(*) FROM visits ERROR 100 {SURE}"), [float(len(rows))])
        iceberg = session.ask(f"SELECT ward FROM visits GROUP BY ward HAVING COUNT(*) > 1200 ERROR 250 {SURE}")
        assert iceberg.rows == (("A",),)
        nested = session.ask(
            f"BIN visits ON COUNT(*) WHERE W = PREFIX(age, 0, 100, 4) HAVING COUNT(*) > 1500 ERROR 250 {SURE}"
        )
        reported = {row[0] for row in nested.rows}
        for i in range(25):
            count, label = int((rows.age < 4 * i + 4).sum()), f"[0, {4 * i + 4})"
            assert label in reported if count > 1750 else label not in reported if count < 1250 else True
        top = session.ask(f"SELECT ward FROM visits GROUP BY ward ORDER BY COUNT(*) DESC LIMIT 2 ERROR 250 {SURE}")
        assert top.rows == (("A",), ("B",))
        assert session.ledger.verify().ok


def test_the_same_key_gives_the_same_answer_for_nothing(session: Session) -> None:
    question = "SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 50"
    first = session.ask(question, key="monday")
    left = session.get_remaining("visits")
    again = session.ask(sq.count("visits").by("ward").within(rows=50), key="monday")
    assert again == first
    assert (again.replayed, first.replayed) == (True, False)
    assert json.dumps(again.to_json() | {"replayed": False}) == json.dumps(first.to_json())
    assert session.get_remaining("visits") == left
    with pytest.raises(KeyReused):
        session.ask("SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 51", key="monday")
    assert session.get_remaining("visits") == left


def test_a_replay_works_when_the_budget_is_gone_and_in_another_process_of_the_ledger(tmp_path: Path) -> None:
    text = declared(budget='epsilon = "0.15"')
    question = "SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 90 REUSE NONE"
    with opened(tmp_path / "w", text) as session:
        first = session.ask(question, key="k")
        with pytest.raises(BudgetExceeded) as refused:
            session.ask(question)
        assert "ERROR" in refused.value.fix
        session.ask(refused.value.fix)
    with opened(tmp_path / "w", text) as later:
        assert later.ask(question, key="k") == first


def test_the_price_is_seen_first_and_is_what_is_paid(session: Session) -> None:
    question = "SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 50"
    before = session.get_remaining("visits")
    explained = session.explain(question)
    assert session.get_remaining("visits") == before
    assert explained.to_json()["data_touched"] is False
    answer = session.ask(question)
    assert answer.cost.amount == Fraction(before.amount - session.get_remaining("visits").amount, 10**9)
    assert 0 <= answer.cost.amount - explained.price < Fraction(1, 10**9)
    assert answer.mechanism == explained.chosen
    with pytest.raises(RequestError, match="more than"):
        session.ask(f"{question} REUSE NONE", max_cost="0.0001")


def test_an_answer_becomes_a_release_that_the_ledger_confirms(session: Session) -> None:
    answer = session.ask("SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 50")
    folder = session.save(answer)
    assert folder.name == answer.id
    assert session.verify(folder).compared
    assert verify_release(folder, session.ledger).ok
    assert "only file hashes" in verify_release(folder, session.ledger).checked
    assert answer.table.column_names == ["ward", "count", "low", "high"]
    assert pa.table(answer).equals(answer.table)
    assert "<table>" in answer._repr_html_()


def test_a_budget_is_spent_and_the_answer_says_how_exact_it_is(session: Session) -> None:
    answer = session.ask(f"SELECT COUNT(*) FROM visits BUDGET 0.5 EPSILON {SURE}")
    assert answer.cost.amount <= Fraction(1, 2)
    truth(answer, [3000.0])


def test_analysts_spend_their_share_and_the_table_its_whole(tmp_path: Path) -> None:
    text = declared(budget='epsilon = "0.2"', shares='analysts = { ana = "0.5", bo = "0.75" }')
    question = "SELECT COUNT(*) FROM visits BUDGET 0.09 EPSILON REUSE NONE"
    with opened(tmp_path / "w", text, analyst="ana") as ana:
        ana.ask(question)
        with pytest.raises(BudgetExceeded):
            ana.ask(question)
    with opened(tmp_path / "w", text, analyst="bo") as bo:
        bo.ask(question)
        with pytest.raises(BudgetExceeded):
            bo.ask(question)  # bo has 0.06 left, the table 0.02
    with opened(tmp_path / "w", text, analyst="eve") as eve, pytest.raises(NotAllowed):
        eve.ask(question)
    with opened(tmp_path / "w", text, analyst="ana") as ana, pytest.raises(NotAllowed):
        ana.check("visits")


def test_the_file_and_the_ledger_must_agree_on_the_budget(tmp_path: Path) -> None:
    with opened(tmp_path / "w", declared(budget='epsilon = "1"')) as session:
        session.ask("SELECT COUNT(*) FROM visits ERROR 50")
    with opened(tmp_path / "w", declared(budget='epsilon = "2"')) as session:
        with pytest.raises(LedgerError, match="budget"):
            session.ask("SELECT COUNT(*) FROM visits ERROR 50")
        session.set_budget("visits")
        session.ask("SELECT COUNT(*) FROM visits ERROR 50")
    with opened(tmp_path / "w", declared(budget='epsilon = "2"', unit=USER)) as session, pytest.raises(LedgerError):
        session.ask("SELECT COUNT(*) FROM visits ERROR 50")


REFUSED: list[tuple[str, type[SiloquentError]]] = [
    ("SELECT wrd, COUNT(*) FROM visits GROUP BY wrd ERROR 50", UnknownName),
    ("SELECT ward, COUNT(*) FROM vists GROUP BY ward ERROR 50", UnknownName),
    ("SELECT COUNT(*) FROM visits WHERE ward = 'Z' ERROR 50", UnknownName),
    ("SELECT COUNT(*) FROM visits WHERE patient = 3 ERROR 50", RequestError),
    ("SELECT cost, COUNT(*) FROM visits GROUP BY cost ERROR 50", RequestError),
    ("SELECT MAX(age) FROM visits ERROR 5", RequestError),
    ("SELECT COUNT(*) FROM visits ERROR 0", RequestError),
    ("SELECT COUNT(*) FROM visits ERROR -3", RequestError),
    ("SELECT COUNT(*) FROM visits ERROR nan", RequestError),
    ("SELECT COUNT(*) FROM visits ERROR 50 CONFIDENCE 1", RequestError),
    ("SELECT COUNT(*) FROM visits", RequestError),
    ("SELECT COUNT(*) FROM visits ERROR 0.0001", AccuracyUnreachable),
    ("SELECT COUNT(*) FROM visits BUDGET 1 RHO", RequestError),
    ("DROP TABLE visits", RequestError),
]


@pytest.mark.parametrize(("question", "kind"), REFUSED)
def test_a_refusal_has_a_code_and_costs_nothing(tmp_path: Path, question: str, kind: type[SiloquentError]) -> None:
    with opened(tmp_path / "w", declared(budget='epsilon = "1"')) as session:
        with pytest.raises(kind) as refused:
            session.ask(question)
        assert refused.value.code
        assert refused.value.spent == "nothing"
        assert session.get_remaining("visits").amount == 10**9
        assert all(entry.kind in ("open-account", "deny") for entry in session.ledger.iter_entries())


def test_keys_out_of_range_and_names_of_analysts_are_refused(session: Session) -> None:
    for key in ("", "x" * 65, "tab\t", "é"):
        with pytest.raises(RequestError):
            session.ask("SELECT COUNT(*) FROM visits ERROR 50", key=key)
    with pytest.raises(RequestError):
        sq.open(session.workspace.folder, analyst="../ana")
    with pytest.raises(SchemaError):
        sq.open(session.workspace.folder / "releases")


def test_a_closed_session_answers_nothing_and_charges_nothing(session: Session) -> None:
    folder = session.workspace.folder
    question = "SELECT COUNT(*) FROM visits ERROR 50"
    session.ask(question)
    session.close()
    for verb in (session.ask, session.explain):
        with pytest.raises(RequestError, match="closed"):
            verb(f"{question} REUSE NONE")
    with sq.open(folder) as again:
        assert sum(entry.kind == "reserve" for entry in again.ledger.iter_entries()) == 1
