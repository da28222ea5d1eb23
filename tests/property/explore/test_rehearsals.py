"""After a charge there is an answer: whatever is asked of whatever is declared, refusals come before the charge."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import siloquent as sq
from benchmarks.trials import dry_assembly
from siloquent.api import Session
from siloquent.errors import RequestError, SiloquentError
from siloquent.explore import Answer, task
from siloquent.explore.estimate import rehearsal
from siloquent.explore.plan.cache import ByteLRU
from siloquent.explore.spec import parse

ROWS = pa.table(
    {
        "ward": ["A"] * 30 + ["B"] * 4 + [None, "X"],
        "m": [0, 3, 7, 10, 2, 5] * 5 + [None, 1, 99, -5, 4, 4],
        "ill": [True, False, None] * 12,
    }
)
Ask = Callable[[random.Random], tuple[str, int, "Answer | SiloquentError"]]
NULLS = ('"drop"', '"cell"', "{ value = 0 }")
OUTSIDE = ('"clamp"', '"drop"')
BUDGETS = ('accountant = "pure"\nepsilon = "900"', 'accountant = "zcdp"\nrho = "900"\ndelta = "1e-6"')
AGGREGATES = (
    "COUNT(*)", "SUM(m)", "AVG(m)", "VAR(m)", "STDDEV(m)", "MEDIAN(m)", "QUANTILE(m, 0.9)", "COUNT(*), AVG(m)",
    "SUM(m), MEDIAN(m)", "AVG(m), VAR(m)",
)  # fmt: skip
WHERES = ("", " WHERE ward = 'A'", " WHERE m > 10", " WHERE m <= 4 AND ill", " WHERE FALSE", " WHERE m IS NULL")
GROUPS = ("", "ward", "ill", "ward, ill")
HAVINGS = ("", " HAVING COUNT(*) > 10", " HAVING SUM(m) > 30")
ENDS = ("", " CONFIDENCE 0.9", " FOR AT LEAST 2 ROWS", " REUSE NONE")


def declaration(chance: random.Random, name: str) -> str:
    """A table file whose policies are drawn."""
    adjacency = chance.choice(("add-remove", "replace-one"))
    return declared(name, chance.choice(NULLS), chance.choice(OUTSIDE), adjacency, chance.choice(BUDGETS))


def declared(
    name: str, null: str, outside: str = '"clamp"', adjacency: str = "add-remove", budget: str = BUDGETS[0]
) -> str:
    """A table file."""
    return f"""
format = 1
attribute = [
  {{ name = "ward", type = "category", values = ["A", "B"], other = "cell", null = "cell" }},
  {{ name = "m", type = "integer", lo = 0, hi = 10, outside = {outside}, null = {null} }},
  {{ name = "ill", type = "boolean", null = "cell" }},
]
[table]
name = "{name}"
adjacency = "{adjacency}"
size_hint = 40
unit = {{ kind = "row" }}
[budget]
{budget}
"""


def question(chance: random.Random, table: str) -> str:
    """A question of crossed parts; many are refused, which is as good as an answer."""
    aggregates, group = chance.choice(AGGREGATES), chance.choice(GROUPS)
    having = chance.choice(HAVINGS) if group else ""
    bounds = [chance.choice(("5", "20", "400")) for _ in range(aggregates.count("(") + bool(having))]
    asked = f"SELECT {group + ', ' if group else ''}{aggregates} FROM {table}{chance.choice(WHERES)}"
    end = chance.choice(ENDS)
    return f"{asked}{f' GROUP BY {group}{having}' if group else ''} ERROR {', '.join(bounds)}{end}"


@pytest.fixture
def ask(tmp_path: Path) -> Iterator[Ask]:
    """Ask a question of a table that was declared at random: the ledger's entries before and after, and the outcome."""
    sq.create_workspace(tmp_path / "w")
    with sq.open(tmp_path / "w") as session:
        names = itertools.count()

        def asked(chance: random.Random) -> tuple[str, int, Answer | SiloquentError]:
            name = f"visits{next(names)}"
            session.add_frame(sq.read_schema(declaration(chance, name)), ROWS)
            text = question(chance, name)
            before = charges(session)
            try:
                outcome: Answer | SiloquentError = session.ask(text)
            except SiloquentError as refused:
                outcome = refused
            return text, charges(session) - before, outcome

        yield asked


def charges(session: Session) -> int:
    """The number of reservations in the ledger."""
    return sum(entry.kind == "reserve" for entry in session.ledger.iter_entries())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_questions_of_every_sort_are_answered_or_refused_free_with_a_stable_code(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The large version: ``python -m benchmarks core --only dry-assembly``."""
    monkeypatch.setattr(dry_assembly, "TABLES", 4)
    outcomes = list(dry_assembly.asked([1_000 + seed]))
    assert not [one for one in outcomes if one.fault]
    assert len(outcomes) == 4 * dry_assembly.EACH


def test_an_error_after_the_charge_and_one_without_a_code_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> Answer:
        raise RequestError("planted", fix="none")

    def breaks(*_: object) -> Answer:
        raise ZeroDivisionError

    monkeypatch.setattr(dry_assembly, "TABLES", 4)
    monkeypatch.setattr(rehearsal, "rehearse", lambda *_: None)
    monkeypatch.setattr(task, "rehearse", lambda *_: None)
    for planted, words in ((fails, "refused after"), (breaks, "ZeroDivisionError")):
        monkeypatch.setattr(task, "assemble", planted)
        assert any(words in one.fault for one in dry_assembly.asked([1_000]))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_a_question_is_answered_or_refused_before_it_is_charged(ask: Ask, seed: int) -> None:
    chance = random.Random(seed)
    answered = 0
    for _ in range(90):
        text, charged, outcome = ask(chance)
        if isinstance(outcome, SiloquentError):
            assert isinstance(outcome, RequestError), (text, outcome)
            assert charged == 0, (text, outcome)
        else:
            answered += 1
            assert str(outcome)
            assert outcome.rows or "HAVING" in text, text
    assert answered >= 12  # a generator whose questions are all refused would show nothing


def test_what_fails_after_the_measurement_fails_before_the_charge(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(progress: object) -> None:
        raise RequestError("planted", fix="none")

    monkeypatch.setattr(rehearsal, "assemble", fails)
    monkeypatch.setattr(rehearsal, "_passed", ByteLRU[bool](9, lambda _: 1))
    chance = random.Random(1)
    for _ in range(20):
        _, charged, outcome = ask(chance)
        assert isinstance(outcome, RequestError)
        assert charged == 0


CASES = {
    "SELECT AVG(m) FROM visits0 ERROR 1 FOR AT LEAST 2 ROWS": "null = { value = 0 }",
    "SELECT ward, COUNT(*) FROM visits0 WHERE ward = 'A' GROUP BY ward HAVING SUM(m) > 30 ERROR 20, 400 REUSE NONE": "",
    "SELECT ward, ill, AVG(m) FROM visits0 GROUP BY ward, ill ERROR 2 CONFIDENCE 0.95": "",
}


@pytest.mark.parametrize("text", CASES)
def test_what_was_once_charged_without_an_answer_has_one(tmp_path: Path, text: str) -> None:
    sq.create_workspace(tmp_path / "w")
    with sq.open(tmp_path / "w") as session:
        null = CASES[text] or 'null = "drop"'
        session.add_frame(sq.read_schema(declared("visits0", null.removeprefix("null = "))), ROWS)
        answer = session.ask(text)
        assert answer.rows
        if "AVG" in text:
            assert {"low", "high"} & set(answer.columns) or "avg_m_low" in answer.columns


@pytest.mark.parametrize("aggregate", ["COUNT(*)", "SUM(m)", "AVG(m)", "VAR(m)", "MEDIAN(m)", "QUANTILE(m, 0.9)"])
@pytest.mark.parametrize("where", ["m > 10", "m < 0"])
def test_a_condition_that_no_row_can_meet_is_refused_free(tmp_path: Path, aggregate: str, where: str) -> None:
    end = " FOR AT LEAST 2 ROWS" if aggregate in ("AVG(m)", "VAR(m)") else ""
    sq.create_workspace(tmp_path / "w")
    with sq.open(tmp_path / "w") as session:
        session.add_frame(sq.read_schema(declared("visits0", '"drop"')), ROWS)
        with pytest.raises(RequestError, match=r"always returns 0|No row can meet"):
            session.ask(f"SELECT {aggregate} FROM visits0 WHERE {where} ERROR 5{end}")
        assert charges(session) == 0


@pytest.mark.parametrize("confidence", ["1e-30", "0." + "9" * 30, "1e-16"])
def test_a_confidence_that_doubles_cannot_hold_is_refused_where_it_is_read(confidence: str) -> None:
    with pytest.raises(RequestError, match="CONFIDENCE"):
        parse(f"SELECT MEDIAN(m) FROM visits ERROR 10 CONFIDENCE {confidence}")
