"""The suites of questions: all have an exact answer, a part of them is asked, and the judge sees planted faults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import duckdb
import pytest

import siloquent as sq
from benchmarks.explore import suites
from benchmarks.row import Row
from benchmarks.suites import judge
from benchmarks.suites.compare import find_fault
from benchmarks.suites.exact import Exact
from benchmarks.suites.questions import KINDS, Question, list_questions, read_questions
from benchmarks.suites.tables import build_workspace, connect
from siloquent.explore import Answer

QUESTIONS = list_questions()
EVERY = 23
BY_WARD = "SELECT ward, COUNT(*) AS n, AVG(cost) AS mean FROM visits GROUP BY ward ORDER BY n DESC"


@dataclass(frozen=True)
class Asked:
    """A session over the suites' tables, and DuckDB over the same rows."""

    session: sq.Session
    engine: duckdb.DuckDBPyConnection

    def judge(self, text: str, *, refused: str = "") -> judge.Verdict:
        return judge.judge(self.session, self.engine, Question("planted", text, ("plain",), refused))

    def ask(self, text: str) -> tuple[Answer, Exact]:
        return self.session.ask(text), Exact(self.engine, Question("planted", text, ("plain",)))


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    folder = tmp_path_factory.mktemp("suites") / "w"
    build_workspace(folder)
    with connect(folder) as engine, sq.open(folder, defaults=judge.ACCURACY) as session:
        yield Asked(session, engine)


def test_the_suites_have_every_kind_and_more_than_400_questions() -> None:
    kinds = Counter(kind for question in QUESTIONS for kind in question.kinds)
    assert set(kinds) == KINDS
    assert len({question.text for question in QUESTIONS}) == len(QUESTIONS) > 400
    assert sum(bool(question.refused) for question in QUESTIONS) < 0.15 * len(QUESTIONS)


@pytest.mark.slow
def test_duckdb_answers_every_question_with_rows_that_say_something(asked: Asked) -> None:
    for question in QUESTIONS:
        rows = Exact(asked.engine, question).typed
        says_nothing = len(rows) == 1 and all(value in (0, None) for value in rows[0])
        assert rows, question.text
        assert not says_nothing or question.refused, question.text


@pytest.mark.slow
def test_a_part_of_the_questions_is_asked_and_none_is_answered_wrongly(asked: Asked) -> None:
    verdicts = [judge.judge(asked.session, asked.engine, question) for question in QUESTIONS[::EVERY]]
    assert [one for one in verdicts if one.outcome in ("wrong", "crashed")] == []
    assert len(verdicts) > 19
    assert sum(one.outcome == "answered" for one in verdicts) > 5


def test_the_figures_add_up() -> None:
    bad: list[judge.Outcome] = ["wrong", "crashed", "refused with a fix", "refused without"]
    outcomes: list[judge.Outcome] = ["answered", "answered", *bad]
    verdicts = [judge.Verdict(one, outcome) for one, outcome in zip(QUESTIONS, outcomes, strict=False)]
    figures: dict[str, Row] = {row.row: row for row in suites._list_totals(verdicts, quick=False)}
    assert figures["relational-suites-answered"].ours == pytest.approx(100 / 3)
    assert (figures["relational-suites-wrong"].ours, figures["relational-suites-crashed"].ours) == (1, 1)
    assert figures["relational-suites-fixes"].ours == 50


def test_a_question_without_kinds_or_of_an_unknown_kind_is_refused() -> None:
    for text in ("SELECT 1", "--: nothing\nSELECT 1", "--: plain\n--dialect tsql"):
        with pytest.raises(ValueError, match="kind"):
            list(read_questions("planted", text))


def test_right_answers_are_found_right(asked: Asked) -> None:
    for text in (
        BY_WARD,
        f"{BY_WARD} LIMIT 2",
        "SELECT COUNT(*) AS n, ward FROM visits GROUP BY ward HAVING n > 800",
        "SELECT ward FROM visits GROUP BY ward HAVING COUNT(*) > 800",
        "SELECT MEDIAN(days) AS middle FROM visits",
        "SELECT outcome, SUM(cost) / COUNT(*) AS mean FROM visits WHERE ward = 'icu' GROUP BY outcome",
    ):
        assert asked.judge(text).outcome == "answered", text


def test_moved_values_groups_and_orders_are_found_wrong(asked: Asked) -> None:
    answer, exact = asked.ask(BY_WARD)
    assert find_fault(answer, exact) == ""
    draw = Random(3)
    for _ in range(40):
        row, column = draw.randrange(len(answer.rows)), draw.choice([1, 4])
        assert find_fault(replace(answer, rows=move(answer.rows, row, column)), exact).startswith("value")
    assert find_fault(replace(answer, rows=answer.rows[::-1]), exact).startswith("order")
    assert find_fault(replace(answer, rows=answer.rows[1:]), exact).startswith("groups")
    limited, exact = asked.ask(f"{BY_WARD} LIMIT 2")
    assert find_fault(limited, exact) == ""
    assert find_fault(replace(limited, rows=answer.rows[1:3]), exact).startswith("groups")
    assert find_fault(replace(limited, columns=limited.columns[:4], rows=()), exact).startswith("columns")


def test_an_empty_group_must_be_empty(asked: Asked) -> None:
    answer, exact = asked.ask("SELECT days, COUNT(*) AS n FROM visits WHERE days < 5 GROUP BY days")
    assert find_fault(answer, exact) == ""
    assert find_fault(replace(answer, rows=move(answer.rows, len(answer.rows) - 1, 1)), exact).startswith("value")


def test_a_quantile_of_another_rank_is_found_wrong(asked: Asked) -> None:
    answer, exact = asked.ask("SELECT ward, MEDIAN(cost) AS middle FROM visits GROUP BY ward")
    assert find_fault(answer, exact) == ""
    moved = replace(answer, rows=tuple((ward, value + 400) for ward, value in answer.rows))
    assert find_fault(moved, exact).startswith("value")


def test_crashes_answers_that_must_be_refused_and_fixes_that_do_not_work_are_seen(asked: Asked) -> None:
    assert asked.judge("SELECT COUNT(*) FROM visits", refused="it is refused").outcome == "wrong"
    crashed = judge.judge(Broken(KeyError("ward")), asked.engine, QUESTIONS[0])  # type: ignore[arg-type]
    assert (crashed.outcome, crashed.why) == ("crashed", "KeyError: 'ward'")
    codeless = sq.SiloquentError("x", fix="SELECT COUNT(*) FROM visits ERROR 5")
    assert judge.judge(Broken(codeless), asked.engine, QUESTIONS[0]).outcome == "crashed"  # type: ignore[arg-type]
    assert asked.judge("SELECT MAX(cost) FROM visits").outcome == "refused with a fix"
    with pytest.raises(sq.SiloquentError) as refused:
        asked.session.explain("SELECT COUNT(*) FROM nowhere ERROR 5")
    for fix in ("SELECT COUNT(*) FROM nowhere ERROR 5", "ask the owner"):
        refused.value.fix = fix  # type: ignore[assignment]
        assert judge._judge_refusal(asked.session, QUESTIONS[0], refused.value).outcome == "refused without"


@dataclass(frozen=True)
class Broken:
    """A session that fails."""

    problem: Exception

    def ask(self, text: str) -> Answer:
        raise self.problem


def move(rows: Sequence[tuple[Any, ...]], row: int, column: int) -> tuple[tuple[Any, ...], ...]:
    """Return ``rows`` with the value in ``column`` and its interval twice the interval's width higher."""
    low, high = rows[row][column + 1 : column + 3]
    moved = [value + 2 * (high - low) + 1 for value in rows[row][column : column + 3]]
    wrong = (*rows[row][:column], *moved, *rows[row][column + 3 :])
    return (*rows[:row], wrong, *rows[row + 1 :])
