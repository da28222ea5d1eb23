"""Answers as pictures: which form fits, and what it shows."""

from __future__ import annotations

import datetime
from fractions import Fraction
from typing import Any

import pytest

from siloquent.charts import Bars, HeatMap, Lines
from siloquent.explore.spec import Answer, AnswerAccuracy, AnswerCost, AnswerReceipt, parse
from siloquent.explore.spec.answers.charts import has_values
from siloquent.privacy import Guarantee

F = Fraction
PROMISE = "No value is more than 2 rows off, with probability 0.99."


def answer(columns: tuple[str, ...], rows: tuple[tuple[Any, ...], ...], kind: str = "wcq") -> Answer:
    return Answer(
        task="explore",
        table_name="visits",
        request="",
        schema_digest="ab",
        kind=kind,
        columns=columns,
        rows=rows,
        promise=PROMISE,
        accuracy=AnswerAccuracy(F(2), F(1, 100)),
        cost=AnswerCost("visits@1", "rho", F(1, 1000), F(9, 1000)),
        guarantee=Guarantee("zcdp", "one row", "add-remove", "visits@1", F(0), F(1, 1000), rho=F(1, 1000)),
        receipt=AnswerReceipt("0123456789abcdef", 17, "fedcba98" * 8),
        mechanism="gaussian",
    )


WARDS = answer(("ward", "count", "low", "high"), (("<b>", 10, 8, 12), (None, 3, 1, 5)))


def test_few_groups_are_bars_with_their_intervals() -> None:
    (picture,) = WARDS.pictures()
    assert isinstance(picture, Bars)
    assert picture.labels == ["<b>", "NULL"]
    assert picture.series[0].get_interval(0) == (8, 12)
    assert picture.words.title == "count by ward"
    assert picture.words.about == f"2 values from 3 to 10. {PROMISE}"


def test_many_groups_are_a_line_with_a_band() -> None:
    days = tuple((datetime.date(2024, 1, 1) + datetime.timedelta(i), i, i - 2, i + 2) for i in range(60))
    (picture,) = answer(("day", "count", "low", "high"), days).pictures()
    assert isinstance(picture, Lines)
    assert picture.labels[0] == "2024-01-01"
    assert picture.series[0].get_interval(5) == (3, 7)


def test_a_small_second_key_makes_series() -> None:
    rows = tuple((ward, smoker, 5, 3, 7) for ward in "ABC" for smoker in (False, True))
    (picture,) = answer(("ward", "smoker", "count", "low", "high"), rows).pictures()
    assert isinstance(picture, Bars)
    assert [one.name for one in picture.series] == ["smoker false", "smoker true"]
    assert picture.labels == ["A", "B", "C"]


def test_two_large_keys_are_a_map() -> None:
    rows = tuple((a, b, a * b, a * b - 2, a * b + 2) for a in range(9) for b in range(8))
    (picture,) = answer(("x", "y", "count", "low", "high"), rows).pictures()
    assert isinstance(picture, HeatMap)
    assert list(picture.values[7])[3] == 21


def test_groups_that_a_free_filter_left_are_bars_of_both_keys() -> None:
    rows = (("A", True, 5, 3, 7), ("C", False, 4, 2, 6))
    (picture,) = answer(("ward", "smoker", "count", "low", "high"), rows).pictures()
    assert isinstance(picture, Bars)
    assert picture.labels == ["A, true", "C, false"]


def test_every_aggregate_has_a_picture_and_unmeasured_groups_are_empty() -> None:
    columns = ("ward", "count", "count_low", "count_high", "avg_cost", "avg_cost_low", "avg_cost_high", "status")
    rows = (("A", 5, 3, 7, 1.5, 1.0, 2.0, "reported"), ("B", *[None] * 6, "not_reported"))
    first, second = answer(columns, rows, "composite").pictures()
    assert (first.words.title, second.words.title) == ("count by ward", "avg_cost by ward")
    assert first.lines()[1].split() == ["B", "-"]


def test_one_number_is_a_bar_that_is_named_by_its_table() -> None:
    (picture,) = answer(("all", "count", "low", "high"), (("all", 5, 3, 7),)).pictures()
    assert picture.words.title == "count of visits"


@pytest.mark.parametrize(
    ("columns", "rows", "kind"),
    [
        (("ward",), (("A",),), "icq"),
        (("ward", "median_cost"), (("A", 5),), "composite"),
        (("ward", "count", "low", "high"), (), "wcq"),
    ],
    ids=["groups alone", "a quantile", "no row"],
)
def test_where_there_are_no_intervals_there_is_no_picture(columns: Any, rows: Any, kind: str) -> None:
    assert answer(columns, rows, kind).pictures() == ()


@pytest.mark.parametrize(
    ("question", "drawn"),
    [
        ("SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 2", True),
        ("SELECT ward FROM visits GROUP BY ward HAVING COUNT(*) > 9 ERROR 2", False),
        ("SELECT MEDIAN(cost) FROM visits ERROR 2", False),
        ("SELECT MEDIAN(cost), COUNT(*) FROM visits ERROR 2, 2", True),
    ],
)
def test_a_question_says_beforehand_whether_it_can_be_drawn(question: str, drawn: bool) -> None:
    assert has_values(parse(question)) is drawn


def test_a_notebook_gets_the_table_the_picture_and_the_words_escaped() -> None:
    html = WARDS._repr_html_()
    assert html.startswith('<table><thead><tr><th scope="col">ward</th>')
    assert "<td>&lt;b&gt;</td>" in html
    assert '<td style="text-align:right">10</td>' in html
    assert "<b>" not in html
    assert '<svg xmlns="http://www.w3.org/2000/svg"' in html
    assert html.endswith(f"<p>{PROMISE}<br>{WARDS.guarantee.describe()}</p>")


def test_a_notebook_shows_the_first_rows_of_many_and_says_so() -> None:
    many = answer(("i", "count", "low", "high"), tuple((i, 1, 0, 2) for i in range(250)))
    assert "50 more rows" in many._repr_html_()


def test_a_mime_bundle_has_a_form_for_every_notebook() -> None:
    bundle = WARDS._repr_mimebundle_()
    assert set(bundle) == {"text/html", "text/plain", "image/svg+xml"}
    assert bundle["text/plain"] == str(WARDS)
    assert bundle["image/svg+xml"].startswith("<svg")
    assert set(answer(("ward",), (("A",),), "icq")._repr_mimebundle_()) == {"text/html", "text/plain"}
