"""How a command asks for money: the price is agreed to before anything is spent, and a failure says what stands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import TYPE_CHECKING, Protocol

from siloquent.errors import RequestError, SiloquentError

if TYPE_CHECKING:
    from siloquent.cli.commands import Options
    from siloquent.door import Session
    from siloquent.schema import TableSchema


class Priced(Protocol):
    """A plan of any task, as far as its price goes."""

    @property
    def schema(self) -> TableSchema:
        """The table that pays."""

    @property
    def price(self) -> Fraction:
        """What would be charged, in the account's epsilon or rho."""


CHARGED = "the price is charged; asking again with the same --key costs no more"


def price_words(planned: Priced) -> str:
    """The price, and its meaning in epsilon where the account counts in rho."""
    from siloquent.documents.money import four_digits
    from siloquent.privacy import accountant, digits, epsilon_of_zcdp

    budget = planned.schema.budget
    words = f"{accountant(budget.accountant).symbol} {four_digits(planned.price, 'up')}"
    if budget.accountant == "zcdp":
        delta = budget.delta - budget.delta_events
        words += f" (epsilon {digits(epsilon_of_zcdp(float(planned.price), float(delta)))} on its own)"
    return words


def agreed(options: Options, price: str, *, what: str, question: str, yes: bool, max_cost: str | None) -> bool:
    """Whether ``price`` may be paid: said beforehand, or now by somebody at the terminal.

    Args:
        what: What costs it, in a sentence of its own that ends with the price.
    Raises:
        RequestError: nobody said so, and nobody is there to ask.
    """
    if yes or max_cost is not None:
        return True
    if not options.screen.can_ask:
        raise RequestError(f"This costs {price}, and nobody is here to agree to it.", fix=options.again("--yes"))
    options.screen.warn(what)
    return options.screen.confirm(question)


@contextmanager
def charged(options: Options, session: Session, key: str) -> Iterator[None]:
    """What fails in here after the charge says that it stands, and how to go on without paying twice."""
    before = session.ledger.head().seq
    try:
        yield
    except SiloquentError as failed:
        if any(entry.kind == "reserve" for entry in session.ledger.entries(after=before)):
            failed.spent = CHARGED
            failed.add_note(f"Again, without paying twice: {options.again('--key', key)}")
        raise
