"""Display of answers and prices: intervals, a chart, the accuracy, the guarantee, the receipt."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from siloquent.charts.bars import draw_text_bar
from siloquent.charts.text import clean_text, compute_step, draw_share_bar, format_number
from siloquent.cli.base.problems import clean_lines
from siloquent.cli.base.screen import LEFT, RIGHT, Screen, Side

if TYPE_CHECKING:
    from collections.abc import Sequence

    from siloquent.cli.base.query_session import ShownPrice
    from siloquent.explore import Answer

MAX_SHOWN = 100
BAR_WIDTH = 30


def show_answer(
    screen: Screen,
    answer: Answer,
    *,
    again: str,
    full: bool,
    all_rows: bool,
    limit: Fraction | None = None,
) -> None:
    """Print the table, then its meaning and cost.

    Args:
        limit: As in ``describe_price``.
    """
    from siloquent.explore.spec.answers.text import format_cells

    shown = answer.rows if all_rows else answer.rows[:MAX_SHOWN]
    headings, lines = format_cells(answer.columns, shown, full=full, labels=answer.labels)
    columns: list[tuple[str, Side]] = [(one.name, RIGHT if one.numbers else LEFT) for one in headings]
    if answer.kind == "wcq" and screen.draws and len(shown) > 1:
        columns.append(("", LEFT))
        lines = [[*line, drawn] for line, drawn in zip(lines, _draw_bars(screen, shown), strict=True)]
    screen.write_table(columns, lines)
    if len(shown) < len(answer.rows):
        screen.note(
            f"{len(answer.rows) - len(shown):,} more rows: --all, or siloquent release export {answer.id} -o FILE"
        )
    screen.write_facts(_list_facts(answer, limit))
    screen.note(f"\nTo repeat this at no cost: {again}")


def _draw_bars(screen: Screen, rows: Sequence[Sequence[Any]]) -> list[str]:
    """Return a bar per row, whose light part is the interval."""
    span = min(0.0, *(float(row[-2]) for row in rows)), max(0.0, *(float(row[-1]) for row in rows))
    return [
        draw_text_bar(float(low), float(value), float(high), span=span, width=BAR_WIDTH, ascii_only=screen.ascii_only)
        for *_, value, low, high in rows
    ]


def _list_facts(answer: Answer, limit: Fraction | None) -> list[tuple[str, str]]:
    from siloquent.documents.ledger import describe_share, format_share, format_significant

    amount = f"{answer.cost.symbol} {format_significant(answer.cost.left, 'down')}"
    left = f"{amount} of {clean_text(answer.cost.account)} remaining"
    if limit:
        left = f"{format_share(answer.cost.left, limit, 'down')} of {clean_text(answer.cost.account)} is left"
    if answer.replayed:
        paid = "nothing: this key was used before; the stored answer is returned"
    elif not answer.cost.amount:
        paid = f"nothing: it is computed from earlier answers; {left}"
    else:
        paid = f"{answer.cost.symbol} {format_significant(answer.cost.amount, 'up')}; {left}"
        if limit:
            paid = f"{describe_share(answer.cost.amount, answer.cost.left, limit)}; {left}"
    receipt, lines = answer.receipt, answer.list_lines()
    place = f"entry {receipt.seq} ({receipt.hash[:12]}) of ledger {receipt.ledger[:12]}; release {answer.id}"
    return [
        *(
            (line.name, _split_promise(line.text) if line.name == "promise" else clean_lines(line.text))
            for line in lines
        ),
        ("cost", paid),
        ("receipt", place),
    ]


def _split_promise(promise: str) -> str:
    """Return one promise per line."""
    return clean_lines(promise.replace("; ", ";\n"))


def describe_price(explanation: ShownPrice, *, limit: Fraction | None = None) -> str:
    """Return a question's price, its meaning in epsilon if the account counts in rho, and the remaining budget.

    Args:
        limit: The whole budget, if the price is to be described by its share of it.
    """
    from siloquent.documents.ledger import describe_share, format_share, format_significant

    cost = explanation.to_json()["cost"]
    meaning = f" (epsilon {clean_text(cost['epsilon'])} on its own)" if {"rho", "epsilon"} <= set(cost) else ""
    if limit:
        share, _, more = describe_share(explanation.price, explanation.left_after, limit).partition("; ")
        if explanation.symbol == "epsilon":
            meaning = f" (epsilon {format_significant(explanation.price, 'up')})"
        left = f"{format_share(explanation.left_before, limit, 'down')} is left"
        return f"{share}{meaning}; {f'only {left}' if explanation.left_after is None else more or left}"
    before = f"{explanation.symbol} {format_significant(explanation.left_before, 'down')}"
    if explanation.left_after is None:
        leaves = f"has only {before} remaining"
    else:
        leaves = f"has {before} remaining, {format_significant(explanation.left_after, 'down')} afterwards"
    price = format_significant(explanation.price, "up")
    return f"{explanation.symbol} {price}{meaning}; {clean_text(explanation.account)} {leaves}"


def show_explanation(screen: Screen, explanation: ShownPrice, *, ask: str, limit: Fraction | None = None) -> None:
    """Print the accuracy and price of a question, its mechanism and the alternatives.

    Args:
        limit: As in ``describe_price``; None: amounts in the account's epsilon or rho.
    """
    from siloquent.explore.spec.answers.text import describe_label

    part = draw_share_bar(explanation.price, explanation.left_before, ascii_only=screen.ascii_only)
    document = explanation.to_json()
    holds = describe_label(document["label"], document["sources"])
    screen.write_facts(
        [
            ("promise", _split_promise(explanation.promise)),
            ("price", describe_price(explanation, limit=limit)),
            ("", f"{part} of the remaining budget"),
            *([("holds", holds)] if holds else []),
            *[("note", clean_text(note)) for note in explanation.notes],
            ("data", "not read; nothing was spent"),
        ]
    )
    screen.write_table(
        *(
            _build_parts(document, explanation.symbol, limit)
            if "steps" in document
            else _build_candidates(explanation, document, limit)
        )
    )
    if explanation.left_after is None:
        screen.note("This exceeds the remaining budget. Use a larger ERROR.")
    else:
        screen.note(f"Next: {ask}")


_Table = tuple[list[tuple[str, Side]], list[list[str]]]


def _format_at_most(amount: Any, limit: Fraction | None) -> str:
    """Return an exact amount, or its share of the budget ``limit``."""
    from siloquent.documents.ledger import format_share, parse_amount

    return format_share(parse_amount(str(amount)), limit, "up") if limit else str(amount)


def _build_candidates(explanation: ShownPrice, document: dict[str, Any], limit: Fraction | None) -> _Table:
    """Return all suitable mechanisms, with the chosen one marked."""
    head: list[tuple[str, Side]] = [
        ("", LEFT),
        ("mechanism", LEFT),
        ("budget at most" if limit else f"{explanation.symbol} at most", RIGHT),
        ("reusable", LEFT),
    ]
    rows = [
        [
            ">" if candidate["name"] == explanation.chosen else "",
            clean_text(candidate["name"]),
            _format_at_most(candidate.get("max_cost") or candidate["worst"], limit),  # a server of 0.1 says worst
            "yes" if candidate["reusable"] else "no",
        ]
        for candidate in document["candidates"]
    ]
    return head, rows


def _build_parts(document: dict[str, Any], symbol: str, limit: Fraction | None) -> _Table:
    """Return the purpose of each charge."""
    head: list[tuple[str, Side]] = [
        ("charge", LEFT),
        ("measured", LEFT),
        ("within", RIGHT),
        ("mechanism", LEFT),
        ("budget at most" if limit else f"{symbol} at most", RIGHT),
    ]
    rows = [
        [
            str(charge),
            clean_text(part["part"]),
            f"{format_number(alpha, compute_step(alpha), 'up')} {clean_text(part['unit'])}",
            clean_text(part["chosen"]),
            _format_at_most(part["cost"][symbol], limit),
        ]
        for charge, step in enumerate(document["steps"], 1)
        for part in step
        for alpha in [Fraction(part["alpha"])]
    ]
    return head, rows
