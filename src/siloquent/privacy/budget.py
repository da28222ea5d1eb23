"""The maximum cost of one release, from user input to an account's whole units; and drawable noise parameters."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from siloquent.errors import RequestError
from siloquent.fixes import UseOption, build_fix, use_budget
from siloquent.foreign.spec_types import check_types
from siloquent.privacy.accountants import get_accountant, parse_exact
from siloquent.privacy.conversions import convert_epsilon_to_rho
from siloquent.privacy.events import DiscreteGaussian, DiscreteLaplace
from siloquent.privacy.guarantee import format_digits

Exact = str | int | Fraction | Decimal
_FINE = 2**10
_PARTS = Fraction(2**60)
"""The number of parts of a scale or variance in which changes of a joint release are counted."""


@dataclass(frozen=True, slots=True)
class Budget:
    """The maximum cost of one release: ``epsilon`` (at ``delta`` in a zCDP account), or ``rho`` itself.

    Amounts are text or whole numbers, so that they are exact. ``delta`` None: the account's own.
    """

    epsilon: Exact | None = None
    delta: Exact | None = None
    rho: Exact | None = None

    def __post_init__(self) -> None:
        check_types(self, RequestError)
        if (self.epsilon is None) == (self.rho is None) or (self.rho is not None and self.delta is not None):
            raise RequestError("A budget must be either epsilon (with delta) or rho.", fix=use_budget("epsilon", "1"))
        given = self.rho if self.epsilon is None else self.epsilon
        assert given is not None
        if not parse_exact(given) > 0:
            raise RequestError(f"A budget must be above 0, not {given}.", fix=use_budget("epsilon", "1"))
        if self.delta is not None and not 0 < parse_exact(self.delta) < 1:
            raise RequestError(f"delta must be between 0 and 1, not {self.delta}.", fix=UseOption("delta", "1e-6"))

    def to_dict(self) -> dict[str, str]:
        """Return the given amounts as exact text; equal budgets give equal results."""
        return {
            name: str(parse_exact(value))
            for name in ("epsilon", "delta", "rho")
            if (value := getattr(self, name)) is not None
        }

    def convert_to_account(self, name: str, *, delta: Fraction) -> Fraction:
        """Convert the amount to epsilon or rho of accountant ``name``, in whole units of the ledger.

        Rounded down, as limits are: prices are rounded up and could otherwise exceed the budget by one unit.

        Args:
            delta: The delta at which the account reports epsilon, if this budget names none.
        Raises:
            RequestError: A pure account is given rho or a delta, or the amount is below one unit.
        """
        return round_down_to_units(self._compute_amount(name, delta), name)

    def _compute_amount(self, name: str, delta: Fraction) -> Fraction:
        if name == "pure":
            if self.epsilon is None or self.delta is not None:
                raise RequestError("This account is pure: it accepts only epsilon.", fix=use_budget("epsilon", "1"))
            return parse_exact(self.epsilon)
        if self.epsilon is None:
            assert self.rho is not None
            return parse_exact(self.rho)
        at = delta if self.delta is None else parse_exact(self.delta)
        return Fraction(convert_epsilon_to_rho(float(parse_exact(self.epsilon)), float(at)))


def round_down_to_units(amount: Fraction, name: str) -> Fraction:
    """Round ``amount`` of epsilon or rho down to the whole units of accountant ``name``.

    Raises:
        RequestError: It is below one unit, the minimum cost.
    """
    book = get_accountant(name)
    units = math.floor(amount * book.scale)
    if units < 1:
        least = format_digits(Fraction(1, book.scale))
        raise RequestError(
            f"The budget is below {book.symbol} {least}, the smallest possible charge.",
            fix=build_fix(use_budget(book.symbol, least), " or more"),
        )
    return Fraction(units, book.scale)


def round_up_to_drawable(value: Fraction) -> Fraction:
    """Return the least drawable noise parameter that is at least ``value``: whole, or finer if it is small."""
    if value > _FINE:
        return Fraction(math.ceil(value))
    return Fraction(max(math.ceil(value * _FINE), 1), _FINE)


def build_joint_event(moved: Fraction, *, gaussian: bool) -> DiscreteLaplace | DiscreteGaussian:
    """Build the event of numbers with independent noise of several scales (variances).

    Args:
        moved: The maximum sum of L1 (squared L2) changes by one unit, each divided by its number's scale (variance).
    """
    parts = math.ceil(moved * _PARTS)
    return DiscreteGaussian(_PARTS, parts) if gaussian else DiscreteLaplace(_PARTS, parts)


def subtract_rounding(amount: Fraction, scale: int) -> Fraction:
    """Subtract the two units of an account by which rounding may raise a price."""
    return max(amount - Fraction(2, scale), amount / 2)
