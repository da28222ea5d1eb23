"""Answers as text: no digit finer than the noise, intervals rounded outwards, and names that move no cursor."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from siloquent.explore.spec import AnswerAccuracy
from siloquent.explore.spec.answers.text import MAX_LINES, format_cells
from unit.explore.spec.test_drawn import answer

COUNTS = replace(
    answer(("ward", "count", "low", "high"), (("A", 4123.0, 3923.0, 4323.0), (None, 7.0, -193.0, 207.0))),
    accuracy=AnswerAccuracy(Fraction(200), Fraction(1, 100)),
)


def test_a_value_shows_two_digits_of_its_error_and_its_interval_outwards() -> None:
    headings, lines = format_cells(COUNTS.columns, COUNTS.rows)
    assert [(one.name, one.numbers) for one in headings] == [
        ("ward", False),
        ("count", True),
        ("at least", True),
        ("at most", True),
    ]
    assert lines == [["A", "4,120", "3,920", "4,330"], ["NULL", "10", "-200", "210"]]
    assert format_cells(COUNTS.columns, COUNTS.rows, full=True)[1][0] == ["A", "4,123", "3,923", "4,323"]


def test_each_of_several_aggregates_is_as_fine_as_its_own_interval() -> None:
    columns = ("avg_age", "avg_age_low", "avg_age_high", "median_age")
    several = answer(
        columns, ((53.8475170102, 45.8475170102, 61.8475170103, 54), (None, None, None, None)), "composite"
    )
    assert format_cells(several.columns, several.rows)[1] == [["53.8", "45.8", "61.9", "54"], ["", "", "", "NULL"]]


def test_a_printed_answer_is_a_table_with_promise_guarantee_and_receipt() -> None:
    assert str(COUNTS).splitlines() == [
        "ward  count  at least  at most",
        "A     4,120     3,920    4,330",
        "NULL     10      -200      210",
        "",
        COUNTS.promise,
        COUNTS.guarantee.describe(),
        "Entry 17 of ledger 0123456789ab.",
    ]


def test_a_long_answer_is_cut_and_says_so() -> None:
    many = answer(("i", "count", "low", "high"), tuple((i, 1, 0, 2) for i in range(MAX_LINES + 50)))
    assert "50 more rows: answer.table" in str(many).splitlines()


def test_an_answer_without_rows_has_a_head() -> None:
    assert str(answer(("ward",), (), "icq")).splitlines()[0] == "ward"


def test_names_move_no_cursor() -> None:
    assert "\x1b" not in str(answer(("ward",), (("a\x1b[2Jb",),), "icq"))
    assert "\x1b" not in answer(("ward",), (("a\x1b[2Jb",),), "icq")._repr_html_()
