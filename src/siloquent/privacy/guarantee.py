"""What was promised about a release, in numbers and in one sentence."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from siloquent.errors import RequestError
from siloquent.privacy.conversions import epsilon_of_zcdp

Definition = Literal["pure", "zcdp", "approximate", "local", "input-privacy"]
DEFAULT_DELTA = Fraction(1, 10**6)


def digits(value: float | Fraction, places: int = 4, *, up: bool = True) -> str:
    """``value`` with ``places`` significant digits, as plain decimal text.

    Rounded up, so that a cost is never understated; not ``up``: down, so that what is left is never overstated.
    """
    from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

    exact = Fraction(value)
    context = Context(prec=places, rounding=ROUND_CEILING if up else ROUND_FLOOR)
    return format(context.divide(Decimal(exact.numerator), Decimal(exact.denominator)).normalize(), "f")


@dataclass(frozen=True, slots=True)
class Guarantee:
    """The privacy of one release and of its account before and after it.

    ``epsilon`` is set for pure, approximate and local guarantees, ``rho`` for zCDP ones; amounts are exact.
    ``unit`` says whose presence is hidden ("one row", "all rows of one patient (at most 8 count)").
    """

    definition: Definition
    unit: str
    adjacency: str
    account: str
    spent_before: Fraction
    spent_after: Fraction
    epsilon: Fraction = Fraction(0)
    rho: Fraction = Fraction(0)
    delta: Fraction = Fraction(0)
    report_delta: Fraction = DEFAULT_DELTA
    reveals: str = ""

    def __post_init__(self) -> None:
        if self.definition == "input-privacy" and not self.reveals:
            raise RequestError("A guarantee of input privacy must say what it reveals.")

    def epsilon_at(self, delta: Fraction | None = None) -> float:
        """The epsilon of this release alone at ``delta`` (default: the account's reporting delta)."""
        if self.definition != "zcdp":
            return float(self.epsilon)
        return epsilon_of_zcdp(float(self.rho), float(delta or self.report_delta))

    def total_epsilon(self) -> float:
        """The epsilon of everything that the account has released so far, this release included."""
        if self.definition != "zcdp":
            return float(self.spent_after)
        return epsilon_of_zcdp(float(self.spent_after), float(self.report_delta))

    def sentence(self) -> str:
        """The guarantee in words that a non-specialist can check against the ledger."""
        if self.definition == "input-privacy":
            return f"Not differential privacy: the silos keep their rows; the protocol reveals {self.reveals}."
        change = "added or removed" if self.adjacency == "add-remove" else "replaced"
        if self.definition == "zcdp":
            at = f"at delta {digits(self.report_delta)}"
            this = f"rho {digits(self.rho)}, which is epsilon {digits(self.epsilon_at())} {at}"
            total = f"epsilon {digits(self.total_epsilon())} {at}"
        else:
            plus = f" and delta {digits(self.delta)}" if self.delta else ""
            this, total = f"epsilon {digits(self.epsilon)}{plus}", f"epsilon {digits(self.spent_after)}"
        if self.spent_after == self.spent_before:
            this = "nothing: it is computed from earlier answers"
        return (
            f"Differential privacy for {self.unit}, {change}: this answer costs {this}; "
            f"everything asked of {self.account} so far amounts to {total}."
        )
