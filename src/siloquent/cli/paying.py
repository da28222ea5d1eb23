"""How a command asks for money: the price is agreed to before anything is spent, and a failure says what stands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from siloquent.errors import RequestError, SiloquentError

if TYPE_CHECKING:
    from siloquent.cli.commands import Options
    from siloquent.door import Session

CHARGED = "the price is charged; asking again with the same --key costs no more"


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
