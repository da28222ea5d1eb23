"""Whole steps, noise, event and price from spec and declaration. No row is read."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

from siloquent.errors import RequestError
from siloquent.fixes import UseOption, use_budget
from siloquent.maths.sensitivity.joint import JointRelease
from siloquent.maths.tails.distributions import compute_laplace_variance
from siloquent.privacy import Composed, Event, format_digits, get_accountant
from siloquent.privacy.budget import build_joint_event, round_up_to_drawable, subtract_rounding
from siloquent.privacy.prices import describe_price
from siloquent.readable import Readable
from siloquent.schema import TableSchema
from siloquent.search.domains import Feature, JoinKey
from siloquent.search.plan.columns import build_features, build_join_key, is_always_inside
from siloquent.search.plan.ranges import RANGES_SHARE, plan_range_selection
from siloquent.search.records import build_record_pairs, compute_max_record_length
from siloquent.search.spec import OfferSpec

Noise = Literal["gaussian", "laplace"]
Parameters = tuple[Fraction | None, ...]
"""The noise parameters of counts, sums, second moments, and each higher order."""
STEPS = (1_023, 255, 63, 15)
"""The whole steps from 0 to half a range; the finest for which the noise can be sampled is used."""
COARSE_STEPS = (63, 15, 7, 3)
"""The same for orders above 2, whose noise grows with the step's third and fourth power."""
MAX_SUMS = 10**7
MAX_CURVED = 40
FAINT, HIDDEN = 0.15, 0.5
"""The errors of a key's mean, in half ranges, from which a plan warns: group means rarely differ by more than half."""
_MAX_VARIANCE = 2**49
_MAX_SCALE = 2**49


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class OfferPlan(Readable):
    """An offer that is ready to be measured: everything except the rows.

    ``steps``: whole steps from 0 to 1 in every column. ``longest``: the squared length of the longest record, in
    steps.
    ``parameters``: Gaussian variance or Laplace scale of counts, sums and second moments (on the diagonal), None
    where an order is not released or, only for counts, exact. ``rate``: of the selection of range ends, None where the
    declared ranges are used.
    """

    spec: OfferSpec
    schema: TableSchema
    features: tuple[Feature, ...]
    keys: tuple[JoinKey, ...]
    steps: int
    longest: int
    noise: Noise
    parameters: Parameters
    event: Event
    notes: tuple[str, ...] = ()
    rate: Fraction | None = None

    def __str__(self) -> str:
        budget = self.schema.budget
        return "\n".join(
            [
                f"Plan of an offer of {self.schema.name}: {self.numbers:,} noisy numbers, {len(self.columns)} columns",
                *self.notes,
                describe_price(self.price, budget.accountant, delta=budget.delta - budget.delta_events),
            ]
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of all features' columns."""
        return tuple(column for feature in self.features for column in feature.columns)

    @property
    def places(self) -> tuple[str, ...]:
        """The attributes that are read, keys first."""
        return tuple(dict.fromkeys([p.name for key in self.keys for p in key.parts] + [f.name for f in self.features]))

    @property
    def price(self) -> Fraction:
        """The charge, in the account's epsilon or rho: whole units of the ledger, rounded up."""
        book = get_accountant(self.schema.budget.accountant)
        return Fraction(book.compute_cost(self.event).amount, book.scale)

    @property
    def numbers(self) -> int:
        """The number of noisy numbers released."""
        p, cells = len(self.columns), sum(key.cells for key in self.keys) or 1
        second = {"none": 0, "total": p * (p + 1) // 2, "per-key": cells * p * (p + 1) // 2}
        higher = sum(math.comb(p + order - 1, order) for order in range(3, self.spec.order + 1))
        return cells * (1 + p) + second[self.spec.second_moments] + higher

    @property
    def is_halved(self) -> bool:
        """Whether entries off the diagonal have half the variance: the joint event counts their changes twice."""
        return self.noise == "gaussian" and self.spec.mechanism == "joint"

    def compute_mean_error(self, rows: float) -> float:
        """Compute the standard error that noise by itself adds to a key's mean over ``rows`` rows, in half ranges."""
        return compute_deviation(self.noise, self.parameters[1]) / self.steps / rows


def compute_deviation(noise: Noise, parameter: Fraction | None) -> float:
    """Compute the standard deviation of discrete noise, 0 where there is none."""
    if parameter is None:
        return 0.0
    return math.sqrt(parameter if noise == "gaussian" else compute_laplace_variance(parameter))


def plan(spec: OfferSpec, schema: TableSchema) -> OfferPlan:
    """Plan the offer of ``spec``.

    Raises:
        UnknownName, SchemaError: A key or feature has no finite domain, or only one value.
        RequestError: Too many numbers, or the budget does not fit the account.
    """
    if schema.budget.accountant == "pure" and spec.order > 2:
        raise RequestError(
            "Higher orders have Gaussian noise; a pure account needs another.", fix=UseOption("order", 2)
        )
    if schema.budget.accountant == "pure" and spec.mechanism != "joint":
        raise RequestError("The paper's mechanisms add Gaussian noise; a pure account needs another.", fix="joint")
    features, keys = build_features(spec, schema), tuple(build_join_key(key, schema) for key in spec.keys)
    for steps in STEPS if spec.order == 2 else COARSE_STEPS:
        made = _build_plan(spec, schema, features, keys, steps)
        if made is not None:
            return _add_notes(
                add_range_selection(made, _compute_whole_amount(made)) if made.spec.range == "quantiles" else made
            )
    raise RequestError("The budget is too small: that much noise cannot be drawn.", fix='epsilon = "0.01" or more')


def add_range_selection(made: OfferPlan, amount: Fraction) -> OfferPlan:
    """Return the plan with the selection of range ends before its sums, for their part of ``amount``."""
    rate, event = plan_range_selection(made.features, made.schema, amount * RANGES_SHARE)
    return replace(made, rate=rate, event=Composed((event, made.event)))


def _build_plan(
    spec: OfferSpec, schema: TableSchema, features: tuple[Feature, ...], keys: tuple[JoinKey, ...], steps: int
) -> OfferPlan | None:
    """Build the plan with the given number of steps; None where its noise cannot be sampled."""
    made = OfferPlan(
        spec=spec,
        schema=schema,
        features=features,
        keys=keys,
        steps=steps,
        longest=compute_max_record_length(features, steps, spec.norm_cut),
        noise="laplace" if schema.budget.accountant == "pure" else "gaussian",
        parameters=(None, None, None),
        event=Composed(()),
    )
    if made.numbers > MAX_SUMS:
        raise RequestError(
            f"The offer would hold {made.numbers:,} numbers; the limit is {MAX_SUMS:,}.",
            fix="a coarser key, fewer features, or no second moments per key",
        )
    if spec.order > 2 and len(made.columns) > MAX_CURVED:
        raise RequestError(
            f"Of {len(made.columns)} columns there are too many products of {spec.order}; the limit is {MAX_CURVED} "
            "columns.",
            fix="fewer features, or order = 2",
        )
    if made.longest < 1:
        return None
    return _plan_laplace(made) if made.noise == "laplace" else _plan_gaussian(made)


def _build_joint_release(made: OfferPlan) -> JointRelease:
    schema, spec = made.schema, made.spec
    pairs = None
    if spec.range == "declared":  # otherwise an index depends on the ranges that are estimated
        cells = [schema.domain[feature.name].size for feature in made.features]
        pairs = build_record_pairs(made.features, cells, made.steps, spec.norm_cut)
    return JointRelease(
        longest=made.longest if pairs is None else pairs.longest,
        keys=max(1, len(made.keys)),
        replaced=schema.replace_one,
        records=schema.unit.max_rows,
        keeps_key=_is_counted_exactly(made),
        one_place=not made.keys,
        numbers=sum(feature.blocks for feature in made.features),
        chosen=sum(len(feature.columns) > 1 for feature in made.features),
        cut=spec.norm_cut is not None,
        by_key=spec.second_moments == "per-key",
        pairs=pairs,
    )


def _is_counted_exactly(made: OfferPlan) -> bool:
    """Return whether the number of rows is equal for all neighbours: every row counts, and each is one unit."""
    schema = made.schema
    if not schema.replace_one or made.keys or schema.unit.kind != "row":
        return False
    return all(is_always_inside(schema.domain[feature.name]) for feature in made.features)


def _compute_shares(made: OfferPlan) -> tuple[Fraction, ...]:
    """Compute the shares of the price; the number of rows is free exactly where neighbours have equal numbers.

    Raises:
        RequestError: Counts have no share, although the number of rows is private.
    """
    counts, *others = made.spec.parts
    if _is_counted_exactly(made):
        counts = Fraction(0)
    elif counts == 0:
        raise RequestError(
            "Counts need a share of the price: the number of rows of this table is private.",
            fix=UseOption("shares", ("0.02", "0.18", "0.8")),
        )
    return (counts, *others)


def _plan_gaussian(made: OfferPlan) -> OfferPlan | None:
    shares = _compute_shares(made)
    release = _build_joint_release(made)
    if made.spec.mechanism == "joint":
        found = release.split_variances(shares, _compute_rho(made, release, shares))
    else:
        found = _plan_paper_noise(made, release, _compute_rho(made, release, shares))
    rounded = [None if v is None else round_up_to_drawable(v) for v in found]
    if any(v is not None and v > _MAX_VARIANCE for v in rounded):
        return None
    variances: Parameters = tuple(rounded)
    return replace(made, parameters=variances, event=build_joint_event(release.bound_change(variances), gaussian=True))


def _compute_rho(made: OfferPlan, release: JointRelease, shares: tuple[Fraction, ...]) -> Fraction:
    if made.spec.budget is not None:
        return _compute_amount(made)
    assert made.spec.accuracy is not None
    goal = made.spec.accuracy
    # The variance of a sum that gives the requested error, in whole steps; at rho 1 it would be the first one
    # over rho. An error is given in ranges, which are two half ranges.
    wanted = Fraction(2 * goal.mean_error * goal.rows_per_key * made.steps) ** 2
    at_one = release.split_variances(shares, Fraction(1))[1]
    assert at_one is not None
    return at_one / wanted


def _plan_laplace(made: OfferPlan) -> OfferPlan | None:
    """Plan Laplace noise for each order from its own part of epsilon, since one unit can change all orders at once."""
    if made.spec.budget is None:
        raise RequestError(
            "An accuracy target needs a zCDP account; a pure account needs a budget.", fix=use_budget("epsilon", "1")
        )
    release, shares = _build_joint_release(made), _compute_shares(made)
    found = release.split_scales(shares, _compute_amount(made))
    if any(scale is not None and scale > _MAX_SCALE for scale in found):
        return None
    scales: Parameters = tuple(None if scale is None else round_up_to_drawable(scale) for scale in found)
    return replace(made, parameters=scales, event=build_joint_event(release.bound_l1_change(scales), gaussian=False))


def _plan_paper_noise(made: OfferPlan, release: JointRelease, rho: Fraction) -> Parameters:
    """Compute the noise of the paper's mechanisms at the same price.

    FPM: one variance for all orders. FPM-OPT: each order separately, for an equal part of the price.
    """
    released = [not _is_counted_exactly(made), True, made.spec.second_moments != "none"]

    def moved(orders: list[bool]) -> Fraction:
        ones = [Fraction(1) if wanted else None for wanted in orders]
        return release.bound_change((ones[0], ones[1], ones[2]))

    if made.spec.mechanism == "fpm":
        each = [moved(released) / (2 * rho)] * 3
    else:
        each = [moved([i == order for i in range(3)]) * sum(released) / (2 * rho) for order in range(3)]
    found = [variance if wanted else None for variance, wanted in zip(each, released, strict=True)]
    return found[0], found[1], found[2]


def _compute_amount(made: OfferPlan) -> Fraction:
    """Return the budget for sums, after the part for range ends."""
    return _compute_whole_amount(made) * (1 - RANGES_SHARE if made.spec.range == "quantiles" else 1)


def _compute_whole_amount(made: OfferPlan) -> Fraction:
    """Return the budget in the account's unit, less the two ledger units by which rounding may raise the price."""
    if made.spec.budget is None:
        raise RequestError("Estimated ranges need a budget, not an accuracy.", fix=use_budget("epsilon", "1"))
    declared = made.schema.budget
    amount = made.spec.budget.convert_to_account(declared.accountant, delta=declared.delta - declared.delta_events)
    return subtract_rounding(amount, get_accountant(declared.accountant).scale)


def _add_notes(made: OfferPlan) -> OfferPlan:
    """Add notes on the plan's limitations, from public facts, so that they are known before anything is spent."""
    notes, size = [], made.schema.size_hint
    if size is None:
        return replace(made, notes=("the accuracy is not known beforehand: the table file has no size_hint",))
    for key in made.keys:
        rows = max(size / key.cells, 1)
        error = made.compute_mean_error(rows)
        if error > FAINT:
            seen = "hides what tells them apart" if error > HIDDEN else "leaves only large differences to see"
            notes.append(
                f"by {key.name} there are about {format_digits(size / key.cells, 2)} rows a value: noise of "
                f"+-{format_digits(error, 2)} half ranges on each mean {seen}; a coarser key, a parent or "
                "a larger budget helps"
            )
    if not made.keys:
        error = compute_deviation(made.noise, made.parameters[2]) / made.steps**2 / size
        if error > 0.1:
            notes.append(
                f"with {size:,} rows, noise of +-{format_digits(error, 2)} on each mean product hides linear relations"
            )
    return replace(made, notes=tuple(notes))
