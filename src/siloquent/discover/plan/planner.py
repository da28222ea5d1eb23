"""The noise, threshold and price of a discovery, from the declaration and the request only. No row is read."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import partial, singledispatch
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from siloquent.discover.plan.checks import (
    choose_delta,
    get_report_delta,
    require_hope,
    require_keys,
    require_stored,
    require_visible_bounds,
)
from siloquent.discover.plan.threshold import (
    compute_hidden_rows,
    compute_needed_rows,
    compute_passing_probability,
    compute_sure_count,
    compute_threshold,
)
from siloquent.discover.spec import BoundsSpec, DiscoverSpec, KeysSpec, suggest
from siloquent.errors import RequestError
from siloquent.fixes import use_budget
from siloquent.maths.tails.distributions import compute_laplace_variance
from siloquent.privacy import (
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    ThresholdedGaussian,
    get_accountant,
)
from siloquent.privacy.budget import round_up_to_drawable
from siloquent.privacy.prices import describe_price
from siloquent.readable import Readable
from siloquent.schema import Attribute, TableSchema

SPLIT_DATES = 256
MAX_PARAMETER = 2**49


@dataclass(frozen=True, slots=True, repr=False)
class KeysPlan(Readable):
    """The release of keys with at least ``threshold`` units after noise of ``variance``."""

    spec: KeysSpec
    schema: TableSchema
    event: ThresholdedGaussian

    def __str__(self) -> str:
        budget = self.schema.budget
        return "\n".join(
            [
                f"Plan of a discovery of values of {self.schema.name}.{self.spec.column}",
                f"A value that {self.sure_from:,} units share is found with probability 0.95.",
                describe_price(self.price, budget.accountant, delta=budget.delta - budget.delta_events),
            ]
        )

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
        return compute_sure_count(self.event.threshold, self.deviation)

    @property
    def warning(self) -> str:
        """The warning that the public size of the table gives against this plan; empty if none."""
        size = self.schema.size_hint
        if size is None or 10 * self.sure_from <= size:
            return ""
        part = f"{math.ceil(100 * self.sure_from / size)} % of them" if self.sure_from <= size else "nearly all"
        few = " So at most one value is." if 2 * self.sure_from > size * self.spec.keys_each else ""
        return f"{self.spec.table} has about {size:,} rows: only values shared by {part} are reliably found.{few}"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BoundsPlan(Readable):
    """The release of a noisy histogram of values; bin i holds the cells from ``starts[i]`` on."""

    spec: BoundsSpec
    schema: TableSchema
    event: DiscreteGaussian | DiscreteLaplace
    starts: NDArray[np.int64]

    def __str__(self) -> str:
        budget = self.schema.budget
        return "\n".join(
            [
                f"Plan of a discovery of bounds of {self.schema.name}.{self.spec.column}",
                f"The noise on the number of rows in a bin is about {self.deviation:,.3g} rows.",
                describe_price(self.price, budget.accountant, delta=budget.delta - budget.delta_events),
            ]
        )

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

    @property
    def needed_rows(self) -> int:
        """The number of rows from which on the noise hides no bounds, wherever the values lie."""
        return compute_needed_rows(len(self.starts), self.deviation, self.noise)

    @property
    def warning(self) -> str:
        """The warning that the public size of the table gives against this plan; empty if none."""
        size = self.schema.size_hint
        if size is None or size >= self.needed_rows:
            return ""
        times = (self.needed_rows / size) ** (2 if self.noise == "gaussian" else 1)
        return (
            f"{self.spec.table} has about {size:,} rows, and from about {self.needed_rows:,} on the noise hides no "
            f"bounds: about {math.ceil(times):,} times this budget is safe."
        )


DiscoverPlan = KeysPlan | BoundsPlan


@singledispatch
def plan(spec: DiscoverSpec, schema: TableSchema) -> DiscoverPlan:
    """Plan ``spec`` from the declaration.

    Raises:
        UnknownName: the column is not declared.
        RequestError: the column cannot be discovered, or the budget does not fit the account or finds nothing.
    """
    raise RequestError(f"A discovery takes a KeysSpec or a BoundsSpec, not {type(spec).__name__}.")


@plan.register
def _(spec: KeysSpec, schema: TableSchema) -> KeysPlan:
    attribute = schema.domain[spec.column]
    require_keys(spec, schema, attribute)
    if schema.unit.kind == "row" and spec.keys_each > 1:
        raise RequestError(
            f"A row has one value of {attribute.name!r}, so it cannot count for {spec.keys_each}.",
            fix=suggest(spec, keys_each=1),
        )
    delta = choose_delta(spec, schema)
    amount = _convert_budget(spec, schema)
    moved = _compute_moved(spec, schema)
    get_variance = partial(_compute_variance, spec, moved)
    variance = get_variance(amount)
    threshold = compute_threshold(variance, keys_each=spec.keys_each, delta=delta, at_least=spec.at_least)
    passing = compute_passing_probability(variance, keys_each=spec.keys_each, threshold=threshold)
    require_hope(spec, schema, threshold, amount=amount, get_variance=get_variance)
    return KeysPlan(spec, schema, ThresholdedGaussian(variance, spec.keys_each, moved, threshold, passing))


@plan.register
def _(spec: BoundsSpec, schema: TableSchema) -> BoundsPlan:
    attribute = schema.domain[spec.column]
    if not (attribute.is_numeric or attribute.is_temporal):
        raise RequestError(
            f"{attribute.name!r} is of type {attribute.kind}, which has no bounds.",
            fix=suggest(KeysSpec(spec.table, spec.column, spec.budget)),
        )
    require_stored(spec, schema, attribute)
    amount, moved = _convert_budget(spec, schema), _compute_moved(spec, schema)
    event: DiscreteGaussian | DiscreteLaplace
    if schema.budget.accountant == "pure":
        event = DiscreteLaplace(_round_to_drawable(spec, moved / amount), moved)
    else:
        event = DiscreteGaussian(_compute_variance(spec, moved, amount), moved)
    found = BoundsPlan(spec, schema, event, list_bin_starts(attribute))
    hidden = compute_hidden_rows(len(found.starts), found.deviation, found.noise)
    require_visible_bounds(spec, schema, hidden, found.needed_rows, is_gaussian=found.noise == "gaussian")
    return found


def restore_plan(spec: DiscoverSpec, schema: TableSchema, event: Event) -> DiscoverPlan:
    """Return the plan under which ``event`` was charged, whatever the table's budget says now.

    An event that this version would not plan for the table's unit is planned anew.

    Raises:
        RequestError, UnknownName: as ``plan``.
    """
    moved = _compute_moved(spec, schema)
    if isinstance(spec, KeysSpec):
        if isinstance(event, ThresholdedGaussian) and (event.keys, event.l2_squared) == (spec.keys_each, moved):
            return KeysPlan(spec, schema, event)
    elif (isinstance(event, DiscreteGaussian) and event.l2_squared == moved) or (
        isinstance(event, DiscreteLaplace) and event.l1 == moved
    ):
        return BoundsPlan(spec, schema, event, list_bin_starts(schema.domain[spec.column]))
    return plan(spec, schema)


def _compute_moved(spec: DiscoverSpec, schema: TableSchema) -> int:
    """Return the change by one unit: of keys in squared L2; of bins in L1 in pure accounts, else in squared L2."""
    moves = 2 if schema.replace_one else 1
    if isinstance(spec, KeysSpec):
        return moves * spec.keys_each
    rows = schema.unit.max_rows  # all rows of a unit may be in one bin, and in another after its replacement
    return moves * rows if schema.budget.accountant == "pure" else moves * rows * rows


def _compute_variance(spec: DiscoverSpec, moved: int, amount: Fraction) -> Fraction:
    return _round_to_drawable(spec, moved / (2 * amount))


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
    return spec.budget.convert_to_account(schema.budget.accountant, delta=get_report_delta(schema))


def _round_to_drawable(spec: DiscoverSpec, parameter: Fraction) -> Fraction:
    drawable = round_up_to_drawable(parameter)
    if drawable > MAX_PARAMETER:
        raise RequestError(
            "The budget is too small: that much noise cannot be drawn.",
            fix=use_budget("rho" if spec.budget.epsilon is None else "epsilon", "0.01"),
        )
    return drawable
