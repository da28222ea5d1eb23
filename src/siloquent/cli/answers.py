"""Answers and prices for people: intervals, a picture, the promise, the guarantee, the receipt."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from siloquent.cli.problems import clean_lines
from siloquent.cli.screen import LEFT, RIGHT, Screen, Side
from siloquent.pictures.bars import bar
from siloquent.pictures.plain import clean, number, share, step_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from siloquent.explore import Answer, CompositeExplanation, Explanation

MOST_SHOWN = 100
BAR_WIDTH = 30


def answer_document(answer: Answer, key: str) -> dict[str, Any]:
    """The answer's own document and the key with which it is free."""
    return {**answer.to_json(), "key": key}


def show_answer(screen: Screen, answer: Answer, *, again: str, full: bool, all_rows: bool) -> None:
    """The table, then what it means and what it cost."""
    from siloquent.explore.spec.shown import cells

    shown = answer.rows if all_rows else answer.rows[:MOST_SHOWN]
    headings, lines = cells(answer, shown, full=full)
    columns: list[tuple[str, Side]] = [(one.name, RIGHT if one.numbers else LEFT) for one in headings]
    if answer.kind == "wcq" and screen.draws and len(shown) > 1:
        columns.append(("", LEFT))
        lines = [[*line, drawn] for line, drawn in zip(lines, _bars(screen, shown), strict=True)]
    screen.table(columns, lines)
    if len(shown) < len(answer.rows):
        screen.note(
            f"{len(answer.rows) - len(shown):,} more rows: --all, or siloquent release export {answer.id} -o FILE"
        )
    screen.facts(_facts(answer))
    screen.note(f"\nAgain, for free: {again}")


def _bars(screen: Screen, rows: Sequence[Sequence[Any]]) -> list[str]:
    """A bar a row, whose light part is the interval."""
    span = min(0.0, *(float(row[-2]) for row in rows)), max(0.0, *(float(row[-1]) for row in rows))
    return [
        bar(float(low), float(value), float(high), span=span, width=BAR_WIDTH, ascii_only=screen.ascii_only)
        for *_, value, low, high in rows
    ]


def _facts(answer: Answer) -> list[tuple[str, str]]:
    from siloquent.documents.money import four_digits
    from siloquent.explore.spec.shown import lines_of

    left = f"{answer.cost.symbol} {four_digits(answer.cost.left, 'down')} of {clean(answer.cost.account)} left"
    if answer.replayed:
        paid = "nothing: this key was answered before, and the ledger keeps its answer"
    elif not answer.cost.amount:
        paid = f"nothing: it is computed from earlier answers; {left}"
    else:
        paid = f"{answer.cost.symbol} {four_digits(answer.cost.amount, 'up')}; {left}"
    receipt, lines = answer.receipt, lines_of(answer)
    place = f"entry {receipt.seq} ({receipt.hash[:12]}) of ledger {receipt.ledger[:12]}; release {answer.id}"
    return [
        *((line.name, _promise(line.text) if line.name == "promise" else clean_lines(line.text)) for line in lines),
        ("cost", paid),
        ("receipt", place),
    ]


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
    from siloquent.explore.spec.shown import how_it_holds

    part = share(explanation.price, explanation.left_before, ascii_only=screen.ascii_only)
    document = explanation.to_json()
    holds = how_it_holds(document["label"], document["sources"])
    screen.facts(
        [
            ("promise", _promise(explanation.promise)),
            ("price", price_words(explanation)),
            ("", f"{part} of what is left"),
            *([("holds", holds)] if holds else []),
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
