"""Answers and prices for people: intervals, a picture, the promise, the guarantee, the receipt."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from siloquent.cli.plain import bar, clean, label, number, share, step_for
from siloquent.cli.problems import clean_lines
from siloquent.cli.screen import LEFT, RIGHT, Screen

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
    shown = answer.rows if all_rows else answer.rows[:MOST_SHOWN]
    if answer.kind == "wcq":
        _values(screen, answer, shown, full=full)
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
        span = max((Fraction(row[-1]) for row in rows), default=Fraction(0))
        for line, (*_, value, low, high) in zip(lines, rows, strict=True):
            bounds = Fraction(low), Fraction(value), Fraction(high)
            line.append(bar(*bounds, span=span, width=BAR_WIDTH, ascii_only=screen.ascii_only))
    screen.table(columns, lines)


def _facts(answer: Answer) -> list[tuple[str, str]]:
    from siloquent.cli.amounts import four_digits

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
        ("promise", clean_lines(answer.promise)),
        ("cost", paid),
        ("privacy", clean_lines(answer.guarantee.sentence())),
        ("receipt", place),
        *[("note", clean(note)) for note in answer.notes],
    ]


def price_words(explanation: Explanation | CompositeExplanation) -> str:
    """The price of a question, its meaning in epsilon where the account counts in rho, and what it leaves."""
    from siloquent.cli.amounts import four_digits
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
    screen.facts(
        [
            ("promise", clean_lines(explanation.promise)),
            ("price", price_words(explanation)),
            ("", f"{part} of what is left"),
            ("data", "not touched; nothing was spent"),
        ]
    )
    screen.table(
        [("", LEFT), ("mechanism", LEFT), (f"{explanation.symbol} at most", RIGHT), ("reusable", LEFT)],
        [
            (
                ">" if candidate["name"] == explanation.chosen else "",
                clean(candidate["name"]),
                str(candidate["worst"]),
                "yes" if candidate["reusable"] else "no",
            )
            for candidate in explanation.to_json()["candidates"]
        ],
    )
    if explanation.left_after is None:
        screen.note("This does not fit into what is left: ask for a larger error.")
    else:
        screen.note(f"Next: {ask}")
