"""The cost of events in whole units: nano-epsilon for pure accounts, pico-rho for zCDP ones, atto-delta for both.

Costs are integers, so that ten tenths add up to one. Prices are exact fractions rounded up; limits are rounded down.
Adding up adaptively chosen events under a fixed limit is sound for pure DP and for zCDP.

Source: "Concentrated Differential Privacy" (TCC 2016) for pure eps => eps^2/2-zCDP; "Bounding, Concentrating, and
    Truncating" (ALT 2021) for bounded range g => g^2/8; "Individual Privacy Accounting via a Renyi Filter"
    (NeurIPS 2021) for adaptive composition under a fixed zCDP limit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from functools import singledispatch
from typing import Literal, Protocol

from siloquent.errors import LedgerError, NotAllowed, RequestError
from siloquent.foreign.numbers import is_plain_number
from siloquent.privacy.events import (
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    Disjoint,
    Event,
    ExponentialSelect,
    GeometricTopK,
    NoiseReduction,
    PermuteAndFlip,
    SampledGaussian,
    StabilityThreshold,
    SummedGaussian,
    ThresholdedGaussian,
)

NANO, PICO, ATTO = 10**9, 10**12, 10**18
AccountantName = Literal["pure", "zcdp"]


@dataclass(frozen=True, slots=True)
class Price:
    """An exact price: ``amount`` in epsilon or rho, and ``delta``."""

    amount: Fraction
    delta: Fraction = Fraction(0)


@dataclass(frozen=True, slots=True)
class Cost:
    """A price in an account's whole units: ``amount`` (nano-epsilon or pico-rho) and ``delta`` (atto-delta)."""

    amount: int
    delta: int = 0

    def __post_init__(self) -> None:
        for name in ("amount", "delta"):
            value = getattr(self, name)
            if type(value) is not int or value < 0:
                raise RequestError(f"A cost's {name} must be a whole number of at least 0, not {value!r}.")

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.amount + other.amount, self.delta + other.delta)


class Accountant(Protocol):
    """A rule for adding up privacy loss."""

    @property
    def name(self) -> AccountantName:
        """The name in table files: ``pure`` or ``zcdp``."""
        ...

    @property
    def symbol(self) -> str:
        """The quantity that is added up: ``epsilon`` or ``rho``."""
        ...

    @property
    def scale(self) -> int:
        """The number of whole units in 1: 10^9 or 10^12."""
        ...

    def compute_price(self, event: Event) -> Price:
        """Compute the exact price of ``event``.

        Raises:
            NotAllowed: this account cannot hold such an event (say, Gaussian noise in a pure account).
        """
        ...

    def compute_cost(self, event: Event) -> Cost:
        """Compute the price in whole units, rounded up."""
        ...

    def compute_floor(self, event: Event) -> Cost:
        """Compute the least cost at which ``event`` may be settled; below ``compute_cost`` only for ex-post events."""
        ...


def _refuse(event: Event, accountant: str) -> NotAllowed:
    return NotAllowed(
        f"A {accountant} account cannot pay for {event.tag}.",
        fix='set accountant = "zcdp" in the table file' if accountant == "pure" else "use a separate account",
    )


@singledispatch
def compute_pure_price(event: object) -> Price:
    """Compute the price of ``event`` in epsilon; an event without a rule is refused, never free."""
    raise _refuse(event, "pure")  # type: ignore[arg-type]


@compute_pure_price.register
def _(event: DiscreteLaplace) -> Price:
    return Price(Fraction(event.l1) / event.scale)


@compute_pure_price.register
def _(event: GeometricTopK) -> Price:
    return Price(Fraction(event.k * event.linf * (1 if event.monotone else 2)) / event.scale)


@compute_pure_price.register
def _(event: PermuteAndFlip) -> Price:
    return Price(event.epsilon)


@compute_pure_price.register
def _(event: ExponentialSelect) -> Price:
    return Price(event.rounds * event.range)


@compute_pure_price.register
def _(event: NoiseReduction) -> Price:
    scale = event.scales[-1 if event.stop is None else event.stop]
    return Price(Fraction(event.l1) / scale)


@compute_pure_price.register
def _(event: SampledGaussian) -> Price:
    return Price(event.epsilon, event.delta)


@compute_pure_price.register
def _(event: StabilityThreshold) -> Price:
    return Price(Fraction(0), event.delta)


@compute_pure_price.register
def _(event: Composed) -> Price:
    return _sum_prices([compute_pure_price(part) for part in event.parts])


@compute_pure_price.register
def _(event: Disjoint) -> Price:
    return _find_max_price([compute_pure_price(part) for part in event.parts])


@singledispatch
def compute_zcdp_price(event: object) -> Price:
    """Compute the price of ``event`` in rho; pure eps-DP costs eps^2/2; an event without a rule is refused."""
    try:
        price = compute_pure_price(event)
    except NotAllowed:
        raise _refuse(event, "zcdp") from None  # type: ignore[arg-type]
    return Price(price.amount**2 / 2, price.delta)


@compute_zcdp_price.register
def _(event: DiscreteGaussian) -> Price:
    return Price(Fraction(event.l2_squared) / (2 * event.variance))


@compute_zcdp_price.register
def _(event: ExponentialSelect) -> Price:
    return Price(event.rounds * event.range**2 / 8)


@compute_zcdp_price.register
def _(event: NoiseReduction) -> Price:
    # Only the worst case: a zCDP account has no ex-post settlement rule, so an early stop refunds nothing.
    return Price((Fraction(event.l1) / event.scales[-1]) ** 2 / 2)


@compute_zcdp_price.register
def _(event: SummedGaussian) -> Price:
    return Price(_bound_summed_gaussian(event) ** 2 / 2)


@compute_zcdp_price.register
def _(event: ThresholdedGaussian) -> Price:
    return Price(Fraction(event.l2_squared) / (2 * event.variance), event.delta)


@compute_zcdp_price.register
def _(event: Composed) -> Price:
    return _sum_prices([compute_zcdp_price(part) for part in event.parts])


@compute_zcdp_price.register
def _(event: Disjoint) -> Price:
    return _find_max_price([compute_zcdp_price(part) for part in event.parts])


def _sum_prices(prices: list[Price]) -> Price:
    return Price(sum((p.amount for p in prices), Fraction(0)), sum((p.delta for p in prices), Fraction(0)))


def _find_max_price(prices: list[Price]) -> Price:
    zero = Fraction(0)
    return Price(max((p.amount for p in prices), default=zero), max((p.delta for p in prices), default=zero))


def _round_sqrt_up(value: Fraction) -> Fraction:
    """Return the least multiple of 2^-80 that is at least the square root of ``value``."""
    scaled = value * 2**160
    return Fraction(math.isqrt(math.ceil(scaled) - 1) + 1 if scaled > 0 else 0, 2**80)


def _bound_summed_gaussian(event: SummedGaussian) -> Fraction:
    """Return an upper bound on the concentrated epsilon of a sum of discrete Gaussian shares.

    Source: "The Distributed Discrete Gaussian Mechanism" (ICML 2021), theorem on sums. tau = 10 sum_k exp(-2 pi^2 share
        k/(k+1)); 2 pi^2 > 19.739 and k/(k+1) >= 1/2, so each term is below exp(-9.8695 share) <= 2^-(14 share).
    """
    # Terms beyond 2^-4096 do not affect a price; the whole power would not fit in memory for large shares.
    tau = Fraction(10 * (event.honest - 1), 2 ** min(14 * int(event.share), 4_096))
    first = Fraction(event.l2_squared) / (event.honest * event.share)
    return min(
        _round_sqrt_up(first + tau * event.length / 2),
        _round_sqrt_up(first) + tau * _round_sqrt_up(Fraction(event.length)),
    )


@dataclass(frozen=True, slots=True)
class PureAccountant:
    """The accountant that adds up pure epsilon, in billionths."""

    name: AccountantName = "pure"
    symbol: str = "epsilon"
    scale: int = NANO

    def compute_price(self, event: Event) -> Price:
        return compute_pure_price(event)

    def compute_cost(self, event: Event) -> Cost:
        return _round_up_cost(self.compute_price(event), self.scale)

    def compute_floor(self, event: Event) -> Cost:
        """Compute the least settlement cost; ex-post events may settle at any published stop.

        Source: "Accuracy First" (NIPS 2017), theorem 3.3.
        """
        if isinstance(event, NoiseReduction):
            return _round_up_cost(Price(Fraction(event.l1) / event.scales[0]), self.scale)
        return self.compute_cost(event)


@dataclass(frozen=True, slots=True)
class ZCDPAccountant:
    """The accountant that adds up zero-concentrated privacy loss rho, in trillionths."""

    name: AccountantName = "zcdp"
    symbol: str = "rho"
    scale: int = PICO

    def compute_price(self, event: Event) -> Price:
        return compute_zcdp_price(event)

    def compute_cost(self, event: Event) -> Cost:
        return _round_up_cost(self.compute_price(event), self.scale)

    def compute_floor(self, event: Event) -> Cost:
        return self.compute_cost(event)


def _round_up_cost(price: Price, scale: int) -> Cost:
    return Cost(math.ceil(price.amount * scale), math.ceil(price.delta * ATTO))


_ACCOUNTANTS: dict[str, Accountant] = {"pure": PureAccountant(), "zcdp": ZCDPAccountant()}


def get_accountant(name: str) -> Accountant:
    """Return the accountant of that name.

    Raises:
        LedgerError: this version does not know the name.
    """
    if name not in _ACCOUNTANTS:
        raise LedgerError(f"No accountant named {name!r}. Known: pure, zcdp.")
    return _ACCOUNTANTS[name]


def parse_exact(text: str | int | Fraction | Decimal) -> Fraction:
    """Parse ``text`` as an exact, finite fraction: "0.1" is one tenth. Floats are refused: 0.1 is not one tenth.

    Raises:
        RequestError: NaN, infinity, a float, or text that is not a number (such as 1_000).
    """
    if isinstance(text, (bool, float)):
        raise RequestError(f"Write the amount as text, {str(text)!r}, so that it is exact.")
    try:
        if not isinstance(text, (str, int, Fraction, Decimal)) or (isinstance(text, str) and not is_plain_number(text)):
            raise ValueError("no number, or digits other than 0 to 9")
        if isinstance(text, str) and "/" in text:
            return Fraction(text)
        value = Decimal(text) if not isinstance(text, Fraction) else text
        if isinstance(value, Decimal) and (not value.is_finite() or abs(value.adjusted()) > 40):
            raise RequestError(f"An amount must be finite and of ordinary size, not {str(text)[:40]}.")
        return Fraction(value)
    except (InvalidOperation, ValueError, ZeroDivisionError, TypeError) as broken:
        raise RequestError(f"{str(text)[:40]!r} is not a number.") from broken


def build_limit(name: str, amount: str | int | Fraction | Decimal, delta: str | int | Fraction | Decimal = 0) -> Cost:
    """Build a limit of ``amount`` epsilon or rho and ``delta`` in accountant ``name``'s units, rounded down.

    >>> build_limit("pure", "0.3")
    Cost(amount=300000000, delta=0)
    """
    scale = get_accountant(name).scale
    return Cost(math.floor(parse_exact(amount) * scale), math.floor(parse_exact(delta) * ATTO))
