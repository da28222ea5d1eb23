"""Answers as text, the same for every interface: cells no finer than their noise, and lines that say what they mean.

Interfaces choose the layout (a terminal's columns, HTML, JSON); words and digits are chosen here alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

from siloquent.pictures.plain import clean, label, number, step_for

if TYPE_CHECKING:
    from siloquent.explore.spec.answer import Answer

MOST_LINES = 100
MAX_SOURCES = 10


class Heading(NamedTuple):
    """A column of text: its name, and whether it holds numbers, which stand at the right."""

    name: str
    numbers: bool


class Line(NamedTuple):
    """One thing that an answer says of itself: ``promise``, ``holds``, ``privacy`` or ``note``, and its words."""

    name: str
    text: str


def lines_of(answer: Answer) -> list[Line]:
    """What every interface says beside the values: the promise, when it holds, what it means for privacy, notes."""
    return lines_from(
        answer.promise,
        how_it_holds(answer.accuracy.label, answer.accuracy.sources),
        answer.guarantee.sentence(),
        answer.notes,
    )


def lines_of_document(document: Mapping[str, Any]) -> list[Line]:
    """The lines of an answer that is at hand as a document, also of one from before documents held them."""
    holds = how_it_holds(document["accuracy"]["label"], document["accuracy"]["sources"])
    return lines_from(document["promise"], holds, document["guarantee"], document["notes"])


def lines_from(promise: str, holds: str, sentence: str, notes: Iterable[str]) -> list[Line]:
    """The lines in their order; ``holds`` may be empty."""
    return [
        Line("promise", promise),
        *([Line("holds", holds)] if holds else []),
        Line("privacy", sentence),
        *(Line("note", note) for note in notes),
    ]


def how_it_holds(label: str, sources: Sequence[int] = ()) -> str:
    """When a promise holds that rests on earlier noise; empty for new noise alone, which holds whatever was asked.

    >>> how_it_holds("independent", [3, 7])
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


def cells(
    answer: Answer, rows: Sequence[Sequence[Any]], *, full: bool = False
) -> tuple[list[Heading], list[list[str]]]:
    """``rows`` of ``answer`` as text under its headings, with all digits if ``full``; as ``cells_of``."""
    return cells_of(answer.columns, rows, full=full)


def cells_of(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], *, full: bool = False
) -> tuple[list[Heading], list[list[str]]]:
    """``rows`` under ``columns`` as text. Values that have an interval show two digits of their own error.

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
            line += value_and_ends(row[place : place + 3], full=full) if interval else [label(row[place])]
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
    lines_before = [line.text for line in lines_of(answer) if line.name != "note"]
    return "\n".join([*table, *cut, "", *lines_before, receipt, *answer.notes])


def as_document(answer: Answer) -> dict[str, Any]:
    """The answer's text as part of its document: the first rows as cells, and the lines."""
    headings, lines = cells(answer, answer.rows[:MOST_LINES])
    return {
        "columns": [one.name for one in headings],
        "rows": lines,
        "lines": [line._asdict() for line in lines_of(answer)],
    }


def value_and_ends(values: Sequence[Any], *, full: bool = False) -> list[str]:
    """A value, low and high as text; nothing where nothing was measured."""
    value, low, high = values
    if value is None:
        return ["", "", ""]
    half = (Fraction(high) - Fraction(low)) / 2
    step = Fraction(0) if full or half <= 0 else step_for(half)
    return [number(value, step), number(low, step, "down"), number(high, step, "up")]
