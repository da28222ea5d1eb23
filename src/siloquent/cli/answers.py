"""Answers and prices for people: intervals, a picture, the promise, the guarantee, the receipt."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from siloquent.cli.problems import clean_lines
from siloquent.cli.screen import LEFT, RIGHT, Screen, Side
from siloquent.documents.plain import clean, label, number, share, step_for
from siloquent.pictures.bars import bar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from siloquent.explore import Answer, CompositeExplanation, Explanation

MOST_SHOWN = 100
BAR_WIDTH = 30


def answer_document(answer: Answer, key: str) -> dict[str, Any]:
    """The answer's own document and the key with which it is free."""
    return {**answer.to_json(), "key": key}


MOST_SOURCES = 10


def show_answer(screen: Screen, answer: Answer, *, again: str, full: bool, all_rows: bool) -> None:
    """The table, then what it means and what it cost."""
    shown = answer.rows if all_rows else answer.rows[:MOST_SHOWN]
    if answer.kind == "wcq":
        _values(screen, answer, shown, full=full)
    elif answer.kind == "composite":
        _several(screen, answer, shown, full=full)
    else:
        screen.table([(name, LEFT) for name in answer.columns], [[label(value) for value in row] for row in shown])
    if len(shown) < len(answer.rows):
        screen.note(
            f"{len(answer.rows) - len(shown):,} more rows: --all, or siloquent release export {answer.id} -o FILE"
        )
    screen.facts(_facts(answer))
    screen.note(f"\nAgain, for free: {again}")


def _values(screen: Screen, answer: Answer, rows: Sequence[Sequence[Any]], *, full: bool) -> None:
    """Keys, value, interval and, on a terminal, a bar whose light part is the interval."""
    *keys, name, _, _ = answer.columns
    step = Fraction(0) if full else step_for(answer.accuracy.alpha)
    columns = [*((key, LEFT) for key in keys), (name, RIGHT), ("at least", RIGHT), ("at most", RIGHT)]
    lines = [
        [*map(label, groups), number(value, step), number(low, step, "down"), number(high, step, "up")]
        for *groups, value, low, high in rows
    ]
    if screen.draws and len(rows) > 1:
        columns.append(("", LEFT))
        span = min(0.0, *(float(row[-2]) for row in rows)), max(0.0, *(float(row[-1]) for row in rows))
        for line, (*_, value, low, high) in zip(lines, rows, strict=True):
            bounds = float(low), float(value), float(high)
            line.append(bar(*bounds, span=span, width=BAR_WIDTH, ascii_only=screen.ascii_only))
    screen.table(columns, lines)


def _several(screen: Screen, answer: Answer, rows: Sequence[Sequence[Any]], *, full: bool) -> None:
    """Each aggregate with its interval, every value as finely as its own interval is wide."""
    columns: list[tuple[str, Side]] = []
    cells: list[list[str]] = [[] for _ in rows]
    place = 0
    while place < len(answer.columns):
        name, *ends = answer.columns[place : place + 3]
        values = [row[place : place + 3] for row in rows]
        if ends in (["low", "high"], [f"{name}_low", f"{name}_high"]):
            columns += [(name, RIGHT), ("at least", RIGHT), ("at most", RIGHT)]
            texts = [_interval(*value, full=full) for value in values]
            place += 3
        else:
            columns.append((name, LEFT))
            texts = [[label(value[0])] for value in values]
            place += 1
        for line, text in zip(cells, texts, strict=True):
            line += text
    screen.table(columns, cells)


def _interval(value: Any, low: Any, high: Any, *, full: bool) -> list[str]:
    if value is None:
        return ["", "", ""]
    half = (Fraction(high) - Fraction(low)) / 2
    step = Fraction(0) if full or not half else step_for(half)
    return [number(value, step), number(low, step, "down"), number(high, step, "up")]


def _facts(answer: Answer) -> list[tuple[str, str]]:
    from siloquent.documents.money import four_digits

    left = f"{answer.cost.symbol} {four_digits(answer.cost.left, 'down')} of {clean(answer.cost.account)} left"
    if answer.replayed:
        paid = "nothing: this key was answered before, and the ledger keeps its answer"
    elif not answer.cost.amount:
        paid = f"nothing: it is computed from earlier answers; {left}"
    else:
        paid = f"{answer.cost.symbol} {four_digits(answer.cost.amount, 'up')}; {left}"
    receipt = answer.receipt
    place = f"entry {receipt.seq} ({receipt.hash[:12]}) of ledger {receipt.ledger[:12]}; release {answer.id}"
    return [
        ("promise", _promise(answer.promise)),
        *_how(answer.accuracy.label, answer.accuracy.sources),
        ("cost", paid),
        ("privacy", clean_lines(answer.guarantee.sentence())),
        ("receipt", place),
        *[("note", clean(note)) for note in answer.notes],
    ]


def _how(label: str, sources: Sequence[int]) -> list[tuple[str, str]]:
    """How the promise holds, where that needs a word: what draws from new noise alone holds whatever was asked."""
    if label == "fresh":
        return []
    seqs = ", ".join(str(seq) for seq in sources[:MOST_SOURCES]) + (", ..." if len(sources) > MOST_SOURCES else "")
    when = "whatever was asked" if label == "simultaneous" else "if the question was not chosen from those answers"
    return [("holds", f"{label}: draws from entries {seqs} of the ledger, and holds {when}")]


def _promise(promise: str) -> str:
    """One promise a line."""
    return clean_lines(promise.replace("; ", ";\n"))


def price_words(explanation: Explanation | CompositeExplanation) -> str:
    """The price of a question, its meaning in epsilon where the account counts in rho, and what it leaves."""
    from siloquent.documents.money import four_digits
    from siloquent.privacy import digits

    meaning = f" (epsilon {digits(explanation.epsilon)} on its own)" if explanation.epsilon is not None else ""
    before = f"{explanation.symbol} {four_digits(explanation.left_before, 'down')}"
    if explanation.left_after is None:
        leaves = f"has only {before} left"
    else:
        leaves = f"has {before} left, and {four_digits(explanation.left_after, 'down')} afterwards"
    price = four_digits(explanation.price, "up")
    return f"{explanation.symbol} {price}{meaning}; {clean(explanation.account)} {leaves}"


def show_explanation(screen: Screen, explanation: Explanation | CompositeExplanation, *, ask: str) -> None:
    """What would be promised, at which price, by which mechanism and instead of which."""
    part = share(explanation.price, explanation.left_before, ascii_only=screen.ascii_only)
    document = explanation.to_json()
    screen.facts(
        [
            ("promise", _promise(explanation.promise)),
            ("price", price_words(explanation)),
            ("", f"{part} of what is left"),
            *_how(document["label"], document["sources"]),
            *[("note", clean(note)) for note in explanation.notes],
            ("data", "not touched; nothing was spent"),
        ]
    )
    screen.table(*(_parts(document, explanation.symbol) if "steps" in document else _candidates(explanation, document)))
    if explanation.left_after is None:
        screen.note("This does not fit into what is left: ask for a larger error.")
    else:
        screen.note(f"Next: {ask}")


_Table = tuple[list[tuple[str, Side]], list[list[str]]]


def _candidates(explanation: Explanation | CompositeExplanation, document: dict[str, Any]) -> _Table:
    """All mechanisms that would do, the chosen one marked."""
    head: list[tuple[str, Side]] = [
        ("", LEFT),
        ("mechanism", LEFT),
        (f"{explanation.symbol} at most", RIGHT),
        ("reusable", LEFT),
    ]
    rows = [
        [
            ">" if candidate["name"] == explanation.chosen else "",
            clean(candidate["name"]),
            str(candidate["worst"]),
            "yes" if candidate["reusable"] else "no",
        ]
        for candidate in document["candidates"]
    ]
    return head, rows


def _parts(document: dict[str, Any], symbol: str) -> _Table:
    """What each charge pays for."""
    head: list[tuple[str, Side]] = [
        ("charge", LEFT),
        ("measured", LEFT),
        ("within", RIGHT),
        ("mechanism", LEFT),
        (f"{symbol} at most", RIGHT),
    ]
    rows = [
        [
            str(charge),
            clean(part["part"]),
            f"{number(Fraction(part['alpha']), step_for(Fraction(part['alpha'])), 'up')} {clean(part['unit'])}",
            clean(part["chosen"]),
            part["cost"][symbol],
        ]
        for charge, step in enumerate(document["steps"], 1)
        for part in step
    ]
    return head, rows
