"""Text from data cannot move the cursor; numbers show no more digits than their noise allows."""

from __future__ import annotations

from datetime import date
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siloquent.charts.chart import remove_unprintable
from siloquent.charts.text import MAX_CHARACTERS, clean_text, compute_step, draw_share_bar, format_label, format_number

F = Fraction


@given(st.text(max_size=300))
def test_no_control_character_survives(text: str) -> None:
    shown = clean_text(text)
    assert shown.isprintable()
    assert not any(ord(character) < 32 or 127 <= ord(character) < 160 for character in shown)
    assert len(shown) <= MAX_CHARACTERS


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "[31mred[0m"),
        ("A\r\nB", "AB"),
        ("a\u202eb", "ab"),
        ("a\u200bb", "ab"),
        ("a\u00a0b", "a b"),
        ("[bold]x[/bold]", "[bold]x[/bold]"),
        ("\x9b2J", "2J"),
    ],
)
def test_what_a_terminal_obeys_is_dropped(hostile: str, shown: str) -> None:
    assert clean_text(hostile) == shown


def test_long_labels_are_cut_and_our_own_sentences_are_not() -> None:
    assert clean_text("x" * 500) == "x" * 199 + "…"
    assert remove_unprintable("x" * 500) == "x" * 500


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, "NULL"), (True, "true"), (False, "false"), (date(2024, 1, 31), "2024-01-31"), ("A", "A"), (3, "3")],
)
def test_labels(value: object, shown: str) -> None:
    assert format_label(value) == shown


@pytest.mark.parametrize(
    ("alpha", "step"), [(200, 10), (99, 1), (100, 10), (F(3), F(1, 10)), (12_345, 1_000), (F(1, 2), F(1, 100))]
)
def test_values_are_shown_to_two_digits_of_their_error_bound(alpha: Fraction, step: Fraction) -> None:
    assert compute_step(F(alpha)) == step


@given(
    value=st.integers(-(10**9), 10**9),
    alpha=st.integers(1, 10**6),
)
def test_the_shown_interval_holds_the_true_one_and_little_more(value: int, alpha: int) -> None:
    step = compute_step(F(alpha))
    low = int(format_number(value - alpha, step, "down").replace(",", ""))
    high = int(format_number(value + alpha, step, "up").replace(",", ""))
    shown = int(format_number(value, step).replace(",", ""))
    assert low <= value - alpha
    assert value + alpha <= high
    assert high - low <= 2 * alpha * F(11, 10)
    assert abs(shown - value) <= F(alpha, 20)


@pytest.mark.parametrize(
    ("value", "step", "shown"),
    [
        (4123, 10, "4,120"),
        (-37, 10, "-40"),
        (F(5, 4), 0, "1.25"),
        (1_000_000, 0, "1,000,000"),
        (F(123, 100), F(1, 10), "1.2"),
    ],
)
def test_numbers(value: Fraction, step: Fraction, shown: str) -> None:
    assert format_number(value, F(step)) == shown


def test_spending_is_never_understated() -> None:
    assert draw_share_bar(F(1), F(1000), width=10, ascii_only=True) == "#......... 1 %"
    assert draw_share_bar(F(0), F(1), width=10, ascii_only=True) == ".......... 0 %"
    assert draw_share_bar(F(1), F(1), width=10, ascii_only=True) == "########## 100 %"
    assert draw_share_bar(F(0), F(0), width=4, ascii_only=True) == ".... 0 %"
