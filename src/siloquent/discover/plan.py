"""The noise, threshold and price of a discovery, from the declaration and the request only. No row is read."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import singledispatch
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from siloquent.discover.spec import BoundsSpec, DiscoverSpec, KeysSpec
from siloquent.errors import RequestError
from siloquent.fixes import UseOption, build_fix, let_owner_run, run
from siloquent.maths.tails.distributions import compute_laplace_variance, gaussian_tail, normal_quantile
from siloquent.maths.tails.errors import GaussianAbove, find_smallest_error
from siloquent.privacy import (
    ATTO,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    ThresholdedGaussian,
    format_digits,
    get_accountant,
    parse_exact,
)
from siloquent.privacy.budget import round_up_to_drawable
from siloquent.schema import Attribute, ForeignKey, Key, TableSchema

MISS = Fraction(1, 2_000)
"""The probability with which a key of too few units is released, at most."""
SURE = 0.05
"""A plan says from how many units on a key is missed with at most this probability."""
SPLIT_DATES = 256
MAX_PARAMETER = 2**49
DEFAULT_PART = 10
"""Without a delta, a discovery takes this part of the account's delta_events."""
_ROUNDING = Fraction(10**9 + 1, 10**9)  # tail sums are computed to about 1e-12


@dataclass(frozen=True, slots=True)
class KeysPlan:
    """The release of keys with at least ``threshold`` units after noise of ``variance``."""

    spec: KeysSpec
    schema: TableSchema
    event: ThresholdedGaussian

    @property
    def price(self) -> Fraction:
        """The charge in the account's rho: whole units of the ledger, rounded up."""
        return _compute_price(self.schema, self.event)

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise on a key's number of units."""
        return math.sqrt(self.event.variance)

    @property
    def sure_from(self) -> int:
        """The number of units from which on a key is found with probability 0.95."""
        return self.event.threshold + math.ceil(normal_quantile(SURE) * self.deviation)


@dataclass(frozen=True, slots=True, eq=False)
class BoundsPlan:
    """The release of a noisy histogram of values; bin i holds the cells from ``starts[i]`` on."""

    spec: BoundsSpec
    schema: TableSchema
    event: DiscreteGaussian | DiscreteLaplace
    starts: NDArray[np.int64]

    @property
    def price(self) -> Fraction:
        """The charge in the account's epsilon or rho: whole units of the ledger, rounded up."""
        return _compute_price(self.schema, self.event)

    @property
    def noise(self) -> Literal["gaussian", "laplace"]:
        """The noise's distribution."""
        return "gaussian" if isinstance(self.event, DiscreteGaussian) else "laplace"

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise on the number of rows in a bin."""
        if isinstance(self.event, DiscreteLaplace):
            return math.sqrt(compute_laplace_variance(self.event.scale))
        return math.sqrt(self.event.variance)


DiscoverPlan = KeysPlan | BoundsPlan


@singledispatch
def plan(spec: DiscoverSpec, schema: TableSchema) -> DiscoverPlan:
    """Plan ``spec`` from the declaration.

    Raises:
        UnknownName: the column is not declared.
        RequestError: the column cannot be discovered, or the budget does not fit the account or finds nothing.
    """
    raise RequestError(f"A discovery is a KeysSpec or BoundsSpec, not {type(spec).__name__}.")


@plan.register
def _(spec: KeysSpec, schema: TableSchema) -> KeysPlan:
    attribute = schema.domain[spec.column]
    _require_keys(schema, attribute)
    if schema.unit.kind == "row" and spec.keys_each > 1:
        raise RequestError(
            f"A row has one value of {attribute.name!r}, so it cannot count for {spec.keys_each}.",
            fix="omit keys_each",
        )
    delta = _choose_delta(spec, schema)
    amount = _convert_budget(spec, schema)
    moved = spec.keys_each * (2 if schema.replace_one else 1)
    variance = _round_to_drawable(moved / (2 * amount))
    threshold = compute_threshold(variance, keys_each=spec.keys_each, delta=delta, at_least=spec.at_least)
    passing = compute_passing_probability(variance, keys_each=spec.keys_each, threshold=threshold)
    made = KeysPlan(spec, schema, ThresholdedGaussian(variance, spec.keys_each, moved, threshold, passing))
    _require_hope(made, amount)
    return made


@plan.register
def _(spec: BoundsSpec, schema: TableSchema) -> BoundsPlan:
    attribute = schema.domain[spec.column]
    if not (attribute.is_numeric or attribute.is_temporal):
        raise RequestError(
            f"{attribute.name!r} is of type {attribute.kind}, which has no bounds.",
            fix=run("discover", schema.name, attribute.name),
        )
    _require_stored(schema, attribute)
    amount, rows = _convert_budget(spec, schema), schema.unit.max_rows
    moves = 2 if schema.replace_one else 1
    event: DiscreteGaussian | DiscreteLaplace
    if schema.budget.accountant == "pure":
        event = DiscreteLaplace(_round_to_drawable(moves * rows / amount), moves * rows)
    else:
        squared = moves * rows * rows  # all rows of a unit may be in one bin, and in another after its replacement
        event = DiscreteGaussian(_round_to_drawable(squared / (2 * amount)), squared)
    return BoundsPlan(spec, schema, event, list_bin_starts(attribute))


def compute_threshold(variance: Fraction, *, keys_each: int, delta: Fraction, at_least: int) -> int:
    """Compute the least t = max(1 + j, at_least - 1 + b) of docs/explanation/discover.md.

    j: none of ``keys_each`` independent noises of ``variance`` is j or more, except with probability ``delta``. b: one
    noise is b or more with probability ``MISS`` at most.
    """
    scale = Fraction(math.nextafter(math.sqrt(variance), math.inf))
    alone = find_smallest_error(GaussianAbove(keys_each), scale, float(delta))
    return max(1 + alone, at_least - 1 + find_smallest_error(GaussianAbove(1), scale, float(MISS)))


def compute_passing_probability(variance: Fraction, *, keys_each: int, threshold: int) -> Fraction:
    """Compute the probability that a key of a single unit passes, for a unit of ``keys_each`` such keys; rounded up."""
    scale = math.nextafter(math.sqrt(variance), math.inf)
    one = gaussian_tail(threshold - 1, scale=scale)
    some = -math.expm1(keys_each * math.log1p(-one))
    return Fraction(max(1, math.ceil(Fraction(some) * _ROUNDING * ATTO)), ATTO)


def list_bin_starts(attribute: Attribute) -> NDArray[np.int64]:
    """List the first cell of each bin: two bins a doubling of the absolute value; dates in equal parts.

    Zero is a bin of its own, and the first bin begins at cell 0.
    """
    if attribute.is_temporal:
        parts = min(SPLIT_DATES, attribute.steps)
        return np.array([attribute.steps * i // parts for i in range(parts)], dtype=np.int64)
    grid = Fraction(attribute.grid or 1)
    first, last = (int(Fraction(bound) / grid) for bound in (attribute.lo, attribute.hi))  # type: ignore[arg-type]
    sizes, farthest = [1], max(abs(first), abs(last))
    while sizes[-1] <= farthest:
        sizes.append(max(sizes[-1] + 1, math.isqrt(2 ** (len(sizes)))))
    starts = {first, *(size for size in (0, *sizes)), *(1 - size for size in sizes)}
    return np.array(sorted(start - first for start in starts if first <= start <= last), dtype=np.int64)


def _compute_price(schema: TableSchema, event: Event) -> Fraction:
    book = get_accountant(schema.budget.accountant)
    return Fraction(book.compute_cost(event).amount, book.scale)


def _convert_budget(spec: DiscoverSpec, schema: TableSchema) -> Fraction:
    budget = schema.budget
    return spec.budget.convert_to_account(budget.accountant, delta=budget.delta - budget.delta_events)


def _round_to_drawable(parameter: Fraction) -> Fraction:
    drawable = round_up_to_drawable(parameter)
    if drawable > MAX_PARAMETER:
        raise RequestError(
            "The budget is too small: that much noise cannot be drawn.",
            fix=build_fix(UseOption("epsilon", "0.01"), ", or more"),
        )
    return drawable


def _choose_delta(spec: KeysSpec, schema: TableSchema) -> Fraction:
    """Return the delta that it may cost.

    Raises:
        RequestError: the account has none for events.
    """
    budget = schema.budget
    if budget.accountant == "pure":
        raise RequestError(
            f"The account of {schema.name!r} is pure, and a release of keys needs a delta: without one, the key of a "
            "single person could never appear, and then no key could.",
            fix=f'accountant = "zcdp", delta = "1e-6", delta_events = "1e-7" under [budget] in {_file(schema)}',
        )
    if not budget.delta_events:
        raise RequestError(
            f"The account of {schema.name!r} has no delta for a release of keys.",
            fix=build_fix(
                f'delta_events = "{format_digits(budget.delta / 10, 1)}" under [budget] in {_file(schema)}, then: ',
                let_owner_run("budget set", schema.name),
            ),
        )
    delta = budget.delta_events / DEFAULT_PART if spec.delta is None else parse_exact(spec.delta)
    if delta > budget.delta_events:
        raise RequestError(
            f"delta must be at most the account's delta_events, {format_digits(budget.delta_events)}.",
            fix=UseOption("delta", format_digits(budget.delta_events / DEFAULT_PART, up=False)),
        )
    return delta


def _require_keys(schema: TableSchema, attribute: Attribute) -> None:
    if attribute.kind == "id" or attribute.name == schema.unit.column:
        raise RequestError(
            f"{attribute.name!r} identifies people or rows: its values are not released, however many share one.",
            fix="discover a column that describes people",
        )
    keys = [one for one in schema.constraints if isinstance(one, (Key, ForeignKey)) and attribute.name in one.columns]
    if keys:
        raise RequestError(
            f"{attribute.name!r} is a key that links or identifies rows, so its values are not released.",
            fix="discover a column that describes people",
        )
    if attribute.kind not in ("text", "category"):
        raise RequestError(
            f"{attribute.name!r} is of type {attribute.kind}, whose values are known from its declaration.",
            fix=f'type = "text" for "{attribute.name}" in {_file(schema)}',
        )
    _require_stored(schema, attribute)


def _require_stored(schema: TableSchema, attribute: Attribute) -> None:
    if attribute.function:
        raise RequestError(
            f"{attribute.name!r} is derived from {attribute.argument!r}; only stored columns are discovered.",
            fix=run("discover", schema.name, attribute.argument),
        )


def _require_hope(made: KeysPlan, amount: Fraction) -> None:
    """Refuse a budget with which no key of the table could pass, as far as its public size says."""
    size = made.schema.size_hint
    if size is None or made.event.threshold <= size:
        return
    enough = amount * Fraction(10 * made.event.threshold, size) ** 2
    raise RequestError(
        f"With this budget a key must be shared by about {made.event.threshold:,} units, and {made.schema.name!r} has "
        f"about {size:,} rows: nothing would be found.",
        fix=build_fix(UseOption("rho", format_digits(enough, 2)), ", or a larger size_hint if it is wrong"),
    )


def _file(schema: TableSchema) -> str:
    return f"schemas/{schema.name}.toml"
