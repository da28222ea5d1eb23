"""The price of a question, and one confirmation before any charge: the same locally and at a server."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING

from siloquent.cli.base.problems import UNCONFIRMED
from siloquent.cli.explore.questions import TypedQuestion, strip_explain
from siloquent.errors import RequestError

if TYPE_CHECKING:
    from siloquent.cli.base.query_session import QuerySession, ShownPrice
    from siloquent.explore import Query


def find_limit(session: QuerySession, table: str, *, full: bool) -> Fraction | None:
    """Return the whole budget of ``table`` if it was set as epsilon: amounts are then shown by their share of it.

    Args:
        full: Show amounts in the account's epsilon or rho instead.
    """
    from siloquent.documents.ledger import read_epsilon_limit

    return None if full else read_epsilon_limit(session.get_table_document(table)["account"])


def show_price(
    asked: TypedQuestion, explanation: ShownPrice, query: Query, text: str, *, limit: Fraction | None = None
) -> None:
    """Print an explanation, and the command that asks the question."""
    from siloquent.cli.explore.output import show_explanation

    options = asked.options
    if options.as_json:
        options.screen.write_document(explanation.to_json())
        return
    ask = asked.format_ask() if not query.explain else options.format_command("ask", strip_explain(query, text))
    show_explanation(options.screen, explanation, ask=ask, limit=limit)


def confirm_explained_price(
    asked: TypedQuestion,
    explain: Callable[[], ShownPrice],
    *,
    yes: bool,
    max_cost: str | None,
    limit: Fraction | None = None,
) -> bool:
    """Return whether the price may be paid: agreed by an option, or now at the terminal, after ``explain`` says it.

    Nothing needs no consent.

    Raises:
        RequestError: nothing was confirmed, and standard input is not a terminal.
    """
    from siloquent.cli.explore.output import describe_price

    if yes or max_cost is not None:
        return True
    options, explanation = asked.options, explain()
    if not explanation.price:  # the key was answered before, or earlier answers suffice
        return True
    if explanation.left_after is None:
        # The ledger itself refuses a price above the remaining budget, and suggests one that fits.
        return True
    price = describe_price(explanation, limit=limit)
    if not options.screen.can_ask:
        free = "" if asked.key is None else f" It is free if the key {asked.key!r} was answered before."
        raise RequestError(f"This costs {price}; {UNCONFIRMED}{free}", fix=asked.format_ask("--yes"))
    options.screen.warn(f"{explanation.promise}\nIt costs {price}.")
    if asked.key is not None:
        options.screen.warn("If this key was used before, the stored answer is returned at no cost.")
    return options.screen.confirm("Ask?")
