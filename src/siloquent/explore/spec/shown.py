"""Answers as text: cells for tables, no finer than their noise, and a whole answer for a terminal or a log."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

from siloquent.pictures.plain import clean, label, number, step_for

if TYPE_CHECKING:
    from siloquent.explore.spec.answer import Answer

MOST_LINES = 100


class Heading(NamedTuple):
    """A column of text: its name, and whether it holds numbers, which stand at the right."""

    name: str
    numbers: bool


def cells(
    answer: Answer, rows: Sequence[Sequence[Any]], *, full: bool = False
) -> tuple[list[Heading], list[list[str]]]:
    """``rows`` of ``answer`` as text under its headings, with all digits if ``full``.

    Every value shows two digits of its own error; the ends of an interval are rounded outwards.
    """
    headings: list[Heading] = []
    lines: list[list[str]] = [[] for _ in rows]
    place = 0
    while place < len(answer.columns):
        name, *ends = answer.columns[place : place + 3]
        if interval := ends in (["low", "high"], [f"{name}_low", f"{name}_high"]):
            headings += [Heading(name, True), Heading("at least", True), Heading("at most", True)]
        else:
            headings.append(Heading(name, False))
        for line, row in zip(lines, rows, strict=True):
            line += _three(answer, row[place : place + 3], full=full) if interval else [label(row[place])]
        place += 3 if interval else 1
    return headings, lines


def as_text(answer: Answer) -> str:
    """The table, the promise, what it means for privacy, and the receipt."""
    headings, lines = cells(answer, answer.rows[:MOST_LINES])
    widths = [max(map(len, column)) for column in zip([clean(one.name) for one in headings], *lines, strict=True)]
    table = [
        "  ".join(
            text.rjust(width) if one.numbers else text.ljust(width)
            for text, one, width in zip(line, headings, widths, strict=True)
        ).rstrip()
        for line in ([clean(one.name) for one in headings], *lines)
    ]
    more = len(answer.rows) - len(lines)
    cut = [f"{more:,} more rows: answer.table"] if more > 0 else []
    receipt = f"Entry {answer.receipt.seq} of ledger {answer.receipt.ledger[:12]}."
    return "\n".join([*table, *cut, "", answer.promise, answer.guarantee.sentence(), receipt, *answer.notes])


def _three(answer: Answer, values: Sequence[Any], *, full: bool) -> list[str]:
    value, low, high = values
    if value is None:
        return ["", "", ""]
    alpha = answer.accuracy.alpha if answer.kind == "wcq" else (Fraction(high) - Fraction(low)) / 2
    step = Fraction(0) if full or not alpha else step_for(alpha)
    return [number(value, step), number(low, step, "down"), number(high, step, "up")]
