"""Answers as text, the same for every interface: cells no finer than their noise, and explanatory lines.

Interfaces choose the layout (a terminal's columns, HTML, JSON); words and digits are chosen only here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from html import escape
from typing import Any, NamedTuple

from siloquent.charts.text import clean_text, compute_step, format_label, format_number
from siloquent.explore.spec.answers.labels import ColumnLabels, add_label_columns, name_label_column

MAX_LINES = 100
MAX_IN_A_NOTEBOOK = 200
MAX_SOURCES = 10


class Heading(NamedTuple):
    """A column of text: its name, and whether it holds numbers, which are right-aligned."""

    name: str
    numbers: bool


class AnswerLine(NamedTuple):
    """One line about an answer: its kind (``rows``, ``promise``, ``holds``, ``privacy`` or ``note``), and its text."""

    name: str
    text: str

    @property
    def sentence(self) -> str:
        """The text as it stands without the name of its kind beside it."""
        return f"Rows: {self.text}." if self.name == "rows" else self.text


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


def format_cells(
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    *,
    full: bool = False,
    labels: Sequence[ColumnLabels] = (),
) -> tuple[list[Heading], list[list[str]]]:
    """Format ``rows`` with their headings. Values that have an interval show two digits of their own error.

    The ends of an interval are rounded outwards. ``labels`` make columns of their own.
    """
    told = {name_label_column(one.column, columns) for one in labels}
    columns, rows = add_label_columns(columns, rows, labels) if labels else (columns, rows)
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
            if interval:
                line += format_interval(row[place : place + 3], full=full)
            else:
                line.append("" if name in told and row[place] is None else format_label(row[place]))
        place += 3 if interval else 1
    return headings, lines


def format_text(
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    lines: Sequence[AnswerLine],
    receipt: str,
    labels: Sequence[ColumnLabels] = (),
) -> str:
    """Format an answer's table, the promise, its meaning for privacy, ``receipt``, and the notes."""
    headings, cells = format_cells(columns, rows[:MAX_LINES], labels=labels)
    names = [clean_text(one.name) for one in headings]
    widths = [max(map(len, column)) for column in zip(names, *cells, strict=True)]
    table = [
        "  ".join(
            text.rjust(width) if one.numbers else text.ljust(width)
            for text, one, width in zip(line, headings, widths, strict=True)
        ).rstrip()
        for line in (names, *cells)
    ]
    more = len(rows) - len(cells)
    cut = [f"{more:,} more rows: answer.table"] if more > 0 else []
    before, notes = ([line.sentence for line in lines if (line.name == "note") is last] for last in (False, True))
    return "\n".join([*table, *cut, "", *before, receipt, *notes])


def format_html(
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    lines: Sequence[AnswerLine],
    pictures: Iterable[str],
    labels: Sequence[ColumnLabels] = (),
) -> str:
    """Format an answer for notebooks, with ``pictures`` as SVG; every other text is escaped."""
    headings, cells = format_cells(columns, rows[:MAX_IN_A_NOTEBOOK], labels=labels)
    sides = [' style="text-align:right"' if one.numbers else "" for one in headings]
    head = "".join(f'<th scope="col">{escape(one.name)}</th>' for one in headings)
    body = "".join(
        "<tr>" + "".join(f"<td{side}>{escape(text)}</td>" for side, text in zip(sides, line, strict=True)) + "</tr>"
        for line in cells
    )
    more = len(rows) - MAX_IN_A_NOTEBOOK
    cut = f"<p>{more:,} more rows: <code>answer.table</code></p>" if more > 0 else ""
    words = "<br>".join(escape(line.sentence) for line in lines)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{cut}{''.join(pictures)}<p>{words}</p>"


def build_text_document(
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    lines: Sequence[AnswerLine],
    labels: Sequence[ColumnLabels] = (),
) -> dict[str, Any]:
    """Build an answer's text for its document: the first rows as cells, and the lines."""
    headings, cells = format_cells(columns, rows[:MAX_LINES], labels=labels)
    return {
        "columns": [one.name for one in headings],
        "rows": cells,
        "lines": [line._asdict() for line in lines],
    }


def format_interval(values: Sequence[Any], *, full: bool = False) -> list[str]:
    """Format a value, low and high as text; empty if nothing was measured, or if nothing but the ends is known."""
    value, low, high = values
    if value is None and (low is None or high is None):
        return ["", "", ""]
    if low is None or high is None:  # computed from others, some of which may be 0 as a divisor
        return [format_label(value), "", ""]
    half = (Fraction(high) - Fraction(low)) / 2
    step = Fraction(0) if full or half <= 0 else compute_step(half)
    told = "" if value is None else format_number(value, step)
    return [told, format_number(low, step, "down"), format_number(high, step, "up")]
