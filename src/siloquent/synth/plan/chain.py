"""The plan of engine ``chain``: the order of columns, noise of the training, and what all of it costs.

Source: thesis, algorithms 10 (sequencing) and 12 (parameters), corrected: docs/explanation/synth-chain.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from siloquent.errors import RequestError
from siloquent.privacy import Composed, Event, SampledGaussian, accountant, exact
from siloquent.privacy.prices import drawable
from siloquent.privacy.sampling import epsilon_of_steps, multiplier_for
from siloquent.synth.plan.budget import Noise, selection_for
from siloquent.synth.plan.fine import MOST_FINE
from siloquent.synth.plan.tree import TreePlan, plan_tree
from siloquent.synth.spec.chain import ChainSpec
from siloquent.synth.spec.compiled import CompiledConstraints
from siloquent.synth.spec.spec import SynthSpec

if TYPE_CHECKING:
    from siloquent.schema import TableSchema

SAMPLE, MOST_BATCH = Fraction(7, 100), 2_048
_WORDS = 2**64


@dataclass(frozen=True, slots=True)
class Training:
    """The noise of the steps.

    Attributes:
        rate: A row's chance to be in a sample, in 2^-64.
        multiplier: The noise's deviation per sensitivity of a sum of clipped gradients.
        scale: The whole number that stands for a gradient of length ``clip``.
        sensitivity: What one unit moves a sum by, in multiples of ``scale``: 1, or 2 where rows are replaced.
    """

    rate: Fraction
    multiplier: Fraction
    scale: int
    sensitivity: int
    batch: int

    @property
    def variance(self) -> int:
        """Of the whole noise on each coordinate."""
        return math.ceil((self.scale * self.sensitivity * self.multiplier) ** 2)


@dataclass(frozen=True, slots=True, eq=False)
class ChainPlan:
    """How a run of engine ``chain`` will go.

    Attributes:
        first: The counts that come before: fine counts and FD tables, as engine ``tree`` plans them, no rounds.
        sequence: The modelled attributes in the order in which they are drawn, as places in ``first.fines``.
        sampled: The event of all steps of all models; None for a single column.
    """

    chain: ChainSpec
    first: TreePlan
    sequence: tuple[int, ...]
    training: Training | None
    sampled: SampledGaussian | None

    @property
    def spec(self) -> SynthSpec:
        """The request."""
        return self.first.spec

    @property
    def schema(self) -> TableSchema:
        """The table's declaration."""
        return self.first.schema

    @property
    def compiled(self) -> CompiledConstraints:
        """How each constraint is kept."""
        return self.first.compiled

    @property
    def event(self) -> Event:
        """Everything that the run may release."""
        parts = (self.first.event,) if self.sampled is None else (self.first.event, self.sampled)
        return Composed(parts)

    @property
    def price(self) -> Fraction:
        """The worst case in the account's epsilon or rho, exactly as the ledger rounds it."""
        book = accountant(self.schema.budget.accountant)
        return Fraction(book.cost(self.event).amount, book.scale)

    @property
    def advice(self) -> str:
        """What the account makes dear."""
        if self.sampled is None:
            return ""
        epsilon = float(self.sampled.epsilon)
        return (
            f"The steps are ({epsilon:.3g}, {float(self.sampled.delta):.1g})-private, for which this account is "
            f"charged rho {epsilon**2 / 2:.3g}: engine 'tree' buys far more for it."
        )


def plan_chain(spec: SynthSpec, schema: TableSchema, chain: ChainSpec | None = None) -> ChainPlan:
    """The plan of ``spec`` with the settings ``chain``.

    Raises:
        RequestError: No public number of rows, no delta for events, or users with several rows.
        AccuracyUnreachable: The steps fit into the budget at no noise below 500.
        UnknownName, ConstraintProblem: As ``plan_tree``.
    """
    chain = chain or ChainSpec()
    _check(schema, chain)
    first = _counts(spec, schema, exact(chain.counts))
    sequence = sequence_of(first.compiled)
    models = len(sequence) - 1
    if models < 1:
        return ChainPlan(chain, first, sequence, None, None)
    delta = schema.budget.delta_events
    left = _left(first)
    hint = schema.size_hint or 1
    batch = min(chain.batch or min(MOST_BATCH, math.ceil(SAMPLE * hint)), hint)
    rate = Fraction(_WORDS * batch // hint, _WORDS)
    steps = chain.steps * models
    multiplier = multiplier_for(left, rate=float(rate), steps=steps, delta=float(delta))
    spent = epsilon_of_steps(rate=float(rate), multiplier=float(multiplier), steps=steps, delta=float(delta))
    scale = 2 ** min(20, math.floor(25 - math.log2(multiplier)))
    training = Training(rate, multiplier, scale, 2 if schema.replace_one else 1, batch)
    sampled = SampledGaussian(rate=rate, multiplier=multiplier, steps=steps, epsilon=spent, delta=delta)
    return ChainPlan(chain, first, sequence, training, sampled)


def _check(schema: TableSchema, chain: ChainSpec) -> None:
    if schema.size_hint is None:
        raise RequestError(
            "Engine 'chain' samples rows at a rate that hangs on a public number of rows.",
            fix=f"size_hint = 10000 under [table] in schemas/{schema.name}.toml, or engine = 'tree'",
        )
    if not schema.budget.delta_events > 0:
        raise RequestError(
            "Engine 'chain' is (epsilon, delta)-private, and this account keeps no delta for such events.",
            fix=f"accountant = \"zcdp\" with delta_events in schemas/{schema.name}.toml, or engine = 'tree'",
        )
    if schema.unit.max_rows > 1:
        raise RequestError(
            "Engine 'chain' protects single rows; users with several rows need engine 'tree'.", fix="engine = 'tree'"
        )
    if chain.sampler == "accept-reject" and any(getattr(one, "hard", False) for one in schema.constraints):
        raise RequestError("accept-reject may refuse for ever under hard constraints.", fix="sampler = 'direct'")


def _left(first: TreePlan) -> Fraction:
    """The epsilon that the steps may cost at the account's delta for events; it is charged as rho = epsilon^2 / 2."""
    return Fraction(math.isqrt(math.floor(2 * (first.amount - first.price) * 10**18)), 10**9)


def _counts(spec: SynthSpec, schema: TableSchema, share: Fraction) -> TreePlan:
    """Fine counts and FD tables for a share of the budget, no rounds and no report."""
    whole = plan_tree(replace(spec, engine="tree", report=0, measure_rates=0, targets=()), schema)
    kept = whole.amount * share
    fine = sum((n.price * levels for n, levels in zip(whole.one_way, whole.levels, strict=True)), Fraction(0))
    before = sum((noise.price for _, noise in whole.tables), fine)
    # The same proportions between counts, at another sum.
    scaled = tuple(_scaled(noise, before / kept) for noise in whole.one_way)
    tables = tuple((need, _scaled(noise, before / kept)) for need, noise in whole.tables)
    return replace(
        whole,
        spec=spec,
        one_way=scaled,
        tables=tables,
        selection=selection_for("gaussian", Fraction(0), rounds=0, sensitivity=1),
        joint=None,
        report=None,
        candidates=(),
    )


def _scaled(noise: Noise, times: Fraction) -> Noise:
    return replace(noise, parameter=drawable(noise.parameter * times))


def sequence_of(compiled: CompiledConstraints) -> tuple[int, ...]:
    """The order of the modelled attributes: sides of FDs first, then small domains before large ones.

    FDs come in the order of the smallest domain on their left; of each its left attributes by size, then the right one.
    Domains above 1,024 cells count as equally large; ties keep the declared order.

    Source:
        Thesis, algorithm 10.
    """
    size = {name: min(cells, MOST_FINE) for name, cells in zip(compiled.attributes, compiled.sizes, strict=True)}
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


def wanted_rates(spec: SynthSpec) -> dict[int, float]:
    """Public rates of soft constraints, by number."""
    return {int(name): float(exact(rate)) for name, rate in spec.rates.items()}
