"""The privacy guarantee of a release, in numbers and in one sentence."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from siloquent.errors import RequestError
from siloquent.privacy.conversions import convert_zcdp_to_epsilon

Definition = Literal["pure", "zcdp", "approximate", "local", "input-privacy"]
DEFAULT_DELTA = Fraction(1, 10**6)


def format_digits(value: float | Fraction, places: int = 4, *, up: bool = True) -> str:
    """Format ``value`` with ``places`` significant digits, as plain decimal text.

    Rounded up, so that a cost is never understated; without ``up``, down, so that a remainder is never overstated.
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
    ``delta`` is the total of this release's own events, ``spent_delta`` that of all of the account's so far. zCDP is
    reported as an epsilon at ``report_delta``, to which these are added.
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
    spent_delta: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        if self.definition == "input-privacy" and not self.reveals:
            raise RequestError("A guarantee of input privacy must say what it reveals.")

    @property
    def told_delta(self) -> Fraction:
        """The delta at which ``compute_epsilon()`` holds: in zCDP, the conversion's plus the events'."""
        return self.report_delta + self.delta if self.definition == "zcdp" else self.delta

    @property
    def total_delta(self) -> Fraction:
        """The delta at which ``compute_total_epsilon()`` holds."""
        return self.report_delta + self.spent_delta if self.definition == "zcdp" else self.spent_delta

    def compute_epsilon(self, delta: Fraction | None = None) -> float:
        """Compute the epsilon of only this release at ``delta`` (default: ``told_delta``).

        Raises:
            RequestError: ``delta`` is not above the delta of the release's own events.
        """
        if self.definition != "zcdp":
            return float(self.epsilon)
        return convert_zcdp_to_epsilon(
            float(self.rho), float(self.report_delta if delta is None else delta - self.delta)
        )

    def compute_total_epsilon(self) -> float:
        """Compute the epsilon of everything that the account has released so far, including this release."""
        if self.definition != "zcdp":
            return float(self.spent_after)
        return convert_zcdp_to_epsilon(float(self.spent_after), float(self.report_delta))

    def describe(self) -> str:
        """Describe the guarantee in words that a non-specialist can check against the ledger."""
        if self.definition == "input-privacy":
            return f"Not differential privacy: the silos keep their rows; the protocol reveals {self.reveals}."
        change = "added or removed" if self.adjacency == "add-remove" else "replaced"
        if self.definition == "zcdp":
            own = f" and delta {format_digits(self.delta)}" if self.delta else ""
            epsilon = format_digits(self.compute_epsilon())
            this = f"rho {format_digits(self.rho)}{own}, which is epsilon {epsilon} at delta "
            this += format_digits(self.told_delta)
            total = f"epsilon {format_digits(self.compute_total_epsilon())} at delta {format_digits(self.total_delta)}"
        else:
            this, total = (
                f"epsilon {format_digits(epsilon)}" + (f" and delta {format_digits(delta)}" if delta else "")
                for epsilon, delta in ((self.epsilon, self.delta), (self.spent_after, self.spent_delta))
            )
        if self.spent_after == self.spent_before:
            this = "nothing: it is computed from earlier answers"
        return (
            f"Differential privacy for {self.unit}, {change}: this answer costs {this}; "
            f"everything asked of {self.account} so far amounts to {total}."
        )
