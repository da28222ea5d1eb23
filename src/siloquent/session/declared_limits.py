"""The limits of accounts as table files declare them, in the accounts' own amounts."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from siloquent.privacy import ATTO, Cost, convert_epsilon_to_rho, get_accountant
from siloquent.schema import TableBudget, TableSchema

if TYPE_CHECKING:
    pass


def compute_budget_limit(budget: TableBudget) -> Cost:
    """Return the declared budget in its accountant's whole units, rounded down.

    Privacy:
        A zCDP budget given as (epsilon, delta) becomes the largest rho that implies it at ``delta - delta_events``.
    """
    scale = get_accountant(budget.accountant).scale
    amount = budget.rho if budget.rho is not None else budget.epsilon
    assert amount is not None
    if budget.accountant == "zcdp" and budget.rho is None:
        amount = Fraction(convert_epsilon_to_rho(float(amount), float(budget.delta - budget.delta_events)))
    return Cost(math.floor(amount * scale), math.floor(budget.delta_events * ATTO))


def compute_share_limits(schema: TableSchema) -> dict[str, Cost]:
    """Return the declared limit of every analyst's share, by the share's account."""
    whole = compute_budget_limit(schema.budget)
    return {
        f"{schema.account}/{analyst}": Cost(math.floor(whole.amount * part), math.floor(whole.delta * part))
        for analyst, part in schema.budget.shares
    }
