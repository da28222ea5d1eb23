"""Ledger documents: exact amounts in documents, four digits on screens, never rounded in the reader's favour."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

from siloquent.errors import RequestError

if TYPE_CHECKING:
    from siloquent.ledger import Account, Checkpoint, Entry, LedgerVerdict
    from siloquent.privacy import Cost


_AMOUNT = re.compile(r"-?[0-9]{1,400}(\.[0-9]{1,400})?([eE][+-]?[0-9]{1,3})?|[0-9]{1,400}/[1-9][0-9]{0,400}")


def format_exact_amount(account: Account, units: int) -> str:
    """Format whole units of an account in epsilon or rho, with all digits."""
    return format((Decimal(units) / _get_scale(account)).normalize(), "f") if units else "0"


def format_amount(account: Account, units: int, towards: Literal["down", "up"]) -> str:
    """Format whole units with symbol and four digits: remaining amounts are rounded ``down``, spent ones ``up``."""
    from siloquent.privacy import get_accountant

    amount = format_significant(Fraction(units, _get_scale(account)), towards)
    return f"{get_accountant(account.accountant).symbol} {amount}"


def format_significant(value: Fraction, towards: Literal["down", "up"]) -> str:
    """Format ``value`` with four significant digits, as plain decimal text.

    >>> format_significant(Fraction(2, 3), "down"), format_significant(Fraction(2, 3), "up")
    ('0.6666', '0.6667')
    """
    from decimal import ROUND_CEILING, ROUND_FLOOR, Context

    context = Context(prec=4, rounding=ROUND_FLOOR if towards == "down" else ROUND_CEILING)
    return format(context.divide(Decimal(value.numerator), Decimal(value.denominator)).normalize(), "f")


def format_told_amount(account: Mapping[str, Any], name: Literal["limit", "spent", "left"]) -> str:
    """Format an amount of an account's document with symbol and four digits: spent is rounded up, the rest down."""
    amount = format_significant(parse_amount(account[name]), "up" if name == "spent" else "down")
    return f"{account['symbol']} {amount}"


def parse_amount(text: Any) -> Fraction:
    """Parse an amount from another machine. Its length is bounded: ``1e999999999`` is short but would fill all memory.

    >>> parse_amount("0.0603"), parse_amount("1/100"), parse_amount("2.5e-06")
    (Fraction(603, 10000), Fraction(1, 100), Fraction(1, 400000))

    Raises:
        RequestError: The text is not an amount.
    """
    if not isinstance(text, str) or not _AMOUNT.fullmatch(text):
        raise RequestError("The server tells an amount that is none.", fix="look at the address after --server")
    return Fraction(text)


def build_account_document(account: Account) -> dict[str, Any]:
    """Return an account as a document of kind ``siloquent/account/1``; amounts are exact decimal text."""
    from siloquent.privacy import ATTO, get_accountant

    return {
        "schema": "siloquent/account/1",
        "name": account.name,
        "parent": account.parent,
        "accountant": account.accountant,
        "symbol": get_accountant(account.accountant).symbol,
        "unit": account.unit,
        "adjacency": account.adjacency,
        "limit": format_exact_amount(account, account.limit.amount),
        "spent": format_exact_amount(account, account.spent.amount),
        "left": format_exact_amount(account, account.left.amount),
        "delta_limit": format(Decimal(account.limit.delta) / ATTO, "f"),
        "delta_spent": format(Decimal(account.spent.delta) / ATTO, "f"),
        "successor": account.successor,
    }


def cost_document(account: Account, cost: Cost) -> dict[str, str]:
    """Build the part of a document with an account's charge; amounts are exact decimal text."""
    from siloquent.privacy import ATTO, get_accountant

    return {
        "symbol": get_accountant(account.accountant).symbol,
        "spent": format_exact_amount(account, cost.amount),
        "delta": format(Decimal(cost.delta) / ATTO, "f"),
    }


def build_entry_document(entry: Entry) -> dict[str, Any]:
    """Return an entry of the chain as a document of kind ``siloquent/entry/1``; ``body`` is the hashed text."""
    return {
        "schema": "siloquent/entry/1",
        "seq": entry.seq,
        "at": entry.at,
        "kind": entry.kind,
        "account": str(entry.body.get("account", "")),
        "prev": entry.prev,
        "hash": entry.hash,
        "body": entry.body,
    }


def build_verdict_document(verdict: LedgerVerdict, kept: Checkpoint | None) -> dict[str, Any]:
    """Return a verification result as a document of kind ``siloquent/verdict/1``; ``kept``: the compared checkpoint."""
    return {
        "schema": "siloquent/verdict/1",
        "ok": verdict.ok,
        "entries": verdict.entries,
        "first_bad_seq": verdict.first_bad_seq,
        "problem": verdict.problem,
        "checkpoint": kept.seq if kept else None,
    }


def _get_scale(account: Account) -> int:
    from siloquent.privacy import get_accountant

    return get_accountant(account.accountant).scale
