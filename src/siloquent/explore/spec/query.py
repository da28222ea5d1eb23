"""What is asked: one frozen value, whichever door it came through."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Literal

from siloquent.errors import RequestError
from siloquent.explore.spec.predicate import Expression, Predicate

Kind = Literal["wcq", "icq", "tcq"]
Reuse = Literal["any", "none", "simultaneous"]
DEFAULT_BETA = Fraction(1, 2000)
MOST_PREDICATES = 100_000


@dataclass(frozen=True, slots=True)
class Count:
    """COUNT(*): how many rows."""


@dataclass(frozen=True, slots=True)
class Sum:
    """SUM(attribute): the total of a declared number over the rows."""

    attribute: str


Aggregate = Count | Sum


@dataclass(frozen=True, slots=True)
class GroupBy:
    """One predicate for each combination of declared values (bins for numbers that have them), in declared order."""

    keys: tuple[Expression, ...]

    def __post_init__(self) -> None:
        if not self.keys:
            raise RequestError("GROUP BY needs at least one key.")


@dataclass(frozen=True, slots=True)
class Predicates:
    """A workload written out: one answer for each predicate, in the order given."""

    parts: tuple[Predicate, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.parts) <= MOST_PREDICATES:
            raise RequestError(f"A workload has 1 to {MOST_PREDICATES:,} predicates, not {len(self.parts):,}.")


@dataclass(frozen=True, slots=True)
class Ranges:
    """HISTOGRAM: [lo + i width, lo + (i+1) width) below hi; PREFIX: [lo, lo + (i+1) width)."""

    shape: Literal["histogram", "prefix"]
    attribute: str
    lo: Decimal
    hi: Decimal
    width: Decimal

    def __post_init__(self) -> None:
        if not (self.lo.is_finite() and self.hi.is_finite() and self.width.is_finite()):
            raise RequestError(f"{self.shape.upper()} takes finite bounds.")
        if self.width <= 0 or self.lo >= self.hi:
            raise RequestError(f"{self.shape.upper()} needs lo < hi and a width above 0.")
        if (self.hi - self.lo) / self.width > MOST_PREDICATES:
            raise RequestError(f"{self.shape.upper()} would make more than {MOST_PREDICATES:,} bins.")


@dataclass(frozen=True, slots=True)
class Cube:
    """All combinations of the attributes' values, as GROUP BY makes them."""

    attributes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Narrowed:
    """``workload AND predicate``: the predicate joins every part."""

    workload: Workload
    predicate: Predicate


Workload = GroupBy | Predicates | Ranges | Cube | Narrowed


@dataclass(frozen=True, slots=True)
class Having:
    """Iceberg: only parts whose aggregate passes ``op threshold`` are wanted."""

    op: Literal[">", ">="]
    threshold: Decimal


@dataclass(frozen=True, slots=True)
class Top:
    """The ``k`` parts with the largest (or smallest) aggregate."""

    k: int
    largest: bool = True

    def __post_init__(self) -> None:
        if self.k < 1:
            raise RequestError(f"LIMIT is at least 1, not {self.k}.")


@dataclass(frozen=True, slots=True)
class Accuracy:
    """At most ``error`` off (rows or value units, or ``percent`` of size_hint), but with probability beta.

    ``joint``: for icq and tcq, both kinds of error together stay within beta.
    """

    error: Decimal
    beta: Fraction = DEFAULT_BETA
    percent: bool = False
    joint: bool = False

    def __post_init__(self) -> None:
        if not self.error.is_finite() or self.error <= 0:
            raise RequestError(f"ERROR is a finite number above 0, not {self.error}.", fix="ERROR 200")
        _check_beta(self.beta)


@dataclass(frozen=True, slots=True)
class Spend:
    """Spend this much and tell how exact the answer is: epsilon (with ``delta`` in zCDP accounts) or rho."""

    amount: Decimal
    currency: Literal["epsilon", "rho"]
    delta: Decimal | None = None
    beta: Fraction = DEFAULT_BETA
    joint: bool = False

    def __post_init__(self) -> None:
        if not self.amount.is_finite() or self.amount <= 0:
            raise RequestError(f"BUDGET is a finite number above 0, not {self.amount}.", fix="BUDGET 0.01 EPSILON")
        if self.delta is not None and not (self.delta.is_finite() and 0 < self.delta < 1):
            raise RequestError(f"DELTA lies between 0 and 1, not {self.delta}.")
        _check_beta(self.beta)


def _check_beta(beta: Fraction) -> None:
    if not 0 < beta < 1:
        raise RequestError("CONFIDENCE lies between 0 and 1, both excluded.", fix="CONFIDENCE 0.9995")


Promise = Accuracy | Spend


@dataclass(frozen=True, slots=True)
class Query:
    """One question. ``shows_values``: the aggregate is among the items asked for (then HAVING and TOP are free)."""

    table: str
    workload: Workload
    promise: Promise
    aggregate: Aggregate = field(default_factory=Count)
    where: Predicate | None = None
    having: Having | None = None
    top: Top | None = None
    shows_values: bool = True
    reuse: Reuse = "any"
    optimistic: bool = False
    explain: bool = False

    def __post_init__(self) -> None:
        if self.having and self.top:
            raise RequestError("A question has HAVING or LIMIT, not both.", fix="ask for the counts and filter them")
        if not self.shows_values and not (self.having or self.top):
            raise RequestError("Nothing is asked for.", fix="SELECT ward, COUNT(*) FROM ..")

    @property
    def kind(self) -> Kind:
        """wcq: values; icq: which parts pass a threshold; tcq: which parts are the top k."""
        if self.shows_values:
            return "wcq"
        return "icq" if self.having else "tcq"
