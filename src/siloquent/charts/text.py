"""Text for terminals: text from data cannot control the terminal, and numbers are not finer than their noise."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Literal

from siloquent.charts.chart import remove_unprintable

NULL = "NULL"
SHOWN_DIGITS = 2
"""The digits shown of an error bound, and of everything within its precision."""
MAX_CHARACTERS = 200


def clean_text(text: object) -> str:
    """Return ``text`` without characters that control a terminal (control, direction, unassigned), cut at 200.

    >>> clean_text("ward\\x1b[2J A")
    'ward[2J A'
    """
    kept = remove_unprintable(str(text))
    return kept if len(kept) <= MAX_CHARACTERS else kept[: MAX_CHARACTERS - 1] + "…"


def name_value(value: object) -> str:
    """Return a value as text; NULL for None, and a text that reads as NULL in quotes, so that no two are named alike.

    >>> name_value(None), name_value("NULL"), name_value("'NULL'"), name_value(True)
    ('NULL', "'NULL'", "''NULL''", 'True')
    """
    text = NULL if value is None else str(value)
    return f"'{text}'" if value is not None and text.strip(" '") == NULL else text


def format_label(value: Any) -> str:
    """Format a cell that is not a number: NULL for None, true and false for booleans, dates in ISO form, clean text.

    A text that reads as NULL is in quotes, so that no two values of a column read alike by that word.

    >>> format_label(None), format_label("NULL"), format_label("null")
    ('NULL', "'NULL'", 'null')
    """
    if value is None:
        return NULL
    if isinstance(value, bool):
        return "true" if value else "false"
    return name_value(clean_text(value.isoformat() if hasattr(value, "isoformat") else value))


def compute_step(alpha: Fraction) -> Fraction:
    """Return the power of ten to which a value within ``alpha`` is rounded.

    >>> str(compute_step(Fraction(200))), str(compute_step(Fraction(3))), str(compute_step(Fraction(1, 30)))
    ('10', '1/10', '1/1000')
    """
    # Counted in digits, since the logarithm of a number below all floats does not exist.
    digits = len(str(alpha.numerator)) - len(str(alpha.denominator))
    return Fraction(10) ** (digits - (alpha < Fraction(10) ** digits) - SHOWN_DIGITS + 1)


def format_number(value: Any, step: Fraction = Fraction(0), towards: Literal["near", "down", "up"] = "near") -> str:
    """Format ``value`` as a multiple of ``step`` (0: unrounded), with thousands separators.

    Bounds of intervals are rounded outwards, so that the shown interval contains the exact one.

    >>> format_number(4123, Fraction(10)), format_number(3923, Fraction(10), "down"), format_number(Fraction(5, 4))
    ('4,120', '3,920', '1.25')
    """
    exact = Fraction(value)
    if step:
        turns = exact / step
        exact = step * {"near": round(turns), "down": math.floor(turns), "up": math.ceil(turns)}[towards]
    if exact.denominator == 1:
        return f"{exact.numerator:,}"
    places = next((p for p in range(1, 16) if (exact * 10**p).denominator == 1), 15)
    return f"{float(exact):,.{places}f}"


def draw_share_bar(part: Fraction, whole: Fraction, *, width: int = 20, ascii_only: bool = False) -> str:
    """Draw ``part`` of ``whole`` as a filled bar and a whole percentage, rounded up: spending is never understated.

    >>> draw_share_bar(Fraction(1), Fraction(3), width=6, ascii_only=True)
    '##.... 34 %'
    """
    full, empty = ("#", ".") if ascii_only else ("█", "░")
    ratio = min(Fraction(1), part / whole) if whole else Fraction(0)
    filled = math.ceil(ratio * width) if ratio < 1 else width
    return f"{full * filled}{empty * (width - filled)} {math.ceil(ratio * 100)} %"


def number_of(count: int, one: str, many: str) -> str:
    """Return a count with its noun, singular or plural.

    >>> number_of(1, "row has", "rows have"), number_of(1200, "row has", "rows have")
    ('1 row has', '1,200 rows have')
    """
    return f"{count:,} {one if count == 1 else many}"


def format_three_digits(value: float) -> str:
    """Format ``value`` with three digits, as plain decimal text.

    >>> format_three_digits(1234.5), format_three_digits(0.012345), format_three_digits(math.inf)
    ('1,234', '0.0123', 'inf')
    """
    if value == 0 or not math.isfinite(value):
        return str(value)
    places = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{min(places, 12)}f}"
