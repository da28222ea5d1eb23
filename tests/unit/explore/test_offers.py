"""Offers in place of refused questions: useful errors, in the asker's own words, and nothing left out silently."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import siloquent
from siloquent.api import Session
from siloquent.errors import AccuracyUnreachable, BudgetExceeded, RequestError, SiloquentError
from siloquent.explore.plan import steps
from siloquent.explore.plan.steps import plan_query

TABLE = """format = 1
attribute = [
  {{ name = "ward", type = "category", values = ["icu", "surgery"], null = "drop" }},
  {{ name = "age", type = "integer", lo = 0, hi = 120, outside = "clamp", null = "drop" }},
]
[table]
name = "visits"
adjacency = "add-remove"
{size}
unit = {{ kind = "row" }}
[budget]
accountant = "pure"
epsilon = "{epsilon}"
"""


def open_table(folder: Path, *, size: int | None = 200, epsilon: str = "0.01") -> Session:
    siloquent.create_workspace(folder / "w")
    hint = "" if size is None else f"size_hint = {size}"
    (folder / "w" / "schemas" / "visits.toml").write_text(TABLE.format(size=hint, epsilon=epsilon), encoding="utf-8")
    return siloquent.open(folder / "w")


def refuse(session: Session, question: str) -> SiloquentError:
    with pytest.raises(SiloquentError) as refused:
        session.explain(question)
    return refused.value


def test_an_error_as_large_as_the_answer_is_not_offered(tmp_path: Path) -> None:
    asked: list[tuple[str, str]] = []
    with open_table(tmp_path) as session:
        for question in (
            "SELECT COUNT(*) FROM visits ERROR 5",
            "SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 5",
            "SELECT SUM(age) FROM visits ERROR 5",
            "SELECT COUNT(*), SUM(age) FROM visits ERROR 5, 500",
        ):
            refused = refuse(session, question)
            assert isinstance(refused, (AccuracyUnreachable, BudgetExceeded))
            assert session.set_budget("visits").limit.amount == 10**7, "nothing was changed by looking"
            if question == "SELECT SUM(age) FROM visits ERROR 5":  # that would take more than any budget should be
                assert refused.fix.startswith("a larger epsilon under [budget] in schemas/visits.toml, then: the owner")
                continue
            call = re.fullmatch(r"the owner runs session\.set_budget\('visits', epsilon='([\d.]+)'\)", refused.fix)
            assert call is not None, (question, refused.fix)
            asked.append((question, call[1]))
        for question, epsilon in asked:
            session.set_budget("visits", epsilon=epsilon)
            assert session.explain(question).left_after is not None, (question, epsilon)
            session.set_budget("visits", epsilon="0.01")


def test_a_wider_error_is_offered_in_the_words_that_were_typed(tmp_path: Path) -> None:
    with open_table(tmp_path, size=100_000) as session:
        offered = refuse(session, "SELECT COUNT(*) FROM visits WHERE age > 30 ERROR 5").fix
        assert offered.startswith("SELECT COUNT(*) FROM visits WHERE age > 30 ERROR ")
        assert "CONFIDENCE" not in offered
        assert "REUSE" not in offered
        session.explain(offered)
        typed = "SELECT COUNT(*) FROM visits WHERE age > 30 ERROR 5 CONFIDENCE 0.99 REUSE NONE"
        assert refuse(session, typed).fix.endswith(" CONFIDENCE 0.99 REUSE NONE /* for 10 % of what is left */")


def test_a_question_with_every_condition_says_nothing_of_any(tmp_path: Path) -> None:
    with open_table(tmp_path, size=100_000, epsilon="1") as session:
        refused = refuse(session, "SELECT COUNT(*) FROM visits WHERE agee > 30 AND ward = 'icu' ERROR 500")
        assert refused.fix == "SELECT COUNT(*) FROM visits WHERE age > 30 AND ward = 'icu' ERROR 500"


def test_a_count_of_what_is_left_out_is_told_and_offered_as_what_can_be_asked(tmp_path: Path) -> None:
    with open_table(tmp_path, size=100_000, epsilon="1") as session:
        refused = refuse(session, "SELECT COUNT(*) FROM visits WHERE age > 30 AND ward IS NULL ERROR 500")
        assert isinstance(refused, RequestError)
        assert "only null = 'cell' counts the rows without it" in refused.detail
        assert refused.fix == "SELECT COUNT(*) FROM visits WHERE age > 30 ERROR 500 /* left out: ward IS NULL */"


@pytest.mark.parametrize("of", ["age", "age + 1", "CASE WHEN ward = 'icu' THEN age ELSE 3 END", "round(age / 7, 1)"])
@pytest.mark.parametrize("aggregate", ["AVG", "SUM", "VAR", "MEDIAN", "COUNT"])
@pytest.mark.parametrize("rest", ["", " WHERE age > 3", " GROUP BY ward"])
def test_numbers_that_are_computed_are_refused_by_price_as_columns_are(
    tmp_path: Path, of: str, aggregate: str, rest: str
) -> None:
    errors = "1e-3, 1e-3 FOR AT LEAST 100 ROWS" if aggregate == "VAR" else "1e-3, 1e-3"
    with open_table(tmp_path) as session:
        refused = refuse(session, f"SELECT COUNT(*), {aggregate}({of}) FROM visits{rest} ERROR {errors}")
    assert isinstance(refused, (AccuracyUnreachable, BudgetExceeded)), refused


@pytest.mark.parametrize("epsilon", ["1e-9", "0.001", "1", "1000"])
def test_the_least_widening_is_found_with_few_plans(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, epsilon: str
) -> None:
    planned = 0
    build = steps._build_plan

    def count(*given: Any) -> Any:
        nonlocal planned
        planned += 1
        return build(*given)

    monkeypatch.setattr(steps, "_build_plan", count)
    query = siloquent.parse("SELECT COUNT(*), VAR(age) FROM visits ERROR 1e-3, 1e-3 FOR AT LEAST 100 ROWS")
    with open_table(tmp_path, epsilon=epsilon) as session:
        schema = session.schema("visits")
        left = session.get_remaining("visits")
        wider = steps.find_least_widening(query, schema, left=left)
        assert 7 <= planned <= 18
        if wider is not None:
            assert plan_query(wider, schema, left=left).cost.amount <= left.amount
            tight = steps.widen_errors(wider, Fraction(31, 32))
            with pytest.raises(AccuracyUnreachable):
                plan_query(tight, schema, left=left)


def test_conditions_that_are_left_out_are_told_whole(tmp_path: Path) -> None:
    with open_table(tmp_path, epsilon="100") as session:
        refused = refuse(session, "SELECT COUNT(*) FROM visits WHERE (abs(age) < 0 OR age IN (121, 122)) ERROR 5")
    assert refused.fix == "SELECT COUNT(*) FROM visits ERROR 5 /* left out: abs(age) < 0, age IN (121, 122) */"
