"""The counts, noise, event and price of a release from spec and declaration. No row is read."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from siloquent.errors import RequestError
from siloquent.fixes import UseOption
from siloquent.maths.tails.distributions import compute_laplace_variance
from siloquent.privacy import (
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    SummedGaussian,
    format_digits,
    get_accountant,
)
from siloquent.privacy.budget import build_joint_event, round_up_to_drawable, subtract_rounding
from siloquent.privacy.prices import describe_price
from siloquent.readable import Readable
from siloquent.schema import TableSchema
from siloquent.share.spec import Agreement, ShareSpec, build_agreement
from siloquent.share.spec.encoding import Encoding, build_encoding
from siloquent.share.spec.layout import SHARES, STEPS, Layout, VectorBlock
from siloquent.share.trees import DecisionTreePlan, plan_tree

NoiseKind = Literal["laplace", "gaussian"]
MAX_PARAMETER = 2**49
MIN_SHARE = 9
"""The minimal variance of one silo's Gaussian share: below it the sum is too far from a discrete Gaussian."""
MAX_SHARED_SCALE = 200
MAX_NUMBERS = 2**22
_WORTH = 0.5


@dataclass(frozen=True, slots=True)
class BlockNoise:
    """The noise on a run of the vector: a Laplace scale or Gaussian variance, of the whole sum if it is summed."""

    length: int
    parameter: Fraction


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SharePlan(Readable):
    """A release that is ready to be measured: everything except the rows.

    ``runs``: the noise of the vector of ``layout``; ``tree``: the plan of a tree instead.
    """

    spec: ShareSpec
    schema: TableSchema
    agreement: Agreement
    encoding: Encoding
    layout: Layout | None
    noise: NoiseKind
    runs: tuple[BlockNoise, ...]
    tree: DecisionTreePlan | None
    event: Event
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        budget = self.schema.budget
        return "\n".join(
            [
                f"Plan of a release of {self.schema.name} for sharing: {self.numbers:,} noisy numbers",
                f"The noise on one of them is about {self.deviation:,.3g} rows at most.",
                *self.notes,
                describe_price(self.price, budget.accountant, delta=budget.delta - budget.delta_events),
            ]
        )

    @property
    def price(self) -> Fraction:
        """The charge, in the account's epsilon or rho: whole units of the ledger, rounded up."""
        book = get_accountant(self.schema.budget.accountant)
        return Fraction(book.compute_cost(self.event).amount, book.scale)

    @property
    def numbers(self) -> int:
        """The number of noisy numbers released; for a tree, the maximum."""
        return self.layout.length if self.layout else self.tree.most_numbers if self.tree else 0

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise on one number (the largest of them), in rows."""
        if self.tree is not None:
            return math.sqrt(2) * float(self.tree.deepest_scale)
        return max(math.sqrt(compute_noise_variance(self.noise, run.parameter)) for run in self.runs)

    def compute_relative_noise(self) -> float | None:
        """Compute the noise relative to an average cell's count, over all silos; None without a size hint.

        The smaller, the better a model can become: below .1 it is near that of pooled rows, above 1 it is of little
        use.
        """
        if self.schema.size_hint is None or self.layout is None:
            return None
        silos = self.spec.agents or 1
        noises = 1 if self.spec.trust == "sum" else silos
        width = self.encoding.columns / len(self.encoding.features)
        other = width if self.layout.method != "marginals" else self.encoding.classes
        cell = self.schema.size_hint * silos / (width * other)
        if self.layout.method == "moments":
            cell = float(self.schema.size_hint * silos * STEPS**2) / self.layout.dimensions
        return math.sqrt(noises) * self.deviation / cell


def compute_noise_variance(noise: NoiseKind, parameter: Fraction) -> Fraction:
    """Compute the variance of discrete Laplace noise of that scale, or about that of discrete Gaussian noise."""
    return parameter if noise == "gaussian" else compute_laplace_variance(parameter)


def plan(spec: ShareSpec, schema: TableSchema, *, seed: int | None = None) -> SharePlan:
    """Plan ``spec`` from public facts only.

    Args:
        seed: Of a tree's skeleton; None: the spec's own.
    Raises:
        SchemaError: A feature or label has no finite domain, or the method does not fit it.
        RequestError: The budget does not fit the account, or is too small for noise that can be sampled.
    """
    agreement = build_agreement(spec, schema)
    encoding = build_encoding(agreement)
    budget = schema.budget
    amount = spec.budget.convert_to_account(budget.accountant, delta=budget.delta - budget.delta_events)
    if spec.method == "tree":
        tree = plan_tree(spec, schema, encoding, amount, spec.public_seed if seed is None else seed)
        return SharePlan(spec, schema, agreement, encoding, None, "laplace", (), tree, tree.event)
    layout = Layout(spec.method, encoding)
    _check(spec, layout)
    noise: NoiseKind = "laplace" if budget.accountant == "pure" else "gaussian"
    runs, event = _plan_noise(spec, schema, layout, noise, amount)
    if spec.trust == "sum" and noise == "laplace":
        _check_shares(max(run.parameter for run in runs))
    if max(run.parameter for run in runs) > MAX_PARAMETER:
        raise RequestError("The budget is too small: that much noise cannot be drawn.", fix='epsilon = "0.01" or more')
    made = SharePlan(spec, schema, agreement, encoding, layout, noise, tuple(runs), None, event)
    return _add_notes(made)


def _plan_noise(
    spec: ShareSpec, schema: TableSchema, layout: Layout, noise: NoiseKind, amount: Fraction
) -> tuple[list[BlockNoise], Event]:
    """Plan the noise of each run of the vector, and the total price."""
    records, replaced = schema.unit.max_rows, schema.replace_one
    groups = layout.build_blocks(records=records, replaced=replaced)
    if len(groups) == 1 or spec.trust == "sum":
        parts = [_build_event(spec, noise, group, amount * Fraction(group.percent, 100)) for group in groups]
        numbers = [_get_parameter(part) for part in parts]
        event: Event = parts[0] if len(parts) == 1 else Composed(tuple(parts))
    else:
        # One release of several orders: no unit changes all of them as much as it could change each.
        release = layout.build_moments_release(records=records, replaced=replaced)
        shares = [Fraction(share, 100) for share in SHARES]
        amount = subtract_rounding(amount, get_accountant(schema.budget.accountant).scale)
        pure = noise == "laplace"
        wanted = release.split_scales(shares, amount) if pure else release.split_variances(shares, amount)
        numbers = [round_up_to_drawable(number or Fraction(0)) for number in wanted]
        moved = release.bound_l1_change(tuple(numbers)) if pure else release.bound_change(tuple(numbers))
        event = build_joint_event(moved, gaussian=not pure)
    return [
        run for group, one in zip(groups, numbers, strict=True) for run in _build_block_noises(noise, group, one)
    ], event


def _check(spec: ShareSpec, layout: Layout) -> None:
    encoding = layout.encoding
    if spec.method == "moments" and encoding.classes > 2 and not encoding.is_regression:
        raise RequestError(
            "The label of moments must be a number or have two classes.", fix=UseOption("method", "gram")
        )
    if layout.length > MAX_NUMBERS:
        raise RequestError(
            f"This release would publish {layout.length:,} numbers; the limit is {MAX_NUMBERS:,}.",
            fix='fewer features, wider bins, or method = "marginals"',
        )


def _check_shares(scale: Fraction) -> None:
    """Check the scale of Laplace shares: larger ones take longer to draw, and slow ones are refused."""
    if scale > MAX_SHARED_SCALE:
        raise RequestError(
            f"Shares of Laplace noise of scale {format_digits(scale)} would take too long to draw; the limit is "
            f"{MAX_SHARED_SCALE}.",
            fix='accountant = "zcdp" for this table, method = "marginals", or a larger budget',
        )


def _build_event(
    spec: ShareSpec, noise: NoiseKind, group: VectorBlock, amount: Fraction
) -> DiscreteLaplace | DiscreteGaussian | SummedGaussian:
    """Build the event for one group's price; its noise parameter is rounded up to one that can be sampled."""
    if noise == "laplace":
        return DiscreteLaplace(round_up_to_drawable(group.l1 / amount), group.l1)
    variance = group.l2_squared / (2 * amount)
    if spec.trust == "local":
        return DiscreteGaussian(round_up_to_drawable(variance), group.l2_squared)
    assert spec.honest is not None
    # Halves must be integers, too. The sum of shares costs a little more than its variance implies, far below 1e-9
    # of it; below the minimal share it would not be Gaussian enough, so there is then more noise, at a lower price.
    share = 2 * math.ceil(variance * (1 + Fraction(1, 10**12)) / (2 * spec.honest))
    return SummedGaussian(Fraction(max(share, 2 * MIN_SHARE)), spec.honest, group.l2_squared, group.length)


def _get_parameter(part: DiscreteLaplace | DiscreteGaussian | SummedGaussian) -> Fraction:
    if isinstance(part, DiscreteLaplace):
        return part.scale
    return part.variance if isinstance(part, DiscreteGaussian) else part.share * part.honest


def _build_block_noises(noise: NoiseKind, group: VectorBlock, parameter: Fraction) -> list[BlockNoise]:
    """Build the noise of a group: numbers that its squared L2 counts twice need half the variance."""
    if noise == "laplace" or not group.halved:
        return [BlockNoise(group.length, parameter)]
    return [BlockNoise(group.length - group.halved, parameter), BlockNoise(group.halved, parameter / 2)]


def _add_notes(made: SharePlan) -> SharePlan:
    from dataclasses import replace

    relative = made.compute_relative_noise()
    if relative is None or relative < _WORTH:
        return made
    note = (
        f"noise is {format_digits(Fraction(relative), 2)} times what an average cell holds: "
        "the shared model will say little; more silos, fewer features, wider bins or a larger budget would help"
    )
    return replace(made, notes=(note,))
