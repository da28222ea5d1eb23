"""The quality report from released numbers and the output: free, but for what was paid for in the run."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from siloquent.synth.estimate.keep import violations
from siloquent.synth.estimate.model import group_words
from siloquent.synth.spec.report import Column, Kept, Paid, Pair, QualityReport

if TYPE_CHECKING:
    from siloquent.ledger import Stored
    from siloquent.privacy import Guarantee
    from siloquent.synth.estimate.frame import Frame
    from siloquent.synth.estimate.tree import TreeLearner
    from siloquent.synth.spec.measured import Measurements

Z = 1.959963984540054
"""95 percent of a normal law lie within so many standard deviations."""
MISSED = 0.05


def report_of(
    learner: TreeLearner, measured: Measurements, codes: NDArray[np.int32], stored: Stored, guarantee: Guarantee
) -> QualityReport:
    """The report of a run whose output is ``codes`` (rows, attributes)."""
    frame, model = learner.frame, learner.finished()
    receipt = stored.receipt
    return QualityReport(
        table=learner.plan.schema.name,
        rows=len(codes),
        total=frame.total,
        guarantee=guarantee.sentence(),
        receipt=(receipt.ledger, receipt.seq, receipt.hash),
        prices=learner.plan.prices(),
        constraints=_constraints(learner, codes),
        columns=tuple(_column(frame, place, codes) for place in range(len(frame.names))),
        pairs=_pairs(learner),
        cliques=tuple(tuple(frame.names[v] for v in clique.attributes) for clique in model.tree.cliques),
        paid=_paid(learner, measured),
        known=_known(learner),
    )


def _constraints(learner: TreeLearner, codes: NDArray[np.int32]) -> tuple[Kept, ...]:
    compiled = learner.frame.compiled
    found = violations(codes, compiled)
    rates = learner.rates
    made = []
    for one in compiled.constraints:
        counted = found.get(one.number)
        base = (one.number, one.text, one.hard, one.kind, one.kept)
        if counted is None:
            made.append(Kept(*base))
        else:
            rate = rates.get(one.number)
            made.append(Kept(*base, counted.pairs, counted.one_way, counted.possible, rate))
    return tuple(made)


def _column(frame: Frame, place: int, codes: NDArray[np.int32]) -> Column:
    fine, target = frame.fines[place], frame.targets[place]
    groups = frame.groups[place][fine.of(codes[:, frame.compiled.column(fine.name)])]
    output = np.bincount(groups, minlength=frame.sizes[place]) / max(len(codes), 1)
    noisy = target.values / frame.total
    reach = Z * np.sqrt(np.broadcast_to(target.variance, noisy.shape)) / frame.total
    words = tuple(group_words(frame, place))
    return Column(fine.name, words, _tuple(noisy), _tuple(noisy - reach), _tuple(noisy + reach), _tuple(output))


def _tuple(values: NDArray[np.float64]) -> tuple[float, ...]:
    return tuple(round(float(value), 6) for value in values)


def _pairs(learner: TreeLearner) -> tuple[Pair, ...]:
    """What noise does to measured pairs; what the choices say about the others.

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
        noise = math.sqrt(2 / math.pi) * plan.joint.deviation * cells / (2 * frame.total)
        measured = learner.has_measured(axes)
        off = noise if measured else noise + learner.left_out(MISSED) / (2 * frame.total)
        made.append(Pair(frame.names[axes[0]], frame.names[axes[1]], measured, round(min(off, 1.0), 4)))
    return tuple(made)


def _paid(learner: TreeLearner, measured: Measurements) -> tuple[Paid, ...]:
    """Mean total variation between table and output, over the groups of single columns and of pairs."""
    found = measured.of_kind("report")
    counts = (len(learner.frame.names), max(sum(len(axes) == 2 for axes in learner.plan.candidates), 1))
    names = ("mean distance of single columns", "mean distance of pairs of columns")
    made = []
    for name, step, count in zip(names, found, counts, strict=False):
        unit = 2 * count * learner.frame.total
        value, reach = float(step.counts[0]) / unit, Z * math.sqrt(step.variance) / unit
        made.append(Paid(name, round(max(value, 0.0), 5), round(max(value - reach, 0.0), 5), round(value + reach, 5)))
    return tuple(made)


def _known(learner: TreeLearner) -> tuple[str, ...]:
    plan, frame = learner.plan, learner.frame
    weak = [
        f"constraint {number}: {len(table.weak)} entries of its table are mostly noise"
        for number, table in frame.tables.items()
        if table.weak
    ]
    drowned = [] if plan.one_way[0].deviation < frame.total / 20 else ["noise exceeds most counts of this table"]
    omitted = [a.name for a in plan.schema.domain if a.kind == "text"]
    left = [f"text columns are left out: {', '.join(omitted)}"] if omitted else []
    hides = "the guarantee hides one unit; it does not hide what is common to many, nor the declared rules themselves"
    return (hides, "the model has learned from all rows", *drowned, *left, *weak, *frame.compiled.notes)
