"""What is asked: one frozen value, whichever door it came through."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Literal

from siloquent.errors import RequestError
from siloquent.explore.spec.forms import one_attribute, tidy
from siloquent.explore.spec.numbers import MOST_DIGITS, check_number
from siloquent.explore.spec.predicate import Expression, Predicate, check_name

Kind = Literal["wcq", "icq", "tcq"]
Reuse = Literal["any", "none", "simultaneous"]
DEFAULT_BETA = Fraction(1, 2000)
MOST_PREDICATES = 100_000
MOST_KEYS = 64


@dataclass(frozen=True, slots=True)
class Count:
    """COUNT(*): how many rows."""


@dataclass(frozen=True, slots=True)
class Sum:
    """SUM(attribute): the total of a declared number over the rows."""

    attribute: str

    def __post_init__(self) -> None:
        check_name(self.attribute, "attribute")


Aggregate = Count | Sum


@dataclass(frozen=True, slots=True)
class GroupBy:
    """One predicate for each combination of declared values (bins for numbers that have them), in declared order."""

    keys: tuple[Expression, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.keys) <= MOST_KEYS:
            raise RequestError(f"GROUP BY has 1 to {MOST_KEYS} keys, not {len(self.keys):,}.")
        for key in self.keys:
            one_attribute(key)
        if len(set(self.keys)) != len(self.keys):
            raise RequestError("GROUP BY names a key twice.", fix="name it once")


@dataclass(frozen=True, slots=True)
class Predicates:
    """A workload written out: one answer for each predicate, in the order given."""

    parts: tuple[Predicate, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.parts) <= MOST_PREDICATES:
            raise RequestError(f"A workload has 1 to {MOST_PREDICATES:,} predicates, not {len(self.parts):,}.")
        object.__setattr__(self, "parts", tuple(tidy(part) for part in self.parts))


@dataclass(frozen=True, slots=True)
class Ranges:
    """HISTOGRAM: [lo + i width, lo + (i+1) width) below hi; PREFIX: [lo, lo + (i+1) width)."""

    shape: Literal["histogram", "prefix"]
    attribute: str
    lo: Decimal
    hi: Decimal
    width: Decimal

    def __post_init__(self) -> None:
        check_name(self.attribute, "attribute")
        for bound in (self.lo, self.hi, self.width):
            # So few digits that lo + i width is exact in decimals of 28.
            check_number(bound, f"A bound of {self.shape.upper()}", before=15, after=12)
        if self.width <= 0 or self.lo >= self.hi:
            raise RequestError(f"{self.shape.upper()} needs lo < hi and a width above 0.")
        if (Fraction(self.hi) - Fraction(self.lo)) / Fraction(self.width) > MOST_PREDICATES:
            raise RequestError(f"{self.shape.upper()} would make more than {MOST_PREDICATES:,} bins.")


@dataclass(frozen=True, slots=True)
class Cube:
    """All combinations of the attributes' values, as GROUP BY makes them."""

    attributes: tuple[str, ...]

    def __post_init__(self) -> None:
        for name in self.attributes:
            check_name(name, "attribute")
        if not 1 <= len(self.attributes) <= MOST_KEYS or len(set(self.attributes)) != len(self.attributes):
            raise RequestError(f"CUBE names 1 to {MOST_KEYS} attributes, each once.", fix="CUBE(ward, sex)")


Workload = GroupBy | Predicates | Ranges | Cube


@dataclass(frozen=True, slots=True)
class Having:
    """Iceberg: only parts whose aggregate passes ``op threshold`` are wanted."""

    op: Literal[">", ">="]
    threshold: Decimal

    def __post_init__(self) -> None:
        if self.op not in (">", ">="):
            raise RequestError("HAVING reports the parts above a threshold.", fix="HAVING COUNT(*) > 100")
        check_number(self.threshold, "A threshold")


@dataclass(frozen=True, slots=True)
class Top:
    """The ``k`` parts with the largest (or smallest) aggregate."""

    k: int
    largest: bool = True

    def __post_init__(self) -> None:
        if not 1 <= self.k <= MOST_PREDICATES:
            raise RequestError(f"LIMIT is 1 to {MOST_PREDICATES:,}.", fix="LIMIT 3")


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
        check_number(self.error, "ERROR")
        if self.error <= 0:
            raise RequestError(f"ERROR is a number above 0, not {self.error}.", fix="ERROR 200")
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
        check_number(self.amount, "BUDGET")
        if self.amount <= 0:
            raise RequestError(f"BUDGET is a number above 0, not {self.amount}.", fix="BUDGET 0.01 EPSILON")
        if self.delta is not None:
            self._check_delta(self.delta)
        _check_beta(self.beta)

    def _check_delta(self, delta: Decimal) -> None:
        check_number(delta, "DELTA")
        if not 0 < delta < 1:
            raise RequestError(f"DELTA lies between 0 and 1, not {delta}.", fix="BUDGET 0.01 EPSILON DELTA 1e-6")
        if self.currency == "rho":
            raise RequestError("RHO has no DELTA.", fix="BUDGET 0.01 RHO")


def _check_beta(beta: Fraction) -> None:
    if not 0 < beta < 1:
        raise RequestError("CONFIDENCE lies between 0 and 1, both excluded.", fix="CONFIDENCE 0.9995")
    if beta.denominator > 10**MOST_DIGITS:
        raise RequestError(f"CONFIDENCE has more than {MOST_DIGITS} digits.", fix="CONFIDENCE 0.9995")


Promise = Accuracy | Spend


@dataclass(frozen=True, slots=True)
class Query:
    """One question. ``shows_values``: the aggregate is among the items asked for (then HAVING and TOP are free).

    ``alias``: what the column of values is called. ``where`` joins every part of the workload by AND.
    """

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
    alias: str = ""

    def __post_init__(self) -> None:
        check_name(self.table, "table")
        if self.where is not None:
            object.__setattr__(self, "where", tidy(self.where))
        if self.having and self.top:
            raise RequestError("A question has HAVING or LIMIT, not both.", fix="ask for the counts and filter them")
        if not self.shows_values and not (self.having or self.top):
            raise RequestError("Nothing is asked for.", fix="SELECT ward, COUNT(*) FROM ..")
        if self.shows_values and (self.having or self.top) and not isinstance(self.workload, GroupBy):
            raise RequestError(
                "BIN shows values or chooses parts, not both.",
                fix="leave HAVING or LIMIT out, and filter the answer for free",
            )
        if isinstance(self.aggregate, Sum) and isinstance(self.promise, Accuracy) and self.promise.percent:
            raise RequestError(
                "PERCENT is a share of the declared number of rows, so it bounds counts only.",
                fix="give the error of a sum in the attribute's own unit: ERROR 5000",
            )
        self._check_alias()

    def _check_alias(self) -> None:
        if not self.alias:
            return
        check_name(self.alias, "column")
        if not self.shows_values:
            raise RequestError("Only shown values have a name.", fix="leave AS out")

    @property
    def kind(self) -> Kind:
        """wcq: values; icq: which parts pass a threshold; tcq: which parts are the top k."""
        if self.shows_values:
            return "wcq"
        return "icq" if self.having else "tcq"
