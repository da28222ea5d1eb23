"""The accuracy that a query asks for: an error bound, an amount to spend, or neither."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Literal

from siloquent.errors import RequestError
from siloquent.explore.spec.numbers import MAX_DIGITS, check_number

DEFAULT_BETA = Fraction(1, 2000)

MAX_ROWS = 2**40


@dataclass(frozen=True, slots=True)
class Bound:
    """An error bound: rows or value units, or ``percent`` of size_hint."""

    error: Decimal
    percent: bool = False

    def __post_init__(self) -> None:
        check_number(self.error, "ERROR")
        if self.error <= 0:
            raise RequestError(f"ERROR must be a number above 0, not {self.error}.", fix="ERROR 200")


@dataclass(frozen=True, slots=True)
class Accuracy:
    """An error of at most ``error`` (rows or value units, or ``percent`` of size_hint), except with probability beta.

    ``joint``: for icq and tcq, both kinds of error together stay within beta. ``more``: the bounds of further items, in
    order, and last that of a HAVING on another aggregate. ``at_least``: averages and variances keep their bound
    for groups of at least this many rows.
    """

    error: Decimal
    beta: Fraction = DEFAULT_BETA
    percent: bool = False
    joint: bool = False
    more: tuple[Bound, ...] = ()
    at_least: int | None = None

    def __post_init__(self) -> None:
        Bound(self.error, self.percent)  # checks both
        _check_beta(self.beta)
        if self.at_least is not None and not 1 <= self.at_least <= MAX_ROWS:
            raise RequestError(f"FOR AT LEAST must be between 1 and {MAX_ROWS:,} rows.", fix="FOR AT LEAST 5000 ROWS")

    @property
    def bounds(self) -> tuple[Bound, ...]:
        """All error bounds in order."""
        return (Bound(self.error, self.percent), *self.more)


@dataclass(frozen=True, slots=True)
class Spend:
    """An amount to spend, in epsilon (with ``delta`` in zCDP accounts) or rho; the answer states its accuracy."""

    amount: Decimal
    currency: Literal["epsilon", "rho"]
    delta: Decimal | None = None
    beta: Fraction = DEFAULT_BETA
    joint: bool = False

    def __post_init__(self) -> None:
        check_number(self.amount, "BUDGET")
        if self.amount <= 0:
            raise RequestError(f"BUDGET must be a number above 0, not {self.amount}.", fix="BUDGET 0.01 EPSILON")
        if self.delta is not None:
            self._check_delta(self.delta)
        _check_beta(self.beta)

    def _check_delta(self, delta: Decimal) -> None:
        check_number(delta, "DELTA")
        if not 0 < delta < 1:
            raise RequestError(f"DELTA must be between 0 and 1, not {delta}.", fix="BUDGET 0.01 EPSILON DELTA 1e-6")
        if self.currency == "rho":
            raise RequestError("RHO does not take DELTA.", fix="BUDGET 0.01 RHO")


SMALLEST_MISS = Fraction(1, 10**15)
"""The least allowed probability of a miss, and of no miss."""


def _check_beta(beta: Fraction) -> None:
    if not 0 < beta < 1:
        raise RequestError("CONFIDENCE must be between 0 and 1 (both excluded).", fix="CONFIDENCE 0.9995")
    if min(beta, 1 - beta) < SMALLEST_MISS:
        raise RequestError(
            f"CONFIDENCE must be between {float(SMALLEST_MISS):.0e} and 1 - {float(SMALLEST_MISS):.0e}: "
            "beyond that, noise tails cannot be computed in double precision.",
            fix="CONFIDENCE 0.999999",
        )
    if beta.denominator > 10**MAX_DIGITS:
        raise RequestError(f"CONFIDENCE has more than {MAX_DIGITS} digits.", fix="CONFIDENCE 0.9995")


@dataclass(frozen=True, slots=True)
class Unstated:
    """No accuracy: the default of the session, of the table or of the workspace stands in, before anything is planned.

    ``states_confidence``: whether ``beta`` holds instead of the default's. ``at_least``: as in ``Accuracy``.
    """

    beta: Fraction = DEFAULT_BETA
    joint: bool = False
    at_least: int | None = None
    states_confidence: bool = False

    def __post_init__(self) -> None:
        _check_beta(self.beta)


Promise = Accuracy | Spend | Unstated
