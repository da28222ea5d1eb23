"""The ledger's decisions, as functions of public values only: no storage, no clock, no rows.

All kinds of ledgers use these functions, so that none can be more permissive than another.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TypeVar, get_args

from siloquent.errors import BudgetExceeded, LedgerError, NotAllowed, RequestError
from siloquent.fixes import Fix, RunCommand, build_fix, run, use_budget
from siloquent.ledger.base import Account
from siloquent.privacy.accountants import ATTO, AccountantName, Cost, get_accountant
from siloquent.privacy.events import (
    ADD_REMOVE,
    ROW_ADD_REMOVE,
    Composed,
    Disclosure,
    Disjoint,
    Event,
    NoiseReduction,
    StabilityThreshold,
    event_to_json,
    list_required_settings,
)
from siloquent.privacy.guarantee import format_digits

LARGEST_LIMIT = 10**6
"""The maximum limit in epsilon or rho: beyond any useful guarantee, yet totals still fit 64-bit integers."""

MAX_NAME_LENGTH, MAX_KEY_LENGTH, MAX_EVENT_LENGTH = 200, 200, 1 << 20
_LARGEST_TEXT = 10**30
_UNIT = re.compile(r"row|user:.+:[1-9][0-9]*|shared:\w+")
_Setting = TypeVar("_Setting")
_EPOCH = re.compile(r"(?P<table>[^/]+)@(?P<epoch>[0-9]+)")


def check_text(what: str, text: str, longest: int) -> str:
    """Return ``text`` if it is printable, not blank and not too long: names and keys appear in terminals and pages."""
    if not isinstance(text, str) or not text.strip() or len(text) > longest or not text.isprintable():
        raise RequestError(f"A {what} must have 1 to {longest} printable characters, not {str(text)[:50]!r}.")
    return text


def check_limit(name: AccountantName, limit: Cost) -> Cost:
    """Return ``limit`` if it is valid for an account."""
    unit = get_accountant(name)
    if not isinstance(limit, Cost):
        raise RequestError(
            f"A limit must be a Cost in whole units, not {type(limit).__name__}.", fix='build_limit("zcdp", "1")'
        )
    if limit.amount > LARGEST_LIMIT * unit.scale or limit.delta > ATTO:
        raise RequestError(f"A limit can be at most {unit.symbol} {LARGEST_LIMIT} and delta 1.")
    return limit


def build_account(
    name: str,
    parent: Account | None,
    *,
    limit: Cost,
    accountant: AccountantName | None,
    unit: str | None,
    adjacency: str | None,
    disclosures: bool,
) -> Account:
    """Build the account of these settings with nothing spent; a share inherits its parent's settings."""
    check_text("name of an account", name, MAX_NAME_LENGTH)
    stem, _, label = name.rpartition("/")
    if (parent is None) != (not stem) or (parent is not None and stem != parent.name) or not label.strip():
        raise RequestError(f"{name!r} must be PARENT/LABEL for a share of PARENT, and without a slash for a table.")
    if parent is not None:
        accountant = _inherit_setting(name, "accountant", accountant, parent.accountant)
        unit = _inherit_setting(name, "unit", unit, parent.unit)
        adjacency = _inherit_setting(name, "adjacency", adjacency, parent.adjacency)
        if disclosures and not parent.disclosures:
            raise RequestError(f"{name!r} cannot allow disclosures: {parent.name!r} does not.")
    if accountant is None or accountant not in get_args(AccountantName):
        raise RequestError(f"The accountant of {name!r} must be pure or zcdp, not {accountant!r}.")
    if unit is None or not _UNIT.fullmatch(unit):
        raise RequestError(f"The unit of {name!r} must be row, user:COLUMN:ROWS or shared:UNIT, not {unit!r}.")
    if adjacency not in ("add-remove", "replace-one"):
        raise RequestError(f"The adjacency of {name!r} must be add-remove or replace-one, not {adjacency!r}.")
    check_limit(accountant, limit)
    parent_name = parent.name if parent else None
    return Account(name, parent_name, accountant, unit, adjacency, limit, Cost(0), disclosures)


def _inherit_setting(name: str, word: str, given: _Setting | None, own: _Setting) -> _Setting:
    if given is not None and given != own:
        raise RequestError(f"The {word} of {name!r} must be its parent's, {own!r}, not {given!r}.")
    return own


def require_same(existing: Account, wanted: Account) -> Account:
    """Return ``existing`` if it equals ``wanted``; opening an account twice must never change it."""
    for word in ("accountant", "unit", "adjacency", "disclosures"):
        if getattr(existing, word) != getattr(wanted, word):
            raise LedgerError(
                f"Account {wanted.name!r} already exists with another {word}: {getattr(existing, word)!r}.",
                fix=f"restore {word} in the table file; open a new epoch for people who are new to the table",
                http_status=409,
            )
    if existing.limit != wanted.limit:
        has, asked = (format_cost(a.accountant, a.limit, delta=True) for a in (existing, wanted))
        raise LedgerError(
            f"Account {wanted.name!r} already exists with a limit of {has}, not {asked}.",
            fix=run("budget set", parse_table_name(wanted.name)),
            http_status=409,
        )
    return existing


def build_next_epoch(old: Account, new: str, settings: Account | None = None) -> Account:
    """Build the account of the epoch ``new`` after ``old``, with the limit and settings of ``settings`` if given."""
    was, will = _EPOCH.fullmatch(old.name), _EPOCH.fullmatch(new)
    if not was or not will or was["table"] != will["table"] or int(will["epoch"]) <= int(was["epoch"]):
        raise RequestError(f"An epoch must go from TABLE@1 to TABLE@2 or later, not from {old.name!r} to {new!r}.")
    if old.successor is not None:
        raise NotAllowed(f"{old.name!r} was already closed by {old.successor!r}.", fix="open the epoch after that one")
    return replace(settings or old, name=new, parent=None, spent=Cost(0), successor=None)


NEW_PEOPLE = "these are new people"
ADDS_UP = "the budgets add up"
"""What an owner states about the persons of a new epoch: none was in the one before, or some were."""


def open_epoch_of(account: str) -> RunCommand:
    """Return the command that opens the next epoch of an account's table, with the statement that is always true."""
    return run("epoch open", parse_table_name(account), "--statement", ADDS_UP)


def change_limit(account: Account, limit: Cost) -> Account:
    """Return ``account`` with another limit, which must cover the amount spent."""
    check_limit(account.accountant, limit)
    if limit.amount < account.spent.amount or limit.delta < account.spent.delta:
        spent = format_cost(account.accountant, account.spent, delta=True)
        raise RequestError(f"The limit of {account.name!r} cannot be below the {spent} already spent.")
    return replace(account, limit=limit)


def serialize_event(event: Event) -> str:
    """Return ``event`` as its canonical JSON.

    Raises:
        NotAllowed: This version does not know the event; unknown events are refused, never free.
        RequestError: It is too large to be stored.
    """
    if type(event) not in get_args(Event):
        raise NotAllowed(f"{type(event).__name__} is not an event known to this version.")
    try:
        text = event_to_json(event)
    except ValueError as broken:  # numbers of more than 4,300 digits
        raise RequestError("The event's numbers are too long to store.") from broken
    if len(text) > MAX_EVENT_LENGTH:
        raise RequestError(f"An event can have at most {MAX_EVENT_LENGTH} characters, not {len(text)}.")
    return text


def require_current(event: Event) -> None:
    """Refuse new charges for events that no current mechanism produces; older entries are still verified.

    Raises:
        NotAllowed: ``event`` holds a stability threshold, whose price says nothing about how it was drawn.
    """
    if isinstance(event, (Composed, Disjoint)):
        for part in event.parts:
            require_current(part)
    if isinstance(event, StabilityThreshold):
        raise NotAllowed(f"No mechanism in this version produces {event.tag}.", fix="reserve the event of a mechanism")


def price_event(line: Sequence[Account], event: Event) -> Cost:
    """Return the cost of ``event`` for the account ``line[0]`` and its parents, if its price is valid there.

    Raises:
        NotAllowed: The account is closed, or cannot hold such an event.
    """
    account = line[0]
    closed = next((a for a in line if a.successor is not None), None)
    if closed is not None:
        raise NotAllowed(
            f"{closed.name!r} was closed by {closed.successor!r}.", fix=run("epoch open", parse_table_name(closed.name))
        )
    if isinstance(event, Disclosure):
        if not account.disclosures:
            raise NotAllowed(
                f"Account {account.name!r} does not record disclosures, which are outside differential privacy.",
                fix=build_fix("declare disclosures = true under [budget], then: ", open_epoch_of(account.name)),
            )
        return Cost(0)
    wanted = list_required_settings(event)
    rows_only = ROW_ADD_REMOVE in wanted
    if (wanted and account.adjacency != ADD_REMOVE) or (rows_only and account.unit != "row"):
        raise NotAllowed(
            f"The price of {event.tag} holds for {'rows' if rows_only else 'units'} added or removed only; "
            f"account {account.name!r} is about {account.unit}, {account.adjacency}.",
            fix="use a query form whose price holds here",
        )
    return get_accountant(account.accountant).compute_cost(event)


def find_short_account(line: Sequence[Account], cost: Cost) -> Account | None:
    """Return the first account of the line that cannot pay ``cost``."""
    return next((a for a in line if not _is_covered(a.left, cost)), None)


def _is_covered(left: Cost, cost: Cost) -> bool:
    return cost.amount <= left.amount and cost.delta <= left.delta


def build_refusal(account: Account, cost: Cost) -> BudgetExceeded:
    """Build the refusal: the requested cost, the remaining budget and the fix."""
    delta = cost.delta > account.left.delta
    return BudgetExceeded(
        account.name,
        asked=format_cost(account.accountant, cost, delta=delta),
        left=format_cost(account.accountant, account.left, delta=delta),
        fix=_suggest_affordable(account, delta=delta),
    )


def _suggest_affordable(account: Account, *, delta: bool) -> Fix:
    """Suggest the largest affordable price of ``account`` as an option; if there is none, name the contact."""
    book, see = get_accountant(account.accountant), run("ledger show", parse_table_name(account.name))
    if delta or account.left.amount <= 0:
        return build_fix("ask the table's owner for more budget, or see ", see)
    left = format_digits(Fraction(account.left.amount, book.scale), up=False)
    return build_fix(use_budget(book.symbol, left), " at most; see ", see)


def compute_final_cost(line: Sequence[Account], reserved: Event, cost: Cost, settled: Event) -> Cost:
    """Compute the final charge after ``settled`` was published under a permit for ``reserved``.

    Less than ``cost`` only for an ex-post private event in pure accounts without a delta limit, where stopping early
    provably costs only the published stop's price.

    Raises:
        LedgerError: ``settled`` was not charged (our bug).
    Source:
        "Accuracy First" (NIPS 2017), theorem 3.3.
    """
    paid = price_event([replace(a, successor=None) for a in line], settled)
    if paid == cost:
        return cost
    if not _is_covered(cost, paid) or not _is_stopped_early(reserved, settled):
        raise LedgerError(
            f"A permit for {reserved.tag} was settled with an event of another price.",
            fix="report this; repeat the query with the same key",
            spent="the reserved cost stays charged",
        )
    floor = get_accountant(line[0].accountant).compute_floor(reserved)
    lowers = _is_covered(paid, floor) and all(a.limit.delta == 0 for a in line)
    return paid if lowers else cost


def _is_stopped_early(reserved: Event, settled: Event) -> bool:
    if not (isinstance(reserved, NoiseReduction) and isinstance(settled, NoiseReduction)):
        return False
    return replace(settled, stop=None) == replace(reserved, stop=None)


def parse_table_name(account: str) -> str:
    """Return the name that a user types: ``visits`` of ``visits@1/ana``, ``unit.customer`` of ``unit.customer@1``."""
    return account.partition("/")[0].partition("@")[0]


def format_cost(name: AccountantName, cost: Cost, *, delta: bool = False) -> str:
    """Format ``cost`` in epsilon or rho, exactly, with its delta if requested.

    >>> format_cost("pure", Cost(300000000, 10**12), delta=True)
    'epsilon 0.3 and delta 0.000001'
    """
    unit = get_accountant(name)
    amount = f"{unit.symbol} {_format_decimal(cost.amount, unit.scale)}"
    return f"{amount} and delta {_format_decimal(cost.delta, ATTO)}" if delta else amount


def _format_decimal(amount: int, scale: int) -> str:
    """Format ``amount / scale`` in decimals, exactly; ``scale`` is a power of ten."""
    if amount > _LARGEST_TEXT:
        return f"more than {_LARGEST_TEXT // scale}"
    whole, part = divmod(amount, scale)
    digits = f"{part:0{len(str(scale)) - 1}d}".rstrip("0")
    if whole == 0 and digits and Fraction(amount, scale) < Fraction(1, 10**6):
        shown = digits.lstrip("0")
        mantissa = shown[0] + (f".{shown[1:]}" if shown[1:] else "")
        return f"{mantissa}e-{len(digits) - len(shown) + 1}"
    return f"{whole}.{digits}" if digits else str(whole)


def cap_cost(cost: Cost) -> Cost:
    """Cap ``cost`` for the record of a refusal, so that a hostile query cannot write huge numbers into the chain."""
    return Cost(min(cost.amount, _LARGEST_TEXT), min(cost.delta, _LARGEST_TEXT))
