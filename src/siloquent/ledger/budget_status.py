"""The budget of a table as its readers want it: what is spent, what is left, and what that means."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from siloquent.ledger.base import Account
from siloquent.privacy import Cost, convert_zcdp_to_epsilon, format_digits, get_accountant
from siloquent.readable import Readable


@dataclass(frozen=True, slots=True, repr=False)
class BudgetStatus(Readable):
    """A table's budget for one session; amounts in epsilon or rho, the account's ``symbol``.

    ``limit`` and ``spent`` are of ``account``; ``left`` is less than their difference if an account above has less.
    ``delta``: that at which rho is told as an epsilon; None if it is not known here.
    """

    table: str
    account: str
    symbol: str
    unit: str
    limit: Fraction
    spent: Fraction
    left: Fraction
    delta: Fraction | None = None

    @property
    def share_spent(self) -> Fraction:
        """The part of the limit that is spent, from 0 to 1."""
        return self.spent / self.limit if self.limit else Fraction(1)

    def __str__(self) -> str:
        lines = [
            f"Budget of {self.table} ({self.account}): {format_digits(100 * self.share_spent, 3)} % spent",
            f"  spent: {self.symbol} {format_digits(self.spent)} of {format_digits(self.limit, up=False)}",
            f"  left:  {self.symbol} {format_digits(self.left, up=False)}{self._describe_epsilon()}",
            f"  All answers together stay within it, for {self.unit}.",
        ]
        return "\n".join(lines)

    def _describe_epsilon(self) -> str:
        if self.symbol != "rho" or self.delta is None or not self.left:
            return ""
        epsilon = convert_zcdp_to_epsilon(float(self.left), float(self.delta))
        return f", as much as one release of epsilon {format_digits(epsilon, 3, up=False)}"


def build_budget_status(
    table: str, account: Account, left: Cost, *, unit: str, delta: Fraction | None = None
) -> BudgetStatus:
    """Return the status of ``table``, whose ``account`` pays and which has ``left`` at most."""
    book = get_accountant(account.accountant)
    limit, spent, rest = (Fraction(cost.amount, book.scale) for cost in (account.limit, account.spent, left))
    return BudgetStatus(table, account.name, book.symbol, unit, limit, spent, rest, delta)
