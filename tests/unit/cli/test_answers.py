"""Answers and prices as people read them, word for word."""

from __future__ import annotations

from fractions import Fraction

import pytest

from siloquent.cli.base.screen import Screen
from siloquent.cli.explore.output import describe_price, show_answer, show_explanation
from siloquent.documents.releases import build_answer_document
from siloquent.explore import Explanation, parse
from siloquent.explore.plan.explain import explain_course
from siloquent.explore.plan.steps import plan_query
from siloquent.explore.spec import Answer, AnswerAccuracy, AnswerCost, AnswerReceipt
from siloquent.privacy import Cost, Guarantee
from siloquent.schema.build import parse_schema
from siloquent.session import compute_budget_limit

F = Fraction
SCHEMA = parse_schema(
    """
format = 1
attribute = [{ name = "ward", type = "category", values = ["A", "B"], null = "drop" }]
[table]
name = "visits"
adjacency = "add-remove"
unit = { kind = "row" }
[budget]
accountant = "zcdp"
epsilon = "1"
delta = "1e-6"
"""
)
QUESTION = "SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 200 CONFIDENCE 0.99"


def answer(**changes: object) -> Answer:
    given: dict[str, object] = {
        "task": "explore",
        "table_name": "visits",
        "request": QUESTION,
        "schema_digest": "ab",
        "kind": "wcq",
        "columns": ("ward", "count", "low", "high"),
        "rows": (("A", 4123, 3923, 4323), ("B\x1b[2J", -37, -237, 163), (None, 900, 700, 1100)),
        "promise": "No value is more than 200 rows off, with probability 0.99.",
        "accuracy": AnswerAccuracy(F(200), F(1, 100)),
        "cost": AnswerCost("visits@1", "rho", F(1234567, 10**12), F(9, 1000)),
        "guarantee": Guarantee("zcdp", "one row", "add-remove", "visits@1", F(0), F(1, 1000), rho=F(1, 1000)),
        "receipt": AnswerReceipt("0123456789abcdef", 17, "fedcba9876543210" * 4),
        "mechanism": "gaussian",
    }
    return Answer(**{**given, **changes})  # type: ignore[arg-type]


@pytest.fixture
def read(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Nothing yet; the width is fixed so that what follows is the same everywhere."""
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("NO_COLOR", "1")
    return []


def lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines() if line.strip()]


ANSWER = """
 ward   count   at least   at most
 ─────────────────────────────────
 A      4,120      3,920     4,330
 B[2J     -40       -240       170
 NULL     900        700     1,100
promise  No value is more than 200 rows off, with probability 0.99.
privacy  Differential privacy for one row, added or removed: this answer costs rho 0.001, which is epsilon 0.1829 at
         delta 0.000001; everything asked of visits@1 so far amounts to epsilon 0.1829 at delta 0.000001.
cost     rho 0.000001235; rho 0.009 of visits@1 remaining
receipt  entry 17 (fedcba987654) of ledger 0123456789ab; release r-000017
"""


@pytest.mark.usefixtures("read")
def test_an_answer_word_for_word(capfd: pytest.CaptureFixture[str]) -> None:
    show_answer(Screen(), answer(), again="siloquent ask ..", full=False, all_rows=False)
    said = capfd.readouterr()
    assert lines(said.out) == lines(ANSWER)
    assert lines(said.err) == ["To repeat this at no cost: siloquent ask .."]


@pytest.mark.usefixtures("read")
def test_all_digits_on_request(capfd: pytest.CaptureFixture[str]) -> None:
    show_answer(Screen(), answer(), again="", full=True, all_rows=False)
    assert " A      4,123      3,923     4,323" in lines(capfd.readouterr().out)


@pytest.mark.usefixtures("read")
def test_names_alone_have_no_numbers(capfd: pytest.CaptureFixture[str]) -> None:
    show_answer(
        Screen(), answer(kind="icq", columns=("ward",), rows=(("A",), ("=x",))), again="", full=False, all_rows=False
    )
    assert lines(capfd.readouterr().out)[:4] == [" ward", " ────", " A", " =x"]


@pytest.mark.usefixtures("read")
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"replayed": True}, "nothing: this key was used before"),
        ({"cost": AnswerCost("visits@1", "rho", F(0), F(9, 1000))}, "nothing: it is computed from earlier answers"),
    ],
)
def test_a_free_answer_says_why_it_is_free(
    changes: dict[str, object], words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    show_answer(Screen(), answer(**changes), again="", full=False, all_rows=False)
    assert words in capfd.readouterr().out


@pytest.mark.usefixtures("read")
def test_long_answers_are_cut_unless_all_is_asked_for(capfd: pytest.CaptureFixture[str]) -> None:
    many = answer(rows=tuple((f"w{i}", i, i - 200, i + 200) for i in range(150)))
    show_answer(Screen(), many, again="", full=False, all_rows=False)
    said = capfd.readouterr()
    assert " w99 " in said.out
    assert "w100" not in said.out
    assert "50 more rows: --all" in said.err
    show_answer(Screen(), many, again="", full=False, all_rows=True)
    assert " w149 " in capfd.readouterr().out


def test_the_document_carries_the_key() -> None:
    assert list(build_answer_document(answer(), "monday").items())[-1] == ("key", "monday")


def explained(question: str = QUESTION, *, left: Cost | None = None) -> Explanation:
    whole = compute_budget_limit(SCHEMA.budget)
    return explain_course(plan_query(parse(question), SCHEMA, left=whole), account="visits@1", left=left or whole)


EXPLANATION = """
promise  No value is more than 200 rows off, with probability 0.99.
price    rho 0.00009795 (epsilon 0.05314 on its own); visits@1 has rho 0.02435 remaining, 0.02425 afterwards
         █░░░░░░░░░░░░░░░░░░░ 1 % of the remaining budget
data     not read; nothing was spent
     mechanism    rho at most   reusable
 ───────────────────────────────────────
 >   gaussian    0.0000979461   yes
     laplace       0.00034882   yes
"""


@pytest.mark.usefixtures("read")
def test_a_price_word_for_word(capfd: pytest.CaptureFixture[str]) -> None:
    show_explanation(Screen(), explained(), ask="siloquent ask ..")
    said = capfd.readouterr()
    assert lines(said.out) == lines(EXPLANATION)
    assert lines(said.err) == ["Next: siloquent ask .."]


@pytest.mark.usefixtures("read")
def test_a_price_that_does_not_fit_says_so(capfd: pytest.CaptureFixture[str]) -> None:
    poor = explained(left=Cost(10**6))
    show_explanation(Screen(), poor, ask="siloquent ask ..")
    said = capfd.readouterr()
    assert "has only rho 0.000001 remaining" in said.out
    assert "100 % of the remaining budget" in said.out
    assert "larger ERROR" in said.err
    assert "Next" not in said.err


def test_what_is_left_is_rounded_down_and_what_is_paid_up() -> None:
    words = describe_price(explained(left=Cost(123_456_789_012)))
    assert "0.1234 remaining" in words
    assert "rho 0.00009795" in words
