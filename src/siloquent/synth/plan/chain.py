"""The plan of engine ``chain``: the order of columns, noise of the training, and the total price.

Source: thesis, algorithms 10 (sequencing) and 12 (parameters), corrected: docs/explanation/synth-chain.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from siloquent.errors import RequestError
from siloquent.fixes import UseOption, build_fix
from siloquent.privacy import Composed, Event, SampledGaussian, get_accountant, parse_exact
from siloquent.privacy.budget import round_up_to_drawable
from siloquent.privacy.prices import describe_price
from siloquent.readable import Readable
from siloquent.synth.plan.budget import VectorNoise, calibrate_noise, calibrate_selection
from siloquent.synth.plan.domain_splits import MAX_FINENESS
from siloquent.synth.plan.parameters import Parameters, choose_parameters
from siloquent.synth.plan.tree import TreePlan, plan_tree
from siloquent.synth.spec.chain import ChainSpec
from siloquent.synth.spec.compiled import CompiledConstraints
from siloquent.synth.spec.spec import SynthSpec

if TYPE_CHECKING:
    from siloquent.schema import TableSchema

POOREST = 0.05
"""The epsilon below which the steps teach little on any table."""
REPLACED = 8
"""The variance, relative to the price's, at which whole noise hides replaced rows as normal noise does."""


@dataclass(frozen=True, slots=True)
class TrainingNoise:
    """The noise of the steps.

    Attributes:
        rate: The probability of a row being in a sample, a multiple of 2^-64.
        multiplier: The noise's deviation per sensitivity of a sum of clipped gradients.
        scale: The whole number that stands for a gradient of length ``clip``.
        sensitivity: The change of a sum by one unit, in multiples of ``scale``: 1, or 2 where rows are replaced.
        batch: The mean number of rows of a sample.
        steps: The number of steps of each model.
    """

    rate: Fraction
    multiplier: Fraction
    scale: int
    sensitivity: int
    batch: int
    steps: int

    @property
    def variance(self) -> int:
        """The variance of the whole noise on each coordinate."""
        whole = math.ceil((self.scale * self.sensitivity * self.multiplier) ** 2)
        return whole + (REPLACED if self.sensitivity > 1 else 0)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ChainPlan(Readable):
    """The course of a run of engine ``chain``.

    Attributes:
        first: The counts before the training: fine counts and FD tables, as engine ``tree`` plans them, no rounds.
        blocks: The blocks in drawing order, each learned as one: the indices in ``first.fines`` of one attribute or
            of several small ones.
        joint: The noise of the first block's histogram, if it has several attributes.
        sampled: The event of all steps of all models; None for a single block.
    """

    first: TreePlan
    blocks: tuple[tuple[int, ...], ...]
    joint: VectorNoise | None
    training: TrainingNoise | None
    sampled: SampledGaussian | None

    @property
    def chain(self) -> ChainSpec:
        """The settings of learning and drawing."""
        return self.spec.chain

    @property
    def sequence(self) -> tuple[int, ...]:
        """The modelled attributes in drawing order."""
        return tuple(place for block in self.blocks for place in block)

    @property
    def names(self) -> tuple[str, ...]:
        """The modelled attributes."""
        return self.first.names

    @property
    def spec(self) -> SynthSpec:
        """The request."""
        return self.first.spec

    def __str__(self) -> str:
        budget = self.schema.budget
        return "\n".join(
            [
                f"Plan of a synthetic table of {self.schema.name}: {self.outline}",
                *self.notes,
                describe_price(self.price, budget.accountant, delta=budget.delta - budget.delta_events),
            ]
        )

    @property
    def schema(self) -> TableSchema:
        """The table's declaration."""
        return self.first.schema

    @property
    def compiled(self) -> CompiledConstraints:
        """The table's constraints, compiled for enforcement."""
        return self.first.compiled

    @property
    def event(self) -> Event:
        """Everything that the run may release."""
        parts: list[Event] = [self.first.event]
        parts += [] if self.joint is None else [self.joint.event]
        return Composed((*parts, *([] if self.sampled is None else [self.sampled])))

    @property
    def price(self) -> Fraction:
        """The worst case in the account's epsilon or rho, exactly as the ledger rounds it."""
        book = get_accountant(self.schema.budget.accountant)
        return Fraction(book.compute_cost(self.event).amount, book.scale)

    @property
    def steps(self) -> int:
        """The number of steps in the journal of a complete run."""
        return self.first.steps + (self.joint is not None) + len(self.blocks) - 1

    @property
    def rounds(self) -> int:
        """Zero: no joints are chosen."""
        return self.first.rounds

    @property
    def cells(self) -> int:
        """Zero: a chain has no cells."""
        return 0

    @property
    def outline(self) -> str:
        """The model in words."""
        taken = 0 if self.training is None else self.training.steps
        return f"{len(self.names)} columns, {len(self.blocks) - 1} models of {taken:,} noisy steps each"

    @property
    def expected_distance(self) -> None:
        """None: there is no forecast, since the effect of the steps depends on the rows."""
        return None

    @property
    def advice(self) -> str:
        """Advice on what makes the account's price high."""
        if self.sampled is None:
            return ""
        epsilon = float(self.sampled.epsilon)
        return (
            f"the steps are ({epsilon:.3g}, {float(self.sampled.delta):.1g})-private, for which this account is "
            f"charged rho {epsilon**2 / 2:.3g}: engine 'tree' buys far more for it"
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes to read before paying."""
        if self.sampled is None:
            return self.compiled.notes
        poor = self.sampled.epsilon < POOREST
        warned = ["so little is left for the steps that the models will hardly know one column from another"]
        return (self.advice, *(warned if poor else []), *self.compiled.notes)

    def list_noises(self) -> tuple[tuple[str, float, float | None], ...]:
        """Return each kind of step: its name, price, and the noise in each of its cells, in rows."""
        book = get_accountant(self.schema.budget.accountant)

        def price(event: Event) -> float:
            return float(Fraction(book.compute_cost(event).amount, book.scale))

        found = list(self.first.list_noises())
        if self.joint is not None:
            found.append(("first columns together", price(self.joint.event), self.joint.deviation))
        if self.sampled is not None:
            found.append((f"{self.sampled.steps:,} steps of training", price(self.sampled), None))
        return tuple(found)

    def list_prices(self) -> tuple[tuple[str, float], ...]:
        """Return each kind of step and its price."""
        return tuple((name, price) for name, price, _ in self.list_noises())


def plan_chain(spec: SynthSpec, schema: TableSchema) -> ChainPlan:
    """Return the plan of ``spec``.

    Raises:
        RequestError: No public number of rows, no delta for events, users with several rows, or shares that sum to
            more than the budget.
        AccuracyUnreachable: The steps do not fit into the budget at any noise below 500.
        UnknownName, ConstraintProblem: As ``plan_tree``.
    """
    _check(spec, schema)
    first, noise = _plan_counts(spec, schema)
    blocks = cut_blocks(first.compiled, spec.chain.hyper)
    joint = noise if len(blocks[0]) > 1 else None
    left = _compute_step_budget(first, joint)
    models = len(blocks) - 1
    if models < 1:
        return ChainPlan(first, blocks, joint, None, None)
    delta = schema.budget.delta_events
    chosen = choose_parameters(spec.chain, left, hint=schema.size_hint or 1, models=models, delta=delta)
    training = _plan_training(chosen, schema)
    sampled = SampledGaussian(
        rate=chosen.rate,
        multiplier=chosen.multiplier,
        steps=chosen.steps * models,
        epsilon=chosen.compute_epsilon(models=models, delta=delta),
        delta=delta,
    )
    return ChainPlan(first, blocks, joint, training, sampled)


def _plan_training(chosen: Parameters, schema: TableSchema) -> TrainingNoise:
    scale = 2 ** min(20, math.floor(25 - math.log2(chosen.multiplier)))
    sensitivity = 2 if schema.replace_one else 1
    return TrainingNoise(chosen.rate, chosen.multiplier, scale, sensitivity, chosen.batch, chosen.steps)


def _check(spec: SynthSpec, schema: TableSchema) -> None:
    if schema.size_hint is None:
        raise RequestError(
            "Engine 'chain' samples rows at a rate that depends on a public number of rows.",
            fix=build_fix(
                f"size_hint = 10000 under [table] in schemas/{schema.name}.toml, or ", UseOption("engine", "tree")
            ),
        )
    if not schema.budget.delta_events > 0:
        raise RequestError(
            "Engine 'chain' is (epsilon, delta)-private, and this account reserves no delta for such events.",
            fix=build_fix(
                f'accountant = "zcdp" with delta_events in schemas/{schema.name}.toml, or ', UseOption("engine", "tree")
            ),
        )
    if schema.unit.max_rows > 1:
        raise RequestError(
            "Engine 'chain' protects single rows; users with several rows need engine 'tree'.",
            fix=UseOption("engine", "tree"),
        )
    if spec.chain.sampler == "accept-reject" and any(getattr(one, "hard", False) for one in schema.constraints):
        raise RequestError("accept-reject may never finish under hard constraints.", fix=UseOption("sampler", "direct"))


def _compute_step_budget(first: TreePlan, joint: VectorNoise | None) -> Fraction:
    """Return the epsilon for the steps at the account's delta for events; it is charged as rho = epsilon^2 / 2."""
    left = first.amount - first.price - (0 if joint is None else joint.price)
    if left <= 0:
        raise RequestError(
            "Counts, bought rates and the report together take the whole budget or more.",
            fix=build_fix("a smaller counts, such as ", UseOption("counts", "0.1")),
        )
    return Fraction(math.isqrt(math.floor(2 * left * 10**18)), 10**9)


def _plan_counts(spec: SynthSpec, schema: TableSchema) -> tuple[TreePlan, VectorNoise]:
    """Plan fine counts and FD tables for a share of the budget, no rounds; and the noise of one more such histogram."""
    whole = plan_tree(spec, schema, tables=spec.chain.fast_fd)
    kept = whole.amount * parse_exact(spec.chain.counts)
    fine = sum((n.price * levels for n, levels in zip(whole.one_way, whole.levels, strict=True)), Fraction(0))
    before = sum((noise.price for _, noise in whole.tables), fine)
    # The same proportions between counts, at another total.
    scaled = tuple(_scale_noise(noise, before / kept) for noise in whole.one_way)
    tables = tuple((need, _scale_noise(noise, before / kept)) for need, noise in whole.tables)
    first = replace(
        whole,
        one_way=scaled,
        tables=tables,
        selection=calibrate_selection("gaussian", Fraction(0), rounds=0, sensitivity=1),
        joint=None,
        candidates=(),
    )
    unit = scaled[0].sensitivity
    return first, calibrate_noise("gaussian", kept / (len(scaled) + 1), unit)


def _scale_noise(noise: VectorNoise, times: Fraction) -> VectorNoise:
    return replace(noise, parameter=round_up_to_drawable(noise.parameter * times))


def cut_blocks(compiled: CompiledConstraints, most: int) -> tuple[tuple[int, ...], ...]:
    """Cut the sequence into blocks: neighbours are joined while the product of their sizes is at most ``most``.

    Source:
        Thesis, 4.3.2, "hyper attributes"; from declared sizes only.
    """
    blocks: list[list[int]] = []
    cells = 1
    for place in order_attributes(compiled):
        size = compiled.sizes[compiled.find_column(compiled.modelled[place])]
        if blocks and cells * size <= most:
            blocks[-1].append(place)
            cells *= size
        else:
            blocks.append([place])
            cells = size
    return tuple(tuple(block) for block in blocks)


def order_attributes(compiled: CompiledConstraints) -> tuple[int, ...]:
    """Return the order of the modelled attributes: sides of FDs first, then small domains before large ones.

    FDs are ordered by the smallest domain on their left; for each, the left attributes by size, then the right one.
    Domains above 1,024 cells count as equally large; ties keep the declared order.

    Source:
        Thesis, algorithm 10.
    """
    size = {name: min(cells, MAX_FINENESS) for name, cells in zip(compiled.attributes, compiled.sizes, strict=True)}
    dependencies = [
        (tuple(t.left.attribute for t in one.form.pairs if t.op == "="), t_rhs.left.attribute)
        for one in compiled.constraints
        if one.kind == "dependency" and one.form is not None
        for t_rhs in one.form.pairs
        if t_rhs.op == "!="
    ]
    dependencies.sort(key=lambda one: min((size[name] for name in one[0]), default=0))
    named = [name for lhs, rhs in dependencies for name in (*sorted(lhs, key=size.__getitem__), rhs)]
    rest = sorted(compiled.attributes, key=size.__getitem__)
    order = [name for name in dict.fromkeys((*named, *rest)) if name in compiled.modelled]
    return tuple(compiled.modelled.index(name) for name in order)


def collect_given_weights(spec: SynthSpec) -> dict[int, float]:
    """Return the requested weight of each broken pair, by the constraint's number."""
    return {int(name): float(parse_exact(weight)) for name, weight in spec.weights.items()}


def collect_wanted_rates(spec: SynthSpec) -> dict[int, float]:
    """Return the public rates of soft constraints, by number."""
    return {int(name): float(parse_exact(rate)) for name, rate in spec.rates.items()}
