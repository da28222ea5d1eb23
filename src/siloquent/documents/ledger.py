"""Ledger documents: exact amounts in documents, four digits on screens, never rounded in the reader's favour."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from siloquent.errors import RequestError, SiloquentError
from siloquent.fixes import PYTHON, FixLanguage

if TYPE_CHECKING:
    from siloquent.discover.kept import DomainFault
    from siloquent.explore import HistoryEntry
    from siloquent.ledger import Account, Checkpoint, Entry, Ledger, LedgerVerdict
    from siloquent.privacy import Cost
    from siloquent.schema import TableBudget
    from siloquent.session import WorkspaceSession


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


def format_share(amount: Fraction, whole: Fraction, towards: Literal["down", "up"]) -> str:
    """Format ``amount`` as a percentage of ``whole`` with two digits: what is left is rounded down, the rest up.

    >>> format_share(Fraction(1, 31), Fraction(1), "up"), format_share(Fraction(29, 30), Fraction(1), "down")
    ('3.3 %', '96 %')
    >>> format_share(Fraction(1, 10**6), Fraction(1), "up"), format_share(Fraction(0), Fraction(1), "up")
    ('less than 0.01 %', '0 %')
    """
    from decimal import ROUND_CEILING, ROUND_FLOOR, Context

    share = 100 * amount / whole if whole else Fraction(0)
    if 0 < share < Fraction(1, 100):
        return "less than 0.01 %"
    context = Context(prec=2 if share < 100 else 3, rounding=ROUND_FLOOR if towards == "down" else ROUND_CEILING)
    return f"{format(context.divide(Decimal(share.numerator), Decimal(share.denominator)).normalize(), 'f')} %"


def describe_share(price: Fraction, left: Fraction | None, limit: Fraction) -> str:
    """Describe a price by its share of the budget ``limit``, and how often ``left`` would pay for it.

    >>> describe_share(Fraction(1, 40), Fraction(3, 4), Fraction(1))
    '2.5 % of the budget; about 30 more such questions'
    """
    share = f"{format_share(price, limit, 'up')} of the budget"
    if left is None or not price:
        return share
    more = int(left / price)
    if more > 1_000:
        return f"{share}; more than 1,000 more such questions"
    rounded = more if more < 100 else more // 10 * 10
    return f"{share}; {f'about {rounded}' if more else 'no'} more such question{'s' if more != 1 else ''}"


def read_epsilon_limit(account: Mapping[str, Any]) -> Fraction | None:
    """Return the limit of an account's document if its owner set the budget as epsilon, otherwise None."""
    return parse_amount(account["limit"]) if str(account.get("declared") or "").startswith("epsilon") else None


def format_told_amount(account: Mapping[str, Any], name: Literal["limit", "spent", "left"]) -> str:
    """Format an amount of an account's document with symbol and four digits: spent is rounded up, the rest down."""
    amount = format_significant(parse_amount(account[name]), "up" if name == "spent" else "down")
    return f"{account['symbol']} {amount}"


def format_account_share(account: Mapping[str, Any], name: Literal["spent", "left"], *, full: bool = False) -> str:
    """Format an amount of an account's document by its share of a budget set as epsilon; ``full``: in its unit."""
    limit = None if full else read_epsilon_limit(account)
    if not limit:
        return format_told_amount(account, name)
    return format_share(parse_amount(account[name]), limit, "up" if name == "spent" else "down")


def format_delta(value: Fraction) -> str:
    """Format what is left of a delta, rounded down.

    >>> format_delta(Fraction(45, 10**8)), format_delta(Fraction(0))
    ('4.5e-7', '0')
    """
    from decimal import ROUND_FLOOR, Context

    shown = Context(prec=4, rounding=ROUND_FLOOR).divide(Decimal(value.numerator), Decimal(value.denominator))
    return f"{shown.normalize():e}" if shown else "0"


def format_delta_left(account: Mapping[str, Any]) -> str:
    """Format the delta left for events of an account's document; empty for an account that has none."""
    limit, spent = (parse_amount(account[name]) for name in ("delta_limit", "delta_spent"))
    return f"delta {format_delta(limit - spent)}" if limit else ""


def parse_amount(text: Any) -> Fraction:
    """Parse an amount from another machine. Its length is bounded: ``1e999999999`` is short but would fill all memory.

    >>> parse_amount("0.0603"), parse_amount("1/100"), parse_amount("2.5e-06")
    (Fraction(603, 10000), Fraction(1, 100), Fraction(1, 400000))

    Raises:
        RequestError: The text is not an amount.
    """
    if not isinstance(text, str) or not _AMOUNT.fullmatch(text):
        raise RequestError("The server returned an invalid amount.", fix="check the server's address")
    return Fraction(text)


def build_account_document(
    account: Account,
    *,
    remaining: int | None = None,
    shares: Mapping[str, Cost] | None = None,
    declared: TableBudget | None = None,
) -> dict[str, Any]:
    """Return an account as a document of kind ``siloquent/account/1``; amounts are exact decimal text.

    Args:
        remaining: The units that may still be spent, if a parent account may have less than this one.
        shares: The limits of analysts' accounts below it, by name, if they are to be shown.
        declared: The table's budget as its owner declares it now, if the account is of that epoch.
    """
    from siloquent.privacy import ATTO, get_accountant

    limits = [
        {"account": name, "limit": format_exact_amount(account, limit.amount)} for name, limit in (shares or {}).items()
    ]
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
        "left": format_exact_amount(account, account.left.amount if remaining is None else remaining),
        "delta_limit": format(Decimal(account.limit.delta) / ATTO, "f"),
        "delta_spent": format(Decimal(account.spent.delta) / ATTO, "f"),
        "successor": account.successor,
        **({"shares": limits} if limits else {}),
        **({"declared": str(declared)} if declared else {}),
    }


def build_session_account_document(session: WorkspaceSession, account: Account) -> dict[str, Any]:
    """Return ``account`` as a document, with the budget that its table's file declares if it is of that epoch."""
    declared = None
    with suppress(SiloquentError):  # the file may be gone or invalid; the account stays
        schema = session.schema(session.find_table(account.name.partition("@")[0]))
        declared = schema.budget if account.name.partition("/")[0] == schema.account else None
    return build_account_document(account, declared=declared)


def build_account_list_document(accounts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return accounts' documents as one of kind ``siloquent/account-list/1``."""
    return {"schema": "siloquent/account-list/1", "accounts": list(accounts)}


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


def build_entry_list_document(entries: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return entries' documents as one of kind ``siloquent/entry-list/1``."""
    return {"schema": "siloquent/entry-list/1", "entries": list(entries)}


def build_ledger_document(
    ledger: str, accounts: Sequence[Mapping[str, Any]], entries: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return accounts' and entries' documents as one of kind ``siloquent/ledger/1``."""
    return {
        "schema": "siloquent/ledger/1",
        "ledger": ledger,
        "accounts": list(accounts),
        "entries": list(entries),
    }


def build_head_document(ledger: Ledger) -> dict[str, Any]:
    """Return the number and hash of a ledger's newest entry as a document of kind ``siloquent/head/1``."""
    head = ledger.read_head()
    return {"schema": "siloquent/head/1", "ledger": ledger.id, "seq": head.seq, "hash": head.hash}


def build_checkpoint_document(checkpoint: Checkpoint, file: Path) -> dict[str, Any]:
    """Return a checkpoint as a document of kind ``siloquent/checkpoint/1``; its totals are in its file."""
    return {
        "schema": "siloquent/checkpoint/1",
        "ledger": checkpoint.ledger,
        "seq": checkpoint.seq,
        "hash": checkpoint.hash,
        "file": str(file),
    }


def build_history_document(table: str, entries: Sequence[HistoryEntry]) -> dict[str, Any]:
    """Return the questions asked about a table as a document of kind ``siloquent/history/1``."""
    return {"schema": "siloquent/history/1", "table": table, "questions": [entry.to_json() for entry in entries]}


def build_verdict_document(
    verdict: LedgerVerdict,
    kept: Checkpoint | None,
    faults: Sequence[DomainFault] = (),
    language: FixLanguage = PYTHON,
) -> dict[str, Any]:
    """Return a verification result as a document of kind ``siloquent/verdict/1``.

    Args:
        kept: The compared checkpoint.
        faults: The domain files that do not hold what the ledger released.
    """
    return {
        "schema": "siloquent/verdict/1",
        "ok": verdict.ok and not faults,
        "entries": verdict.entries,
        "first_bad_seq": verdict.first_bad_seq,
        "problem": verdict.problem,
        "checkpoint": kept.seq if kept else None,
        "domains": [{"name": one.name, "problem": one.sentence, "fix": one.fix.render(language)} for one in faults],
    }


def _get_scale(account: Account) -> int:
    from siloquent.privacy import get_accountant

    return get_accountant(account.accountant).scale
