"""Consent to a price before any charge, and a report of existing charges after a failure."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from siloquent.cli.base.problems import UNCONFIRMED, Interrupted
from siloquent.errors import RequestError, SiloquentError

if TYPE_CHECKING:
    from siloquent.api import Session
    from siloquent.charge import PreparedRelease
    from siloquent.cli.base.command import Options

# The options of every command that pays.
Epsilon = Annotated[str | None, typer.Option("--epsilon", help="The maximum cost, in epsilon.")]
Rho = Annotated[str | None, typer.Option("--rho", help="The maximum cost, in rho (zCDP accounts).")]
Key = Annotated[
    str | None, typer.Option("--key", help="A name for this request; repeating it with the same key is free.")
]
Yes = Annotated[bool, typer.Option("--yes", help="Accept the cost without confirmation.")]
MaxCost = Annotated[
    str | None,
    typer.Option("--max-cost", metavar="X", help="Accept a cost of up to X in the account's epsilon or rho."),
]
Dry = Annotated[bool, typer.Option("--explain", help="Only show the cost.")]


CHARGED = "the cost is charged; repeating with the same --key costs no more"


def confirm_price(
    options: Options,
    price: str,
    *,
    what: str,
    question: str,
    yes: bool,
    max_cost: str | None,
    prepared: PreparedRelease[Any, Any] | None = None,
) -> bool:
    """Return whether ``price`` may be paid: agreed by an option, or now at the terminal.

    Args:
        what: The purpose of the price, in a separate sentence that ends with the price.
        prepared: The release, if it has a single measurement: one that was made under its key already costs nothing.
    Raises:
        RequestError: nothing was confirmed, and standard input is not a terminal.
    """
    if yes or max_cost is not None or (prepared is not None and _is_made(prepared)):
        return True
    if not options.screen.can_ask:
        raise RequestError(f"This costs {price}; {UNCONFIRMED}", fix=options.format_rerun("--yes"))
    options.screen.warn(what)
    return options.screen.confirm(question)


def _is_made(prepared: PreparedRelease[Any, Any]) -> bool:
    from siloquent.ledger import SettledAnswer

    return isinstance(prepared.charge.find_existing(prepared.session), SettledAnswer)


@contextmanager
def track_charge(options: Options, session: Session, key: str | None) -> Iterator[str]:
    """Yield the key for the block's charges, ``key`` or a new one; then print the command to repeat it free."""
    own = key or create_key()
    given = [] if "--key" in options.typed else ["--key", own]
    consent = [] if {"--yes", "--max-cost"} & set(options.typed) else ["--yes"]
    again = options.format_rerun(*given, *consent)
    with report_charge_on_failure(session, own, again) as is_charged:
        yield own
    if is_charged():
        options.screen.note(f"\nTo repeat this at no cost: {again}")


@contextmanager
def report_charge_on_failure(session: Session, key: str, again: str) -> Iterator[Callable[[], bool]]:
    """Make any failure in the block say whether it was charged, from the ledger, and how to continue at no cost.

    Args:
        again: The command that repeats the request under ``key``.
    """
    before = session.ledger.read_head().seq

    def is_charged() -> bool:
        entries = session.ledger.iter_entries(after=before)
        return any(one.kind == "reserve" and str(one.body.get("key", "")).endswith(f":{key}") for one in entries)

    try:
        yield is_charged
    except KeyboardInterrupt:
        if is_charged():
            raise Interrupted(CHARGED, again) from None
        raise
    except Exception as failed:  # allowed: adds what was spent and how to ask again, and raises on
        if is_charged():
            failed.add_note(f"To repeat this without a second charge: {again}")
            if isinstance(failed, SiloquentError):
                failed.spent = CHARGED
        raise


def create_key() -> str:
    """Return a key for a request without one."""
    return f"cli-{uuid.uuid4().hex[:12]}"
