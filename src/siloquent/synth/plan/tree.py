"""The plan of engine ``tree``: steps, their noise, limits of the model, from request and declaration only."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, combinations
from typing import TYPE_CHECKING

from siloquent.errors import AccuracyUnreachable, ConstraintProblem, RequestError
from siloquent.fixes import UseOption
from siloquent.privacy import Composed, Event, format_digits, get_accountant, parse_exact
from siloquent.privacy.prices import describe_price
from siloquent.readable import Readable
from siloquent.synth.plan.auxiliary_steps import (
    compute_table_shares,
    plan_rate_noise,
    plan_report_noises,
    select_paid_rates,
)
from siloquent.synth.plan.budget import (
    ONE_WAY,
    SELECTION,
    TABLES_MOST,
    Law,
    Selection,
    VectorNoise,
    allocate_shares,
    calibrate_noise,
    calibrate_selection,
)
from siloquent.synth.plan.constraints import Circumstances, compile_constraints
from siloquent.synth.plan.domain_splits import build_fine_domain, count_split_levels
from siloquent.synth.plan.expected_gain import LOSS, LOSS_BESIDE_TARGETS
from siloquent.synth.spec.compiled import CompiledConstraints, TableNeed
from siloquent.synth.spec.fine_domain import FineDomain
from siloquent.synth.spec.spec import SynthSpec

if TYPE_CHECKING:
    from siloquent.schema import TableSchema

MAX_COLUMNS = 100
MAX_ROUNDS = 120
PARTS_SEEN, POOR = 12, 0.25
BEFORE = 2
"""The cost of a pair of a soft constraint's columns, in rounds; such pairs are counted first if they are few."""
HOPELESS = 20
"""A round whose noise in every cell exceeds 1 / HOPELESS of the table teaches nothing."""


@dataclass(frozen=True, slots=True)
class QualityLimits:
    """The limits of a quality: rounds per column, and the most cells of the model."""

    rounds: float
    cells: int


EFFORTS = {
    "fast": QualityLimits(1.2, 50_000),
    "default": QualityLimits(2.0, 400_000),
    "best": QualityLimits(2.2, 1_000_000),
}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TreePlan(Readable):
    """The course of a run of engine ``tree``.

    Attributes:
        fines: The initial fine domain of each modelled attribute.
        one_way: The noise of each level of each attribute's fine counts.
        levels: The most levels of each attribute.
        tables: Functional dependencies whose histogram is measured, with its noise.
        selection: The choice of marginals.
        before: Pairs of one soft constraint's columns that are counted before all others. A rate of few pairs of rows
            often depends on rare values, whose joints never rank as most wrong in the model.
        joint: The noise of a chosen marginal, and ``joint_before``, of a pair that is counted before others.
        bought: Soft constraints over two rows whose rate is measured, by number, and ``rate_noise``, their noise.
        report: The noise of the mean 1-way error, of the mean 2-way error and, with a target, of right answers of
            classifiers; empty without a report.
        event: All of it, in the worst case.
    """

    spec: SynthSpec
    schema: TableSchema
    compiled: CompiledConstraints
    amount: Fraction
    fines: tuple[FineDomain, ...]
    one_way: tuple[VectorNoise, ...]
    levels: tuple[int, ...]
    tables: tuple[tuple[TableNeed, VectorNoise], ...]
    selection: Selection
    before: frozenset[tuple[int, ...]]
    joint: VectorNoise | None
    joint_before: VectorNoise | None
    report: tuple[VectorNoise, ...]
    bought: tuple[int, ...]
    rate_noise: VectorNoise | None
    candidates: tuple[tuple[int, ...], ...]
    effort: QualityLimits

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
    def names(self) -> tuple[str, ...]:
        """The modelled attributes."""
        return tuple(fine.name for fine in self.fines)

    @property
    def loss(self) -> float:
        """The part of its noise that a cell of a joint costs at most, when joints are chosen."""
        return LOSS_BESIDE_TARGETS if self.spec.targets else LOSS

    @property
    def rounds(self) -> int:
        """The number of marginals to choose."""
        return self.selection.rounds

    @property
    def judged(self) -> int | None:
        """The index of the first modelled target, whose classifiers are tested on the truth; None without one."""
        named = (self.schema.domain[target].name for target in self.spec.targets)
        return next((self.names.index(name) for name in named if name in self.names), None)

    @property
    def event(self) -> Event:
        """Everything that the run may release."""
        fine = [noise.event for noise, levels in zip(self.one_way, self.levels, strict=True) for _ in range(levels)]
        report = [noise.event for noise in self.report]
        tables = [noise.event for _, noise in self.tables]
        rates = [] if self.rate_noise is None else [self.rate_noise.event]
        return Composed(tuple(chain(fine, tables, self.selection.events, self._counts, rates, report)))

    @property
    def _counts(self) -> list[Event]:
        """The events of the joints' counts, in the worst case: every pair of ``before`` once."""
        if self.joint is None or self.joint_before is None:
            return []
        first = len(self.before)
        return [self.joint_before.event] * first + [self.joint.event] * (self.rounds - first)

    def compute_joint_noise(self, axes: tuple[int, ...], *, again: bool = False) -> VectorNoise:
        """Return the noise of a chosen joint, or of one that is counted again."""
        noise = self.joint_before if axes in self.before and not again else self.joint
        assert noise is not None
        return noise

    @property
    def price(self) -> Fraction:
        """The worst case in the account's epsilon or rho, exactly as the ledger rounds it."""
        book = get_accountant(self.schema.budget.accountant)
        return Fraction(book.compute_cost(self.event).amount, book.scale)

    @property
    def rates(self) -> dict[int, float]:
        """Public rates of soft constraints, by number."""
        return {int(number): float(parse_exact(rate)) for number, rate in self.spec.rates.items()}

    @property
    def steps(self) -> int:
        """The number of steps in the journal of a complete run."""
        return max(self.levels) + len(self.tables) + self.rounds + (self.rate_noise is not None) + bool(self.report)

    @property
    def cells(self) -> int:
        """The most cells of the model."""
        return self.effort.cells

    @property
    def outline(self) -> str:
        """The model in words."""
        columns = "1 column" if len(self.names) == 1 else f"{len(self.names)} columns"
        return f"{columns}, {_format_joints(self.rounds)}, at most {self.effort.cells:,} cells"

    @property
    def expected_distance(self) -> float | None:
        """The approximate error of a pair's joint (total variation) from noise only; None without a size_hint."""
        if self.schema.size_hint is None or self.joint is None:
            return None
        return float(min(self._off_rows / self.schema.size_hint, 1.0))

    @property
    def _off_rows(self) -> float:
        """The number of rows of a pair that noise will put into wrong cells."""
        assert self.joint is not None
        groups = math.prod(min(len(fine.starts), PARTS_SEEN) for fine in self.fines)
        cells = float(groups) ** (2 / len(self.fines))
        return float(math.sqrt(2 / math.pi) * self.joint.deviation * cells / 2)

    @property
    def widest_noise(self) -> VectorNoise:
        """The noise of each chosen joint; if none is chosen, of a column."""
        return self.one_way[0] if self.joint is None else self.joint

    @property
    def least_rows(self) -> int:
        """The fewest rows for which this noise leaves useful counts."""
        return math.ceil(self.widest_noise.deviation * HOPELESS)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes to read before paying."""
        expected = self.expected_distance
        poor = (
            ["the noise is large for so small a table or budget: expect little more than single columns"]
            if expected is not None and expected > POOR
            else []
        )
        return (*poor, *self._unknown_size, *self.compiled.notes)

    @property
    def _unknown_size(self) -> tuple[str, ...]:
        """A note on the size at which a table without a size_hint is worth the price; only its owner knows the size."""
        if self.schema.size_hint is not None:
            return ()
        few = f"the table declares no size_hint: with fewer than {self.least_rows:,} rows it would be only noise"
        if self.joint is None:
            return (few,)
        sizes = [10 ** (len(str(self.least_rows)) + more) for more in (0, 1)]
        off = [f"{min(self._off_rows / rows, 1):.1%} at {rows:,} rows" for rows in sizes]
        return (f"{few}; expect pairs off by about {', by '.join(off)}",)

    def list_noises(self) -> tuple[tuple[str, float, float | None], ...]:
        """Return each kind of step: its name, price, and the noise in each of its cells, in rows."""
        book = get_accountant(self.schema.budget.accountant)

        def price(*events: Event) -> float:
            return float(Fraction(book.compute_cost(Composed(events)).amount, book.scale))

        fine = [noise.event for noise, levels in zip(self.one_way, self.levels, strict=True) for _ in range(levels)]
        found: list[tuple[str, float, float | None]] = [
            ("single columns", price(*fine), max(noise.deviation for noise in self.one_way))
        ]
        for need, noise in self.tables:
            found.append((f"table of constraint {need.constraint}", price(noise.event), noise.deviation))
        if self.joint is not None:
            found.append((f"choices of {_format_joints(self.rounds)}", price(*self.selection.events), None))
            first = len(self.before)
            if first and self.joint_before is not None:
                words = f"counts of {first} joints of soft constraints, first"
                found.append((words, price(*self._counts[:first]), self.joint_before.deviation))
            if self.rounds > first:
                words = f"counts of {'the other ' if first else ''}{_format_joints(self.rounds - first)}"
                found.append((words, price(*self._counts[first:]), self.joint.deviation))
        if self.rate_noise is not None:
            found.append(("rates of soft constraints", price(self.rate_noise.event), None))
        if self.report:
            found.append(("comparison with the truth", price(*(noise.event for noise in self.report)), None))
        return tuple(found)

    def list_prices(self) -> tuple[tuple[str, float], ...]:
        """Return each kind of step and its price."""
        return tuple((name, price) for name, price, _ in self.list_noises())


def _format_joints(count: int) -> str:
    return "1 joint" if count == 1 else f"{count} joints"


def plan_tree(spec: SynthSpec, schema: TableSchema, *, tables: bool = True) -> TreePlan:
    """Return the plan of ``spec``.

    Args:
        tables: Whether functional dependencies are kept by tables; otherwise right sides are modelled like others.

    Raises:
        UnknownName, RequestError, ConstraintProblem: The request cannot be fulfilled.
        AccuracyUnreachable: The budget is too small to teach anything; the message names a sufficient one.
    """
    columns = _choose_columns(spec, schema)
    law: Law = "gaussian" if schema.budget.accountant == "zcdp" else "laplace"
    at = schema.budget.delta - schema.budget.delta_events
    amount = spec.budget.convert_to_account(schema.budget.accountant, delta=at)
    unit = _compute_sensitivity(schema, law)
    countable = [name for name in columns if schema.domain[name].is_countable]
    first = calibrate_noise(law, amount * ONE_WAY / len(countable), unit)
    table = calibrate_noise(law, amount * TABLES_MOST, unit)
    compiled = compile_constraints(
        schema,
        columns=columns,
        constraints=None if spec.constraints == "declared" else (),
        circumstances=Circumstances(
            spec.rows, first.deviation, table.deviation, tuple(sorted(spec.references)), tables
        ),
    )
    _require_rows(spec, schema, compiled)
    return _split_budget(spec, schema, compiled, amount=amount, law=law, unit=unit)


def _require_rows(spec: SynthSpec, schema: TableSchema, compiled: CompiledConstraints) -> None:
    """Check that the number of rows is known, since the feasibility of the rows is tested before anything is paid."""
    if compiled.reflexive and spec.rows is None:
        first = compiled.reflexive[0]
        raise ConstraintProblem(
            f"Constraint {first.number} ({first.text}) is broken by two equal rows, so it limits how many rows "
            "there can be: set the number of rows.",
            fix=UseOption("rows", schema.size_hint or 1000),
        )


def _choose_columns(spec: SynthSpec, schema: TableSchema) -> tuple[str, ...]:
    """Return the chosen columns in declared order."""
    wanted = schema.domain.names if spec.columns is None else [schema.domain[name].name for name in spec.columns]
    columns = tuple(name for name in schema.domain.names if name in wanted)
    countable = [name for name in columns if schema.domain[name].is_countable]
    if not countable:
        raise RequestError("No column can be synthesised; id and text columns have no declared cells.")
    if len(countable) > MAX_COLUMNS:
        raise RequestError(
            f"{len(countable)} columns exceed the limit of {MAX_COLUMNS} per model.",
            fix=UseOption("columns", countable[:2]),
        )
    for name in spec.targets:
        if schema.domain[name].name not in countable:
            raise RequestError(f"The target {name!r} is not among the synthesised columns.")
    return columns


def _compute_sensitivity(schema: TableSchema, law: Law) -> int:
    """Return the change by one unit of a vector that counts every row once: squared L2, or L1."""
    rows = schema.unit.max_rows * (2 if schema.replace_one and law == "laplace" else 1)
    if law == "laplace":
        return rows
    return rows**2 * (2 if schema.replace_one else 1)


def _split_budget(
    spec: SynthSpec, schema: TableSchema, compiled: CompiledConstraints, *, amount: Fraction, law: Law, unit: int
) -> TreePlan:
    usual = calibrate_noise(law, amount * ONE_WAY / len(compiled.modelled), unit)
    clear = None if schema.size_hint is None else schema.size_hint / usual.deviation
    fines = tuple(build_fine_domain(schema.domain[n], compiled.cuts.get(n, ()), clear=clear) for n in compiled.modelled)
    levels = tuple(count_split_levels(fine, clear=clear) for fine in fines)
    needs = [need for need in compiled.needs if need.measured]
    shares = compute_table_shares(needs, schema, amount, unit)
    tables = [(need, calibrate_noise(law, amount * share, unit)) for need, share in zip(needs, shares, strict=True)]
    effort = EFFORTS[spec.quality]
    candidates = _list_candidates(spec, compiled.modelled, schema)
    rounds = min(round(effort.rounds * len(fines)), len(candidates), MAX_ROUNDS)
    before = _choose_first_pairs(compiled, rounds)
    rounds = min(rounds + len(before), len(candidates), MAX_ROUNDS)
    left = amount * (1 - sum(shares) - spec.shares)
    spoken = [i for i, name in enumerate(compiled.modelled) if any(name in one.attributes for one in compiled.soft)]
    weights = allocate_shares([min(len(fine.starts), 256) for fine in fines], even=spoken)
    first = amount * ONE_WAY if rounds else left
    one_way = tuple(calibrate_noise(law, first * w / n, unit) for w, n in zip(weights, levels, strict=True))
    rest = left - first
    chosen = schema.unit.max_rows * (2 if schema.replace_one else 1)
    selection = calibrate_selection(law, rest * SELECTION, rounds=rounds, sensitivity=chosen)
    each = rest * (1 - SELECTION) / max(rounds + (BEFORE - 1) * len(before), 1)
    joint, joint_before = (calibrate_noise(law, each * n, unit) if rounds else None for n in (1, BEFORE))
    bought = select_paid_rates(spec, compiled)
    made = TreePlan(
        spec=spec,
        schema=schema,
        compiled=compiled,
        amount=amount,
        fines=fines,
        one_way=one_way,
        levels=levels,
        tables=tuple(tables),
        selection=selection,
        before=before,
        joint=joint,
        joint_before=joint_before,
        report=plan_report_noises(spec, schema, compiled.modelled, amount, law),
        bought=bought,
        rate_noise=plan_rate_noise(spec, schema, len(bought), amount, law),
        candidates=candidates,
        effort=effort,
    )
    _require_worth(made, schema)
    return made


def _choose_first_pairs(compiled: CompiledConstraints, rounds: int) -> frozenset[tuple[int, ...]]:
    """Return the pairs of the columns of each soft constraint; none if they exceed half of the other rounds."""
    place = {name: i for i, name in enumerate(compiled.modelled)}
    sets = [sorted({place[name] for name in one.attributes if name in place}) for one in compiled.soft]
    pairs = {pair for axes in sets for pair in combinations(axes, 2)}
    return frozenset(pairs) if 2 * len(pairs) <= rounds else frozenset()


def _list_candidates(spec: SynthSpec, modelled: tuple[str, ...], schema: TableSchema) -> tuple[tuple[int, ...], ...]:
    """Return all pairs, and all triples that contain a target."""
    pairs = list(combinations(range(len(modelled)), 2))
    targets = [modelled.index(name) for t in spec.targets if (name := schema.domain[t].name) in modelled]
    triples = {tuple(sorted((t, *pair))) for t in targets for pair in pairs if t not in pair}
    return (*pairs, *sorted(triples))


def _require_worth(plan: TreePlan, schema: TableSchema) -> None:
    """Refuse noise that dominates the table, if its size is known."""
    if schema.size_hint is None or plan.least_rows <= schema.size_hint:
        return
    noise = plan.widest_noise
    times = (noise.deviation * HOPELESS / schema.size_hint) ** (2 if noise.law == "gaussian" else 1)
    enough = plan.amount * math.ceil(times * 1.05)
    book = get_accountant(schema.budget.accountant)
    raise AccuracyUnreachable(
        f"The noise of one marginal would be {noise.deviation:,.0f} rows a cell, and the table has about "
        f"{schema.size_hint:,} rows: nothing could be learned.",
        fix=f"a budget of {book.symbol} {format_digits(enough)} or more, or fewer columns",
    )
