"""Answers as text, the same for every interface: cells no finer than their noise, and explanatory lines.

Interfaces choose the layout (a terminal's columns, HTML, JSON); words and digits are chosen only here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

from siloquent.charts.text import clean_text, compute_step, format_label, format_number

if TYPE_CHECKING:
    from siloquent.explore.spec.answers.answer import Answer

MAX_LINES = 100
MAX_SOURCES = 10


class Heading(NamedTuple):
    """A column of text: its name, and whether it holds numbers, which are right-aligned."""

    name: str
    numbers: bool


class AnswerLine(NamedTuple):
    """One line about an answer: its kind (``promise``, ``holds``, ``privacy`` or ``note``), and its text."""

    name: str
    text: str


def build_lines(answer: Answer) -> list[AnswerLine]:
    """Build the lines shown besides the values: the promise, when it holds, its privacy, and notes."""
    return order_lines(
        answer.promise,
        describe_label(answer.accuracy.label, answer.accuracy.sources),
        answer.guarantee.describe(),
        answer.notes,
    )


def build_document_lines(document: Mapping[str, Any]) -> list[AnswerLine]:
    """Build the lines of an answer that is available as a document, including documents from before lines existed."""
    holds = describe_label(document["accuracy"]["label"], document["accuracy"]["sources"])
    return order_lines(document["promise"], holds, document["guarantee"], document["notes"])


def order_lines(promise: str, holds: str, sentence: str, notes: Iterable[str]) -> list[AnswerLine]:
    """Return the lines in order; ``holds`` may be empty."""
    return [
        AnswerLine("promise", promise),
        *([AnswerLine("holds", holds)] if holds else []),
        AnswerLine("privacy", sentence),
        *(AnswerLine("note", note) for note in notes),
    ]


def describe_label(label: str, sources: Sequence[int] = ()) -> str:
    """Describe when a promise based on earlier noise holds; empty for new noise only, whose promise always holds.

    >>> describe_label("independent", [3, 7])
    'independent: draws from entries 3, 7 of the ledger, and holds if the question was not chosen from those answers'
    """
    if label == "fresh":
        return ""
    seqs = ", ".join(str(seq) for seq in sources[:MAX_SOURCES]) + (", ..." if len(sources) > MAX_SOURCES else "")
    if label == "repeated":
        which = f"the answer of entry {seqs} of the ledger" if seqs else "an earlier answer"
        return f"repeated: {which} again, and its promise of then"
    where = f"entries {seqs} of the ledger" if seqs else "earlier answers"
    when = "whatever was asked" if label == "simultaneous" else "if the question was not chosen from those answers"
    return f"{label}: draws from {where}, and holds {when}"


def format_answer_cells(
    answer: Answer, rows: Sequence[Sequence[Any]], *, full: bool = False
) -> tuple[list[Heading], list[list[str]]]:
    """Format ``rows`` of ``answer`` with their headings, with all digits if ``full``; see ``format_cells``."""
    return format_cells(answer.columns, rows, full=full)


def format_cells(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], *, full: bool = False
) -> tuple[list[Heading], list[list[str]]]:
    """Format ``rows`` with their headings. Values that have an interval show two digits of their own error.

    The ends of an interval are rounded outwards.
    """
    headings: list[Heading] = []
    lines: list[list[str]] = [[] for _ in rows]
    place = 0
    while place < len(columns):
        name, *ends = columns[place : place + 3]
        if interval := ends in (["low", "high"], [f"{name}_low", f"{name}_high"]):
            headings += [Heading(name, True), Heading("at least", True), Heading("at most", True)]
        else:
            headings.append(Heading(name, False))
        for line, row in zip(lines, rows, strict=True):
            line += format_interval(row[place : place + 3], full=full) if interval else [format_label(row[place])]
        place += 3 if interval else 1
    return headings, lines


def format_text(answer: Answer) -> str:
    """Format the table, the promise, its meaning for privacy, and the receipt."""
    headings, lines = format_answer_cells(answer, answer.rows[:MAX_LINES])
    widths = [max(map(len, column)) for column in zip([clean_text(one.name) for one in headings], *lines, strict=True)]
    table = [
        "  ".join(
            text.rjust(width) if one.numbers else text.ljust(width)
            for text, one, width in zip(line, headings, widths, strict=True)
        ).rstrip()
        for line in ([clean_text(one.name) for one in headings], *lines)
    ]
    more = len(answer.rows) - len(lines)
    cut = [f"{more:,} more rows: answer.table"] if more > 0 else []
    receipt = f"Entry {answer.receipt.seq} of ledger {answer.receipt.ledger[:12]}."
    lines_before = [line.text for line in build_lines(answer) if line.name != "note"]
    return "\n".join([*table, *cut, "", *lines_before, receipt, *answer.notes])


def build_text_document(answer: Answer) -> dict[str, Any]:
    """Build the answer's text for its document: the first rows as cells, and the lines."""
    headings, lines = format_answer_cells(answer, answer.rows[:MAX_LINES])
    return {
        "columns": [one.name for one in headings],
        "rows": lines,
        "lines": [line._asdict() for line in build_lines(answer)],
    }


def format_interval(values: Sequence[Any], *, full: bool = False) -> list[str]:
    """Format a value, low and high as text; empty if nothing was measured."""
    value, low, high = values
    if value is None:
        return ["", "", ""]
    half = (Fraction(high) - Fraction(low)) / 2
    step = Fraction(0) if full or half <= 0 else compute_step(half)
    return [format_number(value, step), format_number(low, step, "down"), format_number(high, step, "up")]
