"""The quality report from released numbers and the output: free, except for figures bought in the run."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from siloquent.synth.estimate.chain.learner import ChainLearner
from siloquent.synth.estimate.enforce.constraints import count_violations
from siloquent.synth.estimate.model import describe_cell_groups
from siloquent.synth.estimate.report.classifiers import MAX_TRAINED, NAMES
from siloquent.synth.estimate.tree import TreeLearner
from siloquent.synth.spec.report import ColumnReport, ConstraintReport, PaidFigure, PairReport, QualityReport

if TYPE_CHECKING:
    from siloquent.ledger import SettledAnswer
    from siloquent.privacy import Guarantee
    from siloquent.synth.estimate.model_domain import ModelDomain
    from siloquent.synth.plan.tree import TreePlan
    from siloquent.synth.spec.measurements import Measurements, NoisyCounts

Learner: TypeAlias = TreeLearner | ChainLearner
Z = 1.959963984540054
"""The number of standard deviations that hold 95 percent of a normal distribution."""
MISSED = 0.05
MAX_IN_ORDER = 16
"""The most constraints for which pairs are also counted in row order, which takes ten times as long."""


def build_report(
    learner: Learner, measured: Measurements, codes: NDArray[np.int32], stored: SettledAnswer, guarantee: Guarantee
) -> QualityReport:
    """Build the report of a run whose output is ``codes`` (rows, attributes)."""
    learner.finish()
    frame = learner.frame
    receipt = stored.receipt
    return QualityReport(
        table=learner.plan.schema.name,
        rows=len(codes),
        total=frame.total,
        guarantee=guarantee.describe(),
        receipt=(receipt.ledger, receipt.seq, receipt.hash),
        prices=learner.plan.list_prices(),
        constraints=_report_constraints(learner, codes),
        columns=tuple(_report_column(frame, place, codes) for place in range(len(frame.names))),
        pairs=_report_pairs(learner) if isinstance(learner, TreeLearner) else (),
        cliques=learner.cliques,
        paid=_report_paid(learner, measured),
        known=_list_known(learner),
    )


def _report_constraints(learner: Learner, codes: NDArray[np.int32]) -> tuple[ConstraintReport, ...]:
    compiled = learner.frame.compiled
    in_order = len(compiled.constraints) <= MAX_IN_ORDER
    found = count_violations(codes, compiled, one_way=in_order)
    rates = learner.rates
    made = []
    for one in compiled.constraints:
        counted = found.get(one.number)
        base = (one.number, one.text, one.hard, one.kind, one.kept)
        if counted is None:
            made.append(ConstraintReport(*base))
        else:
            rate = rates.get(one.number)
            one_way = counted.one_way if in_order else None
            made.append(ConstraintReport(*base, counted.pairs, one_way, counted.possible, rate))
    return tuple(made)


def _report_column(frame: ModelDomain, place: int, codes: NDArray[np.int32]) -> ColumnReport:
    fine, target = frame.fines[place], frame.targets[place]
    groups = frame.groups[place][fine.find_runs(codes[:, frame.compiled.find_column(fine.name)])]
    output = np.bincount(groups, minlength=frame.sizes[place]) / max(len(codes), 1)
    noisy = target.values / frame.total
    reach = Z * np.sqrt(np.broadcast_to(target.variance, noisy.shape)) / frame.total
    words = tuple(describe_cell_groups(frame, place))
    return ColumnReport(
        fine.name,
        words,
        _convert_to_tuple(noisy),
        _convert_to_tuple(noisy - reach),
        _convert_to_tuple(noisy + reach),
        _convert_to_tuple(output),
    )


def _convert_to_tuple(values: NDArray[np.float64]) -> tuple[float, ...]:
    return tuple(round(float(value), 6) for value in values)


def _report_pairs(learner: TreeLearner) -> tuple[PairReport, ...]:
    """Return the error bounds of pairs: noise if measured, by the choices if not, 1 if too large to be chosen.

    Source:
        Exponential mechanism, utility bound: with probability 1 - beta no open candidate beats the chosen one by more
        than (2 Du / g) ln(candidates / beta); Du, g of one round. Proof: docs/explanation/synth.md.
    """
    frame, plan = learner.frame, learner.plan
    if plan.joint is None:
        return ()
    made = []
    for axes in plan.candidates:
        if len(axes) != 2:
            continue
        cells = math.prod(frame.sizes[axis] for axis in axes)
        measured = learner.has_measured(axes)
        noise = plan.compute_joint_noise(axes, again=not measured).deviation
        off = math.sqrt(2 / math.pi) * noise * cells / (2 * frame.total)
        if not measured:
            off = off + learner.bound_left_out(MISSED) / (2 * frame.total) if axes in learner.last_open else 1.0
        made.append(PairReport(frame.names[axes[0]], frame.names[axes[1]], measured, round(min(off, 1.0), 4)))
    return tuple(made)


def _report_paid(learner: Learner, measured: Measurements) -> tuple[PaidFigure, ...]:
    """Return mean total variations between table and output, over columns and over pairs, and classifiers' accuracy."""
    found, frame = measured.select_kind("report"), learner.frame
    count = len(frame.names)
    units = (2 * count * frame.total, 2 * max(count * (count - 1) // 2, 1) * frame.total)
    names = ("mean distance of single columns", "mean distance of pairs of columns")
    made = [
        _report_share(name, int(step.counts[0]), unit, step)
        for name, step, unit in zip(names, found, units, strict=False)
    ]
    place = get_count_plan(learner).judged
    for step in found[2:]:
        said = "" if place is None else frame.names[place]
        made += [
            _report_share(f"right about {said}: {name}", int(right), frame.total, step)
            for name, right in zip(NAMES, step.counts.tolist(), strict=True)
        ]
    return tuple(made)


def _report_share(name: str, count: int, unit: int, step: NoisyCounts) -> PaidFigure:
    value, reach = count / unit, Z * math.sqrt(step.variance) / unit
    low, middle, high = (round(min(max(each, 0.0), 1.0), 5) for each in (value - reach, value, value + reach))
    return PaidFigure(name, middle, low, high)


def get_count_plan(learner: Learner) -> TreePlan:
    """Return the plan of the counts."""
    return learner.plan if isinstance(learner, TreeLearner) else learner.plan.first


def _list_known(learner: Learner) -> tuple[str, ...]:
    plan, frame = get_count_plan(learner), learner.frame
    weak = [
        f"constraint {number}: {len(table.weak)} entries of its table are mostly noise"
        for number, table in frame.tables.items()
        if table.weak
    ]
    drowned = [] if plan.one_way[0].deviation < frame.total / 20 else ["noise exceeds most counts of this table"]
    if not frame.is_counted:
        drowned.append("noise hides how many rows the table has: how many there are here says nothing of it")
    if plan.spec.rows is None and learner.rows < frame.rows:
        drowned.append(
            f"{learner.rows:,} of about {frame.rows:,} rows fit in memory here; drawing more from the model is free"
        )
    omitted = [a.name for a in plan.schema.domain if a.kind == "text"]
    left = [f"text columns are left out: {', '.join(omitted)}"] if omitted else []
    hides = "the guarantee hides one unit; it does not hide what is common to many, nor the declared rules themselves"
    judged = [f"classifiers learned from {MAX_TRAINED:,} output rows at most, and were tried on all true rows"]
    tried = judged if len(plan.report) > 2 else []
    return (hides, "the model has learned from all rows", *tried, *drowned, *left, *weak, *frame.compiled.notes)
