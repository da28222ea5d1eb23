"""The [budget] of a table file or of a unit's file as a validated class."""

from __future__ import annotations

from decimal import InvalidOperation
from fractions import Fraction

from siloquent.errors import SchemaError
from siloquent.schema.files.models import BudgetEntry
from siloquent.schema.files.toml import parse_finite, quote_short
from siloquent.schema.files.trade_words import format_hint, suggest_value
from siloquent.schema.table import TableBudget


def _parse_fraction(value: str | int, key: str) -> Fraction:
    try:
        return Fraction(parse_finite(str(value)))
    except (ValueError, InvalidOperation):
        hint = format_hint(suggest_value(key, value, ()))
        raise SchemaError(f"[budget] {key}: {quote_short(value)} is not a finite number.{hint}") from None


def build_budget(budget: BudgetEntry) -> TableBudget:
    """Return the budget that an entry declares.

    Raises:
        SchemaError: an amount is missing, not finite or contradicts another.
    """
    if budget.sharing == "own" and not budget.analysts:
        raise SchemaError(
            '[budget] sharing = "own" requires analysts: without them, all queries use one account.',
            fix='analysts = { ana = "0.5", bo = "0.5" } under [budget], or remove sharing',
        )
    return TableBudget(
        accountant=budget.accountant,
        epsilon=None if budget.epsilon is None else _parse_fraction(budget.epsilon, "epsilon"),
        rho=None if budget.rho is None else _parse_fraction(budget.rho, "rho"),
        delta=_parse_fraction(budget.delta, "delta"),
        delta_events=_parse_fraction(budget.delta_events, "delta_events"),
        epoch=budget.epoch,
        shares=tuple(
            (name, _parse_fraction(share, f"analysts.{name}")) for name, share in sorted(budget.analysts.items())
        ),
        sharing=budget.sharing,
        reuse=budget.reuse,
        disclosures=budget.disclosures,
    )
